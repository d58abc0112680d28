"""What stays word for word: quotes of a model that are in the log, and what rules find there."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Literal, TypeAlias

from rapidfuzz import fuzz

from ..compressions import Item, Kind, Speaker
from ..efforts import one_line
from ..messages import text as text_of
from ..terms import CJK, terms
from ..tokens import TokenCounter, count, cut_at_sentence
from ..transcript import Logged
from .extract import Extracted, legible, quotable

_END = re.compile(
    r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\betc\.)(?<!\bvs\.)(?<!\bcf\.)"
    r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？｡])(?![”’」』）])|"
    r"(?<=[。！？｡][”’」』）])|[\n\r]+"
)
"""Ends of sentences and lines; a full stop after an abbreviation is none."""

_BULLET = re.compile(r"^(?:\s|[-*•>#]+\s|\d{1,3}[.)]\s)+")
"""Marks of lists, quotes and headings before a sentence."""

_LIST = re.compile(r"(?:\s*(?:[-*•]|\d{1,3}[.)])\s[^\n]*(?:\n|\Z))+")
"""The items of a list, one or more."""

_AROUND = 400  # characters before and after a quote in which its sentence is looked for

_NEIGHBOUR = 200
"""Characters of the sentence before that a quote may get, so that a cut leaves the quote itself."""

_QUOTES = "\u2018\u2019\u201a\u201b\u2032\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_TYPED = str.maketrans(f"{_QUOTES}{_DASHES}，：；！？（）", "'" * 5 + '"' * 7 + "-" * 7 + ",:;!?()")
"""Typographic characters, and the one on a keyboard for each; both are one character long."""

_LETTER = re.compile(f"[^\\W{CJK}]")  # a letter or digit of a script with spaces between words

_NEGATION = re.compile(
    r"\b(?:no|not|never|nor|neither|without|unless|except|cannot)\b|n[’']t\b|[不没沒非未无無勿禁]",
    re.IGNORECASE,
)
"""Words without which a sentence says the opposite."""

_PRONOUNS = re.compile(
    r"\b(?:that|this|these|those|it|they|them|he|she|him|her|ones?|both|same|so)\b", re.IGNORECASE
)
"""Words that refer to another sentence."""

_SPEAKERS: Mapping[str, Speaker] = {"human": "user", "ai": "assistant", "tool": "tool"}
"""Whose messages may be quoted; the application's instructions always hold, so never quoted."""


def sentences(text: str) -> Iterator[str]:
    r"""Yield the sentences and lines of a text, without the marks of lists before them.

    >>> list(sentences("It works, e.g. here. Is it fast?\n- Yes.\n1. 很快。真的！"))
    ['It works, e.g. here.', 'Is it fast?', 'Yes.', '很快。', '真的！']
    """
    ends = (end.end() for end in _END.finditer(text))
    for begin, end in pairwise([0, *ends, len(text)]):
        sentence = _BULLET.sub("", text[begin:end]).strip()
        if any(map(str.isalnum, sentence)):
            yield sentence


@dataclass(frozen=True)  # without slots: `cached_property` needs a `__dict__`
class Source:
    """A text that may be quoted: the words of a message or of an older quote."""

    turn: int
    words: str
    speaker: Speaker = ""

    @cached_property
    def folded(self) -> str:
        """The words with each run of white space as one space."""
        return one_line(self.words)

    @cached_property
    def plain(self) -> str:
        """The folded words, character by character in lower case and without typography."""
        return _plain(self.folded)

    @cached_property
    def _visible(self) -> list[int]:
        """The places of all characters that are no white space: many quotes are from one text."""
        return [place for place, letter in enumerate(self.words) if not letter.isspace()]

    def excerpt(self, start: int, end: int) -> "_Excerpt":
        """Return the words between two positions of `folded`, completed where they need it."""
        first = self._visible[start - self.folded.count(" ", 0, start)]
        last = self._visible[end - 1 - self.folded.count(" ", 0, end - 1)] + 1
        before, after = self.words[:first][-_AROUND:], self.words[last : last + _AROUND]
        return self, _completed(self.words[first:last], before, after)


_Excerpt: TypeAlias = tuple[Source, str]  # a source, and words of it


def _completed(quote: str, before: str, after: str) -> str:
    """Return a quote with some words around it if alone it says nothing, or the opposite.

    If the rest of its sentence has a negation, that is the sentence, as far as it is known; after a
    colon, the sentence or list that follows; if the quote refers to another sentence and says
    little else, the sentence before.

    >>> _completed("restart it", "It is slow. Do not ", " today. Wait.")
    'Do not restart it today.'
    """
    begin = before[_last_end(before) :]
    end = _END.search(quote + after, len(quote))
    tail = after[: end.end() - len(quote) if end else None].rstrip()
    negated = max(len(begin), len(tail)) < _AROUND and _NEGATION.search(f"{begin} {tail}")
    words = f"{begin.lstrip()}{quote}{tail}" if negated else quote
    if words.endswith((":", "：")):
        if items := _LIST.match(after):
            return words + items[0].rstrip()
        sentence = _END.search(after, len(after) - len(after.lstrip()))
        return words + after[: sentence.end() if sentence else None].rstrip()
    telling_words = len(terms(words))
    if not negated and (telling_words == 0 or (telling_words == 1 and _PRONOUNS.search(words))):
        begin = before[_last_end(before.rstrip()) :]
        return f"{begin}{words}" if len(begin) <= _NEIGHBOUR else words
    return words


def _last_end(text: str) -> int:
    """Return where the last sentence ends that has text behind it, 0 if there is none."""
    return max((end.end() for end in _END.finditer(text)), default=0)


def _plain(text: str) -> str:
    """Return a text of the same length in lower case, with a keyboard's quotes and dashes.

    >>> _plain("“Never” – at all")
    '"never" - at all'
    """
    typed = text.translate(_TYPED)
    if len(lowered := typed.lower()) == len(typed):
        return lowered
    # Some letters have two in lower case, as the Turkish İ.
    return "".join(letter if len(letter.lower()) > 1 else letter.lower() for letter in typed)


def _is_boundary(text: str, position: int) -> bool:
    """Tell whether a cut at this position divides no word and no number.

    >>> [_is_boundary("v1.5 is out", at) for at in (0, 1, 2, 3, 4)]
    [True, False, False, False, True]
    """
    if not 0 < position < len(text):
        return True
    if _LETTER.match(text[position - 1]) and _LETTER.match(text[position]):
        return False
    near = text[max(0, position - 2) : position + 2]
    return not re.fullmatch(r"\d[.,:]\d.?|.?\d[.,:]\d", near, re.DOTALL)


_LONGEST_QUOTE = 375  # tokens of a quote at most if no limit is given: a quarter of `MOST_QUOTED`
_LEAST_ALIKE = 90.0  # how alike a quote and its source must be, as rapidfuzz's ratio, 0-100

_SEARCH_LENGTH = 800
"""Characters of a quote that are compared with sources; of a longer one only whole sentences."""

_TURN_BONUS = 2.0  # what it adds to the ratio that a place is in the turn that the quote names
_SLACK = 12  # characters by which the ends of a near miss may be moved to where words end

_LABEL = re.compile(
    r"(?:\[turn \d+\] ?)?(?:user|assistant|system|tool(?: [\w.-]+)?): ?", re.IGNORECASE
)
"""The speaker before a line of a log, which models quote with it."""

_STATED = frozenset({Kind.GOAL, Kind.CONSTRAINT, Kind.DECISION})
"""The kinds that only people and the model can state, and no output of a tool."""

_QUOTATION_MARKS = "\"'`\u201c\u201d\u2018\u2019\u201e\u00ab\u00bb\u300c\u300d\u300e\u300f"
"""The marks that models add around a quote."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a model's quote: an item in the words of its source, or why there is none.

    A `mended` quote differed from its source; a `blank` one has no words.
    """

    quote: str
    verdict: Literal["verbatim", "mended", "fabricated", "blank"]
    item: Item | None = None


def verify(
    quotes: Sequence[Extracted],
    turns: Sequence[Logged],
    kept: Sequence[Item] = (),
    *,
    longest: int = _LONGEST_QUOTE,
    count: TokenCounter = count,
) -> tuple[Verdict, ...]:
    """Look for quotes in the turns that they are from, and in the quotes `kept` so far.

    An item is a part of one message, unchanged but for white space: a near miss becomes the words
    of its source. Words that the user said too are the user's, whoever repeats them; words of a
    tool's output only are no goal, constraint or decision. Items have `longest` tokens at most.

    >>> from ..record import Group
    >>> turns = [Group(3, ({"type": "human", "data": {"content": "Port 8443 is ours."}},), "")]
    >>> [verdict] = verify([Extracted(quote="Port 8443 is ours", turn=1)], turns)
    >>> verdict.verdict, verdict.item.quote, verdict.item.turn
    ('verbatim', 'Port 8443 is ours', 3)
    """
    older = (Source(item.turn, item.quote, item.speaker) for item in kept)
    log = (
        Source(turn.turn, text_of(message), _SPEAKERS.get(message["type"], ""))
        for turn in turns
        for message in quotable(turn)
    )
    sources = (*older, *(source for source in log if source.words.strip()))
    cut = partial(cut_quote, limit=longest, count=count)
    return tuple(_verdict(quote, sources, cut) for quote in quotes)


def _verdict(quote: Extracted, sources: Sequence[Source], cut: Callable[[str], str]) -> Verdict:
    """Return what becomes of a quote; a statement is looked for in what people said first."""
    if not any(map(str.isalnum, quote.quote)):
        return Verdict(quote.quote, "blank")
    stated, forms = quote.kind in _STATED, [*_forms(quote.quote)]
    by_people = [source for source in sources if source.speaker != "tool"] if stated else []
    in_any_source = (
        _exact([form], quote.turn, sources) or _near(form, quote.turn, sources) for form in forms
    )
    excerpt = _exact(forms, quote.turn, by_people) or next(filter(None, in_any_source), None)
    if excerpt is None:
        return Verdict(quote.quote, "fabricated")
    source, words = excerpt
    line = one_line(words)
    of_user = [source for source in sources if source.speaker == "user"]
    by_user = _exact(forms, quote.turn, of_user)
    said_by_user = by_user is not None and one_line(by_user[1]) == line
    speaker = "user" if said_by_user else source.speaker
    kind = Kind.OUTPUT if speaker == "tool" and stated else quote.kind
    item = Item(kind, cut(words), source.turn, speaker=speaker)
    return Verdict(quote.quote, "verbatim" if line == one_line(quote.quote) else "mended", item)


def cut_quote(words: str, limit: int, count: TokenCounter) -> str:
    """Return the words, or the longest beginning of them within `limit` tokens, unchanged.

    >>> cut_quote("It rains. It snows.", 2, lambda text: len(text.split()))
    'It rains.'
    """
    if count(words) <= limit:
        return words
    cut = cut_at_sentence(words, limit, count)
    return cut if words.startswith(cut) else cut.removesuffix("…")


def _forms(quote: str) -> Iterator[str]:
    """Yield a quote in one line, then without a speaker's label, then without quotation marks."""
    line = one_line(quote)
    yield line
    unlabelled = _LABEL.sub("", line, count=1) if _LABEL.match(line) else line
    for form in (unlabelled, unlabelled.strip(_QUOTATION_MARKS).strip()):
        if form != line and any(map(str.isalnum, form)):
            yield form


def _exact(forms: Sequence[str], turn: int | None, sources: Sequence[Source]) -> _Excerpt | None:
    """Return what equals a quote but for typography; of several the one in `turn` or the newest."""
    for quote in forms:
        plain = _plain(quote)
        newest = [source for source in reversed(sources) if plain in source.plain]
        newest.sort(key=lambda source: source.turn != turn)
        as_it_is = [(source, source.folded, quote) for source in newest]
        in_plain = [(source, source.plain, plain) for source in newest]
        for source, text, words in [*as_it_is, *in_plain]:
            start = text.rfind(words)
            # Words that are cut out of a word or a number are not those of the quote.
            while start >= 0 and not (
                _is_boundary(text, start) and _is_boundary(text, start + len(words))
            ):
                start = text.rfind(words, 0, start + len(words) - 1)
            if start >= 0:
                return source.excerpt(start, start + len(words))
    return None


def _near(quote: str, turn: int | None, sources: Sequence[Source]) -> _Excerpt | None:
    """Return the excerpt most like a quote; of several it is the one in `turn`, else the newest."""
    query = cut_at_sentence(_plain(quote), _SEARCH_LENGTH, len)
    hits: list[tuple[float, int, int, int]] = []
    for number, source in enumerate(sources):
        aligned = fuzz.partial_ratio_alignment(query, source.plain, score_cutoff=_LEAST_ALIKE)
        if aligned is None:
            continue
        start, end = _to_words(query, source.plain, aligned.dest_start, aligned.dest_end)
        score = fuzz.ratio(query, source.plain[start:end])
        if score >= _LEAST_ALIKE:
            hits.append((score + _TURN_BONUS * (source.turn == turn), number, start, end))
    if not hits:
        return None
    _, number, start, end = max(hits)
    return sources[number].excerpt(start, end)


def _to_words(quote: str, text: str, start: int, end: int) -> tuple[int, int]:
    """Move both ends to boundaries of words, so that the text between is most like the quote."""

    def best(low: int, high: int, piece: Callable[[int], str], default: int) -> int:
        boundaries = [at for at in range(low, high + 1) if _is_boundary(text, at)]
        return max(boundaries, key=lambda at: fuzz.ratio(quote, piece(at)), default=default)

    high = min(len(text), end + _SLACK)
    end = best(max(start + 1, end - _SLACK), high, lambda at: text[start:at], end)
    low = max(0, start - _SLACK)
    return best(low, min(end - 1, start + _SLACK), lambda at: text[at:end], start), end


_IDLE = r"(?:worry|know|think|see|mind|understand|remember|believe|hesitate)"
"""Verbs after "do not" that forbid nothing."""

_RULES = {
    Kind.GOAL: (
        r"\b(?:our|the|my|new|main|overall) (?:goal|aim|objective)\b",
        r"\b(?:goal|objective) is\b",
        "目标|目標",
    ),
    Kind.CONSTRAINT: (
        r"\b(?:must|never|always|shall|mandatory|forbidden|prohibited|not allowed|hard limit)\b",
        r"\b(?:at most|at least|no (?:more|less|fewer|later|earlier) than|not exceed)\b",
        rf"\b(?:do not|don[’']t)(?! {_IDLE}\b)",
        r"\b(?:has|have|need|needs) to (?:be|stay|remain|keep|work|run|support)\b",
        r"\b(?:may not|can(?:not|[’']t) (?:be|use|have|change)|under no circumstances)\b",
        "必须|必須|务必|務必|一定要|不得|不能|不可|不许|不許|禁止|严禁|嚴禁|绝不|絕不|决不",
        "永远|永遠|始终|始終|总是|總是|最多|至多|至少|不超过|不超過|不要|只能|仅限|僅限",
    ),
    Kind.DECISION: (
        r"\b(?:decided|decision|we agreed|agreed to|chose|chosen|settled on|opted for|picked)\b",
        r"\b(?:we|i)(?: will|[’']ll|(?: a|[’'])re going to) (?:use|go with|take|keep|switch)\b",
        r"\b(?:let[’']s|let us) (?:use|go with|take|keep|stick|switch|stay)\b",
        r"\b(?:because|the reason is|instead of|rather than)\b",
        "决定|決定|选择|選擇|选定|選定|采用|採用|我们用|我們用|就用|改用|决策|決策",
        "我们将使用|我們將使用|因为|因為|由于|由於|原因是",
    ),
}
"""Phrases that mark a goal, a hard constraint or a decision, in English and Chinese."""

_PATTERNS = {kind: re.compile("|".join(rules), re.IGNORECASE) for kind, rules in _RULES.items()}


def kind_of(sentence: str) -> Kind | None:
    """Return the first of goal, constraint and decision that a sentence states, None if none.

    >>> kind_of("We will use PostgreSQL because the team knows it."), kind_of("Must it be fast?")
    (<Kind.DECISION: 'decision'>, None)
    """
    if sentence.endswith(("?", "？")):
        return None
    return next((kind for kind, rule in _PATTERNS.items() if rule.search(sentence)), None)


MOST_SENTENCES = 200
"""Sentences of a core at most; constraints stay before others, and newer ones before older."""

_LONGEST_SENTENCE = 600  # characters of a sentence at most; a longer one is pasted text
_STATING = frozenset({"human", "ai"})  # the messages that state something; a tool's output does not

_FENCE = re.compile(r"^```.*?(?:^```|\Z)", re.DOTALL | re.MULTILINE)
"""A block of code, whose comments are no sentences that somebody said."""


@dataclass(frozen=True, slots=True)
class Goals:
    """The goal that an effort was opened for, the one that it has now, and its constraints.

    `changes` are the turn of each change, the new goal, and the reason.
    """

    original: str
    current: str
    changes: tuple[tuple[int, str, str], ...] = ()
    constraints: tuple[str, ...] = ()


def core(goals: Goals, turns: Sequence[Logged]) -> tuple[Item, ...]:
    """Return the protected core of a log as quotes, in the order of their turns.

    It has the goals and constraints that are in the log word for word, and the sentences of the
    user and the model that rules find. Of sentences with the same words the newest stays.
    """
    stated = [
        Extracted(quote=goals.original, kind=Kind.GOAL),
        *(Extracted(quote=goal, kind=Kind.GOAL, turn=turn) for turn, goal, _ in goals.changes),
        *(Extracted(quote=text, kind=Kind.DECISION, turn=turn) for turn, _, text in goals.changes),
        Extracted(quote=goals.current, kind=Kind.GOAL),
        *(Extracted(quote=text, kind=Kind.CONSTRAINT) for text in goals.constraints),
    ]
    in_log = [verdict.item for verdict in verify(stated, turns) if verdict.item]
    newest = {
        " ".join(re.findall(r"\w+", item.quote.casefold())): item
        for item in (*in_log, *_by_rules(turns))
    }
    by_rank = sorted(newest.values(), key=lambda item: (item.kind is Kind.CONSTRAINT, item.turn))
    return tuple(sorted(by_rank[-MOST_SENTENCES:], key=lambda item: item.turn))


def _by_rules(turns: Sequence[Logged]) -> Iterator[Item]:
    """Yield the sentences that state a goal, a constraint or a decision, code left out."""
    for turn in legible(turns):
        for message in turn.messages:
            words = _FENCE.sub("\n", text_of(message)) if message["type"] in _STATING else ""
            for sentence in sentences(words):
                kind = kind_of(sentence) if len(sentence) <= _LONGEST_SENTENCE else None
                if kind:
                    yield Item(kind, sentence, turn.turn, speaker=_SPEAKERS[message["type"]])
