"""Which efforts the running turn mentions: by id, by their keywords, by a tool that names them.

The keywords of an effort are those of its name, goal and summary, and what its log repeats.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache, partial
from itertools import islice
from operator import attrgetter
from typing import TypeAlias

from .banners import BANNER
from .efforts import Effort, EffortState, happened, within_limit
from .keywords import MOST_KEYWORDS, Keywords, about
from .lately import Lately
from .messages import Message, answered, text, unquoted
from .names import SLUG_LENGTH, hyphenated, is_qualified, parted
from .record import Record
from .running_turn import RunningTurn
from .terms import CJK, content
from .transcript import countable, spoken

_TOKEN = re.compile(f"[{CJK}]|[^-{CJK}]+")
"""A word of a name: of a script that does not part words, each character."""

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
    """Return the ids that a text would mention: its runs of whole words, joined by hyphens.

    CJK text does not part its words, so that each of its characters counts as one. Runs are of
    16 words at most.

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
    """Return the words of a text that look like qualified ids, the first eight of them.

    Whether there is such an effort is another question: names of folders look the same.

    >>> qualified_words("as in t1/Auth-Bug, see src/auth/api.ts")
    ('t1/Auth-Bug',)
    """
    return tuple(dict.fromkeys(_QUALIFIED.findall(text)))[:_SOUGHT]


def own_words(text: str) -> str:
    r"""Return what a text says itself: without banners and quotes of the memory.

    Of a text of more than 8,000 characters that is its beginning and its end.

    >>> own_words("Look:\n--- Concluded effort: a ---\nWhat now?")
    'Look:\n\nWhat now?'
    """
    said = BANNER.sub("", unquoted(text))
    return said if len(said) <= 2 * _READ else f"{said[:_READ]}\n{said[-_READ:]}"


_WORD = f"[^\\W{CJK}]"
"""A letter or digit that words are made of; of a script that does not part words each is one."""


def mentions(work: RunningTurn, texts: Sequence[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the efforts of other sessions that texts name by qualified ids, and the texts without.

    The ids are taken out, so that they mention no effort of this session that has the same name.
    Besides those in the context a bounded number is looked up, which may have left it.
    """
    written = dict.fromkeys(word for text in texts for word in qualified_words(text))
    names = {word: _canonical(word) for word in written}
    stored = {effort.id for effort in work.view.efforts_named([*set(names.values())], ())}
    words = {word: name for word, name in names.items() if name in stored and is_qualified(name)}
    words |= {name: name for name in _found_elsewhere(work)}
    named = {name for word, name in words.items() if any(map(_pattern(word).search, texts))}
    return frozenset(named), tuple(_without(text, words) for text in texts)


def _named_elsewhere(work: RunningTurn, named: Collection[str]) -> frozenset[str]:
    """Return the efforts of other sessions that are in the context, or were found, by their names.

    `named` are the names that were mentioned; an effort of this session with that name is meant.
    """
    ids = {name: parted(name)[1] for name in _found_elsewhere(work)}
    asked = sorted({bare for bare in ids.values() if bare in named})
    own = {effort.id for effort in work.view.efforts_named(asked, work.state.events)}
    return frozenset(name for name, bare in ids.items() if bare in named and bare not in own)


def _found_elsewhere(work: RunningTurn) -> tuple[str, ...]:
    """Return the efforts of other sessions in the context, and those found in this turn."""
    searches = (event["efforts"] for event in work.state.events if event["type"] == "searched")
    names = [*work.state.summaries, *(name for listed in searches for name in listed)]
    return tuple(dict.fromkeys(filter(is_qualified, names)))


def _canonical(written: str) -> str:
    session, name = parted(written)
    return f"{session}/{hyphenated(name)}"


def _without(text: str, words: Iterable[str]) -> str:
    for word in sorted(words, key=len, reverse=True):
        text = _pattern(word).sub(" ", text)
    return text


def _pattern(word: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!{_WORD})(?<![@%~/-]){re.escape(word)}(?!{_WORD})", re.IGNORECASE)


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


class KeywordCache(Lately[Keywords]):
    """Keywords of efforts with a given log, and of turns, which never change; those used last.

    `turns` are the terms of turns, since an open effort has another log after each.
    """

    def __init__(self, limit: int = _HELD) -> None:
        """Hold the keywords of up to `limit` efforts and turns, of any session, in any thread."""
        super().__init__(limit)
        self.turns: Lately[_Terms] = Lately(limit)

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
    return cache.once(key, partial(_made, work, effort, cache))


def _made(work: RunningTurn, effort: Effort, cache: KeywordCache) -> Keywords:
    session, name = parted(effort.id)
    turns = work.view.log_turns(effort.id)[-KEYWORD_TURNS:]
    records = work.view.turns_of(effort.id, turns)
    keys = ((work.view.owner, session, record.branch, record.turn) for record in records)
    log = [
        cache.turns.once(key, partial(_terms_of, record))
        for key, record in zip(keys, records, strict=True)
    ]
    heading = (name, effort.goal, effort.summary, *effort.keywords)
    # An open effort has no summary: its log is what it is about.
    full = MOST_KEYWORDS if effort.status == "open" else _FULL
    return keywords(heading, log, MOST_KEYWORDS, full)


def _terms_of(record: Record) -> _Terms:
    return counted(said[:_READ] for message in record.messages for said in countable(message))


def keywords(
    heading: Iterable[str], log: Iterable[_Terms], limit: int, full: int = _FULL
) -> dict[str, float]:
    """Return up to `limit` keywords: those of the heading, then of the log the most repeated.

    Those of the log, which are given turn by turn, count less than 1 if there are `full` others.

    >>> keywords(["auth-bug", "401"], [counted(["axios fails", "the axios code"])], 4)
    {'auth': 1.0, 'bug': 1.0, '401': 1.0, 'axio': 1.0}
    """
    said = Counter[str]()
    for turn in log:
        said.update(turn)
    known = dict.fromkeys((term for text in heading for term in content(text)), 1.0)
    for term, _ in said.most_common():
        known.setdefault(term, 1.0 if len(known) < full else _LOGGED)
    return dict(islice(known.items(), limit))


def counted(texts: Iterable[str]) -> _Terms:
    """Count in how many of these texts each term stands.

    >>> counted(["axios fails", "the axios code"])
    Counter({'axio': 2, 'fail': 1, 'code': 1})
    """
    return Counter(term for text in texts for term in dict.fromkeys(content(text)))


_WEIGHED = 200
"""Newest efforts among which a keyword's rarity is counted: those whose summaries may stand."""

_USING = frozenset({"opened", "switched", "reopened", "expanded", "collapsed", "concluded"})
"""The events of tool calls that name an effort."""

_MENTIONING = _USING | {"referenced"}

_RECENT = 20
"""Turns that tell which words the talk uses all the time.

On the work dialogues 10 let through three times as many false references, 40 lose a few true ones.
"""


def referenced(work: RunningTurn, cache: KeywordCache) -> EffortState:
    """Return the state after the references of the running turn, which is at its end.

    A mentioned effort whose summary was evicted returns. What is only listed is no reference.
    Efforts of other sessions are mentioned by their qualified ids, or by their names if they are
    in the context or were found in this turn, and no effort of this session has the name.
    """
    said = statements(work.view.running.messages)
    elsewhere, texts = mentions(work, [*map(own_words, said)])
    named = frozenset[str]().union(*map(mentionable, texts))
    named |= elsewhere | _named_elsewhere(work, named)
    state = _returned(work, named)
    using = {event["effort"] for event in state.events if event["type"] in _USING}
    mentioned = named | using | _by_keywords(work, texts, cache)
    for name in (*state.open, *state.summaries):
        if name in mentioned and not _noted(state, name):
            state = happened(state, {"type": "referenced", "effort": name})
    return within_limit(state)


def statements(messages: Sequence[Message]) -> list[str]:
    """Return what the user said in a turn, as one text, and the final answer if there is one.

    The answer is as users see it, without the state block that the model keeps.
    """
    asked = "\n".join(text(message) for message in messages if message["type"] == "human")
    return [asked, *([spoken(messages[-1])] if answered(messages) else [])]


def _returned(work: RunningTurn, named: Iterable[str]) -> EffortState:
    state = work.state
    away = frozenset(named).difference(state.open, state.summaries)
    efforts = work.view.efforts_named([*away], state.events)
    for effort in sorted(efforts, key=attrgetter("id")):
        if effort.status == "concluded":
            state = happened(state, {"type": "returned", "effort": effort.id})
    return state


def _by_keywords(work: RunningTurn, texts: Iterable[str], cache: KeywordCache) -> frozenset[str]:
    """Weigh keywords by the newest efforts, those in the context, and the recent turns."""
    near = work.known(list(dict.fromkeys([*work.state.open, *work.state.summaries])))
    if not near:
        return frozenset()
    newest = work.view.efforts(_WEIGHED).efforts
    efforts = {effort.id: effort for effort in (*newest, *near)}
    known = {name: keywords_of(work, effort, cache) for name, effort in efforts.items()}
    ids = [effort.id for effort in near]
    turns = recent(work, cache)
    meant = (about(content(said), known, ids, turns) for said in texts)
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
    return [cache.once(key, partial(_said, work, turn)) for turn, key in keys.items()]


def _said(work: RunningTurn, turn: int) -> Keywords:
    records = (record for record in work.view.turns([turn]) if not _mentions(record))
    texts = (own_words(said) for record in records for said in statements(record.messages))
    return keywords(texts, (), MOST_KEYWORDS)


def _mentions(record: Record) -> bool:
    """Tell whether a turn mentioned another effort than those that it belongs to."""
    named = (event for event in record.events if event["type"] in _MENTIONING)
    return any(event["effort"] not in record.efforts for event in named)


def _noted(state: EffortState, name: str) -> bool:
    """Tell whether every counter of an effort stands at this turn already."""
    entries = (state.open.get(name), state.expanded.get(name))
    turns = [entry["last_referenced_turn"] for entry in entries if entry is not None]
    return {*turns, state.summaries.get(name, state.turn)} == {state.turn}
