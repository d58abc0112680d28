"""The state as values of the rules, and their values as updates of the state."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

from langgraph.runtime import Runtime

from ...memory.context.plan import Plan
from ...memory.efforts import Efforts, changes
from ...memory.names import is_qualified
from ...memory.running_turn import Turn
from ...memory.settings import Settings
from ...memory.turn import StoredTurn, Tip
from ...memory.view import ArchiveView
from ..ask import QuestionCost
from .state import TurnState

SUMMARIES = 20
"""The newest summaries, which stand in the state with their texts: people read no more of them."""

SUMMARY_LENGTH = 80
"""Characters of a summary in the state; the archive has all of it."""

GOAL_LENGTH = 160
"""Characters of a goal or a constraint in the state, which each step of a turn writes again."""


TEXTS: Mapping[str, tuple[str, ...]] = {
    "open_efforts": ("goal", "constraints"),
    "expanded": (),
    "summaries": ("status", "goal", "summary"),
}
"""What entries of efforts have for people alone; it is not saved with a turn."""


def tip_of(state: TurnState) -> Tip:
    """Return the last turn that this state has committed."""
    return Tip(state.get("number", 0), state.get("tip", ""))


def is_running(state: TurnState) -> bool:
    """Tell whether the turn that the state counts is not committed yet."""
    return state.get("turn", 0) > state.get("number", 0)


def tip_update(tip: Tip) -> dict[str, Any]:
    """Return the update that says which turn was committed last; the inverse of `tip_of`."""
    return {"number": tip.turn, "tip": tip.id}


def efforts_update(efforts: Efforts) -> dict[str, Any]:
    """Return the update with the efforts' state; the inverse of `efforts_of`."""
    return {
        "active_effort": efforts.active,
        "open_efforts": dict(efforts.open),
        "expanded": dict(efforts.expanded),
        "summaries": dict(efforts.summaries),
        "anchor": dict(efforts.anchor),
        "events": list(efforts.events),
        "banners": list(efforts.banners),
    }


def not_aged(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the update of a state whose turn ends unanswered: no effort grew older in it.

    >>> lines = {"a": {"last_referenced_turn": 5}, "b": {"last_referenced_turn": 9}}
    >>> not_aged({"turn": 9, "summaries": lines})["summaries"]
    {'a': {'last_referenced_turn': 6}, 'b': {'last_referenced_turn': 9}}
    """
    turn = state.get("turn", 0)

    def younger(entry: Mapping[str, Any]) -> dict[str, Any]:
        ages = {"last_referenced_turn", "last_active_turn"} & entry.keys()
        return {**entry, **{field: min(turn, entry[field] + 1) for field in ages}}

    return {
        key: {name: younger(entry) for name, entry in state.get(key, {}).items()}
        for key in ("open_efforts", "expanded", "summaries")
    }


def streamed_update(before: Efforts, after: Efforts, runtime: Runtime[Settings]) -> dict[str, Any]:
    """Return the update of the efforts' state, and stream the banners that are new in it."""
    for banner in after.banners_since(before):
        runtime.stream_writer({"banner": banner})
    return efforts_update(after)


def commit_update(turn: StoredTurn) -> dict[str, Any]:
    """Return the update after a commit."""
    return {**tip_update(turn.tip), "events": []}


def plan_update(work: Turn, before: Plan | None = None) -> dict[str, Any]:
    """Return the update with the plan of the context, if it is another one than before."""
    return {} if work.plan is None or work.plan is before else {"plan": work.plan.packed()}


def with_costs(work: Turn, costs: Iterable[QuestionCost]) -> Turn:
    """Return the turn with an event for each call of a model that was not for an answer."""
    events = tuple(cost.as_event() for cost in costs)
    return work.put(replace(work.efforts, events=(*work.efforts.events, *events)))


def with_texts(efforts: Efforts, view: ArchiveView, *, anew: bool = False) -> Efforts:
    """Return the efforts with the beginnings of their texts: of those that changed or have none.

    With `anew` all are read. Those of other sessions have none: erasing there does not reach the
    checkpoints of this thread. Of the summaries the newest have them, as people read no more.
    """
    changed = {*map(attrgetter("id"), changes(efforts.events, 0))}
    newest = {*[*efforts.summaries][-SUMMARIES:]}
    listed = {
        name: entry if name in newest else _without_texts("summaries", entry)
        for name, entry in efforts.summaries.items()
    }
    places = {"open_efforts": dict(efforts.open), "summaries": listed}
    wanted = {
        name: key
        for key, entries in places.items()
        for name, entry in entries.items()
        if (anew or name in changed or not entry.keys() >= {*TEXTS[key]})
        and not is_qualified(name)
        and (key != "summaries" or name in newest)
    }
    for effort in view.efforts_named([*wanted], efforts.events):
        key = wanted[effort.id]
        texts = {
            "status": effort.status,
            "goal": _beginning(effort.goal, GOAL_LENGTH),
            "constraints": [_beginning(text, GOAL_LENGTH) for text in effort.constraints],
            "summary": _beginning(effort.summary, SUMMARY_LENGTH),
        }
        shown = {field: texts[field] for field in TEXTS[key]}
        entry = places[key][effort.id]
        places[key][effort.id] = {**shown, **_without_texts(key, entry)}
    return replace(efforts, open=places["open_efforts"], summaries=listed)


def _without_texts(key: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in entry.items() if field not in TEXTS[key]}


def _beginning(words: str, length: int) -> str:
    """Return the beginning of a text; an ellipsis says that it goes on.

    >>> _beginning("tracking number 4711", 18), _beginning("number 4711", 18)
    ('tracking number 4…', 'number 4711')
    """
    return words if len(words) <= length else f"{words[: length - 1]}…"


def references_of(efforts: Efforts) -> list[dict[str, Any]]:
    """Return the references of the turn with their reasons; concluding an effort is one too."""
    found: list[dict[str, Any]] = []
    for event in efforts.events:
        if event["type"] == "concluded":
            found.append({"effort": event["effort"], "kind": "tool", "words": ["close_effort"]})
        elif event["type"] == "referenced":
            found.append({key: event[key] for key in ("effort", "kind", "words")})
    return found
