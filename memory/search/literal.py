"""Parts of a query that a text has literally: a line of a log, a path, an error code."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.util import memoized_property

from .terms import both_ends

_LEAST_WORDS = 3  # words of a phrase: two stand side by side by chance
_LEAST_CHARACTERS = 4  # of a word with signs or digits
_MOST = 2_000  # characters of a query that are looked for, half of them from its end

_SIGNS = re.compile(r"\d|_|(?<=\w)[^\w\s'’-]+(?=\w)")
"""What a word of a log has and one of a question does not: digits, and signs between letters."""

_AROUND = "()[]{}<>.,;:!?\"'`’“”„«»*"


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


@dataclass(frozen=True)  # without slots: `memoized_property` needs a `__dict__`
class Literal:
    """The phrases of a query, and its words with signs or digits."""

    query: str

    @memoized_property
    def _lines(self) -> Sequence[re.Pattern[str]]:
        lines = [_folded(line) for line in both_ends(self.query, _MOST).splitlines()]
        return [_pattern(line) for line in lines if len(line.split()) >= _LEAST_WORDS]

    @memoized_property
    def _names(self) -> Sequence[re.Pattern[str]]:
        words = (word.strip(_AROUND) for word in _folded(both_ends(self.query, _MOST)).split())
        long = dict.fromkeys(word for word in words if len(word) >= _LEAST_CHARACTERS)
        return [_pattern(word) for word in long if _SIGNS.search(word)]

    @property
    def telling(self) -> bool:
        """Whether it has any of these."""
        return bool(self._lines or self._names)

    def share(self, text: str) -> float:
        r"""Return how much of the query a text has literally, from 0 to 1.

        >>> log = "Ran 8 tests\n\nFAILED (failures=8)"
        >>> [Literal(query).share(log) for query in ("failed: failures=8", "failures=80", "tests?")]
        [1.0, 0.0, 0.0]
        """
        plain = _folded(text)
        if self._lines and all(line.search(plain) for line in self._lines):
            return 1.0
        parts = [*(self._lines if len(self._lines) > 1 else ()), *self._names]
        return sum(bool(part.search(plain)) for part in parts) / max(1, len(parts))


def _pattern(words: str) -> re.Pattern[str]:
    begin, end = (r"\b" if one.isalnum() else "" for one in (words[0], words[-1]))
    return re.compile(f"{begin}{re.escape(words)}{end}")
