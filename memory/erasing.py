"""Erase a turn: what stays of its record, and which texts in other records were made from it.

Such texts are traced, not guessed: summaries of a log that has the turn, and goals, constraints and
summaries that its events set and later events repeat. The anchor cannot be traced: it loses the
fields that the turn wrote or that hold a whole sentence of it. Other turns that say the same
themselves are reported and stay.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from ..prompts.loader import render
from .anchor import shown
from .efforts import Effort
from .messages import Message, calls, compact, with_content
from .record import Event, Owner, Record, Tip
from .transcript import OWN_TOOLS, result_of

Gone: TypeAlias = frozenset[tuple[str, str]]
"""Texts to erase, each with the effort it belongs to: goals, constraints, summaries."""

_SHORTEST = 16
"""Bytes of the shortest sentence that is looked for: shorter ones stand in many texts."""

_LONGEST = 400
"""Characters of a sentence that are looked for: more find nothing else and cost time."""

_SENTENCES = 200
"""Sentences of a turn that are looked for, the longest first, in every record of the session."""

_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|[\n\r]+")
"""Where one sentence or line ends and the next begins."""

_PLACEHOLDERS = ("canned_summary", "erased_summary", "no_result")
"""Prompts that stand in place of a text: many turns have them."""

# Keys of messages, and of events, whose values are names and not what somebody said.
_NAMES = frozenset({"id", "type", "name", "role", "mime_type", "effort_id", "turns", "session"})
_NO_TEXT = frozenset({"type", "effort", "efforts", "related", "anchor"})

_SUMMARY = frozenset({"summary", "keywords"})
"""Fields that a model writes from a log in one call."""

# Fields in which results of the memory's tools repeat events, and the lists that have such results.
_REPEATED = frozenset({"summary", "prior_summary", "goal", "constraints"})
_LISTS = ("efforts", "results")


@dataclass(frozen=True, slots=True)
class Erased:
    """What an archive erased.

    `id` is that of the turn, `quoted` are other turns that say the same and stay as they are.
    `stale` are the efforts whose summary was emptied, `named` the efforts that the turn opened,
    whose names stay. `elsewhere` are the other sessions that have the turn, since one thread was
    copied from the other. `left` says what could not be removed.
    """

    turn: int
    id: str
    quoted: tuple[Tip, ...] = ()
    stale: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    elsewhere: tuple[Owner, ...] = ()
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Deleted:
    """The sessions that an archive deleted, and a notice of each thing it could not remove."""

    sessions: tuple[Owner, ...]
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """The turn that is to be erased, with what records of its session are compared with.

    `before` has its efforts as they were right before the turn; `wrote` are the fields of the
    anchor that no earlier turn had written. `sentences` are its own; `statements` are
    `(effort, field, text…)` for each text that its events set first. `follows` tells of a record
    whether it has the turn in its past.
    """

    record: Record
    before: Mapping[str, Effort]
    wrote: frozenset[tuple[str, str]] = frozenset()
    sentences: tuple[str, ...] = field(init=False)
    statements: frozenset[tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        """Collect the statements and the sentences once: every record is compared with them."""
        statements = frozenset(self._new_statements())
        event_texts = (text for _, _, *texts in statements for text in texts)
        message_texts = _message_texts(shown(self.record.messages))
        texts = [*message_texts, *event_texts, *(text for _, text in self.wrote)]
        object.__setattr__(self, "statements", statements)
        object.__setattr__(self, "sentences", _sentences(texts))

    def quoted_by(self, record: Record) -> bool:
        """Tell whether a record has one of the sentences, in a message or an event."""
        event_texts = [event[key] for event in record.events for key in _text_fields(event)]
        message_data = [message["data"] for message in record.messages]
        return bool(self._sentences_in(message_data + event_texts))

    def anchor(self, record: Record, fields: Mapping[str, str], *, follows: bool) -> dict[str, str]:
        """Return the anchor fields of a record that stay.

        A record that does not have the turn in its past keeps sentences of its own messages.
        """
        if follows:
            wrote, own = self.wrote, frozenset[str]()
        else:
            message_data = [message["data"] for message in record.messages]
            wrote, own = frozenset(), self._sentences_in(message_data)
        return {
            name: text
            for name, text in fields.items()
            if (name, text) not in wrote and not self._sentences_in(text) - own
        }

    def tombstone(self, record: Record) -> Record:
        """Return the turn without messages and texts; place, digest and names of efforts stay."""
        events = []
        for event in record.events:
            derived = _SUMMARY if event["type"] == "concluded" else frozenset[str]()
            fields = _text_fields(event)
            erased = {key for key in fields if key in derived or self._is_new(event, key)}
            events.append(self._without(record, event, erased, follows=True))
        return replace(record, messages=(), events=tuple(events), status="erased")

    def without(self, record: Record, *, follows: bool) -> tuple[Record, Gone]:
        """Return a later record without texts made from the turn, and these texts."""
        texts: set[tuple[str, str]] = set()
        events = []
        for event in record.events:
            derived = self._derived(event) if follows else set()
            after = self._without(record, event, derived, follows=follows)
            for key in derived:
                removed = {*_leaves(event[key])} - {*_leaves(after[key])}
                texts |= {(event["effort"], text) for text in removed}
            events.append(after)
        return replace(record, events=tuple(events)), frozenset(texts)

    def _new_statements(self) -> Iterator[tuple[str, ...]]:
        """Yield the statements that this turn made first; later events may repeat them."""
        for event in self.record.events:
            name = event.get("effort", "")
            for key in _text_fields(event):
                if key == "constraints":
                    earlier = getattr(self.before.get(name), key, ())
                    yield from ((name, key, text) for text in event[key] if text not in earlier)
                elif self._is_new(event, key):
                    yield (name, key, *_leaves(event[key]))

    def _is_new(self, event: Event, key: str) -> bool:
        """Tell whether a field of an event differs from what the effort had before the turn."""
        earlier = self.before.get(event.get("effort", ""))
        return [*_leaves(event[key])] != [*_leaves(getattr(earlier, key, None))]

    def _sentences_in(self, value: Any) -> frozenset[str]:
        """Return the turn's sentences that stand in a value's texts, plain or escaped as JSON."""
        text = "\n".join(_leaves(value))
        return frozenset(
            sentence
            for sentence in self.sentences
            if sentence in text or json.dumps(sentence, ensure_ascii=False)[1:-1] in text
        )

    def _derived(self, event: Event) -> set[str]:
        """Return the fields of a later event that were made from the turn, as traced by effort."""
        name, fields = event.get("effort", ""), _text_fields(event)
        if not fields or "effort" not in event:
            return set()
        derived = {key for key in fields if (name, key, *_leaves(event[key])) in self.statements}
        constraints = event.get("constraints", ())
        if any((name, "constraints", text) in self.statements for text in constraints):
            derived.add("constraints")
        if name in self.record.efforts and "summary" in fields and self._is_new(event, "summary"):
            derived.add("summary")
        return derived | (_SUMMARY & fields if "summary" in derived else set())

    def _without(
        self, record: Record, event: Event, fields: Iterable[str], *, follows: bool
    ) -> Event:
        """Return an event without these fields; constraints that the turn did not add stay."""
        after = _emptied(event, fields)
        if "constraints" in fields:
            name = event.get("effort", "")
            after["constraints"] = [
                text
                for text in event["constraints"]
                if (name, "constraints", text) not in self.statements
            ]
        if "anchor" in event:
            after["anchor"] = self.anchor(record, event["anchor"], follows=follows)
        return after


def without_copies(record: Record, erased: Gone) -> Record:
    """Return a record whose results of memory tools have none of the erased texts."""
    messages: list[Message] = []
    for message in record.messages:
        if message["type"] != "tool" or message["data"].get("name") not in OWN_TOOLS:
            messages.append(message)
            continue
        body = result_of(message)
        after = _without_texts(body, erased)
        for key in _LISTS:
            if isinstance(body.get(key), list):
                after[key] = [_without_texts(entry, erased) for entry in body[key]]
        messages.append(message if after == body else with_content(message, compact(after)))
    return record if messages == [*record.messages] else replace(record, messages=tuple(messages))


def without_summaries(record: Record, efforts: Iterable[str]) -> tuple[Record, Gone]:
    """Return a record whose events have no summary of these efforts, and the removed summaries."""
    names, texts = frozenset(efforts), set[tuple[str, str]]()
    events: list[Event] = []
    for event in record.events:
        fields = _text_fields(event)
        if event.get("effort") in names and "summary" in fields and not event.get("stale"):
            texts.add((event["effort"], event["summary"]))
            events.append(_emptied(event, _SUMMARY & fields))
        else:
            events.append(event)
    return replace(record, events=tuple(events)), frozenset(texts)


def _sentences(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the sentences and lines that are long enough to recognise texts by, longest first.

    >>> _sentences(["Hello there. The key lies under the mat."])
    ('The key lies under the mat.',)
    """
    placeholders = {render(name) for name in _PLACEHOLDERS}
    parts = (part for text in texts if text not in placeholders for part in _END.split(text))
    sentences = {part.strip()[:_LONGEST] for part in parts}
    # Bytes, since a sentence of Chinese says as much in a third of the characters.
    distinctive = (part for part in sentences if len(part.encode(errors="replace")) >= _SHORTEST)
    return tuple(sorted(distinctive, key=lambda part: (-len(part), part))[:_SENTENCES])


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


def _message_texts(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the texts of messages; results of the memory's tools have none: they quote others."""
    for message in messages:
        data = message["data"]
        for call in calls(message):
            yield from _leaves(call.get("args"), _NAMES if call.get("name") in OWN_TOOLS else ())
        if message["type"] != "tool" or data.get("name") not in OWN_TOOLS:
            yield from _leaves(data.get("content"), _NAMES)
            yield from _leaves(data.get("artifact"))
            yield from _leaves(data.get("additional_kwargs"), _NAMES)


def _leaves(value: Any, skip: Iterable[str] = ()) -> Iterator[str]:
    """Yield every text in a value, at any depth, except under the keys `skip`."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key not in skip:
                yield from _leaves(item, skip)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item, skip)


def _without_texts(entry: Any, erased: Gone) -> Any:
    """Return what a tool result says of one effort, without the erased texts."""
    if not isinstance(entry, dict):
        return entry
    name = str(entry.get("effort_id") or entry.get("id") or "")
    after = dict(entry)
    for key in _REPEATED & entry.keys():
        value = entry[key]
        if not any((name, text) in erased for text in _leaves(value)):
            continue
        if isinstance(value, list):
            after[key] = [text for text in value if (name, text) not in erased]
        else:
            after[key] = "" if key == "goal" else render("erased_summary")
    return after
