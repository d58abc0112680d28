"""Find the efforts that the running turn mentions: by id, by keywords, or by a tool call.

The keywords of an effort are the terms of its name, goal and summary, and the most frequent terms
of its log.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain, islice
from math import log
from operator import attrgetter
from typing import Any, TypeAlias

from .banners import BANNER
from .efforts import KEYWORD_OVERLAP, Effort, EffortState, happened, within_limit
from .fences import unquoted
from .lru_cache import LruCache
from .messages import Message, answered, text
from .names import SLUG_LENGTH, hyphenated, is_qualified, parted
from .running_turn import RunningTurn
from .terms import CJK, content
from .transcript import countable, visible_text

Keywords: TypeAlias = Mapping[str, float]
"""Keywords with their weights, each at most 1."""

_TOKEN = re.compile(f"[{CJK}]|[^-{CJK}]+")
"""A word of a name; in scripts without spaces each character is one."""

_WORD = f"[^\\W{CJK}]"
"""A letter or digit inside a word; in scripts without spaces every character is a word itself."""

# `session/effort`, but no longer path, file name or web address.
_QUALIFIED = re.compile(r"(?<![\w.:@%~/-])[\w.:@%~-]{1,160}/[\w-]{1,64}(?![\w/-]|\.\w)")

_NAME_WORDS = 16  # words of the longest name that is looked for in a text
_QUALIFIED_IDS = 8  # qualified ids of one text that are looked up: each may cost a query
_END = 4_000  # characters read at each end of a text: the middle of a longer one is pasted material


@lru_cache(maxsize=4)  # the hints and the references of a turn read the same texts
def mentionable(text: str) -> frozenset[str]:
    """Return all effort ids that a text could mention: 1-16 successive words, joined by hyphens.

    >>> sorted(mentionable("the auth bug"))
    ['auth', 'auth-bug', 'bug', 'the', 'the-auth', 'the-auth-bug']
    """
    line = hyphenated(text)
    spans = [match.span() for match in _TOKEN.finditer(line)]
    return frozenset(
        line[start:end]
        for first, (start, _) in enumerate(spans)
        for _, end in spans[first : first + _NAME_WORDS]
        if end - start <= SLUG_LENGTH
    )


def qualified_words(text: str) -> tuple[str, ...]:
    """Return the first eight words that look like `session/effort`; some are folder names.

    >>> qualified_words("as in t1/Auth-Bug, see src/auth/api.ts")
    ('t1/Auth-Bug',)
    """
    return tuple(dict.fromkeys(_QUALIFIED.findall(text)))[:_QUALIFIED_IDS]


def own_words(text: str) -> str:
    r"""Return a text without the banners and quotes of the memory.

    Of a text of more than 8,000 characters only the first and last 4,000 are returned.

    >>> own_words("Look:\n--- Concluded effort: a ---\nWhat now?")
    'Look:\n\nWhat now?'
    """
    words = BANNER.sub("", unquoted(text))
    return words if len(words) <= 2 * _END else f"{words[:_END]}\n{words[-_END:]}"


def statements(messages: Sequence[Message]) -> list[str]:
    """Return the user's messages of a turn as one text, then the final answer as users see it.

    >>> said = {"type": "human", "data": {"content": "Which port?"}}
    >>> statements([said, {"type": "ai", "data": {"content": "8443."}}])
    ['Which port?', '8443.']
    """
    question = "\n".join(text(message) for message in messages if message["type"] == "human")
    return [question, *([visible_text(messages[-1])] if answered(messages) else [])]


def mentions(
    work: RunningTurn, texts: Sequence[str]
) -> tuple[frozenset[str], frozenset[str], list[str]]:
    """Return ids that texts could mention, efforts of other sessions in them, and their remainders.

    A remainder is a text without the qualified ids: `t1/auth-bug` must not count as a mention of
    this session's `auth-bug`. Efforts outside the context are looked up too, a few per text.
    """
    names = dict[str, str]()
    for word in chain.from_iterable(map(qualified_words, texts)):
        session, name = parted(word)
        names[word] = f"{session}/{hyphenated(name)}"
    stored = {effort.id for effort in work.view.efforts_named([*{*names.values()}], ())}
    words = {word: name for word, name in names.items() if name in stored and is_qualified(name)}
    words |= {name: name for name in _foreign_efforts(work)}
    mentioned, remainders = set[str](), [*texts]
    # The longest first: a shorter id may be the end of a longer one.
    for word in sorted(words, key=len, reverse=True):
        whole_word = rf"(?<!{_WORD})(?<![@%~/-]){re.escape(word)}(?!{_WORD})"
        pattern = re.compile(whole_word, re.IGNORECASE)
        if any(map(pattern.search, texts)):
            mentioned.add(words[word])
        remainders = [pattern.sub(" ", remainder) for remainder in remainders]
    ids = frozenset[str]().union(*map(mentionable, remainders))
    return ids, frozenset(mentioned), remainders


def _foreign_efforts(work: RunningTurn) -> tuple[str, ...]:
    """Return the efforts of other sessions that the context or a search of this turn showed."""
    searches = (event["efforts"] for event in work.state.events if event["type"] == "searched")
    names = [*work.state.summaries, *(name for results in searches for name in results)]
    return tuple(dict.fromkeys(filter(is_qualified, names)))


_REFERENCE_SHARE = 0.2
"""Share of a text that the keywords of an effort must weigh to be a reference.

It, `KEYWORD_OVERLAP` and the bounds below are one operating point, measured together.
"""

_DISTINCTIVE = 0.5  # share of the efforts that may have a distinctive keyword; one always may
_ROUNDING = 1e-9  # tolerance at a bound: terms summed in another order give a slightly other sum


def about(
    terms: Iterable[str],
    vocabulary: Mapping[str, Keywords],
    efforts: Iterable[str],
    recent: Sequence[Collection[str]] = (),
) -> frozenset[str]:
    """Return which of these efforts a text with these terms is about.

    Those have the share `_REFERENCE_SHARE` and `KEYWORD_OVERLAP` distinctive keywords or more, both
    as `evidence` counts them.

    >>> vocabulary = {"css": {"colour": 1.0, "grid": 1.0, "login": 1.0}, "auth": {"login": 1.0}}
    >>> sorted(about(["grid", "colour", "login"], vocabulary, ["css", "auth"]))
    ['css']
    """
    return frozenset(
        name
        for name, (share, distinctive) in evidence(terms, vocabulary, efforts, recent).items()
        if share >= _REFERENCE_SHARE - _ROUNDING and distinctive >= KEYWORD_OVERLAP
    )


def evidence(
    terms: Iterable[str],
    vocabulary: Mapping[str, Keywords],
    efforts: Iterable[str],
    recent: Sequence[Collection[str]] = (),
) -> dict[str, tuple[float, int]]:
    """Return by effort the share of a text that its keywords weigh, and how many are distinctive.

    The fewer efforts of the `vocabulary` and recent turns have a keyword, the more it weighs. A
    keyword that a better matching effort has too counts by the ratio of both matches, squared: on
    LoCoMo that is better than the plain ratio (AUC 0.913 and 0.910).

    >>> words = {"x": {"a": 1.0, "b": 1.0}, "y": {"b": 1.0}}
    >>> {name: round(share, 2) for name, (share, _) in evidence("abc", words, words).items()}
    {'x': 0.34, 'y': 0.01}
    """
    text_terms = frozenset(terms)
    counts = Counter(term for words in vocabulary.values() for term in text_terms if term in words)
    recent_counts = Counter(term for turn in recent for term in counts if term in turn)
    log_total = log(len(vocabulary) + len(recent) + 1)
    # 1 for a term that one of them has, towards 0 for one that all have. Sorted, so that sums of
    # floats are the same each time.
    rarity = {t: 1 - log(counts[t] + recent_counts[t]) / log_total for t in sorted(counts)}
    weights = {
        name: {t: rarity[t] * vocabulary[name][t] for t in rarity if t in vocabulary[name]}
        for name in efforts
    }
    totals = {name: sum(matches.values()) for name, matches in weights.items()}
    best: dict[str, float] = {}
    for name, matches in weights.items():
        best |= {term: max(best.get(term, 0.0), totals[name]) for term in matches}
    limit = max(1, _DISTINCTIVE * len(vocabulary))
    distinctive = {term for term, count in counts.items() if count <= limit}
    scores = {}
    for name, matches in weights.items():
        ratios = {term: totals[name] / (best[term] or 1.0) for term in matches}
        weight = sum(matches[term] * ratios[term] ** 2 for term in matches)
        # One term more: the fewer a text has, the more of them are keywords by chance.
        scores[name] = weight / (len(text_terms) + 1), len(distinctive & matches.keys())
    return scores


MOST_KEYWORDS = 200
"""Keywords of one effort at most."""

KEYWORD_TURNS = 50
"""Newest turns of an effort that give keywords: it bounds what a long effort costs."""

_Terms: TypeAlias = Counter[str]  # terms, and the number of texts that each stands in

_LOG_WEIGHT = 0.4
"""Weight of a keyword that only the log has.

On the work dialogues 1 lets through 11 % of false references in place of 1 %; 0 finds 53 % of the
mentions in place of 88 %, and LoCoMo's AUC falls from 0.913 to 0.856.
"""

_FULL_WEIGHT = 25
"""Keywords that have the weight 1 even if from the log, for efforts with a short summary.

Summaries of the work dialogues and of LoCoMo have more: 20 and 35 measure the same.
"""

_CACHED = 8_000  # efforts, and turns, whose keywords are cached: the 200 weighed, of 20 sessions


class KeywordCache(LruCache[Any]):
    """The keywords of efforts, and the terms of their turns, as a log grows by one turn a time."""

    def __init__(self, limit: int = _CACHED) -> None:
        """Cache up to `limit` efforts and turns, of any session, for any thread."""
        super().__init__(limit)


def keywords_of(work: RunningTurn, effort: Effort, cache: KeywordCache) -> Keywords:
    """Return the keywords of an effort, from its committed turns."""
    view, last = work.view, effort.turn
    # Until its last turn is committed, and while it is open, the log still grows.
    if effort.status == "open" or effort.turn > view.tip.turn:
        last = next(reversed(view.log_turns(effort.id)), 0)
    key = (view.owner, effort, *view.ids_of(effort.id, [last]).values())
    keywords: Keywords = cache.get_or_make(key, partial(_keywords_of, work, effort, cache))
    return keywords


def _keywords_of(work: RunningTurn, effort: Effort, cache: KeywordCache) -> Keywords:
    session, name = parted(effort.id)
    turns, counts = work.view.log_turns(effort.id)[-KEYWORD_TURNS:], list[_Terms]()
    for record in work.view.turns_of(effort.id, turns):
        texts = (part[:_END] for message in record.messages for part in countable(message))
        key = (work.view.owner, session, record.id)
        counts.append(cache.get_or_make(key, partial(count_terms, texts)))
    heading = (name, effort.goal, effort.summary, *effort.keywords)
    # An open effort has no summary yet, so its log counts fully.
    full_weight = MOST_KEYWORDS if effort.status == "open" else _FULL_WEIGHT
    return keywords(heading, counts, MOST_KEYWORDS, full_weight)


def keywords(
    heading: Iterable[str], turns: Iterable[_Terms], limit: int, full_weight: int = _FULL_WEIGHT
) -> dict[str, float]:
    """Return up to `limit` keywords: the terms of the heading, then the most frequent of the turns.

    After `full_weight` keywords those of the turns weigh less than 1.

    >>> keywords(["auth-bug", "401"], [count_terms(["axios fails", "the axios code"])], 4)
    {'auth': 1.0, 'bug': 1.0, '401': 1.0, 'axio': 1.0}
    """
    log_terms = Counter[str]()
    for turn in turns:
        log_terms.update(turn)
    weights = dict.fromkeys((term for text in heading for term in content(text)), 1.0)
    for term, _ in log_terms.most_common():
        weights.setdefault(term, 1.0 if len(weights) < full_weight else _LOG_WEIGHT)
    return dict(islice(weights.items(), limit))


def count_terms(texts: Iterable[str]) -> _Terms:
    """Count the texts that each term stands in."""
    return Counter(term for text in texts for term in dict.fromkeys(content(text)))


_COMPARED = 200  # newest efforts that a keyword's rarity is counted over: all that have summaries

_EFFORT_EVENTS = frozenset({"opened", "switched", "reopened", "expanded", "collapsed", "concluded"})
"""The events of tool calls that name an effort."""

_RECENT = 20
"""Recent turns whose words weigh less, because the conversation uses them all the time.

On the work dialogues 10 let through three times as many false references, 40 lose a few true ones.
"""


def referenced(work: RunningTurn, cache: KeywordCache) -> EffortState:
    """Return the state with the references of the running turn, which has just ended.

    The summary of a mentioned effort returns if it was evicted. An effort that a tool result only
    lists is not referenced.
    """
    words = map(own_words, statements(work.view.running.messages))
    ids, elsewhere, texts = mentions(work, [*words])
    mentioned, state = ids | elsewhere | _foreign_by_name(work, ids), work.state
    evicted = mentioned.difference(state.open, state.summaries)
    for effort in sorted(work.view.efforts_named([*evicted], state.events), key=attrgetter("id")):
        if effort.status == "concluded":
            state = happened(state, {"type": "returned", "effort": effort.id})
    used = {event["effort"] for event in state.events if event["type"] in _EFFORT_EVENTS}
    mentioned |= used | _by_keywords(work, texts, cache)
    for name in (*state.open, *state.summaries):
        if name in mentioned and not _is_noted(state, name):
            state = happened(state, {"type": "referenced", "effort": name})
    return within_limit(state)


def _foreign_by_name(work: RunningTurn, mentioned: Collection[str]) -> frozenset[str]:
    """Return the efforts of other sessions that are mentioned by their unqualified names.

    A name that an effort of this session has too refers to that one.
    """
    names = {qualified: parted(qualified)[1] for qualified in _foreign_efforts(work)}
    names = {qualified: name for qualified, name in names.items() if name in mentioned}
    efforts = work.view.efforts_named(sorted({*names.values()}), work.state.events)
    own = {effort.id for effort in efforts}
    return frozenset(qualified for qualified, name in names.items() if name not in own)


def _by_keywords(work: RunningTurn, texts: Iterable[str], cache: KeywordCache) -> frozenset[str]:
    """Return the efforts in the context whose keywords mark one of these texts as about them."""
    in_context = work.known(list(dict.fromkeys([*work.state.open, *work.state.summaries])))
    if not in_context:
        return frozenset()
    efforts = {e.id: e for e in (*work.view.efforts(_COMPARED).efforts, *in_context)}
    vocabulary = {name: keywords_of(work, effort, cache) for name, effort in efforts.items()}
    ids, turns = [effort.id for effort in in_context], recent(work, cache)
    matches = (about(content(words), vocabulary, ids, turns) for words in texts)
    return frozenset[str]().union(*matches)


def recent(work: RunningTurn, cache: KeywordCache) -> list[Keywords]:
    """Return the terms of the recent turns that belong to no open effort.

    A turn that mentions an effort it does not belong to has none: otherwise the keywords of an
    effort that is discussed for long would weigh ever less.
    """
    view = work.view
    turns = {*range(max(1, view.tip.turn - _RECENT + 1), view.tip.turn + 1)}
    turns = turns.difference(*(view.log_turns(name)[-_RECENT:] for name in work.state.open))
    ids = view.archive.ids(view.owner, view.tip, sorted(turns))
    return [
        cache.get_or_make((view.owner, None, number), partial(_terms_of, work, turn))
        for turn, number in ids.items()
    ]


def _terms_of(work: RunningTurn, turn: int) -> Keywords:
    event_types, texts = _EFFORT_EVENTS | {"referenced"}, list[str]()
    for record in work.view.turns([turn]):
        mentioned = {event["effort"] for event in record.events if event["type"] in event_types}
        if mentioned <= {*record.efforts}:
            texts += map(own_words, statements(record.messages))
    return keywords(texts, (), MOST_KEYWORDS)


def _is_noted(state: EffortState, name: str) -> bool:
    """Tell whether this turn already counts as a reference of an effort."""
    entries = (state.open.get(name), state.expanded.get(name))
    turns = {entry["last_referenced_turn"] for entry in entries if entry is not None}
    return turns | {state.summaries.get(name, state.turn)} == {state.turn}
