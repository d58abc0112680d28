"""Which efforts the running turn mentions: by id, by their keywords, by a tool that names them.

The keywords of an effort are those of its name, goal and summary, and what its log repeats.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain, islice
from math import log
from operator import attrgetter
from typing import TypeAlias

from .banners import BANNER
from .efforts import KEYWORD_OVERLAP, Effort, EffortState, happened, within_limit
from .lru_cache import LruCache
from .messages import Message, answered, text, unquoted
from .names import SLUG_LENGTH, hyphenated, is_qualified, parted
from .running_turn import RunningTurn
from .terms import CJK, content
from .transcript import countable, spoken

Keywords: TypeAlias = Mapping[str, float]
"""Keywords, and how much each of them counts: 1 or less."""

_TOKEN = re.compile(f"[{CJK}]|[^-{CJK}]+")
"""A word of a name: of a script that does not part words, each character."""

_WORD = f"[^\\W{CJK}]"
"""A letter or digit that words are made of; of a script that does not part words each is one."""

# A session's name and an effort's, and no path, file or address.
_QUALIFIED = re.compile(r"(?<![\w.:@%~/-])[\w.:@%~-]{1,160}/[\w-]{1,64}(?![\w/-]|\.\w)")

_LONGEST = 16
"""Tokens of a name that is looked for in a text."""

_SOUGHT = 8
"""Qualified ids of one text that are looked up."""

_READ = 4_000
"""Characters at both ends of a text that are read: the middle of a longer one is pasted."""


@lru_cache(maxsize=4)  # a message is asked for hints, and then for references
def mentionable(text: str) -> frozenset[str]:
    """Return the ids that a text would mention: its runs of 1-16 words, joined by hyphens.

    >>> sorted(mentionable("the auth bug"))
    ['auth', 'auth-bug', 'bug', 'the', 'the-auth', 'the-auth-bug']
    """
    line = hyphenated(text)
    places = [match.span() for match in _TOKEN.finditer(line)]
    return frozenset(
        line[start:end]
        for at, (start, _) in enumerate(places)
        for _, end in places[at : at + _LONGEST]
        if end - start <= SLUG_LENGTH
    )


def qualified_words(text: str) -> tuple[str, ...]:
    """Return the first eight words that look like qualified ids; names of folders do too.

    >>> qualified_words("as in t1/Auth-Bug, see src/auth/api.ts")
    ('t1/Auth-Bug',)
    """
    return tuple(dict.fromkeys(_QUALIFIED.findall(text)))[:_SOUGHT]


def own_words(text: str) -> str:
    r"""Return what a text says itself: no banners and quotes of the memory.

    Of a text of more than 8,000 characters that is its beginning and its end.

    >>> own_words("Look:\n--- Concluded effort: a ---\nWhat now?")
    'Look:\n\nWhat now?'
    """
    words = BANNER.sub("", unquoted(text))
    return words if len(words) <= 2 * _READ else f"{words[:_READ]}\n{words[-_READ:]}"


def statements(messages: Sequence[Message]) -> list[str]:
    """Return what the user said in a turn, as one text, and the final answer as users see it."""
    asked = "\n".join(text(message) for message in messages if message["type"] == "human")
    return [asked, *([spoken(messages[-1])] if answered(messages) else [])]


def mentions(
    work: RunningTurn, texts: Sequence[str]
) -> tuple[frozenset[str], frozenset[str], list[str]]:
    """Return ids that texts would mention, efforts of other sessions that they name, and the rest.

    The rest are the texts without qualified ids, each of which mentions no effort of this session
    that has the same name. Besides efforts in the context a bounded number is looked up, which may
    have left it.
    """
    names = dict[str, str]()
    for word in chain.from_iterable(map(qualified_words, texts)):
        session, name = parted(word)
        names[word] = f"{session}/{hyphenated(name)}"
    stored = {effort.id for effort in work.view.efforts_named([*{*names.values()}], ())}
    words = {word: name for word, name in names.items() if name in stored and is_qualified(name)}
    words |= {name: name for name in _known_elsewhere(work)}
    elsewhere, others = set[str](), [*texts]
    for word in sorted(words, key=len, reverse=True):
        whole = rf"(?<!{_WORD})(?<![@%~/-]){re.escape(word)}(?!{_WORD})"
        pattern = re.compile(whole, re.IGNORECASE)
        if any(map(pattern.search, texts)):
            elsewhere.add(words[word])
        others = [pattern.sub(" ", other) for other in others]
    return frozenset[str]().union(*map(mentionable, others)), frozenset(elsewhere), others


def _known_elsewhere(work: RunningTurn) -> tuple[str, ...]:
    """Return the efforts of other sessions in the context, and those found in this turn."""
    searches = (event["efforts"] for event in work.state.events if event["type"] == "searched")
    names = [*work.state.summaries, *(name for listed in searches for name in listed)]
    return tuple(dict.fromkeys(filter(is_qualified, names)))


_REFERENCE_SHARE = 0.2
"""Weight in a message, a fraction of its terms, that `KEYWORD_OVERLAP` keywords or more must have.

Both and the bounds below are one operating point, measured together."""

_FEW = 0.5
"""The share of the efforts that may have a distinctive keyword; one effort always may."""

_ROUNDING = 1e-9
"""Lest a sum in another order falls below a bound."""


def about(
    terms: Iterable[str],
    vocabulary: Mapping[str, Keywords],
    efforts: Iterable[str],
    recent: Sequence[Collection[str]] = (),
) -> frozenset[str]:
    """Return which of these efforts a text with these terms is about; see `evidence`.

    Its keywords have the share `_REFERENCE_SHARE` at least, and `KEYWORD_OVERLAP` are distinctive.

    >>> known = {"css": {"colour": 1.0, "grid": 1.0, "login": 1.0}, "auth": {"login": 1.0}}
    >>> sorted(about(["grid", "colour", "login"], known, ["css", "auth"]))
    ['css']
    """
    found = evidence(terms, vocabulary, efforts, recent)
    return frozenset(
        name
        for name, (share, distinctive) in found.items()
        if share >= _REFERENCE_SHARE - _ROUNDING and distinctive >= KEYWORD_OVERLAP
    )


def evidence(
    terms: Iterable[str],
    vocabulary: Mapping[str, Keywords],
    efforts: Iterable[str],
    recent: Sequence[Collection[str]] = (),
) -> dict[str, tuple[float, int]]:
    """Return what share of a text each effort's keywords weigh, and how many are distinctive.

    The fewer efforts of the `vocabulary` and recent turns have a keyword, the more it weighs. One
    that a better matching effort has too weighs less by how much worse this one matches, squared:
    on LoCoMo that is better than the plain ratio (AUC 0.913 and 0.910).

    >>> known = {"x": {"a": 1.0, "b": 1.0}, "y": {"b": 1.0}}
    >>> {name: round(share, 2) for name, (share, _) in evidence("abc", known, known).items()}
    {'x': 0.34, 'y': 0.01}
    """
    spoken = frozenset(terms)
    among = Counter(term for known in vocabulary.values() for term in spoken if term in known)
    heard = Counter(term for turn in recent for term in among if term in turn)
    most = log(len(vocabulary) + len(recent) + 1)
    # 1 for what one of them has, towards 0 for what all have.
    weights = {term: 1 - log(count + heard[term]) / most for term, count in among.items()}
    shared = {
        name: {term: weights[term] * known[term] for term in sorted(weights.keys() & known.keys())}
        for name, known in ((name, vocabulary[name]) for name in efforts)
    }
    plain = {name: sum(both.values()) for name, both in shared.items()}
    best: dict[str, float] = {}
    for name, both in shared.items():
        best |= {term: max(best.get(term, 0.0), plain[name]) for term in both}
    rare = {term for term, count in among.items() if count <= max(1, _FEW * len(vocabulary))}
    found = {}
    for name, both in shared.items():
        shares = {term: plain[name] / (best[term] or 1.0) for term in both}
        weight = sum(both[term] * shares[term] ** 2 for term in both)
        # One term more: the fewer a text has, the more of them are keywords by chance.
        found[name] = weight / (len(spoken) + 1), len(rare & both.keys())
    return found


MOST_KEYWORDS = 200
"""Keywords of one effort."""

KEYWORD_TURNS = 50
"""Newest turns of an effort that keywords are taken from, so that none costs more than that."""

_Terms: TypeAlias = Counter[str]
"""Terms, and in how many texts each of them stands."""

_LOGGED = 0.4
"""What a keyword counts that only the log has.

On the work dialogues 1 lets through 11 % of false references in place of 1 %; 0 finds 53 % of the
mentions in place of 88 %, and LoCoMo's AUC falls from 0.913 to 0.856.
"""

_FULL = 25
"""Keywords that count fully wherever they are from, should the summary say little.

Summaries of the work dialogues and of LoCoMo have more: 20 and 35 measure the same.
"""

_HELD = 4_000
"""Efforts, and turns, whose keywords are held: those of 20 sessions with 200 that are weighed."""


class KeywordCache(LruCache[Keywords]):
    """Keywords of efforts with a given log, and of turns, which never change; those used last.

    `turns` are the terms of turns: an open effort has another log after each.
    """

    def __init__(self, limit: int = _HELD) -> None:
        """Hold the keywords of up to `limit` efforts and turns, of any session, in any thread."""
        super().__init__(limit)
        self.turns: LruCache[_Terms] = LruCache(limit)

    def clear(self) -> None:
        """Hold nothing any more."""
        super().clear()
        self.turns.clear()


def keywords_of(work: RunningTurn, effort: Effort, cache: KeywordCache) -> Keywords:
    """Return the keywords of an effort without the running turn, at a bounded cost."""
    view, last = work.view, effort.turn
    # Until its last turn is committed, and while it is open, the log still grows.
    if effort.status == "open" or effort.turn > view.tip.turn:
        last = next(reversed(view.log_turns(effort.id)), 0)
    key = (view.owner, view.tip.branch, effort, last)
    return cache.get_or_make(key, partial(_keywords_of, work, effort, cache))


def _keywords_of(work: RunningTurn, effort: Effort, cache: KeywordCache) -> Keywords:
    session, name = parted(effort.id)
    turns, counts = work.view.log_turns(effort.id)[-KEYWORD_TURNS:], list[_Terms]()
    for record in work.view.turns_of(effort.id, turns):
        texts = (part[:_READ] for message in record.messages for part in countable(message))
        key = (work.view.owner, session, record.branch, record.turn)
        counts.append(cache.turns.get_or_make(key, partial(counted, texts)))
    heading = (name, effort.goal, effort.summary, *effort.keywords)
    # An open effort has no summary: its log is what it is about.
    full = MOST_KEYWORDS if effort.status == "open" else _FULL
    return keywords(heading, counts, MOST_KEYWORDS, full)


def keywords(
    heading: Iterable[str], turns: Iterable[_Terms], limit: int, full: int = _FULL
) -> dict[str, float]:
    """Return up to `limit` keywords: those of the heading, then of the log the most repeated.

    Those of the log, given turn by turn, count less than 1 if there are `full` others.

    >>> keywords(["auth-bug", "401"], [counted(["axios fails", "the axios code"])], 4)
    {'auth': 1.0, 'bug': 1.0, '401': 1.0, 'axio': 1.0}
    """
    logged = Counter[str]()
    for turn in turns:
        logged.update(turn)
    weights = dict.fromkeys((term for text in heading for term in content(text)), 1.0)
    for term, _ in logged.most_common():
        weights.setdefault(term, 1.0 if len(weights) < full else _LOGGED)
    return dict(islice(weights.items(), limit))


def counted(texts: Iterable[str]) -> _Terms:
    """Count in how many of these texts each term stands."""
    return Counter(term for text in texts for term in dict.fromkeys(content(text)))


def speaks_of(work: RunningTurn, words: str, effort: Effort) -> bool:
    """Tell whether words mention an effort, by its id or by its keywords alone."""
    keywords = {effort.id: keywords_of(work, effort, KeywordCache())}
    return effort.id in mentionable(words) or bool(about(content(words), keywords, [effort.id]))


_WEIGHED = 200
"""Newest efforts among which a keyword's rarity is counted: those whose summaries may stand."""

_USING = frozenset({"opened", "switched", "reopened", "expanded", "collapsed", "concluded"})
"""The events of tool calls that name an effort."""

_RECENT = 20
"""Turns that tell which words the talk uses all the time.

On the work dialogues 10 let through three times as many false references, 40 lose a few true ones.
"""


def referenced(work: RunningTurn, cache: KeywordCache) -> EffortState:
    """Return the state after the references of the running turn, which is at its end.

    A mentioned effort whose summary was evicted returns. What is only listed is no reference.
    """
    words = map(own_words, statements(work.view.running.messages))
    ids, elsewhere, texts = mentions(work, [*words])
    named, state = ids | elsewhere | _named_elsewhere(work, ids), work.state
    away = named.difference(state.open, state.summaries)
    for effort in sorted(work.view.efforts_named([*away], state.events), key=attrgetter("id")):
        if effort.status == "concluded":
            state = happened(state, {"type": "returned", "effort": effort.id})
    using = {event["effort"] for event in state.events if event["type"] in _USING}
    mentioned = named | using | _by_keywords(work, texts, cache)
    for name in (*state.open, *state.summaries):
        if name in mentioned and not _is_noted(state, name):
            state = happened(state, {"type": "referenced", "effort": name})
    return within_limit(state)


def _named_elsewhere(work: RunningTurn, named: Collection[str]) -> frozenset[str]:
    """Return the efforts of other sessions in the context, or found in this turn, by their names.

    If an effort of this session has one of the mentioned names, it is meant.
    """
    ids = {name: parted(name)[1] for name in _known_elsewhere(work)}
    ids = {name: bare for name, bare in ids.items() if bare in named}
    efforts = work.view.efforts_named(sorted({*ids.values()}), work.state.events)
    own = {effort.id for effort in efforts}
    return frozenset(name for name, bare in ids.items() if bare not in own)


def _by_keywords(work: RunningTurn, texts: Iterable[str], cache: KeywordCache) -> frozenset[str]:
    """Weigh keywords by the newest efforts, those in the context, and the recent turns."""
    near = work.known(list(dict.fromkeys([*work.state.open, *work.state.summaries])))
    if not near:
        return frozenset()
    efforts = {effort.id: effort for effort in (*work.view.efforts(_WEIGHED).efforts, *near)}
    vocabulary = {name: keywords_of(work, effort, cache) for name, effort in efforts.items()}
    ids, turns = [effort.id for effort in near], recent(work, cache)
    meant = (about(content(words), vocabulary, ids, turns) for words in texts)
    return frozenset[str]().union(*meant)


def recent(work: RunningTurn, cache: KeywordCache) -> list[Keywords]:
    """Return the terms of the recent turns, each read once, without those of open efforts.

    Turns that mention another effort are empty: else one that is talked of for long would be
    mentioned by ever fewer of its words.
    """
    view = work.view
    turns = {*range(max(1, view.tip.turn - _RECENT + 1), view.tip.turn + 1)}
    turns = turns.difference(*(view.log_turns(name)[-_RECENT:] for name in work.state.open))
    keys = {turn: (view.owner, view.tip.branch, None, turn) for turn in sorted(turns)}
    return [cache.get_or_make(key, partial(_terms_of, work, turn)) for turn, key in keys.items()]


def _terms_of(work: RunningTurn, turn: int) -> Keywords:
    mentioning, texts = _USING | {"referenced"}, list[str]()
    for record in work.view.turns([turn]):
        named = {event["effort"] for event in record.events if event["type"] in mentioning}
        if named <= {*record.efforts}:
            texts += map(own_words, statements(record.messages))
    return keywords(texts, (), MOST_KEYWORDS)


def _is_noted(state: EffortState, name: str) -> bool:
    """Tell whether every counter of an effort stands at this turn already."""
    entries = (state.open.get(name), state.expanded.get(name))
    turns = [entry["last_referenced_turn"] for entry in entries if entry is not None]
    return {*turns, state.summaries.get(name, state.turn)} == {state.turn}
