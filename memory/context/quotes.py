"""Quotes in the context: what stands for compressed turns, and logs that are brought back."""

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from langchain_core.messages import BaseMessage

from ...prompts.loader import render
from ..compressions import Compression, Item, Kind, capped
from ..efforts import one_line
from ..fences import Fences
from ..names import parted, ranges, span, turns_named
from ..search.passages import first_piece
from ..tokens import TokenCounter, count_messages, cut_marked, fit
from ..transcript import INDENT, log_text, offset_at, offsets, rendered, speaker_at, transcript
from ..turn import StoredTurn

_ITEM_SHARES = (1.0, 0.85, 0.7, 0.5, 0.25, 0.0)
"""Shares of the room that the items may have, tried in this order; the background has the rest."""

_BACKGROUND_SHARE = 0.25  # share of the room that a background has in any case, if it is that long

_BEFORE_QUOTE = 12  # tokens of what stands before a quote, its kind and turn, and of the line break
_TURNS_NAMED = 60  # characters of a list of turns; a longer one becomes one range
_LEAST_BACKGROUND = 24  # tokens of the shortest background that says something


class Quotes(NamedTuple):
    """What stands for compressed turns: a note, if there is room, and what that leaves out.

    `left_out` quotes are out of view. A `bare` note shows no quote, and no background.
    """

    notes: tuple[BaseMessage, ...]
    left_out: int
    bare: bool


def quote(
    compression: Compression,
    first: int,
    fences: Fences,
    limit: int | None = None,
    goal: str = "",
) -> Quotes:
    """Return the note that stands for the compressed turns from `first` on.

    Within `limit` tokens the oldest items that are not about the goal leave first, constraints
    last, and the background is cut. Where nothing fits, the note is bare, however long that is.
    """
    count = fences.count
    everything = _quotes(compression, first, fences, compression.current, compression.background)
    if limit is None or count_messages(everything.notes, count) <= limit:
        return everything
    least = _quotes(compression, first, fences, (), "")
    room = limit - count_messages(least.notes, count)
    share_of_background = int(_BACKGROUND_SHARE * room)
    reserved = min(count(compression.background), share_of_background)
    reserved = reserved if share_of_background >= _LEAST_BACKGROUND else 0
    for share in _ITEM_SHARES if room > 0 else ():
        most = int((room - reserved) * share)
        items = capped(compression.current, most, partial(line_tokens, count), goal)
        free = room - sum(line_tokens(count, item.quote) for item in items)
        background = compression.background
        if count(background) > free:
            enough = free >= _LEAST_BACKGROUND
            background = cut_marked(background, free, count) if enough else ""
        for text in (background, ""):
            fitting = _quotes(compression, first, fences, items, text)
            if count_messages(fitting.notes, count) <= limit:
                return fitting
    return least


def line_tokens(count: TokenCounter, quote: str) -> int:
    """Return the tokens that a quote takes in the context at most, with the words before it."""
    return count(marked_lines(quote)) + _BEFORE_QUOTE


def marked_lines(quote: str) -> str:
    r"""Return a quote whose further lines are marked, so that none can pass for a line of ours.

    >>> marked_lines("a  b\nc")
    'a  b\n| c'
    """
    return "\n| ".join(quote.splitlines())


def _quotes(
    compression: Compression, first: int, fences: Fences, items: Sequence[Item], background: str
) -> Quotes:
    """Return items by kind, each kind in the order of its turns, then the background.

    The background is one line, as injected text could make a model write lines that look like ours.
    The last line says how many quotes are not among the items, and how to read them.
    """
    kinds, lines = [*Kind], []
    for item in sorted(items, key=lambda item: (kinds.index(item.kind), item.turn)):
        kind = render("quoted_goal") if item.kind is Kind.GOAL else str(item.kind)
        speaker = "" if item.speaker in {"user", ""} else f", {item.speaker}"
        if item.speaker == "record":
            kind = render("quoted_rationale") if item.kind is Kind.DECISION else kind
            speaker = ", " + render("in_the_models_words")
        lines.append(f"{kind}, turn {item.turn}{speaker}: {marked_lines(item.quote)}")
    lines += [f"background: {one_line(background)}"] if background else []
    cut = [item.turn for item in compression.current if item not in items]
    if left := sorted([*compression.left_out, *cut]):
        named = ranges([*dict.fromkeys(left)])
        named = named if len(named) <= _TURNS_NAMED else span(left[0], left[-1])
        lines.append(render("quotes_left_out", quotes=len(left), turns=named))
    place = {"effort": compression.effort, "turns": turns_named(span(first, compression.through))}
    note = fences.note(render("compressed", **place, quote="\n".join(lines)))
    return Quotes((note,), len(left), bare=not (items or background))


@dataclass(frozen=True, slots=True)
class Quoted:
    """The turns of a log that are quoted, without what stands in the context already.

    That is `above`: by turn the `id`s of its messages. `whole` are the same turns with what they
    have of other efforts, if they have any. A single turn that is too long is quoted from `begin`
    on, a place in the whole turn.
    """

    turns: tuple[StoredTurn, ...]
    above: Mapping[int, Collection[int]] = field(default_factory=dict)
    whole: tuple[StoredTurn, ...] = ()
    begin: int = 0

    @property
    def shown(self) -> list[StoredTurn]:
        """The turns as the quote has them."""
        shown = []
        for turn in self.turns:
            above = self.above.get(turn.number, ())
            said = (one for one in turn.messages if id(one) not in above)
            messages = tuple(one for one in said if one.type != "system")
            shown += [replace(turn, messages=messages)] if messages or not above else []
        return shown

    @property
    def missing(self) -> str:
        """What the heading of the quote says of what stands above, "" if nothing does."""
        turns = ranges([turn.number for turn in self.turns if self.above.get(turn.number)])
        return render("stands_above", turns=turns_named(turns)) if turns else ""

    def _full(self, turn: StoredTurn) -> StoredTurn:
        return next(one for one in (self.whole or self.turns) if one.number == turn.number)

    def own_place(self, turn: StoredTurn) -> int:
        """Return where in what is quoted of a turn it begins."""
        full, said = self._full(turn), [*map(id, turn.messages)]
        own, places = offsets(turn.messages), offsets(full.messages)
        for number, message in enumerate(full.messages):
            if places[number].end > self.begin and id(message) in said:
                here, start = said.index(id(message)), places[number - 1].end if number else 0
                return (own[here - 1].end if here else 0) + max(0, self.begin - start)
        return 0

    def place(self, turn: StoredTurn, at: int) -> int:
        """Return where a place of what is quoted of a turn stands in the turn, in characters."""
        full = self._full(turn)
        said = [*map(id, full.messages)]
        own, places = offsets(turn.messages), offsets(full.messages)
        number = next((n for n, one in enumerate(own) if at < one.end), len(own) - 1)
        begin, there = own[number - 1].end if number else 0, said.index(id(turn.messages[number]))
        return (places[there - 1].end if there else 0) + at - begin


def log_quote(
    effort_id: str, status: str, quoted: Quoted, limit: int, fences: Fences
) -> BaseMessage:
    """Return a note with turns of an effort; of one over `limit` tokens it has as many."""
    turns, count = quoted.shown, fences.count
    log = transcript(turns)
    if len(turns) == 1 and count(log) > limit:
        log = _part_of(turns[0], quoted, parted(effort_id)[0], limit, count)
    named = turns_named(ranges([turn.number for turn in quoted.turns]))
    about = {"effort": effort_id, "status": status, "turns": named, "above": quoted.missing}
    return fences.note(render("expanded", **about, quote=log))


def _part_of(
    turn: StoredTurn, quoted: Quoted, session: str, limit: int, count: TokenCounter
) -> str:
    """Return a turn from where it is quoted on, and how to read the rest."""
    begin = quoted.own_place(turn) if quoted.begin else 0
    text = rendered(turn.messages, begin)
    cut = fit(text, limit, count)
    words = text[:cut]
    if begin:
        ends = [0, *(place.end for place in offsets(turn.messages))]
        speaker = "" if begin in ends else speaker_at(turn.messages, begin)
        going_on = [render("continued", speaker=speaker)] if speaker else []
        place = render("part_begins", offset=quoted.place(turn, begin))
        words = "\n".join([place, *going_on, f"{INDENT * bool(speaker)}{words}"])
    if cut >= len(text):
        return f"[turn {turn.number}]\n{words}"
    end = quoted.place(turn, offset_at(turn.messages, cut, begin))
    head = {"turn": turn.number, "head": words, "offset": end, "tokens": count(text[cut:])}
    if session:
        return render("head_of_earlier_turn", session=session, **head)
    return render("head_of_turn", **head)


def place_of_match(quoted: Quoted, query: str, limit: int, count: TokenCounter) -> int:
    """Return from where in its turn to quote what matches, 0 for the beginning, as of a short turn.

    It is the round of the match, or its message, if the match is then well within what is quoted.
    """
    if len(quoted.turns) != 1 or count(transcript(quoted.turns)) <= limit:
        return 0
    (turn,) = quoted.turns
    log, ends = log_text(turn.messages), [place.end for place in offsets(turn.messages)]
    piece = first_piece(log, query)
    if piece is None:
        return 0
    begin, end = piece
    at = bisect_right(ends, begin)
    rounds = (n for n in range(at, -1, -1) if turn.messages[n].type == "ai")
    starts = [ends[n - 1] if n else 0 for n in (next(rounds, 0), at)]
    near = (start for start in starts if count(log[start:end]) <= limit // 2)
    return quoted.place(turn, next(near, begin))
