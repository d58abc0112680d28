"""What stands in front of the turns, and between them: summaries, quotes, the state block."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from ...prompts.loader import render
from ..anchor import limited, rendered
from ..clock import day_of
from ..efforts import one_line
from ..messages import Message, fenced
from ..names import is_qualified, span, turns_named
from ..running_turn import RunningTurn
from ..salience import Compression, Item, Kind, capped
from ..tokens import TokenCounter, count_message, count_messages, cut_at_sentence, cut_marked
from ..valid_history import note
from .budget import SHARES
from .timeline import Part, Timeline
from .turns import as_of, part

_PARTS = (1.0, 0.85, 0.7, 0.5, 0.25, 0.0)
"""What of the room the items may have, tried in this order."""

_CONTINUED = "\n| "
"""What the further lines of a quote begin with."""

_BEFORE = 12
"""Tokens before a quote, its kind and its turn, and of the line break."""

_SMALLEST = 24
"""Tokens of the shortest background that says something."""


def quote(
    compression: Compression, first: int, count: TokenCounter, limit: int | None = None
) -> Message | None:
    """Return what stands for the turns from `first` on, in `limit` tokens; None if nothing fits.

    The oldest items leave first, constraints last, then the background is cut.
    """
    whole = _note(compression, first, compression.current, compression.background)
    if limit is None or count_message(whole, count) <= limit:
        return whole
    room = limit - count_message(_note(compression, first, (), ""), count)
    for share in _PARTS:
        items = capped(compression.current, int(room * share), partial(line_tokens, count))
        free = room - sum(line_tokens(count, item.quote) for item in items)
        background = compression.background
        if count(background) > free:
            background = cut_at_sentence(background, free, count) if free >= _SMALLEST else ""
        for text in (background, ""):
            shown = _note(compression, first, items, text)
            if (items or text) and count_message(shown, count) <= limit:
                return shown
    return None


def line_tokens(count: TokenCounter, quote: str) -> int:
    """Return what a quote takes in the context, with the words before it, at most."""
    return count(in_lines(quote)) + _BEFORE


def in_lines(quote: str) -> str:
    r"""Return a quote with its white space; its further lines are marked, so none can be another.

    >>> in_lines("a  b\nc")
    'a  b\n| c'
    """
    return _CONTINUED.join(quote.splitlines())


def _note(compression: Compression, first: int, items: Sequence[Item], background: str) -> Message:
    """Return items by what they are, each kind in the order of its turns, then the background.

    That is in one line too, for a model that wrote it may have been misled.
    """
    kinds = [*Kind]
    ordered = sorted(items, key=lambda item: (kinds.index(item.kind), item.turn))
    lines = [*map(_item_line, ordered)]
    lines += [f"background: {one_line(background)}"] if background else []
    turns, left_out = span(first, compression.through), len(compression.current) - len(items)
    fence = fenced("compressed", "\n".join(lines), effort=compression.effort, turns=turns)
    shown = [render("compressed", effort=compression.effort, turns=turns_named(turns), quote=fence)]
    shown += [render("quotes_left_out", quotes=left_out)] if left_out else []
    return note("\n".join(shown))


def _item_line(item: Item) -> str:
    """Write an item with what it is, its turn, and who said it."""
    recorded = item.speaker == "record"
    speaker = ", in the assistant's words" if recorded else f", {item.speaker}"
    speaker = speaker if item.speaker not in {"user", ""} else ""
    kind = "goal at the time" if item.kind is Kind.GOAL else str(item.kind)
    kind = "why the goal changed" if recorded and item.kind is Kind.DECISION else kind
    return f"{kind}, turn {item.turn}{speaker}: {in_lines(item.quote)}"


def front(work: RunningTurn, line: Timeline) -> Iterator[Part]:
    """Yield the concluded efforts, a line each, then the quotes of compressed turns."""
    lines = _lines(work, line.built, line.summaries, line.room(work.room))
    if memory := _memory(lines, line.older):
        yield part(work, "memory", memory)
    if quotes := _quotes(work, line):
        yield part(work, "quotes", quotes)


def anchor_part(work: RunningTurn, line: Timeline) -> Iterator[Part]:
    """Yield the state block as it was when the context was rebuilt; nothing if there was none."""
    anchor = work.state.anchor if line.anchor is None else line.anchor
    if not anchor or work.settings.anchor == "off":
        return

    def quoted(block: Mapping[str, str]) -> Message:
        cut = block != anchor or any(text.endswith("…") for text in block.values())
        how = ", cut to fit" if cut else ""
        return note(render("anchor_note", how=how, quote=fenced("state", rendered(block))))

    limit = int(SHARES["anchor"] * line.room(work.room)) - count_message(quoted({}), work.count)
    yield part(work, "anchor", [quoted(limited(anchor, max(1, limit), work.count))])


def summaries_within(work: RunningTurn, built: int, older: int) -> tuple[str, ...]:
    """Return which concluded efforts get a line, in order; those referenced last if not all fit.

    What was surfaced from earlier sessions stands first: it is there from the first turn on and
    only becomes less, while this session's own efforts are added at the end.
    """
    lines = _lines(work, built, [*work.state.summaries], work.room)
    newest = sorted(lines, key=lambda name: -work.state.summaries[name])

    def first(number: int) -> dict[str, str]:
        fitting = {*newest[:number]}
        return {name: line for name, line in lines.items() if name in fitting}

    def size(number: int) -> int:
        return count_messages(_memory(first(number), older), work.count)

    limit = int(SHARES["memory"] * work.room)
    number = bisect_right(range(1, len(newest) + 1), limit, key=size)
    return (*first(number),)


def _memory(lines: Mapping[str, str], older: int) -> list[Message]:
    """Return the lines of concluded efforts, and how many more there are."""
    earlier = [line for name, line in lines.items() if is_qualified(name)]
    own = [line for name, line in lines.items() if not is_qualified(name)]
    texts = [
        render(name, quote=fenced("summaries", "\n".join(listed)))
        for name, listed in (("earlier_sessions", earlier), ("memory", own))
        if listed
    ]
    if older:
        texts[-1:] = ["\n".join([*texts[-1:], render("other_efforts", efforts=older)])]
    return [*map(note, texts)]


def _lines(work: RunningTurn, built: int, names: Sequence[str], room: int) -> dict[str, str]:
    """Return the line of each concluded effort as it was, those of other sessions first.

    A long one is cut, so that the newest is never left out. One of another session has the day of
    its end.
    """
    frames = (count_messages(_memory({name: ""}, 9_999), work.count) for name in ("a", "s/a"))
    limit = max(1, int(SHARES["memory"] * room) - max(frames))
    named = as_of(work.view, built).efforts_named(names, ())
    efforts = [effort for effort in named if effort.status == "concluded"]
    lines = {}
    for effort in sorted(efforts, key=lambda e: 0 if is_qualified(e.id) else e.turn):
        elsewhere = is_qualified(effort.id)
        records = work.view.turns_of(effort.id, [effort.turn]) if elsewhere else ()
        day = f" ({day_of(records[0].at)})" if records else ""
        line = f"- {effort.id}{day}: {one_line(effort.summary)}"
        lines[effort.id] = cut_marked(line, limit, work.count)
    return lines


def _quotes(work: RunningTurn, line: Timeline) -> list[Message]:
    """Return the quotes of each compressed effort; where they do not all fit, the newest's first.

    That is the effort which was active last.
    """
    limit = int(SHARES["quotes"] * line.room(work.room))
    shown: dict[str, Message] = {}
    for name in [name for name in reversed(line.open) if name in line.quotes]:
        compression = work.view.compression(name, line.quotes[name])
        first = next(iter(work.view.log_turns(name)), 1)
        message = compression and quote(compression, first, work.count, limit)
        if message:
            shown[name] = message
            limit -= count_message(message, work.count)
    return [shown[name] for name in line.quotes if name in shown]
