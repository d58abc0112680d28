"""Holding a model's quotes against the log: an item is what somebody said, word for word."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rapidfuzz import fuzz
from sqlalchemy.util import memoized_property

from ..compressions import CUT, Item, Kind, role
from ..efforts import one_line
from ..messages import text as text_of
from ..search.terms import terms
from ..transcript import cleaned, speaker
from ..turn import StoredTurn
from .extract import EDGE, Extracted, quotable

SENTENCE_END = re.compile(
    r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\betc\.)(?<!\bvs\.)(?<!\bcf\.)"
    r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？｡])(?![”’」』）])|"
    r"(?<=[。！？｡][”’」』）])|[\n\r]+"
)
"""Ends of sentences and lines; a full stop after an abbreviation is none."""

_NEIGHBOUR = 200
"""Characters of a neighbour sentence that a quote may get, so that a cut leaves the quote."""

_PRONOUNS = re.compile(
    r"\b(?:that|this|these|those|it|they|them|he|she|him|her|ones?|both|same|so)\b", re.IGNORECASE
)
"""Words that refer to another sentence."""

_SAYING = frozenset({"human", "ai", "tool"})

_FIRST = ("tool", "", "assistant", "record", "user")
"""Speakers in reverse order: words that the user said are the user's, whoever repeats them."""

_LEAST_ALIKE = 90.0  # how alike a quote and its source must be, as rapidfuzz's ratio, 0-100

_SEARCH_LENGTH = 800
"""Characters of a quote that are compared with sources; of a longer one half at each end."""

_SLACK = 12  # characters by which the ends of a near miss may be moved to where words end
_SLACK_SHARE = 10  # or this part of a long one: as much may be missing from what is so alike

_LABEL = re.compile(
    r"(?:\[turn \d+\] ?)?(?:user|assistant|system|tool)(?: \([^()\n]+\)| [\w.-]+)?: ?",
    re.IGNORECASE,
)
"""The speaker before a line of a log, which models quote with it."""

_STATED = frozenset({Kind.GOAL, Kind.CONSTRAINT, Kind.DECISION})
"""The kinds that only people and the model can state, and no output of a tool."""

_QUOTATION_MARKS = "\"'`\u201c\u201d\u2018\u2019\u201e\u00ab\u00bb\u300c\u300d\u300e\u300f"
"""The marks that models add around a quote."""


@dataclass(frozen=True)  # without slots: `memoized_property` needs a `__dict__`
class Source:
    """A text that may be quoted: the words of a message or of a quote that is kept."""

    turn: int
    words: str
    speaker: str = ""
    kept: bool = False

    @property
    def is_cut(self) -> bool:
        """Whether it is a kept quote that was cut."""
        return self.kept and CUT in self.words

    @memoized_property
    def folded(self) -> str:
        """The words with each run of white space as one space."""
        return one_line(self.words)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a model's quote: an item in the words of its source.

    A `mended` quote differed from its source; a `confirmed` one was kept already, and has no item
    if it is the goal, a constraint, or was revised. Nor has a `fabricated` one.
    """

    quote: str
    verdict: Literal["verbatim", "mended", "confirmed", "fabricated"]
    item: Item | None = None


def verify(
    quotes: Sequence[Extracted],
    turns: Sequence[StoredTurn],
    kept: Sequence[Item] = (),
    known: Iterable[str] = (),
    cut: Callable[[str], str] = str,
) -> tuple[Verdict, ...]:
    """Look for quotes in the turns that they are from, and in the quotes `kept` so far.

    An item is a part of one message, unchanged but for white space: a near miss becomes the words
    of its source. A quote that says nothing alone carries a neighbour sentence. Words of a tool's
    output only are no goal, constraint or decision. An item is `cut` if it is too long. A quote of
    what is kept, or of a `known` text, is confirmed.

    >>> turns = [StoredTurn(3, (HumanMessage("Port 8443 is ours."),), "")]
    >>> [verdict] = verify([Extracted(quote="Port 8443 is ours", turn=1)], turns)
    >>> verdict.verdict, verdict.item.quote, verdict.item.turn
    ('verbatim', 'Port 8443 is ours', 3)
    """
    older = (Source(item.turn, item.quote, item.speaker, kept=True) for item in kept)
    log = (
        Source(
            turn.number,
            cleaned(text_of(message)),
            speaker(message) if message.type in _SAYING else "",
        )
        for turn in turns
        for message in quotable(turn)
    )
    sources = (*older, *(source for source in log if source.words.strip()))
    verdicts = (_verdict(quote, sources, cut) for quote in quotes)
    keys, texts = {item.key for item in kept}, {*map(_bare, known)}
    return tuple(
        replace(one, verdict="confirmed")
        if (one.item.key in keys if one.item else _bare(one.quote) in texts)
        else one
        for one in verdicts
    )


def _bare(quote: str) -> str:
    """Return a quote without the speaker's label and quotation marks, white space folded."""
    return _LABEL.sub("", one_line(quote), count=1).strip(_QUOTATION_MARKS).strip()


def _verdict(quote: Extracted, sources: Sequence[Source], cut: Callable[[str], str]) -> Verdict:
    line = one_line(quote.quote)
    bare = _bare(quote.quote)
    if not any(map(str.isalnum, bare)):
        return Verdict(quote.quote, "fabricated")
    verbatim = _exact(line, quote.turn, sources)
    hit = verbatim or _exact(bare, quote.turn, sources) or _cut_before(bare, sources)
    hit = hit or _near(bare, quote.turn, sources)
    if hit is None:
        return Verdict(quote.quote, "fabricated")
    source, words = hit
    kind = Kind.OUTPUT if role(source.speaker) == "tool" and quote.kind in _STATED else quote.kind
    item = Item(kind, cut(words), source.turn, speaker=source.speaker)
    return Verdict(quote.quote, "verbatim" if verbatim else "mended", item)


def _exact(quote: str, turn: int | None, sources: Sequence[Source]) -> tuple[Source, str] | None:
    """Return what equals a quote but for white space, by the user if the user said it.

    Of several places it is the one in `turn`, else the newest.
    """
    words = re.compile(r"\s+".join(map(re.escape, quote.split())))
    holders = (source for source in sources if quote in source.folded)
    hits = [(source, hit) for source in holders if (hit := _whole_words(words, source.words))]
    if not hits:
        return None
    source, hit = max(
        hits, key=lambda hit: (_FIRST.index(role(hit[0].speaker)), hit[0].turn == turn, hit[0].turn)
    )
    return source, _with_neighbour(source.words, *hit.span())


def _whole_words(words: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the first place of a pattern that begins and ends inside no word and no number."""
    hit = words.search(text)
    while hit and not all(EDGE.match(text, at) for at in hit.span()):
        hit = words.search(text, hit.start() + 1)
    return hit


def _cut_before(quote: str, sources: Sequence[Source]) -> tuple[Source, str] | None:
    """Return the kept quote that has the head and the end of this one."""
    for source in sources:
        head, _, end = map(str.strip, source.folded.partition(CUT))
        if source.is_cut and head and quote.startswith(head) and quote.endswith(end):
            return source, source.words
    return None


def _near(quote: str, turn: int | None, sources: Sequence[Source]) -> tuple[Source, str] | None:
    """Return what is most like a quote; of several places the one in `turn`, else the newest.

    Of a long quote head and end are looked for, in one source, whose words between them count.
    """
    half = _SEARCH_LENGTH // 2
    ends = [quote] if len(quote) <= _SEARCH_LENGTH else [quote[:half], quote[-half:]]
    hits: list[tuple[float, bool, int, int, int]] = []
    for number, source in enumerate(sources):
        places = [_alike(end, source.folded) for end in ends]
        scores, starts, stops = zip(*(place or (0.0, 0, 0) for place in places), strict=True)
        is_whole = 0 < stops[-1] - starts[0] <= 2 * len(quote)
        if min(scores) and is_whole:
            hits.append((min(scores), source.turn == turn, number, starts[0], stops[-1]))
    if not hits:
        return None
    *_, number, start, end = max(hits)
    source = sources[number]
    if source.is_cut:  # a kept quote, which is kept as it is
        return source, source.words
    return source, _with_neighbour(source.folded, start, end)


def _alike(query: str, text: str) -> tuple[float, int, int] | None:
    """Return how much the words of a text that are most like a query are so, and their place."""
    aligned = fuzz.partial_ratio_alignment(query, text, score_cutoff=_LEAST_ALIKE)
    if aligned is None:
        return None
    start, end = _to_words(query, text, aligned.dest_start, aligned.dest_end)
    score = fuzz.ratio(query, text[start:end])
    return (score, start, end) if score >= _LEAST_ALIKE else None


def _to_words(quote: str, text: str, start: int, end: int) -> tuple[int, int]:
    """Move both ends to boundaries of words, so that the text between is most like the quote."""

    def best(low: int, high: int, piece: Callable[[int], str], default: int) -> int:
        boundaries = [at for at in range(low, high + 1) if EDGE.match(text, at)]
        return max(boundaries, key=lambda at: fuzz.ratio(quote, piece(at)), default=default)

    slack = max(_SLACK, len(quote) // _SLACK_SHARE)
    high = min(len(text), end + slack)
    end = best(max(start + 1, end - slack), high, lambda at: text[start:at], end)
    low = max(0, start - slack)
    return best(low, min(end - 1, start + slack), lambda at: text[at:end], start), end


def _with_neighbour(text: str, start: int, end: int) -> str:
    """Return the words between two places, with a neighbour sentence if alone they say nothing.

    That is the sentence before, or the one after where there is none before.
    """
    words = text[start:end]
    telling = len(terms(words))
    if telling > 1 or (telling == 1 and not _PRONOUNS.search(words)):
        return words
    ends = [0, *(one.end() for one in SENTENCE_END.finditer(text[:start].rstrip()))]
    before, after = text[ends[-1] : start], text[end:]
    if before.strip():
        return f"{before}{words}" if len(before) <= _NEIGHBOUR else words
    stops = (one.start() for one in SENTENCE_END.finditer(after))
    stop = next((at for at in stops if any(map(str.isalnum, after[:at]))), len(after))
    return f"{words}{after[:stop]}".rstrip() if stop <= _NEIGHBOUR else words
