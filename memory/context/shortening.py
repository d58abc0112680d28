"""The running turn within its limit: previews first, then finished rounds of tools as one note."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from ...prompts.loader import text as prompt
from ..messages import Message, calls
from ..quotes import fenced
from ..recall import in_lines, worst_first
from ..tokens import TokenCounter, count_messages
from ..transcript import Logged, offsets, rendered
from ..wellformed import note, wellformed
from .preview import Limits, preview, previewed, previewed_at

LEAST = 32
"""The shortest preview, in tokens of its head and tail."""

_NAMED = 80


@dataclass(frozen=True, slots=True)
class _Step:
    """How long contents may be before the newest round and from there on."""

    older: Limits
    newest: Limits


@dataclass(frozen=True, slots=True)
class _Sized:
    """A piece of the context and its size."""

    messages: tuple[Message, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class _Turn:
    """A turn in parts that begin with an answer of the model each, the first perhaps not.

    `rounds` are the parts that call tools. `shown` returns a part with previews, `left_out` the
    note that stands for rounds.
    """

    parts: range
    rounds: tuple[int, ...]
    shown: Callable[[int, Limits], _Sized]
    left_out: Callable[[Sequence[int]], _Sized]

    def previewed(self, step: _Step) -> list[_Sized]:
        """Return all parts with previews."""
        newest = self.rounds[-1] if self.rounds else 0
        return [
            self.shown(part, step.older if part < newest else step.newest) for part in self.parts
        ]

    def folded(self, gone: int) -> list[_Sized]:
        """Return the turn with the shortest previews and a note for its first `gone` rounds."""
        short = [self.shown(part, Limits(LEAST, LEAST, LEAST)) for part in self.parts]
        rounds = self.rounds[:gone]
        return [*short[: rounds[0]], self.left_out(rounds), *short[rounds[-1] + 1 :]]


def within(
    said: Logged, messages: Sequence[Message], limit: int, count: TokenCounter
) -> tuple[Message, ...]:
    """Return the running turn within `limit` tokens, shortened no more than needed.

    `messages` are those of `said` as they are shown. In this order: recalled texts to one line
    each, but for the best; previews of other results, of all results, of texts and images, of
    arguments; the oldest rounds of tools as one note; head and tail of the log as a quote, beside
    what the user said last.
    """
    whole = wellformed(messages)
    if count_messages(whole, count) <= limit:
        return whole
    recalled = worst_first(messages)

    def with_lines(number: int) -> tuple[Message, ...]:
        return wellformed(in_lines(messages, recalled[:number], count))

    lines = range(1, len(recalled))
    at = bisect_left(lines, 1, key=lambda n: count_messages(with_lines(n), count) <= limit)
    if at < len(lines):
        return with_lines(lines[at])
    turn = _divided(said, in_lines(messages, recalled[:-1], count), count)
    others = [*_of_results(limit, recalled=False)] if recalled else []
    found = _previewed(turn, others, limit) or _previewed(turn, [*_limits(limit)], limit)
    return found or _folded(said, messages, turn, limit, count)


def _previewed(turn: _Turn, steps: Sequence[_Step], limit: int) -> tuple[Message, ...] | None:
    """Return the turn with the first of these previews that fit, None if the last does not."""
    if not steps or _tokens(turn.previewed(steps[-1])) > limit:
        return None
    at = bisect_left(steps[:-1], 1, key=lambda step: _tokens(turn.previewed(step)) <= limit)
    return _messages(turn.previewed(steps[at]))


def _folded(
    said: Logged, messages: Sequence[Message], turn: _Turn, limit: int, count: TokenCounter
) -> tuple[Message, ...]:
    """Return the turn with a note for as many rounds as needed, else its log."""
    folds = range(1, len(turn.rounds) + 1)
    at = bisect_left(folds, 1, key=lambda gone: _tokens(turn.folded(gone)) <= limit)
    if at < len(folds):
        return _messages(turn.folded(folds[at]))
    return _log(said, messages, limit, count)


def ladder(limit: int) -> Iterator[int]:
    """Yield the lengths that previews have: halved again and again, so that few lengths are used.

    >>> [*ladder(300)]
    [256, 128, 64, 32]
    """
    step = LEAST
    while step * 2 <= limit:
        step *= 2
    while step >= LEAST:
        yield step
        step //= 2


def _limits(limit: int) -> Iterator[_Step]:
    """Yield shorter and shorter limits for what stands before the newest round, and from there on.

    What was called last is what the model wants to read now.
    """
    yield from _of_results(limit, recalled=True)
    for texts in ladder(limit):
        yield _Step(both := Limits(LEAST, texts), both)
    for arguments in ladder(limit):
        yield _Step(both := Limits(LEAST, LEAST, arguments), both)


def _of_results(limit: int, *, recalled: bool) -> Iterator[_Step]:
    for results in ladder(limit):
        yield _Step(Limits(results, recalled=recalled), Limits())
    older = Limits(LEAST, recalled=recalled)
    for results in ladder(limit):
        yield _Step(older, Limits(results, recalled=recalled))


def _divided(said: Logged, messages: Sequence[Message], count: TokenCounter) -> _Turn:
    """Divide a turn before each answer; what a part shows does not depend on the other parts."""
    answers = [at for at, message in enumerate(messages) if message["type"] == "ai"]
    spans = [slice(*span) for span in pairwise([0, *answers, len(messages)])]
    stand = offsets(said.messages)

    @cache
    def shown(part: int, limits: Limits) -> _Sized:
        here = spans[part]
        short = previewed_at(said.turn, messages[here], stand[here], limits, count)
        return _sized(wellformed(short), count)

    def left_out(gone: Sequence[int]) -> _Sized:
        first, last = spans[gone[0]], spans[gone[-1]]
        named = messages[first.start : last.stop]
        told = _left_out(said.turn, stand[first.start].text, named)
        return _sized((note(told),), count)

    calling = (part for part, at in enumerate(answers, start=1) if calls(messages[at]))
    return _Turn(range(len(spans)), tuple(calling), shown, left_out)


def _sized(messages: tuple[Message, ...], count: TokenCounter) -> _Sized:
    return _Sized(messages, count_messages(messages, count))


def _tokens(parts: Iterable[_Sized]) -> int:
    return sum(part.tokens for part in parts)


def _messages(parts: Iterable[_Sized]) -> tuple[Message, ...]:
    return tuple(message for part in parts for message in part.messages)


def _left_out(turn: int, offset: int, gone: Sequence[Message]) -> str:
    named = [str(call["name"]) for message in gone for call in calls(message)]
    listed = ", ".join(dict.fromkeys(named))
    names = listed if len(listed) <= _NAMED else f"{listed[:_NAMED]}…"
    number = f"{len(named)} tool call{'' if len(named) == 1 else 's'}"
    return prompt("rounds_left_out", calls=number, names=names, turn=turn, offset=offset)


def _log(
    said: Logged, messages: Sequence[Message], limit: int, count: TokenCounter
) -> tuple[Message, ...]:
    """Return head and tail of the log as a quote, and what the user said last.

    Where there is no room for the quote, or for both, a note says that the turn is left out.
    """
    log, turn = rendered(said.messages), said.turn
    short = previewed(said, messages, Limits(LEAST, LEAST, LEAST), count)
    asked = [message for message in short if message["type"] == "human"][-1:]
    for tokens in ladder(limit):
        quote = fenced("log", preview(log, tokens, turn, 0, count))
        shown = wellformed([note(prompt("turn_left_out", quote=quote)), *asked])
        if count_messages(shown, count) <= limit:
            return shown
    gone = note(prompt("whole_turn_left_out", turn=turn, tokens=count(log)))
    shown = wellformed([gone, *asked])
    return shown if count_messages(shown, count) <= limit else (gone,)
