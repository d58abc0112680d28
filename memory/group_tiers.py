"""The tiers of real messages: open efforts, recent conversation, the active effort."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from ..prompts.loader import text as prompt
from .anchor import shown
from .compression_quote import quote
from .desk import Desk
from .efforts import Effort
from .groups import Cut, Sized, cut_to, listed, most
from .messages import Message
from .numbers import ranges
from .preview import Limits, previewed
from .record import Group, Record
from .salience import Compression
from .shortening import within
from .tiers import Tier, TierName
from .tokens import count_message, count_messages
from .wellformed import note, wellformed
from .window import window
from .workspace import without

_CHUNK = 50
_SMALLEST_GROUP = 8
"""Tokens of the smallest turn: no more turns are looked at than could fit."""

_LISTED = 200

Laying: TypeAlias = Callable[[Cut], "list[Section]"]
"""Reads the sections of a tier as far as a cut shows them."""


@dataclass(frozen=True, slots=True)
class Section:
    """A run of turns under a line that introduces them, of which those before `begin` are not read.

    `turns` are the numbers of all its turns, `records` those that may be shown. `quoted` stands for
    older turns, `compressed`, None if there are none or if there is no room for it.
    """

    intro: Message
    name: str = ""
    records: tuple[Record, ...] = ()
    turns: tuple[int, ...] = ()
    begin: int = 0
    quoted: Message | None = None
    compressed: str = ""


def open_tier(desk: Desk, cut: Cut) -> Tier:
    """Return the open efforts that are not active, each with its goal before it."""
    efforts = desk.known(list(without(desk.space.open, desk.space.active or "")))

    def sections(cut: Cut) -> list[Section]:
        intros = (note(prompt("open_run", **purpose(effort))) for effort in efforts)
        pairs = zip(efforts, intros, strict=True)
        return [_of_effort(desk, effort, cut, intro) for effort, intro in pairs]

    return _tier("open", desk, sections, cut)


def ambient_tier(desk: Desk, cut: Cut) -> Tier:
    """Return the ambient turns of the window."""
    turns = ambient_turns(desk)

    def sections(cut: Cut) -> list[Section]:
        intro = note(prompt("ambient_run"))
        return [_section(desk, turns, cut, Section(intro))] if turns else []

    return _tier("ambient", desk, sections, cut)


def active_tier(desk: Desk, cut: Cut) -> Tier:
    """Return the active effort; its goal stands in the notes, since it may change."""
    efforts = desk.known([desk.space.active] if desk.space.active else [])

    def sections(cut: Cut) -> list[Section]:
        intros = (note(prompt("active_run", effort=effort.id)) for effort in efforts)
        found = (
            _of_effort(desk, effort, cut, intro)
            for effort, intro in zip(efforts, intros, strict=True)
        )
        return [one for one in found if one.turns or one.quoted]

    return _tier("active", desk, sections, cut)


def ambient_turns(desk: Desk) -> tuple[int, ...]:
    """Return the numbers of the ambient turns in the window, ascending."""
    settings = desk.settings
    last = window(desk.view.ambient_count(), settings.ambient_window, settings.window_step)
    return desk.view.ambient_turns(min(last, _most(desk))) if last else ()


def compression(desk: Desk, effort_id: str) -> Compression | None:
    """Return what stands for the older turns of an open effort, None if nothing does."""
    made = desk.space.compressed.get(effort_id)
    return None if made is None else desk.view.compression(effort_id, made)


def whole_tokens(desk: Desk, record: Record) -> int:
    """Return the size of a turn as it is sent when nothing is cut."""
    return _size(desk, record, Cut())


def purpose(effort: Effort) -> dict[str, str]:
    """Return the goal and the constraints of an effort, each in one line."""
    goal = one_line(effort.goal).rstrip(".") or "not stated"
    constraints = one_line("; ".join(effort.constraints)).rstrip(".") or "none"
    return {"effort": effort.id, "goal": goal, "constraints": constraints}


def one_line(written: str) -> str:
    """Return text without line breaks, so that it cannot make up a line of ours."""
    return " ".join(written.split())


def seen(desk: Desk, messages: Sequence[Message]) -> Sequence[Message]:
    """Return real messages without the state blocks of the model, which stand in the notes."""
    return messages if desk.settings.anchor == "off" else shown(messages)


def _most(desk: Desk) -> int:
    return max(1, desk.room // _SMALLEST_GROUP)


def _of_effort(desk: Desk, effort: Effort, cut: Cut, intro: Message) -> Section:
    turns, made = desk.view.log_turns(effort.id), compression(desk, effort.id)
    if made is None:
        return _section(desk, turns, cut, Section(intro, effort.id))
    first = turns[0] if turns else 1
    shown = quote(made, first, desk.count, cut.quoted)
    rest = [turn for turn in turns if turn > made.through]
    compressed = f"{effort.id}: {first}-{made.through}"
    empty = Section(intro, effort.id, quoted=shown, compressed=compressed)
    return _section(desk, rest, cut, empty)


def _section(desk: Desk, turns: Sequence[int], cut: Cut, empty: Section) -> Section:
    """Read the newest of these turns, as many as could fit into the context."""
    wanted = [turn for turn in turns if turn >= cut.first]
    unread = wanted[-_most(desk) :]
    found: list[Record] = []
    free = desk.room
    while unread and free >= 0:
        part = [r for r in desk.view.turns(unread[-_CHUNK:]) if _stands_in(r, empty.name, desk)]
        free -= sum(_size(desk, record, cut) for record in part)
        found = [*part, *found]
        unread = unread[:-_CHUNK]
    begin = found[0].turn if found and (unread or len(wanted) > _most(desk)) else 0
    return replace(empty, records=tuple(found), turns=tuple(turns), begin=begin)


def _stands_in(record: Record, effort_id: str, desk: Desk) -> bool:
    """Tell whether a turn is shown here: of several open efforts the first one has it."""
    if not effort_id:
        return True
    return next((name for name in record.efforts if name in desk.space.open), "") == effort_id


def _tier(name: TierName, desk: Desk, laid_out: Laying, cut: Cut) -> Tier:
    sections = laid_out(cut)
    messages = tuple(_messages(desk, sections, cut))
    return Tier(
        name,
        messages,
        count_messages(messages, desk.count),
        cut=listed(cut) if cut != Cut() else None,
        left_out=_left_out(sections, cut),
        turns=_turns(sections, cut),
        shrink=partial(_shrunk, name, desk, laid_out, cut),
    )


def _shrunk(name: TierName, desk: Desk, laid_out: Laying, cut: Cut, target: int) -> Tier:
    cut = _with_room(desk, laid_out, cut, target)
    sections = laid_out(cut)
    target -= _standing(desk, sections)
    intros = [0 if one.quoted else count_message(one.intro, desk.count) for one in sections]
    limit = most(target, intros)
    sized = [
        _sized(desk, record, at, cut, limit)
        for at, section in enumerate(sections)
        for record in section.records
    ]
    sized += [Sized(0, at, 0, 0, 0) for at, one in enumerate(sections) if not one.records]
    begin = max((section.begin for section in sections), default=0)
    from_here = replace(cut, first=max(cut.first, begin))
    return _tier(name, desk, laid_out, cut_to(target, sized, intros, from_here))


def _with_room(desk: Desk, laid_out: Laying, cut: Cut, target: int) -> Cut:
    """Return the cut with which compressions take half of a tier at most, or all are left out."""
    quoting = [one for one in laid_out(cut) if one.quoted]
    if _standing(desk, quoting) <= target // 2:
        return cut
    fewer = replace(cut, quoted=target // 2 // len(quoting))
    fits = _standing(desk, laid_out(fewer)) <= target
    return fewer if fits else replace(cut, quoted=0)


def _standing(desk: Desk, sections: Sequence[Section]) -> int:
    """Return the tokens of compressions with their introductions, which stay longest."""
    messages = ((one.intro, one.quoted) for one in sections if one.quoted)
    return sum(count_messages(filter(None, pair), desk.count) for pair in messages)


def _messages(desk: Desk, sections: Sequence[Section], cut: Cut) -> Iterator[Message]:
    for section in sections:
        records = [record for record in section.records if record.turn >= cut.first]
        if records or section.quoted or not cut.first:
            yield section.intro
        if section.quoted:
            yield section.quoted
        for record in records:
            yield from _at(desk, record, cut)


def _at(desk: Desk, record: Record, cut: Cut) -> tuple[Message, ...]:
    """Return a turn as it is sent: whole, with previews of long results, or shortened."""
    said = Group(record.turn, desk.view.messages(record), record.at)
    limit = cut.limit(record.turn)
    if limit is not None:
        return within(said, seen(desk, said.messages), limit, desk.count).messages
    results = desk.settings.preview_tokens if record.turn < cut.results else None
    return wellformed(previewed(said, seen(desk, said.messages), Limits(results), desk.count))


def _size(desk: Desk, record: Record, cut: Cut) -> int:
    return count_messages(_at(desk, record, cut), desk.count)


def _sized(desk: Desk, record: Record, section: int, cut: Cut, limit: int) -> Sized:
    """Return the sizes of a turn; what is shortened already has no previews but those."""
    now = results = short = _size(desk, record, cut)
    if now > limit:
        short = _size(desk, record, Cut(short=((record.turn, limit),)))
    elif cut.limit(record.turn) is None:
        results = _size(desk, record, replace(cut, results=record.turn + 1))
    return Sized(record.turn, section, now, results, short)


def _turns(sections: Sequence[Section], cut: Cut) -> tuple[int, ...]:
    """Return the turns that are shown, ascending."""
    shown = (record.turn for one in sections for record in one.records)
    return tuple(sorted(turn for turn in shown if turn >= cut.first))


def _left_out(sections: Sequence[Section], cut: Cut) -> dict[str, Any]:
    """Say which turns are missing, compressed, and shown with previews."""
    read = [record.turn for one in sections for record in one.records]
    shortened = {*dict(cut.short), *(turn for turn in read if turn < cut.results)}
    turns = ((turn, max(cut.first, one.begin)) for one in sections for turn in one.turns)
    missing = sorted({turn for turn, begin in turns if turn < begin})
    short = sorted({turn for turn in read if turn >= cut.first} & shortened)
    said = {"turns": missing, "previews": short}
    left_out = {key: ranges(turns)[:_LISTED] for key, turns in said.items() if turns}
    compressed = [one.compressed for one in sections if one.compressed]
    return {**left_out, "compressed": ", ".join(compressed)} if compressed else left_out
