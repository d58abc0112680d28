"""The texts that quotes stand in, as one long text that is searched fast."""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from .salience import Speaker
from .sources import Source, sources
from .terms import CJK
from .transcript import Logged

AROUND = 400
"""Characters before and after some words that are looked at to see what they say."""

_QUOTES = "\u2018\u2019\u201a\u201b\u2032\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_TYPED = str.maketrans(f"{_QUOTES}{_DASHES}，：；！？（）", "'" * 5 + '"' * 7 + "-" * 7 + ",:;!?()")
_PARTED = re.compile(r"\S+")
_LETTER = re.compile(f"[^\\W{CJK}]")


@dataclass(frozen=True, slots=True)
class Place:
    """Words as they stand in a log, unchanged: their turn, what is around them, who said them."""

    turn: int
    words: str
    before: str = ""
    after: str = ""
    speaker: Speaker = ""


@dataclass(frozen=True, slots=True)
class SourceText:
    """All texts of some turns, white space folded, one on each line, oldest first.

    `plain` is the same, character by character, in lower case and without typography.
    """

    said: tuple[tuple[int, Source], ...]
    begins: tuple[int, ...]
    folded: str
    plain: str
    _words: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)

    def ranges(self, turn: int | None) -> Iterator[tuple[int, int]]:
        """Yield where to search: the texts of `turn`, if there are any, then all."""
        ends = [*self.begins[1:], len(self.folded) + 1]
        own = [n for n, (number, *_) in enumerate(self.said) if number == turn]
        if own:
            yield self.begins[own[0]], ends[own[-1]] - 1
        yield 0, len(self.folded)

    def around(self, position: int) -> tuple[int, int]:
        """Return where the text begins and ends that a position is in."""
        number = self._number(position)
        ends = [*self.begins[number + 1 : number + 2], len(self.folded) + 1]
        return self.begins[number], ends[0] - 1

    def place(self, start: int, end: int) -> Place:
        """Return the words between two positions of one text, as they were said."""
        number = self._number(start)
        turn, source = self.said[number]
        text, begin = source.words, self.begins[number]
        first = self._offset(number, start - begin)
        last = self._offset(number, end - begin - 1)
        before, after = text[max(0, first - AROUND) : first], text[last + 1 : last + 1 + AROUND]
        return Place(turn, text[first : last + 1], before, after, source.speaker)

    def turn(self, position: int) -> int:
        """Return the number of the turn that a position is in."""
        return self.said[self._number(position)][0]

    def _number(self, position: int) -> int:
        return bisect_right(self.begins, position) - 1

    def _offset(self, number: int, position: int) -> int:
        """Return where a character of a folded text stands in the text itself."""
        if number not in self._words:
            self._words[number] = _offsets(self.said[number][1].words)
        folded, original = self._words[number]
        word = bisect_right(folded, position) - 1
        return original[word] + position - folded[word]


def source_text(turns: Iterable[Logged], *, without: Collection[Speaker] = ()) -> SourceText:
    """Return what may be quoted of these turns, `without` what some said."""
    found = ((turn.turn, source) for turn in turns for source in sources(turn))
    said = tuple((turn, source) for turn, source in found if source.speaker not in without)
    texts = [folded(source.words) for _, source in said]
    begins, at = [], 0
    for text in texts:
        begins.append(at)
        at += len(text) + 1
    whole = "\n".join(texts)
    return SourceText(said, tuple(begins), whole, plain(whole))


def folded(text: str) -> str:
    r"""Return a text with each run of white space as one space, none at the ends.

    >>> folded(" one\n  two")
    'one two'
    """
    return " ".join(text.split())


def plain(text: str) -> str:
    """Return a text of the same length in lower case, with typewriter's quotes and dashes.

    >>> plain("“Never” – at all")
    '"never" - at all'
    """
    typed = text.translate(_TYPED)
    low = typed.lower()
    if len(low) == len(typed):
        return low
    return "".join(one if len(one.lower()) > 1 else one.lower() for one in typed)


def parted(text: str, position: int) -> bool:
    """Tell whether a word or a number ends or begins at a position, or nothing is there to part.

    >>> [parted("v1.5 is out", at) for at in (0, 1, 2, 3, 4)]
    [True, False, False, False, True]
    """
    if not 0 < position < len(text):
        return True
    before, after = text[position - 1], text[position]
    if _LETTER.match(before) and _LETTER.match(after):
        return False
    near = text[max(0, position - 2) : position + 2]
    return not re.fullmatch(r"\d[.,:]\d.?|.?\d[.,:]\d", near, re.DOTALL)


def _offsets(text: str) -> tuple[list[int], list[int]]:
    original = [match.start() for match in _PARTED.finditer(text)]
    folded_starts, at = [], 0
    for match in _PARTED.finditer(text):
        folded_starts.append(at)
        at += len(match.group()) + 1
    return folded_starts, original
