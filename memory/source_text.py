"""The messages that quotes stand in, as texts that are searched."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from .salience import Speaker
from .sources import Source, sources
from .terms import CJK
from .transcript import Logged

AROUND = 400
"""Characters before and after some words that are looked at to see what they say."""

_QUOTES = "\u2018\u2019\u201a\u201b\u2032\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_TYPED = str.maketrans(f"{_QUOTES}{_DASHES}，：；！？（）", "'" * 5 + '"' * 7 + "-" * 7 + ",:;!?()")
_LETTER = re.compile(f"[^\\W{CJK}]")


@dataclass(frozen=True, slots=True)
class Place:
    """Words as they stand in a log, unchanged: their turn, what is around them, who said them."""

    turn: int
    words: str
    before: str = ""
    after: str = ""
    speaker: Speaker = ""


@dataclass(frozen=True)
class SourceText:
    """One message of a turn: `folded` is its text with white space folded.

    `plain` is the same, character by character, in lower case and without typography.
    """

    turn: int
    source: Source

    @cached_property
    def folded(self) -> str:
        """The text with each run of white space as one space."""
        return folded(self.source.words)

    @cached_property
    def plain(self) -> str:
        """The folded text as it is compared."""
        return plain(self.folded)

    @cached_property
    def _inked(self) -> list[int]:
        """Where the characters of the text stand that are no white space."""
        return [at for at, one in enumerate(self.source.words) if not one.isspace()]

    def place(self, start: int, end: int) -> Place:
        """Return the words between two positions of the folded text, as they were said."""
        text = self.source.words
        first = self._inked[start - self.folded.count(" ", 0, start)]
        last = self._inked[end - 1 - self.folded.count(" ", 0, end - 1)] + 1
        before, after = text[max(0, first - AROUND) : first], text[last : last + AROUND]
        return Place(self.turn, text[first:last], before, after, self.source.speaker)


def source_text(turns: Iterable[Logged]) -> tuple[SourceText, ...]:
    """Return what may be quoted of these turns, oldest first."""
    return tuple(SourceText(turn.turn, source) for turn in turns for source in sources(turn))


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
