"""What is shown of a text that was found: whole sentences that can be read alone."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from .messages import Message
from .ranking import LONGEST, passages, placed, sentence_spans
from .terms import terms
from .transcript import offsets, rendered, speaker

_BLOCK = re.compile(r"(?ms)(?:^|(?<=: ))---STATE---[ \t]*$.*?^---END STATE---[ \t]*$")
_LONGEST = 400
"""Characters of an excerpt, about 100 tokens."""

_WORD = 40
"""Characters by which a cut may be moved so that it cuts no word in two."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A range of characters of a rendered turn; who speaks there, if it does not say so itself.

    `asks` tells that only a question is shown.
    """

    begin: int
    end: int
    speaker: str = ""
    asks: bool = False


def excerpt(messages: Sequence[Message], place: int) -> Excerpt | None:
    """Return what is shown of a turn for this passage of it; None if it is not there.

    A short passage is shown with what follows, a question with what may be its answer.
    """
    found, log = passages(messages)[place:], rendered(messages)
    starts = [one.text for one in offsets(messages)]
    at = placed(found[0], log, starts[found[0].message]) if found else None
    if at is None:
        return None
    first, last, (begin, end) = found[0], found[0], at
    for after in found[1:]:
        there = placed(after, log, starts[after.message])
        if there is None or there[1] - begin > (2 * LONGEST if last.asks else _LONGEST):
            break
        end, last = there[1], after
    if first.begin:
        return Excerpt(begin, end, speaker(messages[first.message]), asks=last.asks)
    label = log.rfind("\n", 0, starts[first.message]) + 1
    return Excerpt(label, end, asks=last.asks)


def best_piece(text: str, wanted: Collection[str]) -> tuple[int, int]:
    """Return begin and end of the sentences, up to 400 characters, that say most wanted terms.

    State blocks of the model are passed over. Of equals the one that begins latest, since what
    follows a match says more than what precedes it; the beginning if nothing matches.

    >>> best_piece("Hello there. The port is 8080. Bye.", {"port"})
    (13, 35)
    """
    seen = _BLOCK.sub(lambda block: " " * len(block[0]), text)
    found = sentence_spans(seen, _LONGEST)
    spans = [(begin, end) for begin, end in found if seen[begin:end].strip()] or [(0, 0)]
    said = [_said(seen[begin:end], wanted) for begin, end in spans]

    def rank(first: int) -> tuple[int, int, int]:
        inside = [term for found in said[first : _last(spans, first) + 1] for term in found]
        return len(set(inside)), len(inside), first

    first = max((at for at, found in enumerate(said) if found), key=rank, default=0)
    begin, end = spans[first][0], spans[_last(spans, first)][1]
    shown = text[begin:end]
    return end - len(shown.lstrip()), begin + len(shown.rstrip())


def _said(piece: str, wanted: Collection[str]) -> list[str]:
    return [term for term in terms(piece) if term in wanted]


def _last(spans: Sequence[tuple[int, int]], first: int) -> int:
    """Return the last piece that fits with those from the first on."""
    last = first
    while last + 1 < len(spans) and spans[last + 1][1] - spans[first][0] <= _LONGEST:
        last += 1
    return last


def word_end(said: str, end: int) -> int:
    """Return where the last whole word ends before a position, itself if no space is near.

    >>> word_end("one two three", 9), word_end("one two three", 7)
    (7, 7)
    """
    space = max(said.rfind(space, max(0, end - _WORD), end + 1) for space in " \n")
    return space if space > 0 else end


def word_begin(said: str, begin: int) -> int:
    """Return where the next whole word begins, the position itself if no space is near.

    >>> word_begin("one two three", 5), word_begin("one two three", 8)
    (8, 8)
    """
    near = [said.find(space, begin - 1, begin + _WORD) for space in " \n"] if begin else []
    return min((at + 1 for at in near if at >= 0), default=begin)
