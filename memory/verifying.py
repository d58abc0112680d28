"""Verifying: a quote counts only in the words of its source, and with the turn it stands in."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from .extraction import Extracted
from .near_misses import NearMisses
from .salience import Item, Kind
from .sentences import rest
from .source_text import AROUND, Place, SourceText, folded, parted, plain, source_text
from .tokens import TokenCounter, count, cut_at_sentence
from .transcript import Logged

LONGEST_QUOTE = 375
"""Tokens of a quote at most where no other limit is given: a quarter of `salience_max_tokens`."""

_LABEL = re.compile(
    r"(?:\[turn \d+\] ?)?(?:user|assistant|system|tool(?: [\w.-]+)?): ?", re.IGNORECASE
)
_NEGATION = re.compile(
    r"\b(?:no|not|never|nor|neither|without|unless|except|cannot)\b|n[’']t\b|[不没沒非未无無勿禁]",
    re.IGNORECASE,
)
_STATED = frozenset({Kind.GOAL, Kind.CONSTRAINT, Kind.DECISION})
_WRAPPED = "\"'`\u201c\u201d\u2018\u2019\u201e\u00ab\u00bb\u300c\u300d\u300e\u300f"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a quote: the item that it is in the words of its source, or why there is none.

    `quote` is as the model gave it. A `mended` one had other words, `blank` ones have none.
    """

    quote: str
    verdict: Literal["verbatim", "mended", "fabricated", "blank"]
    item: Item | None = None


def verify(
    found: Sequence[Extracted],
    turns: Sequence[Logged],
    *,
    longest: int = LONGEST_QUOTE,
    count: TokenCounter = count,
) -> tuple[Verdict, ...]:
    """Hold quotes against the turns that they are said to come from.

    An item is a part of one message, unchanged; white space may differ in the quote. Near misses
    (rapidfuzz's ratio >= 90) become the source's own words. A part of a sentence whose rest has a
    negation becomes the sentence. The turn is the one it stands in: the one named if it stands
    there, else the newest. What the user said as well is the user's, whoever repeats it. What is
    longer than `longest` tokens is cut at a sentence end. What only a tool's output says is no
    goal, constraint or decision of anybody: it is an output.

    >>> from .record import Group
    >>> turns = [Group(3, ({"type": "human", "data": {"content": "Port 8443 is ours."}},), "")]
    >>> [verdict] = verify([Extracted(quote="Port 8443 is ours", turn=1)], turns)
    >>> verdict.verdict, verdict.item.quote, verdict.item.turn
    ('verbatim', 'Port 8443 is ours', 3)
    """
    search, spoken = _Search(source_text(turns)), _Search(source_text(turns, without=["tool"]))
    asked = _Search(source_text(turns, without=["tool", "assistant", ""]))
    verdicts = []
    for one in found:
        if not any(map(str.isalnum, one.quote)):
            verdicts.append(Verdict(one.quote, "blank"))
            continue
        place = (spoken.exact(one) if one.kind in _STATED else None) or search.place(one)
        if place is None:
            verdicts.append(Verdict(one.quote, "fabricated"))
            continue
        words = _with_negation(place)
        same = folded(words) == folded(one.quote)
        speaker = "user" if _says(asked.exact(one), words) else place.speaker
        kind = Kind.OUTPUT if speaker == "tool" and one.kind in _STATED else one.kind
        item = Item(kind, cut_quote(words, longest, count), place.turn, speaker=speaker)
        verdicts.append(Verdict(one.quote, "verbatim" if same else "mended", item))
    return tuple(verdicts)


def cut_quote(words: str, limit: int, count: TokenCounter) -> str:
    """Return the words, or the longest beginning of them within `limit` tokens, unchanged."""
    if count(words) <= limit:
        return words
    cut = cut_at_sentence(words, limit, count)
    return cut if words.startswith(cut) else cut.removesuffix("…")


class _Search:
    """Looks for quotes in one text: as they are, without typography, then almost as they are."""

    def __init__(self, source: SourceText) -> None:
        self._source = source

    def exact(self, one: Extracted) -> Place | None:
        """Return the words that a quote is, None if it stands nowhere as it is."""
        places = (self._exact(quote, one.turn) for quote in _forms(folded(one.quote)))
        where = next(filter(None, places), None)
        return self._source.place(*where) if where else None

    def place(self, one: Extracted) -> Place | None:
        """Return the words that a quote stands for, None if it stands nowhere."""
        for quote in _forms(folded(one.quote)):
            where = self._exact(quote, one.turn) or self._near.find(plain(quote), one.turn)
            if where:
                return self._source.place(*where)
        return None

    @cached_property
    def _near(self) -> NearMisses:
        return NearMisses(self._source)

    def _exact(self, quote: str, turn: int | None) -> tuple[int, int] | None:
        if plain(quote) not in self._source.plain:
            return None
        sought = ((self._source.folded, quote), (self._source.plain, plain(quote)))
        for text, words in sought:
            for low, high in self._source.ranges(turn):
                if where := _newest(text, words, low, high):
                    return where
        return None


def _forms(quote: str) -> Iterator[str]:
    """Yield a quote as it is, then without a speaker's label, then without quotation marks."""
    yield quote
    bare = _LABEL.sub("", quote, count=1) if _LABEL.match(quote) else quote
    for form in (bare, bare.strip(_WRAPPED).strip()):
        if form != quote and any(map(str.isalnum, form)):
            yield form


def _newest(text: str, words: str, low: int, high: int) -> tuple[int, int] | None:
    """Return where words stand last between two positions, cut out of no word or number."""
    start = text.rfind(words, low, high)
    while start >= 0:
        end = start + len(words)
        if parted(text, start) and parted(text, end):
            return start, end
        start = text.rfind(words, low, end - 1)
    return None


def _says(place: Place | None, words: str) -> bool:
    return place is not None and folded(_with_negation(place)) == folded(words)


def _with_negation(place: Place) -> str:
    """Return the words, or their sentence if what else it says may turn them into their opposite.

    A sentence is not looked for beyond what is known around the words.
    """
    before, after = rest(place.before, place.words, place.after)
    if max(len(before), len(after)) >= AROUND or not _NEGATION.search(f"{before} {after}"):
        return place.words
    return f"{before.lstrip()}{place.words}{after}"
