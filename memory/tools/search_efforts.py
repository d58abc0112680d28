"""The tool `search_efforts`: turns and efforts that match a query, each with an excerpt.

Excerpts are stored as references, so that no text of another session is copied into this one.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from ...prompts.loader import render
from ..archive.protocol import Elsewhere, Found
from ..clock import day_of
from ..efforts import Effort, happened
from ..errors import EmbeddingError, ToolError
from ..messages import compact
from ..names import qualified, session_name
from ..passages import Excerpt, best_excerpt, excerpt
from ..record import Record
from ..running_turn import RunningTurn
from ..terms import query_terms
from ..tokens import fit
from ..transcript import Recalled, quotations, rendered
from ..view import past
from .arguments import Number, Text

_Entry: TypeAlias = tuple[dict[str, Any], Recalled | None]
"""A result as the model reads it, and the range that it quotes, None for none."""

_Hit: TypeAlias = Found | Elsewhere

_log = logging.getLogger("ebbtide.embeddings")

_QUERY_SHOWN = 500  # characters of the query that the result repeats: a model may paste a page
_MOST = 20  # results that a model can request: more would not fit the budget
_COUNTED = 50  # results that are counted, here and elsewhere: beyond it the number says little
_PASSAGES = 200  # passages that are read: all that a search finds

_ANSWER_SHARE = 0.5
"""Share of the score of the user's passage that the assistant's must have to be shown with it.

Five results then show 67 and 69 % of the evidence for questions about two talks, else 54 and 47.
"""

_KEYS = ("id", "session", "turn")  # fields that identify an entry, together with its excerpt


def search_efforts(work: RunningTurn, query: Text, limit: Number = 0) -> tuple[Any, ...]:
    """Return the best matches that the free budget has room for, with the ranges they quote.

    They are of at most `limit` turns. The running turn is not searched: it is in the context. An
    event records the efforts found.
    """
    if not query.strip():
        raise ToolError(render("empty_query"))
    terms = query_terms(query)
    if not terms:
        reason = render("nothing_to_search")
        return work, {"query": query[:_QUERY_SHOWN], "results": [], "why": reason}
    limit = min(limit, _MOST) if limit > 0 else work.settings.search_limit
    view, meaning = work.view, None
    try:
        if work.embedder is not None:
            meaning = work.embedder.meaning(query, work.settings.semantic_floor)
    except EmbeddingError as error:
        _log.warning("searched by words alone, the query could not be embedded: %s", error)
    own = view.archive.search_passages(view.owner, view.tip, query, _PASSAGES, meaning)
    best = _best_of_turns(own)[:_COUNTED]
    foreign = view.archive.search_sessions(view.owner, query, _COUNTED)
    hits = in_one_list(best[:limit], foreign[:limit], limit)
    shown, results, quotes = _within_budget(work, _entries(work, hits, terms, own, limit))
    ids = dict.fromkeys(entry["id"] for entry in results if "id" in entry)
    state = happened(work.state, {"type": "searched", "efforts": [*ids]})
    result: dict[str, Any] = {"query": query[:_QUERY_SHOWN], "results": results}
    omitted = len(best) + len(foreign) - shown
    result |= {"more": omitted} if results else {"why": render("nothing_found")}
    return work.put(state), result, *quotes


def _best_of_turns(hits: Sequence[Found]) -> list[Found]:
    """Return the best passage of each turn; of hits by meaning alone only one for each effort.

    Turns that are much worse than the best of their effort stay: with only those at least 0.8 as
    good, five results held 69 % of the evidence in place of 77.
    """
    best: dict[int, Found] = {}
    efforts: set[str | None] = set()
    for hit in hits:
        if hit.turn not in best and not (hit.near and hit.effort in efforts):
            best[hit.turn] = hit
            efforts.add(hit.effort)
    return [*best.values()]


def _within_budget(
    work: RunningTurn, entries: Iterable[Sequence[_Entry]]
) -> tuple[int, list[Mapping[str, Any]], list[Recalled]]:
    """Return the number of results that fit, their entries, at least one, and the quoted ranges.

    An entry that an earlier call of this turn has shown already is only named, and a summary is
    given once, unless the turn is shortened, or may soon be for want of room: that result may then
    be gone from the context.
    """
    is_short = work.plan is not None and work.view.running.turn in work.plan.short
    is_safe = not is_short and work.room - work.used >= work.free
    earlier = [
        part
        for message in ((*work.view.running.messages, *work.results) if is_safe else ())
        if message["data"].get("name") == "search_efforts"
        for part, _ in quotations(message)
    ]
    above = {*map(_identity, earlier)}
    summarised = {part["id"] for part in earlier if "summary" in part}
    results: list[Mapping[str, Any]] = []
    quotes: list[Recalled] = []
    free, count = work.free, 0
    for parts in entries:
        for position, (entry, quote) in enumerate(parts):
            is_above = quote is not None and _identity(entry) in above
            keys = {name: entry[name] for name in _KEYS if name in entry}
            if entry.get("id") in summarised:
                entry.pop("summary", None)
            result = keys | {"above": True} if is_above else entry
            free -= work.count(compact(result))
            if free >= 0 or not results:
                results.append(result)
                quotes += [] if is_above or quote is None else [quote]
                count += position == 0
    return count, results, quotes


def _entries(
    work: RunningTurn,
    hits: Sequence[_Hit],
    terms: Collection[str],
    passages: Sequence[Found],
    limit: int,
) -> Iterator[list[_Entry]]:
    """Yield the entries of each result: the match, and its answer; each summary only once.

    They are of at most `limit` turns: an answer in a later turn takes the place of a hit.
    """
    # The assistant's best passage of a turn whose best passage is the user's.
    best = {hit.turn: hit for hit in _best_of_turns(passages) if hit.user}
    answers = {
        hit.turn: hit
        for hit in reversed(passages)
        if hit.turn in best and hit.passage is not None and not hit.user
        if hit.score >= _ANSWER_SHARE * best[hit.turn].score
    }
    own = [hit for hit in hits if isinstance(hit, Found)]
    efforts = {e.id: e for e in work.known([hit.effort for hit in own if hit.effort])}
    numbers = sorted({hit.turn + step for hit in own for step in (0, 1)})
    records = {record.turn: record for record in work.view.turns(numbers)}
    shown_turns, places = {hit.turn for hit in own}, limit
    for hit in hits:
        places -= 1
        if places < 0:
            return
        if isinstance(hit, Elsewhere):
            yield [_foreign_entry(work, hit, terms)]
        elif hit.turn in records:
            record, after = records[hit.turn], records.get(hit.turn + 1)
            effort = efforts.pop(hit.effort or "", None)
            first, *more = _excerpts(record, hit, answers.get(hit.turn), terms)
            parts = [_entry(work, hit, effort, (record, first))]
            parts += [_entry(work, hit, None, (record, part)) for part in more]
            last = more[-1] if more else first
            # A question is often answered only in the next turn.
            if places and after and last and last.asks and after.turn not in shown_turns:
                places -= 1
                shown_turns.add(after.turn)
                answer = replace(hit, turn=after.turn, passage=0)
                parts.append(_entry(work, answer, None, (after, _excerpt(after, 0, terms))))
            yield parts


def _excerpts(
    record: Record, hit: Found, answer: Found | None, terms: Collection[str]
) -> list[Excerpt | None]:
    """Return the excerpts of a match and of its answer, as one if they adjoin."""
    part = _excerpt(record, hit.passage, terms)
    after = _excerpt(record, answer.passage, terms) if answer else None
    if part is None or after is None or after.end <= part.end:
        return [part]
    if after.begin <= part.end + 1:
        return [replace(part, end=after.end, asks=after.asks)]
    return [part, after]


def _excerpt(record: Record, passage: int | None, terms: Collection[str]) -> Excerpt | None:
    """Return the excerpt of a turn for a passage, None for none."""
    if passage is None:
        return None
    part = excerpt(record.messages, passage)
    return part or best_excerpt(record.messages, terms)


def _identity(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(entry.get(name) for name in (*_KEYS, "excerpt"))


def _entry(
    work: RunningTurn, hit: Found, effort: Effort | None, source: tuple[Record, Excerpt | None]
) -> _Entry:
    """Return a result with its excerpt, and an offset if one `read_log` call cannot reach it."""
    record, part = source
    entry: dict[str, Any] = {"id": hit.effort} if hit.effort else {}
    if effort and (summary := effort.summary or effort.goal):
        entry["summary"] = summary
    entry |= {"turn": hit.turn, "at": day_of(record.at)}
    if part is None:
        return entry, None
    log = rendered(record.messages)
    if fit(log, work.free, work.count) < part.end:
        entry["offset"] = part.begin
    quote = Recalled(hit.turn, part.begin, part.end, score=round(hit.score, 2))
    return entry | _quotation(log, part), quote


def _quotation(log: str, part: Excerpt) -> dict[str, str]:
    """Return the text of an excerpt, and its speaker if the text does not name one."""
    speaker = {"speaker": part.speaker} if part.speaker else {}
    return {**speaker, "excerpt": log[part.begin : part.end]}


def _foreign_entry(work: RunningTurn, hit: Elsewhere, terms: Collection[str]) -> _Entry:
    """Return a result of another session: an effort's summary, or the best passage of a turn."""
    session, tip, score = session_name(hit.owner), hit.tip, round(hit.score, 2)
    entry = {"session": session, "turn": tip.turn, "at": day_of(hit.at)}
    if effort := hit.effort:
        place = session, tip.id, effort.id
        quote = Recalled(tip.turn, 0, len(effort.summary), *place, score=score)
        return {"id": qualified(hit.owner, effort.id), **entry, "excerpt": effort.summary}, quote
    (record,) = past(work.view.archive, hit.owner, tip).turns([tip.turn])
    part = _excerpt(record, hit.passage or 0, terms) or Excerpt(0, 0)
    quote = Recalled(tip.turn, part.begin, part.end, session, tip.id, score=score)
    return entry | _quotation(rendered(record.messages), part), quote


def in_one_list(own: Sequence[Found], foreign: Sequence[Elsewhere], limit: int) -> tuple[_Hit, ...]:
    """Merge the results of this session and of others, each list in its own order; first `limit`.

    The scores of two searches cannot be compared, but the numbers of query terms can: a result of
    another session comes right after the last own result that has as many terms or more, so that it
    never displaces one of these.
    """
    places: list[tuple[int, _Hit]] = [(2 * place, hit) for place, hit in enumerate(own)]
    for hit in foreign:
        as_good = [n for n, own_hit in enumerate(own) if len(own_hit.said) >= len(hit.said)]
        places.append((2 * as_good[-1] + 1 if as_good else -1, hit))
    return tuple(hit for _, hit in sorted(places, key=lambda pair: pair[0]))[:limit]
