"""Near misses: where a text says almost what a quote says."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from rapidfuzz import fuzz

from .source_text import SourceText, parted
from .terms import CJK
from .tokens import cut_at_sentence

LEAST_ALIKE = 90.0
"""How alike a quote and its source are at least, as rapidfuzz's ratio, 0-100."""

LONGEST_SOUGHT = 800
"""Characters of a quote that are looked for; of a longer one only its first sentences are."""

_WORD = re.compile(f"[{CJK}]|[^\\W_{CJK}]+")
_OCCURRENCES = 200
"""Places of a quote's words that are looked at, its rarest words first and the newest."""

_WINDOWS = 4
"""Places of a text that are compared with a quote, those with most of its words."""

_SLACK = 10
"""A part of a quote's length, as a divisor, by which its place in a text may be off."""

_SLACKS = 12, 60
"""Characters that it may be off at least and at most."""

_WORDS_SHARED = 3
"""A part of a quote's words, as a divisor, that a place has in the same order."""

_NAMED = 2.0
"""What it counts, on the scale of the ratio, that a place is in the turn that a quote names."""


class NearMisses:
    """Finds the words of a text that are almost those of a quote."""

    def __init__(self, source: SourceText) -> None:
        """Note where each word of the text stands."""
        self._source = source
        self._places: Mapping[str, Sequence[int]] = _places(source.plain)

    def find(self, quote: str, turn: int | None) -> tuple[int, int] | None:
        """Return where the words begin and end that are most like a plain quote, None if none are.

        Of equals those in `turn` are taken, else the newest.
        """
        sought = cut_at_sentence(quote, LONGEST_SOUGHT, len)
        found: list[tuple[float, int, int]] = []
        for low, high in self._windows(sought):
            aligned = fuzz.partial_ratio_alignment(
                sought, self._source.plain[low:high], score_cutoff=LEAST_ALIKE
            )
            if aligned is None:
                continue
            start, end = self._fitted(sought, low + aligned.dest_start, low + aligned.dest_end)
            score = fuzz.ratio(sought, self._source.plain[start:end])
            if score >= LEAST_ALIKE:
                score += _NAMED * (self._source.turn(start) == turn)
                found.append((score, start, end))
        return max(found)[1:] if found else None

    def _windows(self, quote: str) -> Iterator[tuple[int, int]]:
        """Yield the parts of texts in which most of a quote's words stand in the same order."""
        slack = _slack(quote)
        shared = [*self._shared(quote)]
        steps = {(place - offset) // slack: place for place, offset in shared}
        votes = Counter((place - offset) // slack for place, offset in shared)
        pairs = {step: votes[step] + votes[step + 1] for step in steps}
        least = len({offset for _, offset in shared}) / _WORDS_SHARED
        likely = [step for step in steps if pairs[step] >= least]
        for step in sorted(likely, key=lambda one: (pairs[one], one))[-_WINDOWS:]:
            begin, end = self._source.around(steps[step])
            low, high = (step - 1) * slack, (step + 3) * slack + len(quote)
            yield max(begin, low), min(end, high)

    def _shared(self, quote: str) -> Iterator[tuple[int, int]]:
        """Yield where the text has the words of a quote, and where the quote has them."""
        words = [(match.group(), match.start()) for match in _WORD.finditer(quote)]
        known = [(self._places[word], offset) for word, offset in words if word in self._places]
        room = _OCCURRENCES
        for places, offset in sorted(known, key=lambda one: len(one[0])):
            yield from ((place, offset) for place in places[-room:])
            room -= len(places)
            if room <= 0:
                return

    def _fitted(self, quote: str, start: int, end: int) -> tuple[int, int]:
        """Move both ends to where words end, so that what is between is most like the quote."""
        text, slack = self._source.plain, _slack(quote)
        first, last = self._source.around(start)
        ends = _edges(text, max(start + 1, end - slack), min(last, end + slack))
        end = _best(ends, end, lambda at: fuzz.ratio(quote, text[start:at]))
        starts = _edges(text, max(first, start - slack), min(end - 1, start + slack))
        return _best(starts, start, lambda at: fuzz.ratio(quote, text[at:end])), end


def _places(text: str) -> Mapping[str, Sequence[int]]:
    places: dict[str, list[int]] = defaultdict(list)
    for match in _WORD.finditer(text):
        places[match.group()].append(match.start())
    return dict(places)


def _slack(quote: str) -> int:
    least, most = _SLACKS
    return min(most, max(least, len(quote) // _SLACK))


def _edges(text: str, low: int, high: int) -> list[int]:
    return [at for at in range(low, high + 1) if parted(text, at)]


def _best(edges: Sequence[int], otherwise: int, likeness: Callable[[int], float]) -> int:
    return max(edges, key=likeness, default=otherwise)
