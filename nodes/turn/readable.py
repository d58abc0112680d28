"""The efforts of the state as people read them, and as nodes do."""

from collections.abc import Mapping
from typing import Any

from ...memory.efforts import EffortState, changes
from ...memory.names import is_qualified
from ...memory.references import reference
from ...memory.settings import Settings
from ...memory.view import ArchiveView

SUMMARIES = 20
"""The newest summaries that stand in the state with their text: people read no more of them."""

SUMMARY_LENGTH = 80
"""Characters of a summary in the state; the archive has all of it."""

GOAL_LENGTH = 160
"""Characters of a goal or a constraint in the state, which each step of a turn writes again."""

Texts = Mapping[str, Mapping[str, Any]]
"""Goal, constraints and summary of the efforts in the context, by their ids."""


def readable(state: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Return the efforts in the context with their texts and how many turns each has left.

    >>> state = {"turn": 9, "summaries": {"a": 5}, "texts": {"a": {"summary": "Fixed."}}}
    >>> readable(state, Settings(summary_eviction_threshold=20))["summaries"]
    {'a': {'summary': 'Fixed.', 'last_referenced_turn': 5, 'leaves_in': 16}}
    """
    texts: Texts = state.get("texts", {})
    turn: int = state.get("turn", 0)

    def left(threshold: int, last: int) -> int:
        return max(0, threshold - (turn - last))

    opened = state.get("open_efforts", {})
    expanded, summaries = state.get("expanded", {}), state.get("summaries", {})
    shown = {*[*summaries][-SUMMARIES:]}
    return {
        "open_efforts": {
            name: {**_picked(texts, name, "goal", "constraints"), **entry}
            for name, entry in opened.items()
        },
        "expanded": {
            name: {
                **entry,
                "collapses_in": left(settings.decay_threshold, entry["last_referenced_turn"]),
            }
            for name, entry in expanded.items()
        },
        "summaries": {
            name: {
                **(_picked(texts, name, "summary") if name in shown else {}),
                "last_referenced_turn": last,
                "leaves_in": left(settings.summary_eviction_threshold, last),
            }
            for name, last in summaries.items()
        },
    }


def _picked(texts: Texts, name: str, *fields: str) -> dict[str, Any]:
    text = texts.get(name, {})
    return {field: text[field] for field in fields if field in text}


def as_nodes_read(memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return the efforts of a memory without what people read, which stands in `texts`.

    >>> as_nodes_read({"summaries": {"a": {"summary": "Fixed.", "last_referenced_turn": 5}}})
    {'summaries': {'a': 5}, 'texts': {'a': {'summary': 'Fixed.'}}}
    """
    plain: dict[str, Any] = {}
    texts: dict[str, dict[str, Any]] = {}
    if "open_efforts" in memory:
        entries = memory["open_efforts"].items()
        texts |= {name: _only(entry, "goal", "constraints") for name, entry in entries}
        plain["open_efforts"] = {n: _without(entry, "goal", "constraints") for n, entry in entries}
    if "expanded" in memory:
        entries = memory["expanded"].items()
        plain["expanded"] = {name: _without(entry, "collapses_in") for name, entry in entries}
    if "summaries" in memory:
        plain["summaries"] = {}
        for name, entry in memory["summaries"].items():
            if isinstance(entry, int):  # as a turn in the archive has it
                plain["summaries"][name] = entry
                continue
            plain["summaries"][name] = entry["last_referenced_turn"]
            texts[name] = {**texts.get(name, {}), **_only(entry, "summary")}
    return plain | ({"texts": known} if (known := {n: t for n, t in texts.items() if t}) else {})


def _only(entry: Mapping[str, Any], *fields: str) -> dict[str, Any]:
    return {field: entry[field] for field in fields if field in entry}


def _without(entry: Mapping[str, Any], *fields: str) -> dict[str, Any]:
    return {field: value for field, value in entry.items() if field not in fields}


def texts_of(efforts: EffortState, view: ArchiveView, known: Texts) -> dict[str, Any]:
    """Return the texts of the efforts in the context: what changed in this turn or is not known.

    Those of other sessions have none: erasing there does not reach the checkpoints of this thread.
    """
    changed = {effort.id for effort in changes(efforts.events, 0)}
    names = dict.fromkeys([*efforts.open, *[*efforts.summaries][-SUMMARIES:]])
    names = {name: None for name in names if not is_qualified(name)}
    wanted = [name for name in names if name in changed or name not in known]
    found = view.efforts_named(wanted, efforts.events) if wanted else ()
    texts = {
        effort.id: {
            "goal": effort.goal[:GOAL_LENGTH],
            "constraints": [text[:GOAL_LENGTH] for text in effort.constraints],
            "summary": effort.summary[:SUMMARY_LENGTH],
        }
        for effort in found
    }
    return {name: {**known, **texts}[name] for name in names if name in known or name in texts}


def mentioned(efforts: EffortState) -> list[dict[str, Any]]:
    """Return the references of the turn with their reasons; concluding an effort is one too."""
    events = (
        reference(event["effort"], "tool", ["close_effort"])
        if event["type"] == "concluded"
        else event
        for event in efforts.events
    )
    found = (event for event in events if event["type"] == "referenced")
    return [{key: event[key] for key in ("effort", "kind", "words")} for event in found]
