"""Find the efforts that the running turn refers to, and why: id, keywords, tool call or search."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from heapq import nlargest
from itertools import chain, filterfalse, islice
from math import fsum, log
from operator import attrgetter
from typing import Literal, NamedTuple, TypeAlias

from langchain_core.messages import BaseMessage

from .archive.query import Pointing, pointing
from .banners import BANNER
from .efforts import Efforts, happened, within_limit
from .keywords import (
    ASSISTANT_WEIGHT,
    END,
    MOST_KEYWORDS,
    KeywordCache,
    Keywords,
    about,
    efforts_with,
    ends,
    keywords_of,
    number_of,
    passages_of,
    referring,
    terms_of,
)
from .messages import answered, calls, text
from .names import SLUG_LENGTH, hyphenated, is_qualified, parted
from .recalled import result_of
from .running_turn import Turn
from .search.languages import language, may_be_german, stemmed
from .search.terms import (
    CJK,
    LETTER,
    content,
    folded,
    indexed,
    long_enough,
    names,
    spellings,
    stem,
    words,
)
from .transcript import visible_text
from .turn import Event

_TOKEN = re.compile(f"[{CJK}]|[^-{CJK}]+")
"""A word of a name; in scripts without spaces each character is one."""

# `session/effort`, but no longer path, file name or web address.
_QUALIFIED = re.compile(r"(?<![\w.:@%~/-])[\w.:@%~-]{1,160}/[\w-]{1,64}(?![\w/-]|\.\w)")

_NAME_WORDS = 16  # words of the longest name that is looked for in a text
_AT_ONCE = 10_000  # ids of a long text that are looked up at once: all of a page would fill memory
_QUALIFIED_IDS = 8  # qualified ids of one text that are looked up: each may cost a query


@lru_cache(maxsize=8)  # the hints and the references of a turn read the same texts
def mentionable(text: str) -> frozenset[str]:
    """Return all effort ids that a text could mention: 1-16 successive words, joined by hyphens.

    >>> sorted(mentionable("the auth bug"))
    ['auth', 'auth-bug', 'bug', 'the', 'the-auth', 'the-auth-bug']
    """
    return frozenset(_runs_of_words(text))


def _runs_of_words(text: str, first: Collection[str] | None = None) -> Iterator[str]:
    """Yield the runs of successive words, with `first` only those that begin with one of these."""
    line = hyphenated(text)
    spans = [*map(re.Match.span, _TOKEN.finditer(line))]
    for at, (start, first_end) in enumerate(spans):
        if first is not None and line[start:first_end] not in first:
            continue
        for _, end in spans[at : at + _NAME_WORDS]:
            if end - start > SLUG_LENGTH:
                break
            yield line[start:end]


def qualified_words(text: str) -> tuple[str, ...]:
    """Return the first eight words that look like `session/effort`; some are folder names.

    >>> qualified_words("as in t1/Auth-Bug, see src/auth/api.ts")
    ('t1/Auth-Bug',)
    """
    return tuple(dict.fromkeys(_QUALIFIED.findall(text)))[:_QUALIFIED_IDS]


def own_words(text: str) -> str:
    r"""Return a text without the banners of the memory.

    >>> own_words("Look:\n--- Concluded effort: a ---\nWhat now?")
    'Look:\n\nWhat now?'
    """
    return BANNER.sub("", text)


def statements(messages: Sequence[BaseMessage]) -> list[str]:
    """Return the user's messages of a turn as one text, then the final answer as users see it.

    >>> said = HumanMessage("Which port?")
    >>> statements([said, AIMessage("8443.")])
    ['Which port?', '8443.']
    """
    said = [text(message, "\n") for message in messages if message.type == "human"]
    return ["\n".join(said), *([visible_text(messages[-1], "\n")] if answered(messages) else [])]


def mentions(work: Turn, texts: Sequence[str]) -> tuple[frozenset[str], frozenset[str], list[str]]:
    """Return ids that texts could mention, efforts of other sessions in them, and their remainders.

    A remainder is a text without the qualified ids: `t1/auth-bug` must not count as a mention of
    this session's `auth-bug`. Efforts outside the context are looked up too, a few per text. Of the
    ids that a long text could mention only those of existing efforts are returned.
    """
    names = dict[str, str]()
    for said in texts:
        # The ends of a long text first: a pasted page may be full of paths.
        for word in qualified_words(f"{ends(said)}\n{said}") if "/" in said else ():
            session, name = parted(word)
            names[word] = f"{session}/{hyphenated(name)}"
    written = dict[str, str]()
    if names:
        known = {effort.id for effort in work.view.efforts_named([*{*names.values()}], ())}
        written = {word: id_ for word, id_ in names.items() if id_ in known and is_qualified(id_)}
    foreign = _foreign_efforts(work)
    written |= {name: name for name in foreign}
    lowered = [said.lower() for said in texts] if written else []
    mentioned, remainders = set[str](), [*texts]
    # The longest first: a shorter id may be the end of a longer one.
    for word in sorted(written, key=len, reverse=True):
        if not any(word.lower() in said for said in lowered):
            continue  # in a long text a pattern takes far longer
        whole_word = rf"(?<!{LETTER})(?<![@%~/-]){re.escape(word)}(?!{LETTER})"
        pattern = re.compile(whole_word, re.IGNORECASE)
        if any(map(pattern.search, texts)):
            mentioned.add(written[word])
        remainders = [pattern.sub(" ", remainder) for remainder in remainders]
    ids = frozenset[str]().union(*(_ids_in(work, said, foreign) for said in remainders))
    return ids, frozenset(mentioned), remainders


def _ids_in(work: Turn, text: str, foreign: Iterable[str]) -> frozenset[str]:
    """Return all ids that a text could mention; of a long text those of existing efforts."""
    if len(text) <= 2 * END:
        return mentionable(text)
    names, found = {parted(name)[1] for name in foreign}, set[str]()
    stored = work.view.past.effort_names()
    if stored is not None:
        names |= stored | work.efforts.open.keys() | work.efforts.summaries.keys()
        first = {word[0] for word in map(_TOKEN.match, names) if word}
        return frozenset(names.intersection(_runs_of_words(text, first) if first else ()))
    runs = _runs_of_words(text)  # of a page they are a million
    while part := {*islice(runs, _AT_ONCE)}:
        found |= names & part
        found.update(effort.id for effort in work.known([*part]))
    return frozenset(found)


def _foreign_efforts(work: Turn) -> tuple[str, ...]:
    """Return the efforts of other sessions that the context or a search of this turn showed."""
    found = (one["efforts"] for one in work.efforts.events if one["type"] == "searched")
    return tuple(dict.fromkeys(filter(is_qualified, chain(work.efforts.summaries, *found))))


_COMPARED = 200  # newest efforts that a keyword's rarity is counted over: all that have summaries

_BEGINNING_AND_END = frozenset({"opened", "concluded"})  # they set the counter of an effort anyway

_TOOLS: Mapping[str, str] = {
    "switched": "switch_effort",
    "reopened": "reopen_effort",
    "expanded": "expand_effort",
    "collapsed": "collapse_effort",
}
"""The tools whose calls name an effort, by their events; `effort_status` leaves a reference."""

_EFFORT_EVENTS = _BEGINNING_AND_END | _TOOLS.keys()

ReferenceKind: TypeAlias = Literal["id", "keywords", "tool", "search"]
"""Why a turn references an effort: its id or keywords were said, a tool called, a result used."""

_RECENT = 20
"""Recent turns whose words weigh less, because the conversation uses them all the time.

On the work dialogues 10 let through three times as many false references, 40 lose a few true ones.
"""


def referenced(work: Turn, cache: KeywordCache) -> Efforts:
    """Return the state with the references of the running turn, which has just ended.

    Each is an event with its kind and words. The summary of a mentioned effort returns if it was
    evicted. An effort that a tool result only lists is not referenced.
    """
    state, found = work.efforts, _references(work, cache)
    evicted = found.keys() - state.open.keys() - state.summaries.keys()
    for effort in sorted(work.view.efforts_named([*evicted], state.events), key=attrgetter("id")):
        if effort.status == "concluded":
            state = happened(state, {"type": "returned", "effort": effort.id})
    noting = _BEGINNING_AND_END | {"referenced"}
    noted = {event["effort"] for event in state.events if event["type"] in noting}
    for name in (*state.open, *state.summaries):
        if name in found and name not in noted:
            state = happened(state, reference(name, *found[name]))
    return within_limit(state)


def reference(effort: str, kind: ReferenceKind, words: Sequence[str]) -> Event:
    """Return the event of a reference, with the reason for it.

    >>> reference("auth-bug", "keywords", ["token", "refresh"])["kind"]
    'keywords'
    """
    return {"type": "referenced", "effort": effort, "kind": kind, "words": [*words]}


def _references(work: Turn, cache: KeywordCache) -> dict[str, tuple[ReferenceKind, list[str]]]:
    """Return the efforts that the turn refers to, each with the first kind that holds."""
    said = statements(work.view.running.messages)
    ids, elsewhere, whole = mentions(work, [*map(own_words, said)])
    newest, texts = work.view.past.efforts(_COMPARED), [*map(ends, whole)]
    mentioned = ids | elsewhere | _as_typed(work, texts)
    if foreign := _foreign_efforts(work):
        named = {one: name for one in foreign if (name := parted(one)[1]) in ids}
        efforts = work.view.efforts_named(sorted({*named.values()}), work.efforts.events)
        own = {effort.id for effort in efforts}  # a name that one of these has refers to that
        mentioned |= {one for one, name in named.items() if name not in own}
    found: dict[str, tuple[ReferenceKind, list[str]]] = {}
    in_context, compared = {*work.efforts.open, *work.efforts.summaries}, [*newest.efforts]
    for effort in work.known([*(mentioned | in_context)]):
        compared += [effort] if effort.id in in_context else []
        if effort.id in mentioned:
            found[effort.id] = "id", [effort.id]
    for event in work.efforts.events:
        if tool := _TOOLS.get(event["type"]):
            found.setdefault(event["effort"], ("tool", [tool]))
    results = _results(work.view.running.messages) if said[1:] else {}
    for effort in compared:  # a result has no summary that the context has
        if effort.id in results and effort.summary not in results[effort.id]:
            results[effort.id] += f"\n{effort.summary}"
    sought = results or in_context - {work.efforts.active}
    vocabulary = keywords_of(work, compared, cache) if sought else {}
    by_kind: dict[ReferenceKind, Mapping[str, Sequence[str]]] = {
        "keywords": _by_keywords(work, texts, vocabulary, cache),
        "search": _used_results(work, results, vocabulary) if results else {},
    }
    spoken = dict.fromkeys(chain.from_iterable(map(words, texts))) if any(by_kind.values()) else {}
    written = {term: word for word in reversed(spoken) for term in content(word)}
    for kind, repeated in by_kind.items():
        for name, terms in repeated.items():
            found.setdefault(name, (kind, [written.get(term, term) for term in terms]))
    return found


def _by_keywords(
    work: Turn, texts: Sequence[str], vocabulary: Mapping[str, Keywords], cache: KeywordCache
) -> dict[str, tuple[str, ...]]:
    """Return the efforts in the context that the question or the answer is about, and by which."""
    ids = [name for name in (*work.efforts.open, *work.efforts.summaries) if name in vocabulary]
    if not ids:
        return {}
    turns, overlap = recent(work, cache), work.run.settings.min_keyword_overlap
    found: dict[str, tuple[str, ...]] = {}
    texts = [referring(said, vocabulary) for said in texts]
    for said in texts:
        found = about(passages_of(said), vocabulary, ids, turns, overlap=overlap) | found
    left = {name: vocabulary[name] for name in ids if name not in found}
    if left and len(vocabulary) >= MANY:
        found |= said_mostly(pointing(work.view.past, texts[0]), left, overlap=overlap)
    return found


def _as_typed(work: Turn, texts: Iterable[str]) -> set[str]:
    """Return ids that stand in texts without their accents, or of several words with other endings.

    Only the ends of a long text are read, and of thousands of efforts those in the context. Nothing
    is looked for where the active effort is the only one.
    """
    in_context = filterfalse(is_qualified, (*work.efforts.open, *work.efforts.summaries))
    names = frozenset(in_context) | (work.view.past.effort_names() or frozenset())
    found = set[str]()
    for said in chain.from_iterable(map(spellings, texts)) if names - {work.efforts.active} else ():
        for of in {"english", language(said) or "english", work.run.settings.language or "english"}:
            by_stems = _ids_by_stems(names, of)
            runs = {run for run in _runs_of_words(_stems(said, of)) if "-" in run}
            found.update(*(by_stems[run] for run in runs.union(words(said)) & by_stems.keys()))
    return found


@lru_cache(maxsize=16)  # sets of ids, each in the languages of its session's texts
def _ids_by_stems(names: frozenset[str], of: str) -> Mapping[str, Sequence[str]]:
    """Return ids by the stems of their words; one of a single word, often said, by the word."""
    found = dict[str, list[str]]()
    for name in names:
        for spelled in spellings(name):
            key = _stems(spelled, of) if "-" in name else folded(spelled)
            found.setdefault(key, []).append(name)
    return found


def _stems(text: str, of: str) -> str:
    return "-".join(stem(stemmed(word, of)) for word in words(text))


_REPEATED = 2  # words of a search result that an answer repeats if it uses it


def _used_results(
    work: Turn, results: Mapping[str, str], vocabulary: Mapping[str, Keywords]
) -> dict[str, list[str]]:
    """Return the efforts whose search results the answer repeats, with the words that it repeats.

    Those are words that neither the question nor the query has, and that few efforts have, or one
    number, name or identifier that no other result has.
    """
    messages = work.view.running.messages
    asked, answer = statements(messages)
    searches = (one for one in chain(*map(calls, messages)) if one.get("name") == "search_efforts")
    asked, answer = f"{asked} {[one.get('args') for one in searches]}", ends(own_words(answer))
    counts, limit = efforts_with({*terms_of(answer)}, vocabulary), max(1, len(vocabulary) // 2)
    found = dict[str, list[str]]()
    for name, shown in results.items():
        new = {*terms_of(shown)}.difference(terms_of(asked))
        repeated = [one for one in terms_of(answer) if one in new and counts.get(one, 0) <= limit]
        if number_of(repeated) < _REPEATED:
            others = (indexed(said) for other, said in results.items() if other != name)
            only = {*indexed(answer)}.difference(indexed(asked), *others)
            value = next((one for one in _values(shown) if one <= only), frozenset[str]())
            repeated = sorted(value.intersection(content(answer)) or value)
        found |= {name: repeated} if name and repeated else {}
    return found


def _values(text: str) -> list[frozenset[str]]:
    """Return the terms of each number, name and identifier; German writes each noun like a name."""
    least = str.isdigit if may_be_german(text) else str.isalnum
    return [one for one in names(text) if (said := "".join(one))[1:] and any(map(least, said))]


def _results(messages: Iterable[BaseMessage]) -> dict[str, str]:
    """Return what search results of this turn said by effort, under "" what was said in none."""
    found = dict[str, str]()
    for message in messages:
        is_search = message.type == "tool" and message.name == "search_efforts"
        for entry in result_of(message).get("results", ()) if is_search else ():
            name, passages = str(entry.get("id") or ""), entry.get("passages") or ()
            texts = (found.get(name), entry.get("summary"), *(one.get("text") for one in passages))
            found[name] = "\n".join(map(str, filter(None, texts)))
    return found


class Share(NamedTuple):
    """How much of a message's rare words a target says: in one turn, in all, and which."""

    single: float
    together: float
    words: tuple[str, ...]

    @property
    def score(self) -> float:
        """What the targets of a message are compared by."""
        return self.single + self.together


_USUAL = log(2)  # the rarity of a term that half of the turns say; others do not count as shared


def shares(message: Pointing) -> dict[str | int, Share]:
    """Return what the efforts, and the turns of none, say of a message, by what it weighs.

    >>> rare = {"refresh": 3.0, "token": 3.0, "login": 1.0, "expir": 2.0, "css": 1.0}
    >>> said = {"auth": [frozenset({"refresh", "token"})], 7: [frozenset()]}
    >>> found = shares(Pointing(rare, said))
    >>> found["auth"], found[7].score
    (Share(single=0.6, together=0.6, words=('refresh', 'token')), 0.0)
    """
    rarity, weight = message.rare, fsum(message.rare.values())

    def share(terms: Iterable[str]) -> float:
        return fsum(map(rarity.__getitem__, terms)) / weight

    found = {}
    for name, texts in message.said.items():
        together = frozenset[str]().union(*texts)
        telling = (term for term in long_enough(together) if rarity[term] >= _USUAL)
        found[name] = Share(max(map(share, texts)), share(together), tuple(sorted(telling)))
    return found


_IN_ONE, _IN_ALL = 0.25, 0.4
"""The least shares of a message that one turn of a reference says, and all of its turns."""

MANY = 10
"""Efforts from which on a message is compared with what each said: of a few one has most of it by
chance (4 % of the unrelated pairs of the work dialogues)."""

_BEHIND, _MOST_SAID = 0.3, 3
"""How far the score of a reference is behind the best at most, and how many there are at most."""


def said_mostly(
    message: Pointing, vocabulary: Mapping[str, Keywords], *, overlap: int
) -> dict[str, tuple[str, ...]]:
    """Return the efforts that said most of what a message says, with the keywords that it has.

    What people ask for is often said once, so that it has a small share of an effort's keywords. On
    LoCoMo this recognises 26 % of the mentions beside the 33 % that `about` does, and takes 1.4 %
    of the unrelated pairs for references beside 0.4.
    """
    found = shares(message)
    first = nlargest(_MOST_SAID, found, key=lambda name: found[name].score)
    least = found[first[0]].score - _BEHIND if first else 0.0
    mostly = dict[str, tuple[str, ...]]()
    for name, share in ((name, found[name]) for name in first if name in vocabulary):
        known = vocabulary[str(name)]
        # As above, what only the assistant said makes no reference.
        words = tuple(term for term in share.words if known.get(term, 0) > ASSISTANT_WEIGHT)
        enough = share.single >= _IN_ONE and share.together >= _IN_ALL and share.score >= least
        if enough and len(words) >= overlap:
            mostly[str(name)] = words
    return mostly


def recent(work: Turn, cache: KeywordCache) -> list[Keywords]:
    """Return the terms of the recent turns that belong to no open effort.

    A turn that mentions an effort it does not belong to has none: otherwise the keywords of an
    effort that is discussed for long would weigh ever less.
    """
    view = work.view
    turns = {*range(max(1, view.tip.turn - _RECENT + 1), view.tip.turn + 1)}
    for name in work.efforts.open:
        turns.difference_update(view.log_turns(name)[-_RECENT:])
    if not turns:
        return []
    ids = view.past.ids(sorted(turns))
    return [
        cache.get_or_make((view.session, None, number), partial(_terms_of, work, turn))
        for turn, number in ids.items()
    ]


def _terms_of(work: Turn, turn: int) -> Keywords:
    event_types, texts = _EFFORT_EVENTS | {"referenced"}, list[str]()
    for stored in work.view.past.turns([turn]):
        mentioned = {event["effort"] for event in stored.events if event["type"] in event_types}
        if mentioned <= {*stored.efforts}:
            texts += map(ends, map(own_words, statements(stored.messages)))
    terms = chain.from_iterable(map(terms_of, texts))
    return dict.fromkeys(islice(dict.fromkeys(terms), MOST_KEYWORDS), 1.0)
