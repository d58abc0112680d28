"""The keywords of efforts, and which of them a text has.

Keywords are the terms of an effort's name, goal and summary, the identifiers of its log, and the
most frequent other terms of the log. Other words that only the assistant and tools say count least:
they add to the share of a text, but are no keywords that make a reference.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain, islice, pairwise
from math import log
from typing import Any, NamedTuple, TypeAlias, TypeVar

from cachetools import LRUCache
from langchain_core.messages import BaseMessage

from .efforts import Effort
from .facts import is_fact
from .locks import CACHES
from .names import is_qualified, parted
from .running_turn import Turn
from .search.languages import language
from .search.terms import both_ends, content
from .transcript import countable

T = TypeVar("T")
Keywords: TypeAlias = Mapping[str, float]
"""Keywords with their weights, each at most 1."""

MOST_KEYWORDS = 200
"""Keywords of one effort at most, those of the assistant aside."""

KEYWORD_TURNS = 50
"""Newest turns of an effort that give keywords: it bounds what a long effort costs."""

END = 4_000
"""Characters at each end of a text that are compared with keywords: the middle of a longer one is
pasted material."""

_LOG_WEIGHT = 0.4  # of a keyword that only the user's words in the log have
ASSISTANT_WEIGHT = 0.2  # of a term that only the assistant or a tool says in the log
_FULL_WEIGHT = 25  # keywords that have the weight 1 even if from the log: a summary may be short

_SHARE = 0.2
"""Share of a text that the keywords of an effort must weigh to be a reference.

It, the overlap and the bounds below are one operating point, measured together.
"""

_PASSAGE = 0.7
"""What the share of a passage counts, beside that of the whole text.

Of many sentences one has two keywords by chance: at 1, 8 % of the unrelated pairs of work dialogues
are taken for references, at 0.7 2 %.
"""

_DISTINCTIVE = 0.5  # share of the efforts that may have a distinctive keyword; one always may
_ROUNDING = 1e-9  # tolerance at a bound: terms summed in another order give a slightly other sum
_CACHED = 8_000  # efforts, and turns, whose keywords are cached: the 200 weighed, of 20 sessions


_MARK = re.compile(
    r"""https?://[^\s<>"')\]]+"""  # web addresses
    r"|[\w@~.-]*(?:/[\w@.-]+)+"  # paths
    r"|\b\w[\w-]+(?:\.[\w-]+)*\.[A-Za-z]\w{0,4}\b"  # files
    r"|\b[A-Za-z]\w*_\w+\b"  # snake_case and ERROR_CODES
    r"|\b\w+(?:::\w+)+\b"  # std::vector
    r"|\b[a-z]+[A-Z]\w*\b|\b[A-Z][a-z0-9]+[A-Z]\w*\b|\b[A-Z]{2,}[a-z]{2}\w*\b"  # camelCase, OSError
    r"|\bE[A-Z]{4,}\b|\bSIG[A-Z]{3,}\b"  # EADDRINUSE, SIGSEGV
    r"|\b[A-Z]{1,10}-?\d{2,8}\b|\b0x[\da-fA-F]{4,16}\b"  # E1234, PLATFORM-12, 0x80070005
    r"|\b\d{1,3}(?:\.\d{1,3}){3}\b"  # 10.1.20.7
)
"""File names, web addresses, identifiers and error codes."""

_LONGEST_WORD = 400
"""Characters of a word that are looked through for such names: pasted data have no spaces, and the
time that it takes is their square."""

_ADDRESS = re.compile(
    r"(?i)(?:\b(?:https?|ftps?|wss?)://(?:www\.)?|\bwww\.)"
    r"(?:([^\s/]{,253}?)\.[a-z]{2,24}(?!\.?[\w-]))?"
)
"""The parts of web addresses that say nothing: the scheme, `www`, and the domain's last label."""

_BREAKS = re.compile(r"(?<=[.!?;。！？])\s+|\n+|(?<=[。！？])")
"""What divides sentences."""

_STOCK = re.compile(
    r"\b(?:(?:i'?m |i am |always |more than )?(?:happy|glad) to help(?: you)?"
    r"|(?:anything|something) else(?: i can (?:do|help with))?|let me know(?: if[^.!?\n]*)?"
    r"|(?:all |the |your |\d+ ){,3}(?:tests?|test suites?|checks?|builds?|pipelines?|ci) "
    r"(?:all |still |now ){,2}(?:pass(?:es|ed)?|succeed(?:s|ed)?"
    r"|(?:is|are) (?:all |still |now ){,2}(?:green|passing))|all (?:is )?green"
    r"|you'?re welcome|my pleasure|no problem|good (?:morning|evening|night|day|luck)"
    r"|have a (?:nice|good|great) \w+|(?:many )?thanks(?: a lot| for[^.!?\n]*)?|thank you[^.!?\n]*"
    r"|kind regards|best regards|of course|(?:great|good) question|sounds (?:good|great|fine)"
    r"|feel free to ask|(?:i'?m |i am )?glad (?:it|that|this) (?:work|help)(?:s|ed)"
    r"|shall i[^.!?\n]{0,20}\?)",
    re.IGNORECASE,
)
"""Phrases of politeness and of work that is done, which are about nothing."""


def marks(text: str) -> list[str]:
    """Return the file names, web addresses, identifiers and error codes of a text, folded.

    >>> marks("EADDRINUSE in src/auth.ts, see maxRetries")
    ['eaddrinuse', 'src/auth.ts', 'auth.ts', 'maxretries']
    """
    found = dict[str, None]()
    for word in text.split():
        letters = word.strip(".,;:!?\"'()`*")
        if letters.isalpha() and (letters.islower() or letters[1:].islower()):
            continue  # most are so, and the pattern takes eight times as long
        for match in _MARK.findall(word[:_LONGEST_WORD]):
            whole = match.casefold().strip(".,-")
            found |= dict.fromkeys([whole, whole.rstrip("/").rpartition("/")[2]])
    return [mark for mark in found if len(mark) > 2]  # noqa: PLR2004 (as short as a keyword)


@lru_cache(maxsize=128)  # what is said is compared in its turn, and counted in the next one
def terms_of(text: str) -> tuple[str, ...]:
    """Return the terms by which a text is compared with keywords: words, and whole identifiers.

    What all addresses have, as `https` and `com`, is none.

    >>> terms_of("Thanks! Is auth.ts done? The tests still pass, and the build is green.")
    ('auth', 'auth.ts')
    >>> terms_of("Sounds good. I'm glad it works. Good question, feel free to ask!")
    ()
    >>> terms_of("https://www.example.com/faq")
    ('exampl', 'faq', 'https://www.example.com/faq')
    """
    plain, of = _STOCK.sub(" ", text), language(text)
    said = _ADDRESS.sub(r" \1 ", plain)
    if of not in ("", "english"):
        said = " ".join(word for word in said.split() if language(word) != of)
    return (*dict.fromkeys([*content(said), *filter(_has_parts, marks(plain))]),)


def _has_parts(mark: str) -> bool:
    """Tell whether an identifier is more than one word, which is a term anyway."""
    return not mark.isalnum()


def _identifiers(text: str) -> Iterator[str]:
    """Yield the identifiers of a text as `terms_of` has them: of one word its stem."""
    for mark in marks(text):
        yield from (mark,) if _has_parts(mark) else content(mark)


def ends(text: str) -> str:
    """Return a text, of one of more than 8,000 characters its first and last 4,000.

    >>> len(ends("a" * 9_000))
    8001
    """
    return both_ends(text, 2 * END)


_SIGN = re.compile(r"[{}\[\]<>=|\\$#@;_/*+&^~\d]|\w\(|\w[.:]\w")  # no word of a sentence has it
_CODE = re.compile(r" {4}|\t|\s*(?:```|~~~|import |from \S+ import |Traceback \(|File \")")
_FEW = 2  # efforts at most that have an identifier by which code refers to them


def sentences_of(text: str) -> str:
    r"""Return the lines of a text that are sentences: neither fenced nor code nor output.

    >>> sentences_of("Why?\n```\nYes or no\n```\nimport json\nx = [8443]\nAnd so?")
    'Why?\nAnd so?'
    """
    kept, fenced = [], False
    for line in text.split("\n"):
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        odd = [*map(bool, map(_SIGN.search, line.split()))]
        if not (fenced or _CODE.match(line) or 2 * sum(odd) > len(odd)):
            kept.append(line)
    return "\n".join(kept)


def referring(text: str, vocabulary: Mapping[str, Keywords]) -> str:
    """Return the sentences of a text, and of its code the rarest identifier that few efforts have.

    With all that few have, 1 % more of the unrelated pairs of streams with code are taken for
    references, and 2 % more if the rarest makes a reference by itself.
    """
    said = sentences_of(text)
    counts = efforts_with({*_identifiers(text)}.difference(terms_of(said)), vocabulary)
    rarest = min(sorted(counts), key=counts.__getitem__, default="")
    return f"{said}\n{rarest}" if counts.get(rarest, _FEW + 1) <= _FEW else said


def passages_of(text: str) -> list[frozenset[str]]:
    """Return the terms of a text, then those of its passages: a sentence, or two in a row.

    >>> [sorted(terms) for terms in passages_of("The port is open. Close it.")]
    [['close', 'open', 'port'], ['open', 'port'], ['close'], ['close', 'open', 'port']]
    """
    sentences = [frozenset(terms) for part in _BREAKS.split(text) if (terms := terms_of(part))]
    whole = frozenset[str]().union(*sentences)
    if len(sentences) <= 1:
        return [whole]
    return [whole, *sentences, *(first | second for first, second in pairwise(sentences))]


class Match(NamedTuple):
    """How much of a passage the keywords of an effort weigh, and which of them are distinctive."""

    share: float
    words: tuple[str, ...]


def about(
    passages: Sequence[Collection[str]],
    vocabulary: Mapping[str, Keywords],
    efforts: Collection[str],
    recent: Sequence[Collection[str]] = (),
    *,
    overlap: int = 2,
) -> dict[str, tuple[str, ...]]:
    """Return which of these efforts a text is about, with the keywords that tell so.

    The text, which comes first, or one of its passages must have `overlap` distinctive keywords,
    and they must have a share of it. An identifier counts once, with its parts.

    >>> vocabulary = {"css": {"colour": 1.0, "grid": 1.0, "login": 1.0}, "auth": {"login": 1.0}}
    >>> about([["grid", "colour", "login"]], vocabulary, ["css", "auth"])
    {'css': ('colour', 'grid')}
    """
    found: dict[str, tuple[str, ...]] = {}
    for said, matches in zip(passages, weighed(passages, vocabulary, efforts, recent), strict=True):
        for name, match in matches.items():
            if match.share >= _SHARE - _ROUNDING and number_of(match.words, said) >= overlap:
                found.setdefault(name, match.words)
    return found


def number_of(words: Collection[str], said: Iterable[str] = ()) -> int:
    """Return how many keywords these are: an identifier that is said is one, with its parts.

    >>> number_of(["app", "app.py", "src/app.py"]), number_of(["max", "retri"], ["max_retries"])
    (1, 1)
    """
    known = sorted(filter(_has_parts, {*words, *said}), key=len)
    whole = {part: mark for mark in known for part in (mark.rpartition("/")[2], *content(mark))}
    return len({whole.get(word, word) for word in words})


def weighed(
    passages: Sequence[Collection[str]],
    vocabulary: Mapping[str, Keywords],
    efforts: Collection[str],
    recent: Sequence[Collection[str]],
) -> list[dict[str, Match]]:
    """Return for a text, and for each of its passages, how it matches efforts with its keywords.

    The fewer efforts of the `vocabulary` and recent turns have a keyword, the more it weighs. A
    keyword that a better matching effort has too counts by the ratio of both matches, squared: on
    LoCoMo that is better than the plain ratio (AUC 0.913 and 0.910).
    """
    counts = efforts_with(frozenset(chain.from_iterable(passages)), vocabulary)
    recent_counts = Counter(term for turn in recent for term in counts if term in turn)
    log_total = log(len(vocabulary) + len(recent) + 1)
    limit = max(1, _DISTINCTIVE * len(vocabulary))
    weights = dict[str, dict[str, float]]()
    for term, count in counts.items():
        # 1 for a term that one of them has, towards 0 for one that all have.
        rarity = 1 - log(count + recent_counts[term]) / log_total
        for name in efforts:
            if (weight := vocabulary[name].get(term)) is not None:
                weights.setdefault(term, {})[name] = rarity * weight
    matches = list[dict[str, Match]]()
    for passage in map(frozenset, passages):
        by_effort: dict[str, dict[str, float]] = {}
        for term in sorted(passage & weights.keys()):  # so that sums are the same each time
            for name, weight in weights[term].items():
                by_effort.setdefault(name, {})[term] = weight
        totals = {name: sum(terms.values()) for name, terms in by_effort.items()}
        matches.append({})
        for name, terms in by_effort.items():
            share = 0.0
            for term, weight in terms.items():
                best = max(map(totals.__getitem__, weights[term])) or 1.0
                share += weight * (totals[name] / best) ** 2
            # What only the assistant says adds to the share, but makes no reference.
            said = (term for term in terms if vocabulary[name][term] > ASSISTANT_WEIGHT)
            words = tuple(term for term in said if counts[term] <= limit)
            # One term more: the fewer a text has, the more of them are keywords by chance.
            counted = share * (_PASSAGE if matches[1:] else 1) / (len(passage) + 1)
            matches[-1][name] = Match(counted, words)
    return matches


@dataclass(frozen=True, slots=True)
class Counts:
    """In how many texts of a turn each term stands: those of the user, and those of others.

    Identifiers stand apart: those that people or the model say, and those of tool results.
    """

    user: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)
    results: Counter[str] = field(default_factory=Counter)


def counted(messages: Iterable[BaseMessage]) -> Counts:
    """Count the terms of the messages of a turn."""
    counts = Counts()
    for message in messages:
        for part in countable(message):
            text, of_user = part[:END], message.type == "human"
            said = sentences_of(text) if of_user else text
            (counts.user if of_user else counts.others).update(terms_of(said))
            if message.type == "tool":  # a result tells at its end what went wrong
                counts.results.update(_identifiers(ends(part)))
            else:
                counts.marks.update(_identifiers(text))
    return counts


def efforts_with(terms: AbstractSet[str], vocabulary: Mapping[str, Keywords]) -> Mapping[str, int]:
    """Return how many efforts have these terms as keywords, without those that none has.

    >>> efforts_with({"login", "css"}, {"auth": {"login": 1.0}, "web": {"login": 0.4}})
    Counter({'login': 2})
    """
    return Counter(chain.from_iterable(terms & words.keys() for words in vocabulary.values()))


class KeywordCache(LRUCache[Any, Any]):
    """The keywords of efforts, and the terms of their turns, as a log grows by one turn a time."""

    def __init__(self, limit: int = _CACHED) -> None:
        """Cache up to `limit` efforts and turns, of any session, for any thread."""
        super().__init__(limit)

    def get_or_make(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what is cached under a key, made if there is nothing."""
        with CACHES:
            found: T | None = self.get(key)
        if found is None:
            found = make()
            with CACHES:
                self[key] = found
        return found

    def clear(self) -> None:
        """Forget everything."""
        with CACHES:
            super().clear()


def keywords_of(work: Turn, efforts: Iterable[Effort], cache: KeywordCache) -> dict[str, Keywords]:
    """Return the keywords of efforts, from their committed turns, by the ids of the efforts."""
    view, by_name = work.view, {effort.id: effort for effort in efforts}
    # Until its last turn is committed, and while it is open, the log still grows.
    logs = {
        name: view.log_turns(name)
        for name, effort in by_name.items()
        if effort.status == "open" or effort.turn > view.tip.turn
    }
    last = {name: effort.turn for name, effort in by_name.items()}
    last |= {name: next(reversed(log), 0) for name, log in logs.items()}
    ids = view.past.ids([turn for name, turn in last.items() if not is_qualified(name)])
    found = dict[str, Keywords]()
    for name, effort in by_name.items():
        known = view.ids_of(name, [last[name]]) if is_qualified(name) else ids
        made = partial(_keywords_of, work, effort, cache, logs.get(name))
        found[name] = cache.get_or_make((view.session, effort, known.get(last[name])), made)
    return found


def _keywords_of(
    work: Turn, effort: Effort, cache: KeywordCache, log: Sequence[int] | None
) -> Keywords:
    (session, name), counts = parted(effort.id), list[Counts]()
    turns = (work.view.log_turns(effort.id) if log is None else log)[-KEYWORD_TURNS:]
    for turn in work.view.turns_of(effort.id, turns):
        key = (work.view.session, session, turn.id, name)
        counts.append(cache.get_or_make(key, partial(counted, turn.messages)))
    named = "" if session and is_fact(effort.id) else name
    heading = (named, effort.goal, effort.summary, *effort.keywords)
    # An open effort has no summary yet, so its log counts fully.
    full_weight = MOST_KEYWORDS if effort.status == "open" else _FULL_WEIGHT
    return keywords(heading, counts, MOST_KEYWORDS, full_weight)


def keywords(
    heading: Iterable[str], turns: Iterable[Counts], limit: int, full_weight: int = _FULL_WEIGHT
) -> dict[str, float]:
    """Return up to `limit` keywords: the terms of the heading, then of the log the frequent ones.

    After `full_weight` keywords the user's other words in the log weigh less than 1. Identifiers of
    the log are at most half of the keywords, unless the user says too little. As many files and
    addresses that only tools say follow, as many of their other identifiers, and as many terms that
    only the assistant and tools say.

    >>> said = HumanMessage("axios fails in api.ts")
    >>> keywords(["auth-bug"], [counted([said])], 5)
    {'auth': 1.0, 'bug': 1.0, 'api.ts': 1.0, 'axio': 1.0, 'fail': 1.0}
    """
    log, total = [*turns], Counts()
    for turn in log:
        total.user.update(turn.user)
        total.others.update(turn.others)
    weights = dict.fromkeys(chain.from_iterable(map(terms_of, heading)), 1.0)
    identifiers = _frequent([turn.marks for turn in log])
    weights |= dict.fromkeys(identifiers[: limit // 2], 1.0)
    for term, _ in total.user.most_common():
        weights.setdefault(term, 1.0 if len(weights) < full_weight else _LOG_WEIGHT)
    for mark in identifiers[limit // 2 :]:
        weights.setdefault(mark, 1.0)
    weights = dict(islice(weights.items(), limit))
    found = _frequent([turn.results for turn in log])
    places = [mark for mark in found if "/" in mark or "." in mark]  # files, paths and addresses
    others = [mark for mark in found if mark not in places]
    for mark in (*places[:limit], *others[:limit]):
        weights.setdefault(mark, 1.0)
    for term, _ in total.others.most_common(limit):
        weights.setdefault(term, ASSISTANT_WEIGHT)
    return weights


def _frequent(counts: Sequence[Counter[str]]) -> list[str]:
    """Return the terms of a log, the most frequent first, of equals the one that was said last.

    >>> _frequent([Counter("ab"), Counter("acd")])
    ['a', 'd', 'c', 'b']
    """
    total = Counter[str]()
    for turn in reversed(counts):
        for term in reversed(turn):
            total[term] += turn[term]
    return [term for term, _ in total.most_common()]
