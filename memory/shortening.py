"""The running turn within its limit: previews first, then finished rounds of tools as one note."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..prompts.loader import text as prompt
from .messages import Message, calls
from .preview import Limits, preview, previewed, previewed_each
from .quotes import fenced
from .tokens import TokenCounter, count_messages
from .transcript import Logged, places, rendered
from .wellformed import note, wellformed

LEAST = 32
"""The shortest preview, in tokens of its head and tail."""

_NAMED = 80


@dataclass(frozen=True, slots=True)
class Shortened:
    """The messages of a turn as they are sent, and what was done to them in one word or none."""

    messages: tuple[Message, ...]
    how: str = ""


def within(said: Logged, messages: Sequence[Message], limit: int, count: TokenCounter) -> Shortened:
    """Return the running turn within `limit` tokens, shortened no more than needed.

    `messages` are those of `said` as they are shown. In this order: previews of results, of texts
    and images, of arguments; the oldest rounds of tools as one note; head and tail of the log as a
    quote, beside what the user said last.
    """
    whole = wellformed(messages)
    if count_messages(whole, count) <= limit:
        return Shortened(whole)
    rounds = [at for at, message in enumerate(messages) if calls(message)]
    for older, newest, how in _limits(limit):
        before = rounds[-1] if rounds else 0
        limits = [older] * before + [newest] * (len(messages) - before)
        shown = wellformed(previewed_each(said, messages, limits, count))
        if count_messages(shown, count) <= limit:
            return Shortened(shown, how)
    folds = range(1, len(rounds) + 1)

    def folded(gone: int) -> tuple[Message, ...]:
        return _folded(said, messages, rounds[:gone], count)

    at = bisect_left(folds, -limit, key=lambda gone: -count_messages(folded(gone), count))
    if at < len(folds):
        return Shortened(folded(folds[at]), "folded")
    return Shortened(_log(said, messages, limit, count), "log")


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


def _limits(limit: int) -> Iterator[tuple[Limits, Limits, str]]:
    """Yield shorter and shorter limits for what stands before the newest round, and from there on.

    What was called last is what the model wants to read now.
    """
    for results in ladder(limit):
        yield Limits(results), Limits(), "results"
    for results in ladder(limit):
        yield Limits(LEAST), Limits(results), "results"
    for texts in ladder(limit):
        yield (both := Limits(LEAST, texts)), both, "texts"
    for arguments in ladder(limit):
        yield (both := Limits(LEAST, LEAST, arguments)), both, "arguments"


def _folded(
    said: Logged, messages: Sequence[Message], gone: Sequence[int], count: TokenCounter
) -> tuple[Message, ...]:
    """Return the turn as previews, with the rounds that begin at `gone` folded into a note."""
    short = previewed(said, messages, Limits(LEAST, LEAST, LEAST), count)
    begin = gone[0]
    later = (at for at in range(gone[-1] + 1, len(messages)) if messages[at]["type"] == "ai")
    end = next(later, len(messages))
    offset = places(said.messages)[begin].text
    left_out = note(_left_out(said.turn, offset, messages[begin:end]))
    return wellformed((*short[:begin], left_out, *short[end:]))


def _left_out(turn: int, offset: int, gone: Sequence[Message]) -> str:
    named = [str(call["name"]) for message in gone for call in calls(message)]
    listed = ", ".join(dict.fromkeys(named))
    names = listed if len(listed) <= _NAMED else f"{listed[:_NAMED]}…"
    return prompt("rounds_left_out", calls=len(named), names=names, turn=turn, offset=offset)


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
