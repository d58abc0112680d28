"""A turn within its limit: previews first, then finished rounds as one note."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias

from ...prompts.loader import render
from ..efforts import one_line
from ..messages import Message, arguments, calls, fenced, reworded
from ..messages import answered as has_answer
from ..messages import text as text_of
from ..passages import word_begin, word_end
from ..tokens import TokenCounter, count_message, count_messages, fit, fit_end
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
    worst_first,
)
from ..valid_history import note, quote_within, valid_history

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


def preview(said: str, limit: int, turn: int, offset: int, count: TokenCounter) -> str:
    """Return head, pointer and tail of a text over `limit` tokens, else the text.

    `offset` is where the text begins in its rendered turn. Head and tail have `limit` tokens
    together.

    >>> print(preview("a b c d e f", 4, 7, 100, lambda text: len(text.split())))
    a b
    [… 2 tokens left out; read_log(turns="7", offset=103) reads on …]
    e f
    """
    whole = count(said)
    if whole <= limit:
        return said
    first = max(1, int(limit * _HEAD_SHARE))
    end = word_end(said, fit(said, first, count))
    begin = max(end, fit_end(said, limit - first, count)) if limit > first else len(said)
    begin = word_begin(said, begin)
    left = max(1, whole - count(said[:end]) - count(said[begin:]))
    pointer = render("left_out", tokens=left, turn=turn, offset=offset + end)
    return f"{said[:end]}\n{pointer}\n{said[begin:]}".rstrip("\n")


def previewed(
    said: Logged, seen: Sequence[Message], limits: Limits, count: TokenCounter
) -> tuple[Message, ...]:
    """Return the messages of a turn with previews of all contents over the limits.

    `seen` are the messages of `said` as they are shown; pointers count in what was said.
    """
    return _previewed_at(said.turn, seen, offsets(said.messages), limits, count)


def _previewed_at(
    turn: int, seen: Sequence[Message], at: Sequence[Offsets], limits: Limits, count: TokenCounter
) -> tuple[Message, ...]:
    """Return messages of a turn with previews, given where each stands in the rendered turn."""
    if limits == Limits():
        return tuple(seen)
    return tuple(
        _shown(message, _Pointer(turn, one, count), limits)
        for message, one in zip(seen, at, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Pointer:
    """What a preview needs to point at what it leaves out."""

    turn: int
    offsets: Offsets
    count: TokenCounter

    def preview(self, said: str, limit: int, offset: int) -> str:
        """Return the preview of a content of the message, if that is much shorter than it."""
        short = preview(said, limit, self.turn, offset, self.count)
        return short if self.count(short) + _SAVED <= self.count(said) else said


def _shown(message: Message, at: _Pointer, limits: Limits) -> Message:
    data = dict(message["data"])
    limit = limits.results if message["type"] == "tool" else limits.texts
    if limit is not None and message["data"].get("name") in DECIDING:
        limit = max(limit, _DECIDED)
    if limit is not None and recalled(message):
        return shortened(message, limit, at.count) if limits.recalled else message
    if limit is not None:
        said = spoken(message)
        short = at.preview(said, limit, at.offsets.text)
        if short != said or _has_images(message):
            is_answer = message["type"] == "ai"
            data["content"] = reworded(data["content"], short) if is_answer else short
    if limits.arguments is not None:
        shorter = _calls(data, at, limits.arguments)
        if any(shorter[key] != data[key] for key in shorter):
            # What adapters keep of calls beside them would be sent in their place.
            content = reworded(data.get("content") or "", text_of({"data": data}))
            data |= {**shorter, "content": content, "additional_kwargs": {}, "id": None}
    return {**message, "data": data}


def _calls(data: Mapping[str, Any], at: _Pointer, limit: int) -> dict[str, Any]:
    offsets = iter(at.offsets.calls)
    return {
        key: [_call(call, at, limit, next(offsets)) for call in data[key]]
        for key in ("tool_calls", "invalid_tool_calls")
        if data.get(key)
    }


def _call(call: Mapping[str, Any], at: _Pointer, limit: int, offset: int) -> Mapping[str, Any]:
    """Return a call whose arguments are still valid JSON: long ones as one text."""
    args = call.get("args")
    said = arguments(call)
    short = at.preview(said, limit, offset)
    if short == said:
        return call
    return {**call, "args": short if isinstance(args, str) else {"(shortened)": short}}


def _has_images(message: Message) -> bool:
    """Tell whether there is more than text in a message that is not the assistant's."""
    content = message["data"].get("content")
    if message["type"] == "ai" or not isinstance(content, list):
        return False
    return any(not isinstance(block, str) and block.get("type") != "text" for block in content)


_LEAST = 32
"""The shortest preview, in tokens of its head and tail."""

_NAMED = 80
"""Characters of the list of tools whose rounds are left out."""


_Step: TypeAlias = tuple[Limits, Limits]
"""How long contents may be before the newest round, and from there on."""

_Sized: TypeAlias = tuple[tuple[Message, ...], int]
"""Messages and their tokens."""


class _Divided:
    """A turn in parts that begin with an answer of the model each, the first perhaps not.

    What a part shows does not depend on the other parts, so each is shortened once in each way.
    """

    def __init__(self, said: Logged, messages: Sequence[Message], count: TokenCounter) -> None:
        """Divide the `messages` of a turn as they are shown; pointers count in what was `said`."""
        answers = [at for at, message in enumerate(messages) if message["type"] == "ai"]
        self._turn, self._messages, self._count = said.turn, messages, count
        self._spans = [slice(*span) for span in pairwise([0, *answers, len(messages)])]
        self._stand = offsets(said.messages)
        self._shown = cache(self._shortened)
        self.rounds = [part for part, at in enumerate(answers, start=1) if calls(messages[at])]

    def previewed(self, step: _Step) -> list[_Sized]:
        """Return all parts with previews."""
        older, newest = step
        last = self.rounds[-1] if self.rounds else 0
        parts = range(len(self._spans))
        return [self._shown(part, older if part < last else newest) for part in parts]

    def folded(self, gone: int) -> list[_Sized]:
        """Return the turn with the shortest previews and a note for its first `gone` rounds."""
        both = Limits(_LEAST, _LEAST, _LEAST)
        short = self.previewed((both, both))
        first, last = self.rounds[0], self.rounds[gone - 1]
        begin = self._spans[first].start
        left_out = self._messages[begin : self._spans[last].stop]
        told = note(_left_out(self._turn, self._stand[begin].text, left_out))
        return [*short[:first], self._sized((told,)), *short[last + 1 :]]

    def _shortened(self, part: int, limits: Limits) -> _Sized:
        span = self._spans[part]
        messages, stand = self._messages[span], self._stand[span]
        short = _previewed_at(self._turn, messages, stand, limits, self._count)
        return self._sized(valid_history(short))

    def _sized(self, messages: tuple[Message, ...]) -> _Sized:
        return messages, count_messages(messages, self._count)


def within(
    said: Logged, messages: Sequence[Message], limit: int, count: TokenCounter
) -> tuple[Message, ...]:
    """Return the running turn within `limit` tokens, shortened no more than needed.

    `messages` are those of `said` as they are shown. In this order: recalled texts to one line
    each, but for the best; previews of other results, of all results, of texts and images, of
    arguments; the oldest rounds of tools as one note; head and tail of the log as a quote, beside
    what the user said last.
    """
    whole = valid_history(messages)
    if count_messages(whole, count) <= limit:
        return whole
    recalled = worst_first(messages)

    def with_lines(number: int) -> tuple[Message, ...]:
        return valid_history(in_lines(messages, recalled[:number], count))

    lines = range(1, len(recalled))
    at = bisect_left(lines, 1, key=lambda n: count_messages(with_lines(n), count) <= limit)
    if at < len(lines):
        return with_lines(lines[at])
    turn = _Divided(said, in_lines(messages, recalled[:-1], count), count)
    others = [*_of_results(limit, recalled=False)] if recalled else []
    shorter = _previewed(turn, others, limit) or _previewed(turn, [*_limits(limit)], limit)
    if shorter:
        return shorter
    folds = range(1, len(turn.rounds) + 1)
    at = bisect_left(folds, 1, key=lambda gone: _tokens(turn.folded(gone)) <= limit)
    if at < len(folds):
        return _messages(turn.folded(folds[at]))
    return _log(said, messages, limit, count)


def within_naming(
    said: Logged, messages: Sequence[Message], limit: int, count: TokenCounter
) -> tuple[Message, ...]:
    """Return the turn `within` the limit, and which effort it left active, if that is left out.

    Nothing else in view would say which goal and which constraints hold.
    """
    short = within(said, messages, limit, count)
    active = _active_after(said.messages)
    if active is None or [*_decisions(short)] == [*_decisions(messages)]:
        return short
    name, *aims = active or [""]

    def quoted(lines: str) -> Message:
        return note(render("active_then", quote=fenced("effort", lines, id=name)))

    active_then = note(render("none_active_then"))
    if name:
        active_then = quote_within(quoted, "\n".join(aims), limit // _NAMING, count)
    less = within(said, messages, max(1, limit - count_message(active_then, count)), count)
    both = (*less, active_then)
    return both if count_messages(both, count) <= limit else short


def _active_after(messages: Sequence[Message]) -> list[str] | None:
    """Return the effort that was active after these messages, its goal and its constraints.

    Empty if they left none active, None if they changed nothing.
    """
    active: list[str] | None = None
    asked: dict[str, Any] = {}
    for message in messages:
        asked |= {str(call.get("id")): call.get("args") for call in calls(message)}
        result = result_of(message) if _decides(message) else {}
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


def _aims(said: Mapping[str, Any]) -> Iterator[str]:
    """Yield goal and constraints as a call or its result has them, a line each."""
    listed = said.get("constraints") or ()
    constraints = [listed] if isinstance(listed, str) else listed
    for constraint in constraints if isinstance(constraints, list | tuple) else ():
        yield f"constraint: {one_line(str(constraint))}"
    yield f"goal: {one_line(str(said.get('goal') or 'not stated'))}"


def _decisions(messages: Sequence[Message]) -> Iterator[Any]:
    """Yield what decides which effort is active: calls as they are shown, and their results."""
    for message in messages:
        deciding = (call for call in calls(message) if call.get("name") in DECIDING)
        yield from ((call["name"], call.get("args")) for call in deciding)
        if _decides(message):
            yield "done"


def _decides(message: Message) -> bool:
    return message["type"] == "tool" and message["data"].get("name") in DECIDING


def _previewed(turn: _Divided, steps: Sequence[_Step], limit: int) -> tuple[Message, ...] | None:
    """Return the turn with the first of these previews that fit, None if the last does not."""
    if not steps or _tokens(turn.previewed(steps[-1])) > limit:
        return None
    at = bisect_left(steps[:-1], 1, key=lambda step: _tokens(turn.previewed(step)) <= limit)
    return _messages(turn.previewed(steps[at]))


def _tokens(parts: Iterable[_Sized]) -> int:
    return sum(tokens for _, tokens in parts)


def _messages(parts: Iterable[_Sized]) -> tuple[Message, ...]:
    return tuple(message for messages, _ in parts for message in messages)


def ladder(limit: int) -> Iterator[int]:
    """Yield the lengths that previews have: halved again and again, so that few lengths are used.

    >>> [*ladder(300)]
    [256, 128, 64, 32]
    """
    step = _LEAST
    while step * 2 <= limit:
        step *= 2
    while step >= _LEAST:
        yield step
        step //= 2


def _limits(limit: int) -> Iterator[_Step]:
    """Yield shorter and shorter limits for what stands before the newest round, and from there on.

    What was called last is what the model wants to read now.
    """
    yield from _of_results(limit, recalled=True)
    for texts in ladder(limit):
        yield (both := Limits(_LEAST, texts)), both
    for args in ladder(limit):
        yield (both := Limits(_LEAST, _LEAST, args)), both


def _of_results(limit: int, *, recalled: bool) -> Iterator[_Step]:
    for results in ladder(limit):
        yield Limits(results, recalled=recalled), Limits()
    older = Limits(_LEAST, recalled=recalled)
    for results in ladder(limit):
        yield older, Limits(results, recalled=recalled)


def _left_out(turn: int, offset: int, gone: Sequence[Message]) -> str:
    named = [str(call["name"]) for message in gone for call in calls(message)]
    listed = ", ".join(dict.fromkeys(named))
    names = listed if len(listed) <= _NAMED else f"{listed[:_NAMED]}…"
    number = f"{len(named)} tool call{'' if len(named) == 1 else 's'}"
    return render("rounds_left_out", calls=number, names=names, turn=turn, offset=offset)


def _log(
    said: Logged, messages: Sequence[Message], limit: int, count: TokenCounter
) -> tuple[Message, ...]:
    """Return head and tail of the log as a quote, and what the user said last.

    Where there is no room for the quote, or for both, a note says that the turn is left out: after
    the question if it was answered, before one that is still to be.
    """
    log, turn = rendered(said.messages), said.turn
    short = previewed(said, messages, Limits(_LEAST, _LEAST, _LEAST), count)
    asked = [message for message in short if message["type"] == "human"][-1:]
    for tokens in ladder(limit):
        quote = fenced("log", preview(log, tokens, turn, 0, count))
        shown = valid_history([note(render("turn_left_out", quote=quote)), *asked])
        if count_messages(shown, count) <= limit:
            return shown
    gone = note(render("whole_turn_left_out", turn=turn, tokens=count(log)))
    shown = valid_history([*asked, gone] if has_answer(messages) else [gone, *asked])
    return shown if count_messages(shown, count) <= limit else (gone,)
