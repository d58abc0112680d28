"""Verifying: a quote counts only in the words of its source, and with the turn it stands in."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rapidfuzz import fuzz

from .extraction import Extracted
from .salience import Item, Kind
from .sentences import last_sentence, next_sentence, rest
from .source_text import AROUND, Place, SourceText, folded, parted, plain, source_text
from .terms import terms
from .tokens import TokenCounter, count, cut_at_sentence
from .transcript import Logged

LONGEST_QUOTE = 375
"""Tokens of a quote at most where no other limit is given: a quarter of `salience_max_tokens`."""

LEAST_ALIKE = 90.0
"""How alike a quote and its source are at least, as rapidfuzz's ratio, 0-100."""

LONGEST_SOUGHT = 800
"""Characters of a quote that are looked for; of a longer one only its first sentences are."""

_NAMED = 2.0
"""What it counts, on the scale of the ratio, that a place is in the turn that a quote names."""

_SLACK = 12
"""Characters by which the ends of a near miss may be moved to where words end."""

_NEIGHBOUR = 200
"""Characters of a sentence before at most, so that a cut leaves the quote itself."""

_LABEL = re.compile(
    r"(?:\[turn \d+\] ?)?(?:user|assistant|system|tool(?: [\w.-]+)?): ?", re.IGNORECASE
)
_NEGATION = re.compile(
    r"\b(?:no|not|never|nor|neither|without|unless|except|cannot)\b|n[’']t\b|[不没沒非未无無勿禁]",
    re.IGNORECASE,
)
_POINTS = re.compile(
    r"\b(?:that|this|these|those|it|they|them|he|she|him|her|ones?|both|same|so)\b", re.IGNORECASE
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
    negation becomes the sentence, and what says nothing alone has its neighbour with it. The turn
    is the one it stands in: the one named if it stands there, else the newest. What the user said
    as well is the user's, whoever repeats it. What is longer than `longest` tokens is cut at a
    sentence end. What only a tool's output says is no goal, constraint or decision of anybody: it
    is an output.

    >>> from .record import Group
    >>> turns = [Group(3, ({"type": "human", "data": {"content": "Port 8443 is ours."}},), "")]
    >>> [verdict] = verify([Extracted(quote="Port 8443 is ours", turn=1)], turns)
    >>> verdict.verdict, verdict.item.quote, verdict.item.turn
    ('verbatim', 'Port 8443 is ours', 3)
    """
    said = source_text(turns)
    spoken = _Search([one for one in said if one.source.speaker != "tool"])
    logs = _Search(said), spoken, _Search([one for one in said if one.source.speaker == "user"])
    verdicts = (_verdict(one, *logs) for one in found)
    return tuple(
        replace(one, item=replace(one.item, quote=cut_quote(one.item.quote, longest, count)))
        if one.item
        else one
        for one in verdicts
    )


def _verdict(one: Extracted, search: "_Search", spoken: "_Search", asked: "_Search") -> Verdict:
    """Return what becomes of a quote; its item is not yet cut."""
    if not any(map(str.isalnum, one.quote)):
        return Verdict(one.quote, "blank")
    place = (spoken.exact(one) if one.kind in _STATED else None) or search.place(one)
    if place is None:
        return Verdict(one.quote, "fabricated")
    words = _whole(place)
    same = folded(words) == folded(one.quote)
    speaker = "user" if _says(asked.exact(one), words) else place.speaker
    kind = Kind.OUTPUT if speaker == "tool" and one.kind in _STATED else one.kind
    item = Item(kind, words, place.turn, speaker=speaker)
    return Verdict(one.quote, "verbatim" if same else "mended", item)


def cut_quote(words: str, limit: int, count: TokenCounter) -> str:
    """Return the words, or the longest beginning of them within `limit` tokens, unchanged."""
    if count(words) <= limit:
        return words
    cut = cut_at_sentence(words, limit, count)
    return cut if words.startswith(cut) else cut.removesuffix("…")


class _Search:
    """Looks for quotes in messages: as they are, without typography, then almost as they are."""

    def __init__(self, said: Sequence[SourceText]) -> None:
        self._said = said

    def exact(self, one: Extracted) -> Place | None:
        """Return the words that a quote is, None if it stands nowhere as it is."""
        found = (self._exact(quote, one.turn) for quote in _forms(folded(one.quote)))
        return next(filter(None, found), None)

    def place(self, one: Extracted) -> Place | None:
        """Return the words that a quote stands for, None if it stands nowhere."""
        for quote in _forms(folded(one.quote)):
            if place := self._exact(quote, one.turn) or self._near(plain(quote), one.turn):
                return place
        return None

    def _exact(self, quote: str, turn: int | None) -> Place | None:
        """Look in the messages of `turn`, then in all; the newest comes first."""
        low = plain(quote)
        newest = [text for text in reversed(self._said) if low in text.plain]
        newest.sort(key=lambda text: text.turn != turn)
        pairs = [(text, text.folded, quote) for text in newest]
        for text, where, words in [*pairs, *((text, text.plain, low) for text in newest)]:
            if (start := _newest(where, words)) >= 0:
                return text.place(start, start + len(words))
        return None

    def _near(self, quote: str, turn: int | None) -> Place | None:
        """Return the words most like a quote, those in `turn` or else the newest if several are."""
        sought = cut_at_sentence(quote, LONGEST_SOUGHT, len)
        found: list[tuple[float, int, int, int]] = []
        for at, text in enumerate(self._said):
            aligned = fuzz.partial_ratio_alignment(sought, text.plain, score_cutoff=LEAST_ALIKE)
            if aligned is None:
                continue
            start, end = _fitted(sought, text.plain, aligned.dest_start, aligned.dest_end)
            score = fuzz.ratio(sought, text.plain[start:end])
            if score >= LEAST_ALIKE:
                found.append((score + _NAMED * (text.turn == turn), at, start, end))
        if not found:
            return None
        _, at, start, end = max(found)
        return self._said[at].place(start, end)


def _fitted(quote: str, text: str, start: int, end: int) -> tuple[int, int]:
    """Move both ends to where words end, so that what is between is most like the quote."""
    ends = _edges(text, max(start + 1, end - _SLACK), min(len(text), end + _SLACK))
    end = max(ends, key=lambda at: fuzz.ratio(quote, text[start:at]), default=end)
    starts = _edges(text, max(0, start - _SLACK), min(end - 1, start + _SLACK))
    return max(starts, key=lambda at: fuzz.ratio(quote, text[at:end]), default=start), end


def _edges(text: str, low: int, high: int) -> list[int]:
    return [at for at in range(low, high + 1) if parted(text, at)]


def _forms(quote: str) -> Iterator[str]:
    """Yield a quote as it is, then without a speaker's label, then without quotation marks."""
    yield quote
    bare = _LABEL.sub("", quote, count=1) if _LABEL.match(quote) else quote
    for form in (bare, bare.strip(_WRAPPED).strip()):
        if form != quote and any(map(str.isalnum, form)):
            yield form


def _newest(text: str, words: str) -> int:
    """Return where words begin last that are cut out of no word or number, -1 if nowhere."""
    start = text.rfind(words)
    while start >= 0 and not (parted(text, start) and parted(text, start + len(words))):
        start = text.rfind(words, 0, start + len(words) - 1)
    return start


def _says(place: Place | None, words: str) -> bool:
    return place is not None and folded(_whole(place)) == folded(words)


def _whole(place: Place) -> str:
    """Return the words, with what they need to say what they say.

    After a colon it is the sentence or the list that follows; where they point at something and
    tell little else, the sentence before.

    >>> _whole(Place(1, "That is too long.", before="It took a week. "))
    'It took a week. That is too long.'
    >>> _whole(Place(1, "Two rules:", after=" Be brief. Be kind."))
    'Two rules: Be brief.'
    """
    words = _with_negation(place)
    if words.endswith((":", "：")):
        return words + next_sentence(place.after)
    told = len(terms(words))
    if told == 0 or (told == 1 and _POINTS.search(words)):
        before = last_sentence(place.before)
        return f"{before}{words}" if words == place.words and len(before) <= _NEIGHBOUR else words
    return words


def _with_negation(place: Place) -> str:
    """Return the words, or their sentence if what else it says may turn them into their opposite.

    A sentence is not looked for beyond what is known around the words.
    """
    before, after = rest(place.before, place.words, place.after)
    if max(len(before), len(after)) >= AROUND or not _NEGATION.search(f"{before} {after}"):
        return place.words
    return f"{before.lstrip()}{place.words}{after}"
