"""Erasing a turn: what stays of its record, and what in other records was made from it.

What was made from a turn is known, not guessed: summaries whose log holds it, and what its own
events said of an effort and later events repeat. Of the anchor, which nobody can trace, those
fields go that the turn wrote or that hold a whole sentence of it. What other turns say themselves,
or have said of another effort, is named and stays.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from ..prompts.loader import render
from .anchor import shown
from .efforts import Effort
from .messages import Message, calls, compact, saying
from .record import Event, Owner, Record
from .transcript import OWN_TOOLS, result_of

TurnPlace: TypeAlias = tuple[str, int]
"""A branch and the number of a turn on it."""

_Sought: TypeAlias = tuple[str, ...]
"""Sentences that are looked for."""

Told: TypeAlias = tuple[str, str]
"""An effort, and a text of it that goes: a goal, a constraint, a summary."""

_SHORTEST = 16
"""Bytes of the shortest sentence that is looked for: shorter ones stand in many texts."""

_LONGEST = 400
"""Characters of a sentence that are looked for, from its beginning on."""

_MOST = 200
"""Sentences that are looked for, the longest first."""

_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|[\n\r]+")
"""Where one sentence or line ends and the next begins."""

_OURS = ("canned_summary", "erased_summary", "no_result")
"""Prompts that stand in place of a text."""

# Under which keys messages, and events, have no text that somebody said.
_NAMES = frozenset({"id", "type", "name", "role", "mime_type", "effort_id", "turns", "session"})
_NO_TEXT = frozenset({"type", "effort", "efforts", "related", "anchor"})

_SUMMARY = frozenset({"summary", "keywords"})
"""What a model makes of a log, together."""

# Where the results of the memory's tools say what events said, and lists of such results.
_RETOLD = ("summary", "prior_summary", "goal", "constraints")
_LISTS = ("efforts", "results")


@dataclass(frozen=True, slots=True)
class Erased:
    """What an archive erased.

    `places` are the records that became tombstones, `quoted` those of other turns that say some
    of the same and stay as they are. `stale` are the efforts whose summary was emptied, `named`
    those that the turn opened, whose names stay. `left` says what could not be removed.
    """

    turn: int
    digest: str
    places: tuple[TurnPlace, ...]
    quoted: tuple[TurnPlace, ...] = ()
    stale: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Deleted:
    """Which sessions an archive deleted, and what could not be removed."""

    sessions: tuple[Owner, ...]
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """The turn that is to be erased, as all records of its session are compared with it.

    `before` tells how an effort stood right before the turn; `sees` whether a record comes after
    the turn, or a copy of it, in its own past; `places` are those of all copies; `wrote` are the
    fields of the anchor that no turn in its past had written before. `sought` are its sentences,
    `given` what its events say anew of efforts.
    """

    record: Record
    before: Callable[[str], Effort | None]
    sees: Callable[[str, int], bool]
    places: frozenset[TurnPlace]
    wrote: frozenset[tuple[str, str]] = frozenset()
    sought: _Sought = field(init=False)
    given: frozenset[tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        """Find out what the turn says, and what its events say of efforts."""
        given = frozenset(self._given())
        said = (text for _, _, *texts in given for text in texts)
        texts = [*_said(shown(self.record.messages)), *said, *(text for _, text in self.wrote)]
        object.__setattr__(self, "given", given)
        object.__setattr__(self, "sought", _sentences(texts))

    def is_copy(self, record: Record) -> bool:
        """Tell whether a record is the turn itself, on this branch or on another."""
        return (record.turn, record.digest) == (self.record.turn, self.record.digest)

    def is_new(self, event: Event, key: str) -> bool:
        """Tell whether what an event says of an effort was not known before the turn."""
        known = self.before(event.get("effort", ""))
        return [*_leaves(event[key])] != [*_leaves(getattr(known, key, None))]

    def anchor(self, fields: Mapping[str, str]) -> dict[str, str]:
        """Return the fields of an anchor that the turn did not write and that say none of it."""
        return {
            name: text
            for name, text in fields.items()
            if (name, text) not in self.wrote and not _held(text, self.sought)
        }

    def anchor_of(
        self, record: Record, own: frozenset[str], fields: Mapping[str, str]
    ) -> dict[str, str]:
        """Return what stays of another turn's anchor; what it says itself (`own`) does."""
        if self.sees(record.branch, record.turn):
            return self.anchor(fields)
        return {name: text for name, text in fields.items() if not _held(text, self.sought) - own}

    def _given(self) -> Iterator[tuple[str, ...]]:
        """Yield what the turn's events say anew of each effort, as later events may repeat it."""
        for event in self.record.events:
            name = event.get("effort", "")
            for key in _text_fields(event):
                if key == "constraints":
                    known = getattr(self.before(name), key, ())
                    yield from ((name, key, text) for text in event[key] if text not in known)
                elif self.is_new(event, key):
                    yield (name, key, *_leaves(event[key]))


def _sentences(texts: Iterable[str]) -> _Sought:
    """Return the sentences and lines by which texts are found again, the longest first.

    >>> _sentences(["Hello there. The key lies under the mat."])
    ('The key lies under the mat.',)
    """
    ours = {render(name) for name in _OURS}
    parts = (part for text in texts if text not in ours for part in _END.split(text))
    sentences = {part.strip()[:_LONGEST] for part in parts}
    telling = (part for part in sentences if len(part.encode(errors="replace")) >= _SHORTEST)
    return tuple(sorted(telling, key=lambda part: (-len(part), part))[:_MOST])


def _held(text: str, pieces: Iterable[str]) -> frozenset[str]:
    r"""Return the pieces that a text holds, as they are or inside JSON.

    >>> sorted(_held('{"a": "say \\"hi\\" now"}', ['say "hi" now', "hi there"]))
    ['say "hi" now']
    """
    return frozenset(piece for piece in pieces if piece in text or _inside_json(piece) in text)


def quotes(messages: Sequence[Message], sought: _Sought) -> frozenset[str]:
    """Return the sentences that messages say."""
    return _held("\n".join(_leaves([message["data"] for message in messages])), sought)


def quoted(record: Record, sought: _Sought) -> bool:
    """Tell whether a record says one of the sentences, in its messages or of an effort."""
    told = [event[key] for event in record.events for key in _text_fields(event)]
    return bool(quotes(record.messages, sought) or _held("\n".join(_leaves(told)), sought))


def tombstone(record: Record, target: Target) -> Record:
    """Return what stays of the turn: its place, its digest, and events without their texts."""
    events = []
    for event in record.events:
        made = _SUMMARY if event["type"] == "concluded" else frozenset[str]()
        gone = {key for key in _text_fields(event) if key in made or target.is_new(event, key)}
        events.append(_blanked(event, _rest(event, gone, target), target.anchor))
    return replace(record, messages=(), events=tuple(events), status="erased")


def without(record: Record, target: Target) -> tuple[Record, frozenset[Told]]:
    """Return another record without what was made from the turn, and which texts these were.

    Its messages stay here; see `without_copies`.
    """
    if not any("anchor" in event or _text_fields(event) for event in record.events):
        return record, frozenset()
    own = quotes(record.messages, target.sought)
    told: set[Told] = set()
    events = []
    for event in record.events:
        rest = _rest(event, _made(event, record, target), target)
        told |= {
            (event["effort"], text)
            for key, left in rest.items()
            for text in {*_leaves(event[key])} - {*_leaves(left)}
        }
        events.append(_blanked(event, rest, partial(target.anchor_of, record, own)))
    return replace(record, events=tuple(events)), frozenset(told)


def without_copies(record: Record, told: frozenset[Told]) -> Record:
    """Return a record without erased text in its results of memory tools."""
    messages = tuple(_without_copies(message, told) for message in record.messages)
    return record if messages == record.messages else replace(record, messages=messages)


def without_summaries(record: Record, efforts: Iterable[str]) -> tuple[Record, frozenset[Told]]:
    """Return a record whose events have no summary of these efforts, and what these summaries said.

    For efforts whose log retold what is gone: their summaries were made from that.
    """
    named, told, events = frozenset(efforts), set(), []
    for event in record.events:
        fields = _text_fields(event)
        if event.get("effort") in named and "summary" in fields and not event.get("stale"):
            told.add((event["effort"], event["summary"]))
            emptied = {key: type(event[key])() for key in _SUMMARY & fields}
            events.append(_blanked(event, emptied, dict))
        else:
            events.append(event)
    return replace(record, events=tuple(events)), frozenset(told)


def _text_fields(event: Event) -> frozenset[str]:
    """Return the fields of an event that are text, and not the name of an effort.

    >>> sorted(_text_fields({"type": "opened", "effort": "a", "goal": "g", "tokens": 3}))
    ['goal']
    """
    return frozenset(key for key in event if key not in _NO_TEXT and any(_leaves(event[key])))


def _made(event: Event, record: Record, target: Target) -> set[str]:
    """Return the fields of a later event that were made from the turn: no sentence is compared."""
    name, fields = event.get("effort", ""), _text_fields(event)
    if "effort" not in event or not target.sees(record.branch, record.turn):
        return set()
    gone = {key for key in fields if (name, key, *_leaves(event[key])) in target.given}
    if any((name, "constraints", text) in target.given for text in event.get("constraints", ())):
        gone.add("constraints")
    if name in target.record.efforts and "summary" in fields and target.is_new(event, "summary"):
        gone.add("summary")
    return gone | (_SUMMARY & fields if "summary" in gone else set())


def _rest(event: Event, gone: Iterable[str], target: Target) -> dict[str, Any]:
    """Return what stays of fields that go: of the constraints those that the turn did not add."""
    rest = {key: type(event[key])() for key in gone}
    if "constraints" in rest:
        name = event.get("effort", "")
        known = (
            text for text in event["constraints"] if (name, "constraints", text) not in target.given
        )
        rest["constraints"] = [*known]
    return rest


def _blanked(
    event: Event, rest: Mapping[str, Any], left: Callable[[Mapping[str, str]], dict[str, str]]
) -> Event:
    """Return an event with what stays of these fields; a summary says that it was erased."""
    emptied = {**event, **rest}
    if "anchor" in emptied:
        emptied["anchor"] = left(emptied["anchor"])
    if "summary" in rest:
        return {**emptied, "summary": render("erased_summary"), "stale": True}
    return emptied


def _said(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the texts of messages, calls and artifacts included, the memory's own results not.

    Those say what is known of efforts, and quote other turns.
    """
    for message in messages:
        data = message["data"]
        for call in calls(message):
            yield from _leaves(call.get("args"), _NAMES if call.get("name") in OWN_TOOLS else ())
        if message["type"] != "tool" or data.get("name") not in OWN_TOOLS:
            yield from _leaves(data.get("content"), _NAMES)
            yield from _leaves(data.get("artifact"))
            yield from _leaves(data.get("additional_kwargs"), _NAMES)


def _leaves(value: Any, skip: Iterable[str] = ()) -> Iterator[str]:
    """Yield every text in a value, at any depth, but those under the keys `skip`."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key not in skip:
                yield from _leaves(item, skip)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item, skip)


def _without_copies(message: Message, told: frozenset[Told]) -> Message:
    if message["type"] != "tool" or message["data"].get("name") not in OWN_TOOLS:
        return message
    body = result_of(message)
    lists = {
        key: [_entry(item, told) for item in body[key]]
        for key in _LISTS
        if isinstance(body.get(key), list)
    }
    left = {**_entry(body, told), **lists}
    return message if left == body else saying(message, compact(left))


def _entry(entry: Any, told: frozenset[Told]) -> Any:
    """Return what a result says of one effort, without what is gone."""
    if not isinstance(entry, dict):
        return entry
    name = str(entry.get("effort_id") or entry.get("id") or "")
    return {key: _left(name, key, value, told) for key, value in entry.items()}


def _left(name: str, key: str, value: Any, told: frozenset[Told]) -> Any:
    if key not in _RETOLD or not any((name, text) in told for text in _leaves(value)):
        return value
    if isinstance(value, list):
        return [text for text in value if (name, text) not in told]
    return "" if key == "goal" else render("erased_summary")


def _inside_json(piece: str) -> str:
    return json.dumps(piece, ensure_ascii=False)[1:-1]
