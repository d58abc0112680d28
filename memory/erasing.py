"""Erase a turn by its origin: what stays of it, and what the turns after it have from it.

A turn inherits from its parent the goals, constraints and summaries of efforts and the fields of
the state block, so what an erased turn gave is followed from parent to child, and on no other
branch. Other turns that say the same themselves are reported and stay.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import BaseMessage

from ..prompts.loader import render
from .efforts import Effort
from .messages import compact, text, with_content
from .recalled import recalled, result_of
from .state_block import as_users_see
from .tool_names import MEMORY_TOOLS
from .turn import Event, Session, Status, StoredTurn, Tip

_SHORTEST = 16
"""Bytes of the shortest text that is looked for: an "OK." stands in many turns."""

# Keys of events whose values are names and not what somebody said.
_NO_TEXT = frozenset({"type", "effort", "efforts", "related", "anchor", "kind", "words"})

_SUMMARY = frozenset({"summary", "keywords"})
"""Fields that a model writes from a log in one call."""

# Fields in which results of the memory's tools repeat events, and the lists that have such results.
_REPEATED = frozenset({"summary", "prior_summary", "goal", "constraints"}) | {
    *("lapsed_constraints", "former_constraints")
}
_LISTS = ("efforts", "results")


@dataclass(frozen=True, slots=True)
class Erased:
    """What an archive erased.

    `id` is that of the turn, `quoted` are other turns that say the same and stay as they are.
    `stale` are the efforts whose summary was emptied. `elsewhere` are the other sessions that have
    the turn, since one thread was copied from the other, or had a line of it in their state block.
    `left` says what could not be removed.
    """

    turn: int
    id: str
    quoted: tuple[Tip, ...] = ()
    stale: tuple[str, ...] = ()
    elsewhere: tuple[Session, ...] = ()
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeletionReport:
    """The sessions that were deleted, and what could not be erased, a sentence each.

    `elsewhere` are other sessions whose state block lost a line that only these had said.
    """

    sessions: tuple[Session, ...]
    not_erased: tuple[str, ...] = ()
    elsewhere: tuple[Session, ...] = ()


@dataclass(frozen=True, slots=True)
class Carried:
    """What the memory after a turn has from erased ones.

    `texts` are goals, constraints and summaries, each with its effort; `fields` are those of the
    state block. The log of each effort in `logs` has the turn, or a result that repeated its texts.
    """

    texts: frozenset[tuple[str, str]] = frozenset()
    fields: frozenset[tuple[str, str]] = frozenset()
    logs: frozenset[str] = frozenset()

    def __or__(self, other: "Carried") -> "Carried":
        """Return what any of the two has."""
        return Carried(self.texts | other.texts, self.fields | other.fields, self.logs | other.logs)

    def remaining(self, anchor: Mapping[str, str]) -> dict[str, str]:
        """Return the fields of a later state block that are not from erased turns."""
        return {name: text for name, text in anchor.items() if (name, text) not in self.fields}


def given(turn: StoredTurn, efforts: Mapping[str, Effort], anchor: Mapping[str, str]) -> Carried:
    """Return what the memory after a turn, or a command, has from it.

    `efforts` are those that it changed, and `anchor` is the state block, as they were before it.
    """
    texts, fields = set[tuple[str, str]](), set[tuple[str, str]]()
    for event in turn.events:
        name = event.get("effort", "")
        for key in _text_fields(event):
            before = [*_leaves(getattr(efforts.get(name), key, None))]
            now = [*_leaves(event[key])]
            if key == "constraints":  # each by itself
                now = [one for one in now if one not in before]
            texts |= {(name, text) for text in now if now != before}
        fields |= event.get("anchor", {}).items() - anchor.items()
    logs = {*turn.efforts, *(name for name, _ in texts if name)}
    return Carried(frozenset(texts), frozenset(fields), frozenset(logs))


def without(
    turn: StoredTurn, carried: Carried, erased: int, gone: Collection[str]
) -> tuple[StoredTurn, Carried]:
    """Return a turn without what it has from erased ones, and what is carried on.

    `erased` is the number of these, `gone` their ids. One of them loses its messages. A result that
    quotes one by reference makes the log of the turn one that has it.
    """
    if turn.id in gone:
        status: Status = "command" if turn.status == "command" else "erased"
        turn = replace(turn, messages=(), status=status)
    quotes = [one for message in turn.messages for one in recalled(message)]
    has_turn = any(one.id in gone or (not one.session and one.turn == erased) for one in quotes)
    while True:
        if has_turn:
            carried = replace(carried, logs=carried.logs | {*turn.efforts})
        texts = (_texts_from_turn(event, carried) for event in turn.events)
        carried = replace(carried, texts=carried.texts.union(*texts))
        messages = tuple(_without_copies(message, carried) for message in turn.messages)
        if has_turn or messages == turn.messages:
            break
        has_turn = True  # a result repeats such a text, and may be summarised itself
    events: list[Event] = []
    for event in turn.events:
        name, fields = event.get("effort", ""), _text_fields(event)
        own = {text for effort, text in carried.texts if effort == name}
        after = _emptied(event, {key for key in fields if own.intersection(_leaves(event[key]))})
        if "constraints" in fields:
            after["constraints"] = [one for one in event["constraints"] if one not in own]
        if "anchor" in event:
            after["anchor"] = carried.remaining(event["anchor"])
        if "words" in event and turn.id in gone:
            after["words"] = []
        events.append(after)
    return replace(turn, messages=messages, events=tuple(events)), carried


def quoted_by(erased: Iterable[StoredTurn], turns: Iterable[StoredTurn]) -> Iterator[Tip]:
    """Yield the turns that have a whole text of the erased ones.

    An error result is no text of its own, nor is one of the memory's tools, which quote others.
    """
    texts = {
        text(message)
        for turn in erased
        for message in as_users_see(turn.messages)
        if getattr(message, "status", "") != "error"
        if message.name not in MEMORY_TOOLS
    }
    # Bytes, since a word of Chinese says as much in a third of the characters.
    texts = {one for one in texts if len(one.encode(errors="replace")) >= _SHORTEST}
    for turn in turns:
        said = "\n".join(_leaves([[*map(vars, turn.messages)], turn.events]))
        if any(one in said for one in texts):
            yield turn.tip


def _texts_from_turn(event: Event, carried: Carried) -> frozenset[tuple[str, str]]:
    """Return summary and keywords of an event if they were made from the turn."""
    name = event.get("effort", "")
    made = event["type"] == "concluded" and name in carried.logs and not event.get("stale")
    if not made and (name, event.get("summary")) not in carried.texts:
        return frozenset()
    fields = _SUMMARY & _text_fields(event)
    return frozenset((name, text) for key in fields for text in _leaves(event[key]))


def _text_fields(event: Event) -> frozenset[str]:
    """Return the fields of an event that have text, apart from names of efforts.

    >>> sorted(_text_fields({"type": "opened", "effort": "a", "goal": "g", "tokens": 3}))
    ['goal']
    """
    return frozenset(key for key in event if key not in _NO_TEXT and any(_leaves(event[key])))


def _emptied(event: Event, fields: Iterable[str]) -> dict[str, Any]:
    """Return an event with these fields emptied; a summary says that it was erased."""
    after = {**event, **{key: type(event[key])() for key in fields}}
    if "summary" in fields:
        after |= {"summary": render("erased_summary"), "stale": True}
    return after


def _leaves(value: Any) -> Iterator[str]:
    """Yield every text in a value, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _leaves(item)


def _without_copies(message: BaseMessage, carried: Carried) -> BaseMessage:
    """Return a message; of the memory's tools without the carried texts of each effort."""
    if message.type != "tool" or message.name not in MEMORY_TOOLS:
        return message
    body = result_of(message)
    after = _without_texts(body, carried)
    if any(repr(said) in str(body.get("error", "")) for _, said in carried.texts):
        after["error"] = render("erased_summary")  # it lists the constraints that hold
    for key in _LISTS:
        if isinstance(body.get(key), list):
            after[key] = [_without_texts(entry, carried) for entry in body[key]]
    return message if after == body else with_content(message, compact(after))


def _without_texts(entry: Any, carried: Carried) -> Any:
    """Return what a tool result says of one effort, without the carried texts."""
    if not isinstance(entry, Mapping):
        return entry
    name, after = str(entry.get("effort_id") or entry.get("id") or ""), dict(entry)
    for key in _REPEATED & entry.keys():
        value = entry[key]
        if not any((name, text) in carried.texts for text in _leaves(value)):
            continue
        if isinstance(value, list):
            after[key] = [text for text in value if (name, text) not in carried.texts]
        else:
            after[key] = "" if key == "goal" else render("erased_summary")
    return after
