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
from typing import Any, TypeAlias

from ..prompts.loader import render
from .anchor import shown
from .efforts import Effort
from .messages import Message, calls, compact, with_content
from .record import Event, Owner, Record
from .transcript import OWN_TOOLS, result_of

TurnPlace: TypeAlias = tuple[str, int]
"""A branch and the number of a turn on it."""

Gone: TypeAlias = frozenset[tuple[str, str]]
"""Efforts, each with a text of it that goes: a goal, a constraint, a summary."""

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
_RETOLD = frozenset({"summary", "prior_summary", "goal", "constraints"})
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

    `before` has how its efforts stood right before the turn; `sees` whether a record comes after
    the turn, or a copy of it, in its own past; `places` are those of all copies; `wrote` are the
    fields of the anchor that no turn in its past had written before. `sought` are its sentences,
    `given` what its events say anew of efforts.
    """

    record: Record
    before: Mapping[str, Effort]
    sees: Callable[[str, int], bool]
    places: frozenset[TurnPlace]
    wrote: frozenset[tuple[str, str]] = frozenset()
    sought: tuple[str, ...] = field(init=False)
    given: frozenset[tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        """Find out what the turn says, and what its events say of efforts."""
        given = frozenset(self._given())
        of_efforts = (text for _, _, *texts in given for text in texts)
        in_messages = _spoken(shown(self.record.messages))
        texts = [*in_messages, *of_efforts, *(text for _, text in self.wrote)]
        object.__setattr__(self, "given", given)
        object.__setattr__(self, "sought", _sentences(texts))

    def is_copy(self, record: Record) -> bool:
        """Tell whether a record is the turn itself, on this branch or on another."""
        return (record.turn, record.digest) == (self.record.turn, self.record.digest)

    def quoted_by(self, record: Record) -> bool:
        """Tell whether a record says one of the sentences, in its messages or of an effort."""
        of_efforts = [event[key] for event in record.events for key in _text_fields(event)]
        return bool(self._held([message["data"] for message in record.messages] + of_efforts))

    def anchor(self, record: Record, fields: Mapping[str, str]) -> dict[str, str]:
        """Return what stays of a record's anchor; who does not see the turn keeps own words."""
        if self.is_copy(record) or self.sees(record.branch, record.turn):
            wrote, own = self.wrote, frozenset[str]()
        else:
            wrote, own = frozenset(), self._held([message["data"] for message in record.messages])
        return {
            name: text
            for name, text in fields.items()
            if (name, text) not in wrote and not self._held(text) - own
        }

    def tombstone(self, record: Record) -> Record:
        """Return what stays of the turn: its place, its digest, and events without their texts."""
        events = []
        for event in record.events:
            made = _SUMMARY if event["type"] == "concluded" else frozenset[str]()
            fields = _text_fields(event)
            gone = {key for key in fields if key in made or self._is_new(event, key)}
            events.append(self._without(record, event, gone))
        return replace(record, messages=(), events=tuple(events), status="erased")

    def without(self, record: Record) -> tuple[Record, Gone]:
        """Return another record whose events have nothing made from the turn, and what they had."""
        texts: set[tuple[str, str]] = set()
        events = []
        for event in record.events:
            made = self._made(event, record)
            after = self._without(record, event, made)
            for key in made:
                lost = {*_leaves(event[key])} - {*_leaves(after[key])}
                texts |= {(event["effort"], text) for text in lost}
            events.append(after)
        return replace(record, events=tuple(events)), frozenset(texts)

    def _given(self) -> Iterator[tuple[str, ...]]:
        """Yield what the turn's events say anew of each effort, as later events may repeat it."""
        for event in self.record.events:
            name = event.get("effort", "")
            for key in _text_fields(event):
                if key == "constraints":
                    known = getattr(self.before.get(name), key, ())
                    yield from ((name, key, text) for text in event[key] if text not in known)
                elif self._is_new(event, key):
                    yield (name, key, *_leaves(event[key]))

    def _is_new(self, event: Event, key: str) -> bool:
        """Tell whether what an event says of an effort was not known before the turn."""
        known = self.before.get(event.get("effort", ""))
        return [*_leaves(event[key])] != [*_leaves(getattr(known, key, None))]

    def _held(self, value: Any) -> frozenset[str]:
        """Return the sentences that the texts in a value hold, as they are or inside JSON."""
        text = "\n".join(_leaves(value))
        return frozenset(
            sentence
            for sentence in self.sought
            if sentence in text or json.dumps(sentence, ensure_ascii=False)[1:-1] in text
        )

    def _made(self, event: Event, record: Record) -> set[str]:
        """Return the fields of a later event that were made from the turn, no sentence compared."""
        name, fields = event.get("effort", ""), _text_fields(event)
        if not fields or "effort" not in event or not self.sees(record.branch, record.turn):
            return set()
        gone = {key for key in fields if (name, key, *_leaves(event[key])) in self.given}
        if any((name, "constraints", text) in self.given for text in event.get("constraints", ())):
            gone.add("constraints")
        if name in self.record.efforts and "summary" in fields and self._is_new(event, "summary"):
            gone.add("summary")
        return gone | (_SUMMARY & fields if "summary" in gone else set())

    def _without(self, record: Record, event: Event, gone: Iterable[str]) -> Event:
        """Return an event without these fields; constraints that the turn did not add stay."""
        after = _emptied(event, gone)
        if "constraints" in gone:
            name, known = event.get("effort", ""), event["constraints"]
            after["constraints"] = [
                text for text in known if (name, "constraints", text) not in self.given
            ]
        if "anchor" in event:
            after["anchor"] = self.anchor(record, event["anchor"])
        return after


def without_copies(record: Record, gone: Gone) -> Record:
    """Return a record without erased text in its results of memory tools."""
    messages: list[Message] = []
    for message in record.messages:
        if message["type"] != "tool" or message["data"].get("name") not in OWN_TOOLS:
            messages.append(message)
            continue
        body = result_of(message)
        after = _entry(body, gone)
        for key in _LISTS:
            if isinstance(body.get(key), list):
                after[key] = [_entry(entry, gone) for entry in body[key]]
        messages.append(message if after == body else with_content(message, compact(after)))
    return record if messages == [*record.messages] else replace(record, messages=tuple(messages))


def without_summaries(record: Record, efforts: Iterable[str]) -> tuple[Record, Gone]:
    """Return a record whose events have no summary of these efforts, and what these said."""
    named, texts = frozenset(efforts), set[tuple[str, str]]()
    events: list[Event] = []
    for event in record.events:
        fields = _text_fields(event)
        if event.get("effort") in named and "summary" in fields and not event.get("stale"):
            texts.add((event["effort"], event["summary"]))
            events.append(_emptied(event, _SUMMARY & fields))
        else:
            events.append(event)
    return replace(record, events=tuple(events)), frozenset(texts)


def _sentences(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the sentences and lines by which texts are found again, the longest first.

    >>> _sentences(["Hello there. The key lies under the mat."])
    ('The key lies under the mat.',)
    """
    ours = {render(name) for name in _OURS}
    parts = (part for text in texts if text not in ours for part in _END.split(text))
    sentences = {part.strip()[:_LONGEST] for part in parts}
    telling = (part for part in sentences if len(part.encode(errors="replace")) >= _SHORTEST)
    return tuple(sorted(telling, key=lambda part: (-len(part), part))[:_MOST])


def _text_fields(event: Event) -> frozenset[str]:
    """Return the fields of an event that are text, and not the name of an effort.

    >>> sorted(_text_fields({"type": "opened", "effort": "a", "goal": "g", "tokens": 3}))
    ['goal']
    """
    return frozenset(key for key in event if key not in _NO_TEXT and any(_leaves(event[key])))


def _emptied(event: Event, gone: Iterable[str]) -> dict[str, Any]:
    """Return an event with these fields emptied; a summary says that it was erased."""
    after = {**event, **{key: type(event[key])() for key in gone}}
    if "summary" in gone:
        after |= {"summary": render("erased_summary"), "stale": True}
    return after


def _spoken(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the texts of messages, but not the memory's own results, which quote other turns."""
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


def _entry(entry: Any, gone: Gone) -> Any:
    """Return what a result says of one effort, without what is gone."""
    if not isinstance(entry, dict):
        return entry
    name = str(entry.get("effort_id") or entry.get("id") or "")
    after = dict(entry)
    for key in _RETOLD & entry.keys():
        value = entry[key]
        if not any((name, text) in gone for text in _leaves(value)):
            continue
        if isinstance(value, list):
            after[key] = [text for text in value if (name, text) not in gone]
        else:
            after[key] = "" if key == "goal" else render("erased_summary")
    return after
