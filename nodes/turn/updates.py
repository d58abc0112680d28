"""The state as values of the rules, and their values as updates of the state."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import attrgetter, itemgetter
from typing import Any, cast

from langgraph.runtime import Runtime

from ...memory.context.plan import Plan
from ...memory.efforts import Efforts, changes
from ...memory.names import is_qualified
from ...memory.running_turn import Turn
from ...memory.settings import Settings
from ...memory.turn import StoredTurn, Tip
from ...memory.view import ArchiveView
from ..ask import QuestionCost
from .state import SUMMARIES, Texts, TurnState

SUMMARY_LENGTH = 80
"""Characters of a summary in the state; the archive has all of it."""

GOAL_LENGTH = 160
"""Characters of a goal or a constraint in the state, which each step of a turn writes again."""


def tip_of(state: TurnState) -> Tip:
    """Return the last turn that this state has committed."""
    return Tip(state.get("persisted", 0), state.get("tip", ""))


def is_running(state: TurnState) -> bool:
    """Tell whether the turn that the state counts is not committed yet."""
    return state.get("turn", 0) > state.get("persisted", 0)


def tip_update(tip: Tip) -> dict[str, Any]:
    """Return the update that says which turn was committed last; the inverse of `tip_of`."""
    return {"persisted": tip.turn, "tip": tip.id}


def effort_state(state: TurnState) -> Efforts:
    """Return the part of the state that the memory tools change."""
    return Efforts(
        turn=state.get("turn", 0),
        active=state.get("active_effort"),
        open=cast("Mapping[str, Mapping[str, int]]", state.get("open_efforts", {})),
        expanded=state.get("expanded", {}),
        summaries=cast("Mapping[str, int]", state.get("summaries", {})),
        anchor=state.get("anchor", {}),
        events=tuple(state.get("events", ())),
        banners=tuple(state.get("banners", ())),
    )


def efforts_update(efforts: Efforts) -> dict[str, Any]:
    """Return the update with the efforts' state; the inverse of `effort_state`."""
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

    >>> not_aged({"turn": 9, "summaries": {"a": 5, "b": 9}})["summaries"]
    {'a': 6, 'b': 9}
    """
    turn = state.get("turn", 0)

    def younger(entry: Mapping[str, Any]) -> dict[str, Any]:
        ages = {"last_referenced_turn", "last_active_turn"} & entry.keys()
        return {**entry, **{field: min(turn, entry[field] + 1) for field in ages}}

    summaries = {name: min(turn, last + 1) for name, last in state.get("summaries", {}).items()}
    efforts = {
        key: {name: younger(entry) for name, entry in state.get(key, {}).items()}
        for key in ("open_efforts", "expanded")
    }
    return {**efforts, "summaries": summaries}


def streamed_update(before: Efforts, after: Efforts, runtime: Runtime[Settings]) -> dict[str, Any]:
    """Return the update of the efforts' state, and stream the banners that are new in it."""
    for banner in after.banners_since(before):
        runtime.stream_writer({"banner": banner})
    return efforts_update(after)


def commit_update(turn: StoredTurn, last: str) -> dict[str, Any]:
    """Return the update after a commit; `last` is the id of the turn's last message."""
    return {**tip_update(turn.tip), "archived": last, "events": []}


def plan_update(work: Turn, before: Plan | None = None) -> dict[str, Any]:
    """Return the update with the plan of the context, if it is another one than before."""
    return {} if work.plan is None or work.plan is before else {"plan": work.plan.packed()}


def with_costs(work: Turn, costs: Iterable[QuestionCost]) -> Turn:
    """Return the turn with an event for each call of a model that was not for an answer."""
    events = tuple(cost.as_event() for cost in costs)
    return work.put(replace(work.efforts, events=(*work.efforts.events, *events)))


def texts_of(efforts: Efforts, view: ArchiveView, known: Texts) -> dict[str, Any]:
    """Return the texts of the efforts in the context: what changed in this turn or is not known.

    Those of other sessions have none: erasing there does not reach the checkpoints of this thread.
    """
    changed = {*map(attrgetter("id"), changes(efforts.events, 0))}
    texts, wanted = dict[str, Any](), list[str]()
    for name in dict.fromkeys([*efforts.open, *[*efforts.summaries][-SUMMARIES:]]):
        if not is_qualified(name):
            texts[name] = known.get(name)
            wanted += [name] if name in changed or name not in known else []
    for effort in view.efforts_named(wanted, efforts.events):
        texts[effort.id] = {
            "goal": _beginning(effort.goal, GOAL_LENGTH),
            "constraints": [_beginning(text, GOAL_LENGTH) for text in effort.constraints],
            "summary": _beginning(effort.summary, SUMMARY_LENGTH),
        }
    return dict(filter(itemgetter(1), texts.items()))


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
