"""What is shown within a limit: a turn, quotes in place of compressed turns, a log brought back."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeAlias, TypeVar

from ...prompts.loader import render
from ..efforts import one_line
from ..messages import Message, arguments, calls, fenced, reworded
from ..messages import answered as has_answer
from ..messages import text as text_of
from ..names import parted, ranges, span, turns_named
from ..passages import word_begin, word_end
from ..salience import Compression, Item, Kind, capped
from ..tokens import TokenCounter, count_message, count_messages, cut_at_sentence, fit, fit_end
from ..transcript import (
    DECIDING,
    Logged,
    Offsets,
    in_lines,
    offsets,
    recalled,
    rendered,
    result_of,
    shortened,
    spoken,
    transcript,
)
from ..valid_history import note, quote_within, valid_history
from .budget import LEAST_PREVIEW, ladder

_HEAD_SHARE = 0.7
"""What the head of a preview has: most texts say first what they are about."""

_LEAVING = frozenset({"concluded", "paused"})
"""What a tool says that leaves no effort active."""

_NAMING = 4
"""A fourth of a shortened turn may be the note on which effort it left active."""

_SAVED = 30
"""Tokens that a preview saves at least: its pointer has 25, and a cut tears a sentence."""

_DECIDED = 400
"""Tokens that what a tool says of goal, constraints and summary of an effort may have anywhere."""

_NAMED = 80
"""Characters of the list of tools whose rounds are left out."""

_ITEM_SHARES = (1.0, 0.85, 0.7, 0.5, 0.25, 0.0)
"""What of the room the items may have, tried in this order."""

_BEFORE_QUOTE = 12
"""Tokens before a quote, its kind and its turn, and of the line break."""

_LEAST_BACKGROUND = 24
"""Tokens of the shortest background that says something."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The longest contents that are shown whole, in tokens; None for any length.

    `results` of tools, `texts` of the user and the assistant, images among them, and `arguments`
    of calls. Without `recalled` text that was recalled from the log is no such result.
    """

    results: int | None = None
    texts: int | None = None
    arguments: int | None = None
    recalled: bool = True


def preview(content: str, limit: int, turn: int, offset: int, count: TokenCounter) -> str:
    """Return head, pointer and tail of a text over `limit` tokens, else the text.

    Head and tail have `limit` tokens together; `offset` is where the text begins in its rendered
    turn.

    >>> print(preview("a b c d e f", 4, 7, 100, lambda text: len(text.split())))
    a b
    [… 2 tokens left out; read_log(turns="7", offset=103) reads on …]
    e f
    """
    whole = count(content)
    if whole <= limit:
        return content
    first = max(1, int(limit * _HEAD_SHARE))
    end = word_end(content, fit(content, first, count))
    begin = max(end, fit_end(content, limit - first, count)) if limit > first else len(content)
    begin = word_begin(content, begin)
    left_out = max(1, whole - count(content[:end]) - count(content[begin:]))
    pointer = render("left_out", tokens=left_out, turn=turn, offset=offset + end)
    return f"{content[:end]}\n{pointer}\n{content[begin:]}".rstrip("\n")


T = TypeVar("T")

_Preview: TypeAlias = Callable[[str, int, int], str]
"""Returns the preview of a content, given its limit and its offset, if that saves enough."""

_Step: TypeAlias = tuple[Limits, Limits]
"""How long contents may be before the newest round, and from there on."""


def previewed(
    turn: Logged, seen: Sequence[Message], limits: Limits, count: TokenCounter
) -> tuple[Message, ...]:
    """Return a turn's messages, as they are `seen`, with previews of all contents over the limits.

    Pointers count in what was said.
    """
    if limits == Limits():
        return tuple(seen)

    def short(content: str, limit: int, offset: int) -> str:
        cut = preview(content, limit, turn.turn, offset, count)
        return cut if count(cut) + _SAVED <= count(content) else content

    shown = []
    for message, place in zip(seen, offsets(turn.messages), strict=True):
        limit = limits.results if message["type"] == "tool" else limits.texts
        if limit is None or not recalled(message):
            shown.append(_with_previews(message, limit, limits.arguments, place, short))
        else:
            shown.append(shortened(message, limit, count) if limits.recalled else message)
    return tuple(shown)


def _with_previews(
    message: Message, limit: int | None, arguments: int | None, place: Offsets, short: _Preview
) -> Message:
    """Return a message with previews of its text and of the arguments of its calls."""
    data = dict(message["data"])
    if limit is not None:
        content, least = spoken(message), _DECIDED if data.get("name") in DECIDING else 0
        cut = short(content, max(limit, least), place.text)
        blocks = data["content"] if isinstance(data.get("content"), list) else []
        images = any(not isinstance(b, str) and b.get("type") != "text" for b in blocks)
        if cut != content or (images and message["type"] != "ai"):
            data["content"] = reworded(data["content"], cut) if message["type"] == "ai" else cut
    if arguments is not None:
        shorter = _short_calls(data, arguments, place.calls, short)
        if any(shorter[key] != data[key] for key in shorter):
            # What adapters keep of calls beside them would be sent in their place.
            content = reworded(data.get("content") or "", text_of({"data": data}))
            data |= {**shorter, "content": content, "additional_kwargs": {}, "id": None}
    return {**message, "data": data}


def _short_calls(
    data: Mapping[str, Any], limit: int, places: Sequence[int], short: _Preview
) -> dict[str, list[Any]]:
    """Return the calls of a message; long arguments are one text, so that they stay valid JSON."""
    offset = iter(places)
    calls: dict[str, list[Any]] = {}
    for key in ("tool_calls", "invalid_tool_calls"):
        for call in data.get(key) or ():
            whole = arguments(call)
            cut = short(whole, limit, next(offset))
            args = cut if isinstance(call.get("args"), str) else {"(shortened)": cut}
            calls.setdefault(key, []).append(call if cut == whole else {**call, "args": args})
    return calls


def shorten_turn(
    turn: Logged, messages: Sequence[Message], limit: int, count: TokenCounter, *, naming: bool
) -> tuple[Message, ...]:
    """Return a turn, as its `messages` show it, within `limit` tokens, no shorter than needed.

    With `naming` a note says which effort it left active if that is left out: nothing else in view
    would say which goal and which constraints hold.
    """
    short = _within(turn, messages, limit, count)
    active = _active_after(turn.messages) if naming else None
    if active is None or [*_decisions(short)] == [*_decisions(messages)]:
        return short
    name, *aims = active or [""]

    def quoted(lines: str) -> Message:
        return note(render("active_then", quote=fenced("effort", lines, id=name)))

    active_then = note(render("none_active_then"))
    if name:
        active_then = quote_within(quoted, "\n".join(aims), limit // _NAMING, count)
    less = _within(turn, messages, max(1, limit - count_message(active_then, count)), count)
    both = (*less, active_then)
    return both if count_messages(both, count) <= limit else short


def _within(
    turn: Logged, messages: Sequence[Message], limit: int, count: TokenCounter
) -> tuple[Message, ...]:
    """Return the messages within `limit` tokens, shortened in this order.

    Recalled texts to one line each, but for the best; previews of other results, of all results, of
    texts and images, of arguments; the oldest rounds of tools as one note; head and tail of the log
    as a quote, beside what the user said last.
    """
    whole = valid_history(messages)
    if count_messages(whole, count) <= limit:
        return whole
    quotes = sum(len(recalled(message)) for message in messages)
    seen = in_lines(messages, max(0, quotes - 1), count)  # the best stays
    answers = [at for at, message in enumerate(seen) if message["type"] == "ai"]
    rounds = [at for at in answers if calls(seen[at])]
    short = cache(lambda limits: previewed(turn, seen, limits, count))  # many steps share limits

    def with_lines(number: int) -> tuple[Message, ...]:
        return valid_history(in_lines(messages, number, count))

    def with_previews(step: _Step) -> tuple[Message, ...]:
        older, newest = step
        last = rounds[-1] if rounds else 0
        return valid_history((*short(older)[:last], *short(newest)[last:]))

    def folded(gone: int) -> tuple[Message, ...]:
        end = next((at for at in answers if at > rounds[gone - 1]), len(seen))
        shortest = short(Limits(LEAST_PREVIEW, LEAST_PREVIEW, LEAST_PREVIEW))
        left_out = _rounds_left_out(turn, rounds[0], seen[rounds[0] : end])
        return (*valid_history(shortest[: rounds[0]]), left_out, *valid_history(shortest[end:]))

    first = partial(_first_within, limit, count)
    return (
        first(range(1, quotes), with_lines)
        or first([*_of_results(limit, recalled=False)] if quotes else [], with_previews)
        or first([*_limits(limit)], with_previews)
        or first(range(1, len(rounds) + 1), folded)
        or _quoted_log(turn, messages, limit, count)
    )


def _rounds_left_out(turn: Logged, begin: int, left_out: Sequence[Message]) -> Message:
    """Return the note that stands for rounds of tools, of which `begin` is the first message."""
    named = [str(call["name"]) for message in left_out for call in calls(message)]
    listed = ", ".join(dict.fromkeys(named))
    names = listed if len(listed) <= _NAMED else f"{listed[:_NAMED]}…"
    number = f"{len(named)} tool call{'' if len(named) == 1 else 's'}"
    offset = offsets(turn.messages)[begin].text
    text = render("rounds_left_out", calls=number, names=names, turn=turn.turn, offset=offset)
    return note(text)


def _first_within(
    limit: int, count: TokenCounter, steps: Sequence[T], show: Callable[[T], tuple[Message, ...]]
) -> tuple[Message, ...]:
    """Return what is shown by the first of shorter and shorter steps that fits, else nothing."""

    def fits(step: T) -> bool:
        return count_messages(show(step), count) <= limit

    if not steps or not fits(steps[-1]):
        return ()
    return show(steps[bisect_left(steps[:-1], 1, key=fits)])


def _active_after(messages: Sequence[Message]) -> list[str] | None:
    """Return the effort that these messages left active, with constraints and goal.

    Empty if they left none active, None if they changed nothing.
    """
    active: list[str] | None = None
    asked: dict[str, Any] = {}
    for message in messages:
        asked |= {str(call.get("id")): call.get("args") for call in calls(message)}
        result = result_of(message) if _is_decision(message) else {}
        name = result.get("effort_id")
        if not isinstance(name, str):
            continue
        if str(result.get("status")) in _LEAVING:
            other = active[0] != name if active else "active" in result
            active = active if other else []
        else:
            args = asked.get(str(message["data"].get("tool_call_id")))
            aims = result if "goal" in result else args
            active = [name, *_aims(aims if isinstance(aims, dict) else {})]
    return active


def _aims(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield constraints and goal as a call or its result has them, a line each."""
    listed = given.get("constraints") or ()
    constraints = [listed] if isinstance(listed, str) else listed
    for constraint in constraints if isinstance(constraints, list | tuple) else ():
        yield f"constraint: {one_line(str(constraint))}"
    yield f"goal: {one_line(str(given.get('goal') or 'not stated'))}"


def _decisions(messages: Sequence[Message]) -> Iterator[Any]:
    """Yield what decides which effort is active: calls as they are shown, and their results."""
    for message in messages:
        deciding = (call for call in calls(message) if call.get("name") in DECIDING)
        yield from ((call["name"], call.get("args")) for call in deciding)
        if _is_decision(message):
            yield "done"


def _is_decision(message: Message) -> bool:
    return message["type"] == "tool" and message["data"].get("name") in DECIDING


def _limits(limit: int) -> Iterator[_Step]:
    """Yield shorter and shorter limits, for what the model called last in the end."""
    yield from _of_results(limit, recalled=True)
    for texts in ladder(limit):
        yield (both := Limits(LEAST_PREVIEW, texts)), both
    for args in ladder(limit):
        yield (both := Limits(LEAST_PREVIEW, LEAST_PREVIEW, args)), both


def _of_results(limit: int, *, recalled: bool) -> Iterator[_Step]:
    for results in ladder(limit):
        yield Limits(results, recalled=recalled), Limits()
    older = Limits(LEAST_PREVIEW, recalled=recalled)
    for results in ladder(limit):
        yield older, Limits(results, recalled=recalled)


def _quoted_log(
    turn: Logged, messages: Sequence[Message], limit: int, count: TokenCounter
) -> tuple[Message, ...]:
    """Return head and tail of the log as a quote, and what the user said last.

    Where there is no room for the quote, or for both, a note says that the turn is left out: after
    the question if it was answered, before one that is still to be.
    """
    log = rendered(turn.messages)
    short = previewed(turn, messages, Limits(LEAST_PREVIEW, LEAST_PREVIEW, LEAST_PREVIEW), count)
    asked = [message for message in short if message["type"] == "human"][-1:]
    for tokens in ladder(limit):
        quote = fenced("log", preview(log, tokens, turn.turn, 0, count))
        shown = valid_history([note(render("turn_left_out", quote=quote)), *asked])
        if count_messages(shown, count) <= limit:
            return shown
    gone = note(render("whole_turn_left_out", turn=turn.turn, tokens=count(log)))
    shown = valid_history([*asked, gone] if has_answer(messages) else [gone, *asked])
    return shown if count_messages(shown, count) <= limit else (gone,)


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
    for share in _ITEM_SHARES:
        items = capped(compression.current, int(room * share), partial(line_tokens, count))
        free = room - sum(line_tokens(count, item.quote) for item in items)
        background = compression.background
        if count(background) > free:
            background = (
                cut_at_sentence(background, free, count) if free >= _LEAST_BACKGROUND else ""
            )
        for text in (background, ""):
            shown = _note(compression, first, items, text)
            if (items or text) and count_message(shown, count) <= limit:
                return shown
    return None


def line_tokens(count: TokenCounter, quote: str) -> int:
    """Return what a quote takes in the context, with the words before it, at most."""
    return count(marked_lines(quote)) + _BEFORE_QUOTE


def marked_lines(quote: str) -> str:
    r"""Return a quote with its white space; its further lines are marked, so none can be another.

    >>> marked_lines("a  b\nc")
    'a  b\n| c'
    """
    return "\n| ".join(quote.splitlines())


def _note(compression: Compression, first: int, items: Sequence[Item], background: str) -> Message:
    """Return items by what they are, each kind in the order of its turns, then the background.

    That is in one line too, for a model that wrote it may have been misled.
    """
    kinds, lines = [*Kind], []
    for item in sorted(items, key=lambda item: (kinds.index(item.kind), item.turn)):
        kind = "goal at the time" if item.kind is Kind.GOAL else str(item.kind)
        speaker = "" if item.speaker in {"user", ""} else f", {item.speaker}"
        if item.speaker == "record":
            kind = "why the goal changed" if item.kind is Kind.DECISION else kind
            speaker = ", in the assistant's words"
        lines.append(f"{kind}, turn {item.turn}{speaker}: {marked_lines(item.quote)}")
    lines += [f"background: {one_line(background)}"] if background else []
    turns, left_out = span(first, compression.through), len(compression.current) - len(items)
    fence = fenced("compressed", "\n".join(lines), effort=compression.effort, turns=turns)
    shown = [render("compressed", effort=compression.effort, turns=turns_named(turns), quote=fence)]
    shown += [render("quotes_left_out", quotes=left_out)] if left_out else []
    return note("\n".join(shown))


def log_quote(
    effort_id: str, status: str, turns: Sequence[Logged], limit: int, count: TokenCounter
) -> str:
    """Quote turns of an effort word for word; a single turn over `limit` tokens as its head."""
    log = transcript(turns)
    if len(turns) == 1 and count(log) > limit:
        whole, (session, _) = rendered(turns[0].messages), parted(effort_id)
        end = fit(whole, limit, count)
        head = {"turn": turns[0].turn, "head": whole[:end], "offset": end}
        head |= {"tokens": count(whole[end:])}
        earlier = render("head_of_earlier_turn", session=session, **head) if session else ""
        log = earlier or render("head_of_turn", **head)
    return fenced("effort", log, id=effort_id, status=status, turns=ranges([t.turn for t in turns]))
