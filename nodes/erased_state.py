"""The state of a thread without the text of a turn that was erased."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage

from ..memory.erasing import Erased, redacted, untold
from ..memory.record import Record
from ..memory.view import View, every_turn
from ..memory.wording import SHORTEST, Sought, said, sought, without_text
from .plain import plain, real

GONE = ""
"""Stands in `turn_starts` for the last archived turn when its messages are not in the state."""

_OF_THE_TURN = ("banners", "events")
_TEXTS = ("banners", "raw_answers", "context_report")
"""What else of the state holds text; the rest are names, ids and numbers, and stays as it is."""


def without_turn(values: Mapping[str, Any], erased: Erased, view: View) -> dict[str, Any]:
    """Return the state without the messages of erased turns, and without text that quotes this one.

    Turns are known by the id of their first message, which a tombstone has not. The anchor loses
    each field that tells of the turn, see `untold`. If the turn had been erased before and its
    messages are not in the state either, the anchor stays as it is, see `doubtful`.
    """
    turns = [*_turns(values)]
    known = _known(values, view)
    pieces = _pieces(values, erased, known)
    quoted = (*pieces, *(one for one in erased.summaries if len(one) >= SHORTEST))
    state = {key: value for key, value in values.items() if key != "messages"}
    state |= {key: without_text(values[key], quoted) for key in _TEXTS if key in values}
    if "events" in values:
        state["events"] = [redacted(event, quoted, erased.wrote) for event in values["events"]]
    if "anchor" in values:
        state["anchor"] = untold(values["anchor"], pieces, erased.wrote)
    if values.get("turn") == erased.turn:
        state |= {key: [] for key in _OF_THE_TURN if key in values}
    elif not erased.sought and "banners" in values:  # which summaries were redacted is not known
        state["banners"] = []
    kept = [_kept(turn, known[turn[0].id], view) for turn in turns if turn[0].id in known]
    same = bool(kept) and kept[-1] == turns[-1] and values["turn_starts"][-1] == kept[-1][0].id
    return {**state, **marks(kept, gone=not same)}


def _kept(turn: list[BaseMessage], record: Record, view: View) -> list[BaseMessage]:
    """Return a turn; results of tools that recalled or retold what is erased say what is left."""
    archived = {message.id: message.content for message in real(view.messages(record))}
    return [
        message.model_copy(update={"content": archived.get(message.id, message.content)})
        if isinstance(message, ToolMessage)
        else message
        for message in turn
    ]


def marks(turns: Sequence[Sequence[BaseMessage]], *, gone: bool) -> dict[str, Any]:
    """Return messages and marks of archived turns; `gone`: the last one is not as it was committed.

    An id that no message has then keeps any other from being taken for it, or it for edited.
    """
    starts = [turn[0].id for turn in turns]
    return {
        "messages": [message for turn in turns for message in turn],
        "turn_starts": [*starts, GONE] if gone else starts,
        "archived": turns[-1][-1].id if turns else GONE,
        "accepted": turns[-1][0].id if turns else GONE,
    }


def _turns(values: Mapping[str, Any]) -> Iterator[list[BaseMessage]]:
    messages, starts = values.get("messages", []), values.get("turn_starts", ())
    firsts = [at for at, message in enumerate(messages) if message.id in starts]
    for begin, end in pairwise([*firsts, len(messages)]):
        yield messages[begin:end]


def doubtful(values: Mapping[str, Any], erased: Erased, view: View) -> tuple[str, ...]:
    """Return the fields of the anchor of which it cannot be known whether they tell of the turn.

    There are some if the turn had been erased before: what it wrote into the anchor is nowhere any
    more. They are those that no turn of the archive has, whose anchors lost then what tells of the
    turn.
    """
    pieces = _pieces(values, erased, _known(values, view))
    anchor = untold(values.get("anchor", {}), pieces, erased.wrote)
    if not anchor or erased.sought:
        return ()
    records = every_turn(view.archive, view.owner, view.tip)
    anchors = (event.get("anchor", {}) for record in records for event in record.events)
    kept = {field for fields in anchors for field in fields.items()}
    return tuple(name for name, text in anchor.items() if (name, text) not in kept)


def _known(values: Mapping[str, Any], view: View) -> dict[str, Record]:
    return _newest(view, values.get("persisted", 0), len([*_turns(values)]))


def _pieces(values: Mapping[str, Any], erased: Erased, known: Collection[str]) -> Sought:
    """Return by what the turn is found; from its messages if it had been erased before."""
    gone = (turn for turn in _turns(values) if turn[0].id not in known)
    return erased.sought or sought(text for turn in gone for text in said(plain(turn)))


def _newest(view: View, last: int, count: int) -> dict[str, Record]:
    """Return the `count` newest turns up to `last` that have messages, by the id of the first."""
    found: dict[str, Record] = {}
    while last > 0 and len(found) < count:
        records = view.turns(range(max(1, last - count + 1), last + 1))
        found |= {str(one.messages[0]["data"].get("id")): one for one in records if one.messages}
        last -= count
    return found
