"""The tool `search_efforts`: the best passages on a query, by their efforts or turns."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...prompts.loader import render
from ..archive.branches import Branches
from ..archive.database import again_if_lost
from ..archive.query import WEAK, Found, unsaid
from ..archive.search import find
from ..dates import Days, When, dates, instant, period, undated
from ..efforts import happened
from ..errors import EmbeddingError, ToolError
from ..running_turn import Turn
from ..search.embeddings import QueryEmbedding
from ..search.terms import both_ends, query_terms, terms, unsaid_words
from .arguments import Number, Text, Texts
from .search_facts import fact_hits
from .search_results import Hit, SearchResults
from .search_running import running_hits

_log = logging.getLogger("ebbtide.embeddings")

_QUERY_SHOWN = 500  # characters of the query that the result repeats: a model may paste a page
_MOST = 20  # results that a model can request: more would not fit the budget
_PASSAGES = 1_000  # more than a search finds
_UNMATCHED = 20  # words that are named as said by nobody
_WORD_SHOWN = 80  # characters of such a word: encoded data, and Chinese without commas, are one
_READ = 4_000  # characters of a phrasing whose words are looked for: a pasted page has thousands
_LONGEST = 20_000  # characters of a phrasing that are searched, half of them from its end
_BEHIND = 0.5  # of the query's least score have further phrasings: literal matches double one
_PHRASINGS = 3  # further phrasings of a query, each of which costs a search


def search_efforts(  # noqa: PLR0913 (the arguments of the tool)
    work: Turn,
    query: Text,
    *,
    also: Texts = (),
    limit: Number = 0,
    since: Text = "",
    until: Text = "",
) -> tuple[Any, ...]:
    """Return the best passages that the budget has room for, with the ranges they quote.

    They are of at most `limit` efforts and turns of no effort, each a result. `also` are further
    phrasings, whose passages stand behind. Of the running turn only what the context does not show
    is searched. An event records the efforts found.
    """
    if not query.strip():
        raise ToolError(render("empty_query"))
    first, last = _days("since", since), _days("until", until)
    if first and last and first[0] > last[0] and first[0] >= last[1]:
        reversed_bounds = {"since": repr(since.strip()), "until": repr(until.strip())}
        raise ToolError(render("dates_reversed", **reversed_bounds))
    zone, language = work.run.settings.timezone, work.run.settings.language
    begin = instant(first[0], zone) if first else ""
    end = instant(last[1], zone) if last else ""  # until a day is until its end
    when = When(work.now, zone, begin, end, language)
    # Of a list of words, as models write, none is left out.
    apart, rest = also[: _PHRASINGS - 1], also[_PHRASINGS - 1 :]
    further = [*apart, "\n".join(rest)] if rest else apart
    phrasings = [both_ends(text, _LONGEST) for text in (query, *further)]
    answer: dict[str, Any] = {"query": query[:_QUERY_SHOWN], "results": []}
    names = (query_terms(text, any_name=True) for text in phrasings)
    if not any(names) and not any(dates(text, today=when.today) for text in phrasings):
        return work, answer | {"why": render("nothing_to_search")}
    branches = again_if_lost(lambda: Branches(work.view.past, work.view.session))
    own, by_words = _found(work, branches, phrasings, when)
    running = running_hits(work, phrasings, max((hit.score for hit in own), default=1.0))
    own = sorted([*own, *running], key=Found.order) if running else own
    facts = fact_hits(work, phrasings, when, own)
    limit = min(limit, _MOST) if limit > 0 else work.run.settings.search_limit
    results, quotes, turns = SearchResults(work, phrasings, when).filled(own, facts, limit)
    ids = dict.fromkeys(entry["id"] for entry in results if "id" in entry)
    state = happened(work.efforts, {"type": "searched", "efforts": [*ids]})
    if not results and not any(map(terms, phrasings)):
        return work.put(state), answer | {"why": render("nothing_to_search")}
    unmatched = _unmatched(branches, phrasings, when, [*own, *facts])
    found = {hit.place[:2] for hit in own if not hit.near} | {hit.place[:2] for hit in own[:1]}
    answer["results"] = results
    answer |= {"note": render("words_only")} if by_words else {}
    answer |= {"unmatched": unmatched} if unmatched else {}
    answer |= {"more": len(found - turns)} if results else {"why": render("nothing_found")}
    return work.put(state), answer, *quotes


def _days(name: str, written: str) -> Days | None:
    """Return the period that a bound names, None if it is left out."""
    if not written.strip():
        return None
    if (days := period(written)) is None:
        raise ToolError(render("no_date", name=name, value=repr(written[:40])))
    return days


def _found(
    work: Turn, branches: Branches, phrasings: Sequence[str], when: When
) -> tuple[list[Found], bool]:
    """Return the passages that match one of these phrasings, the best first, and if by words only.

    Scores of two searches cannot be compared, so each counts in proportion to the best of its own.
    What the query finds stands before what further phrasings add, but for weak passages.
    """
    best: dict[Any, Found] = {}
    competing: list[Found] = []
    by_words, weight = False, 1.0
    for at, query in enumerate(phrasings):
        meaning = meaning_of(work, query)
        by_words |= work.run.embedder is not None and meaning is None
        hits = find(branches, query, _PASSAGES, meaning, when=when)
        competing = competing or [hit for hit in hits if hit.newest_with]
        top = max((hit.score for hit in hits), default=1.0) / weight
        for hit in (hit for hit in hits if not hit.newest_with):
            scaled = hit if len(phrasings) == 1 else replace(hit, score=hit.score / top)
            key = hit.effort, hit.place
            if key not in best or best[key].order() > scaled.order():
                best[key] = scaled
        if not at:
            own = (hit.score for hit in best.values() if not hit.weak)
            weight = _BEHIND * min(own, default=1.0)
    ordered = sorted(best.values(), key=Found.order)
    clear = [hit for hit in ordered if not hit.weak]
    weak = ordered[len(clear) :]
    is_hint = clear or len(weak) <= WEAK * len(phrasings)
    return [*clear, *(weak[:WEAK] if is_hint else weak), *competing], by_words


def meaning_of(work: Turn, query: str) -> QueryEmbedding | None:
    """Return the embedding of a query; None without a model, or if it fails, which is logged."""
    if work.run.embedder is None:
        return None
    try:
        return work.run.embedder.meaning(query, work.run.settings.semantic_floor)
    except EmbeddingError as error:
        _log.warning("searched by words alone, the query could not be embedded: %s", error)
    return None


def _unmatched(
    branches: Branches, phrasings: Sequence[str], when: When, hits: Sequence[Hit]
) -> list[str]:
    """Return the words of the phrasings that nothing says, as they are written there."""
    texts = [undated(query, when.today)[:_READ] for query in phrasings]
    terms = list(dict.fromkeys(term for text in texts for term in query_terms(text)))
    said = frozenset[str]().union(*(hit.said for hit in hits))
    absent = unsaid(branches, [term for term in terms if term not in said])
    words = dict.fromkeys(word for text in texts for word in unsaid_words(text, absent))
    shown = [*words][:_UNMATCHED]
    return [one if len(one) <= _WORD_SHOWN else f"{one[:_WORD_SHOWN]}…" for one in shown]
