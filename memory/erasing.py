"""Erasing a turn: what stays of its record, and what in other records was made from it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ..prompts.loader import text as prompt
from .anchor import Written, shown
from .efforts import Effort
from .messages import Message, digest
from .record import Event, Record
from .retelling import retold, without_summaries
from .wording import Sought, figures, held, leaves, said, sought, text_fields

TurnPlace: TypeAlias = tuple[str, int]
"""A branch and the number of a turn on it."""

Blanks: TypeAlias = Mapping[int, tuple[str, ...]]
"""What loses its text, by its place: fields of events, efforts of which messages tell."""

_SUMMARY = frozenset({"summary", "keywords"})
_FIELD = "anchor."
"""Begins, among the fields of an event, the name of a field of its anchor."""


@dataclass(frozen=True, slots=True)
class Erased:
    """What an archive erased, and what it found on the way.

    `places` are the records that became tombstones, `quoted` those of other turns that say some
    of the same and stay as they are. `stale` are the efforts whose summary was redacted, `named`
    those that the turn opened, whose names stay. `sought` is what was looked for, empty if the
    turn had been erased before; `gone` is the part of it that no other turn says; `summaries` are
    those that were redacted, `wrote` what the turn put into the anchor. `left` names files of the
    session that still hold what is `gone`.
    """

    turn: int
    digest: str
    places: tuple[TurnPlace, ...]
    quoted: tuple[TurnPlace, ...] = ()
    stale: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    sought: Sought = field(default=(), repr=False)
    gone: Sought = field(default=(), repr=False)
    summaries: Sought = field(default=(), repr=False)
    wrote: Written = field(default=frozenset(), repr=False)
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Redaction:
    """What erasing changes in one record: events lose text, a buried record all messages too.

    `blanks` name fields of events, `anchor.Goal` a field of the anchor that an event holds.
    `retold` are the messages, by their place, that lose copies of the summaries of some efforts;
    `content` is then the digest of what is left, while the record keeps its own.
    """

    branch: str
    turn: int
    digest: str
    blanks: Blanks
    buried: bool = False
    retold: Blanks = field(default_factory=dict)
    content: str = ""

    @property
    def place(self) -> TurnPlace:
        """Branch and turn of the record."""
        return self.branch, self.turn


@dataclass(frozen=True, slots=True)
class Target:
    """The turn that is to be erased, as all records of its session are compared with it.

    `before` tells how an effort stood right before the turn; `sees` whether a record comes after
    the turn, or a copy of it, in its own past; `wrote` are the fields of the anchor that no turn in
    its past had written before. `retelling` names efforts whose log retells a redacted summary,
    and from which turn on.
    """

    record: Record
    before: Callable[[str], Effort | None]
    sees: Callable[[Record], bool]
    sought: Sought
    wrote: Written = frozenset()
    retelling: Mapping[str, int] = field(default_factory=dict)

    def is_copy(self, record: Record) -> bool:
        """Tell whether a record is the turn itself, on this branch or on another."""
        mine = self.record
        return (record.turn, record.digest) == (mine.turn, mine.digest)

    def is_in(self, effort: str, upto: int) -> bool:
        """Tell whether an effort's log up to a turn holds the turn, or a summary made from it."""
        return effort in self.record.efforts or self.retelling.get(effort, upto + 1) <= upto


def wording(record: Record, wrote: Written) -> Sought:
    """Return the sentences of a turn, those that its events quote included.

    `wrote` is what it put into the anchor: a field that it only repeats is not its text.
    """
    events = (
        leaves(event[key]) for event in record.events for key in text_fields(event) - {"anchor"}
    )
    texts = (text for found in events for text in found)
    return sought([*said(shown(record.messages)), *texts, *(text for _, text in wrote)])


def changed(record: Record, found: Redaction) -> Record:
    """Return the record as it is after a redaction; again, it changes nothing more."""
    events = tuple(
        blanked(event, found.blanks.get(number, ())) for number, event in enumerate(record.events)
    )
    if found.buried:
        return replace(record, messages=(), events=events, status="erased")
    return replace(record, events=events, messages=_without_copies(record, found.retold))


def retelling(
    record: Record, found: Redaction | None, copies: Callable[[str, str], bool]
) -> Redaction | None:
    """Return the redaction with what tools retold in that record.

    `copies` tells of an effort and a summary whether it is a redacted one.
    """
    told = {
        number: tuple(sorted({effort for effort, text in retold(message) if copies(effort, text)}))
        for number, message in enumerate(record.messages)
    }
    told = {number: efforts for number, efforts in told.items() if efforts}
    if not told:
        return found
    bare = found or Redaction(record.branch, record.turn, record.digest, {})
    return replace(bare, retold=told, content=digest(_without_copies(record, told)))


def blanked(event: Event, fields: Iterable[str]) -> Event:
    """Return an event without the text of these fields; a summary says that it was redacted.

    >>> blanked({"type": "opened", "effort": "a", "goal": "g", "tokens": 3}, ["goal"])
    {'type': 'opened', 'effort': 'a', 'goal': '', 'tokens': 3}
    """
    listed = frozenset(fields)
    emptied = {**event, **{key: type(event[key])() for key in listed.intersection(event)}}
    if "anchor" in emptied:
        anchor = emptied["anchor"].items()
        emptied["anchor"] = {name: said for name, said in anchor if _FIELD + name not in listed}
    if "summary" in listed:
        return {**emptied, "summary": prompt("erased_summary"), "stale": True}
    return emptied


def redacted(event: Event, pieces: Sought, wrote: Written = frozenset()) -> Event:
    """Return an event without the texts that hold one of the pieces; names of efforts stay.

    >>> redacted({"type": "opened", "effort": "a-key", "goal": "find a-key"}, ["a-key"])
    {'type': 'opened', 'effort': 'a-key', 'goal': ''}
    """
    texts = text_fields(event)
    if "anchor" in texts:
        return blanked(event, _telling(event, pieces, wrote))
    found = {key for key in texts if held("\n".join(leaves(event[key])), pieces)}
    return blanked(event, found | (_SUMMARY & texts if "summary" in found else set()))


def untold(
    anchor: Mapping[str, str], pieces: Sought, wrote: Written = frozenset()
) -> dict[str, str]:
    """Return the fields of an anchor that do not tell of a turn, of which these are the pieces.

    A field tells if the turn wrote it, if it says a piece, if a piece says a sentence of it, or if
    both have the same number, version or address.

    >>> untold({"Goal": "tidy up", "Ports": "port 8080"}, ["It listens on 8080."])
    {'Goal': 'tidy up'}
    """
    told = figures(pieces)
    return {
        name: text
        for name, text in anchor.items()
        if (name, text) not in wrote
        and not held(text, pieces)
        and not told & figures([text])
        and not any(held(piece, sought([text])) for piece in pieces)
    }


def redaction(record: Record, target: Target) -> Redaction | None:
    """Return what erasing the target changes in a record, None if nothing."""
    buried = target.is_copy(record)
    fields = _own if buried else _derived
    listed = enumerate(fields(record, target))
    blanks = {number: tuple(sorted(names)) for number, names in listed if names}
    if not buried and not blanks:
        return None
    return Redaction(record.branch, record.turn, record.digest, blanks, buried)


def _without_copies(record: Record, told: Blanks) -> tuple[Message, ...]:
    return tuple(
        without_summaries(message, told[number]) if number in told else message
        for number, message in enumerate(record.messages)
    )


def _own(record: Record, target: Target) -> Iterator[frozenset[str]]:
    """Yield for each event of the erased turn its texts, those left out that are older."""
    for event in record.events:
        if "anchor" in event:
            yield _telling(event, target.sought, target.wrote)
            continue
        effort = target.before(event.get("effort", ""))
        older = frozenset() if effort is None else _unchanged(event, effort)
        made_here = _SUMMARY if event["type"] == "concluded" else frozenset()
        yield text_fields(event) - (older - made_here)


def _derived(record: Record, target: Target) -> Iterator[frozenset[str]]:
    """Yield for each event of another turn the texts that were made from the erased one."""
    if not any(map(text_fields, record.events)):
        return
    given = _given(target.record) if target.sees(record) else None
    own = held("\n".join(leaves([one["data"] for one in record.messages])), target.sought)
    for event in record.events:
        if "anchor" in event and given is not None:
            yield _telling(event, target.sought, target.wrote)
            continue
        if "anchor" in event:
            yield _quoting(event, target.sought, own)
            continue
        found = {key for key in text_fields(event) if _quotes(event, key, target.sought, own)}
        if given is not None:
            found |= _repeated(event, given)
        if given is not None and target.is_in(event.get("effort", ""), record.turn):
            found |= {"summary"} & text_fields(event)
        yield frozenset(found | (_SUMMARY & text_fields(event) if "summary" in found else set()))


def _telling(event: Event, pieces: Sought, wrote: Written) -> frozenset[str]:
    """Return the fields of an event's anchor that tell of a turn."""
    kept = untold(event["anchor"], pieces, wrote)
    return frozenset(_FIELD + name for name in event["anchor"] if name not in kept)


def _quoting(event: Event, pieces: Sought, own: frozenset[str]) -> frozenset[str]:
    """Return the fields of an anchor with text of a turn that was not seen, nor said by its own."""
    anchor = event["anchor"].items()
    return frozenset(_FIELD + name for name, text in anchor if held(text, pieces) - own)


def _repeated(event: Event, given: Collection[tuple[str, ...]]) -> set[str]:
    """Return the fields of an event that say what the erased turn said of the same effort."""
    name = event.get("effort", "")
    return {key for key in text_fields(event) if (name, key, *leaves(event[key])) in given}


def _quotes(event: Event, key: str, pieces: Sought, own: frozenset[str]) -> bool:
    """Tell whether a field has text of the erased turn that the record's own turn does not say.

    A summary always counts: the call that made it has it as its result.
    """
    found = held("\n".join(leaves(event[key])), pieces)
    return bool(found if key == "summary" else found - own)


def _unchanged(event: Event, effort: Effort) -> frozenset[str]:
    """Return the fields that an event only repeats of its effort."""
    return frozenset(
        key
        for key in text_fields(event)
        if [*leaves(event[key])] == [*leaves(getattr(effort, key, None))]
    )


def _given(record: Record) -> frozenset[tuple[str, ...]]:
    """Return what the events of a turn say of each effort, as later events may repeat it."""
    return frozenset(
        (event["effort"], key, *leaves(event[key]))
        for event in record.events
        if "effort" in event
        for key in text_fields(event)
    )
