"""Searching what is stored, for the model: efforts and ambient turns, each with an excerpt.

What is found is stored as references like any quote: nothing of another session is kept here.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from ...prompts.loader import render
from ..archive.protocol import Elsewhere, Found
from ..clock import day_of
from ..efforts import Effort, happened
from ..errors import EmbeddingError
from ..messages import compact
from ..names import qualified, session_name
from ..passages import Excerpt, best_piece, excerpt
from ..record import Record
from ..running_turn import RunningTurn
from ..terms import query_terms
from ..tokens import fit
from ..transcript import Recalled, quotations, rendered
from ..view import past
from .arguments import Number, Text

_Entry: TypeAlias = tuple[dict[str, Any], Recalled | None]
"""A result as the model is told it, and what it quotes."""

_Hit: TypeAlias = Found | Elsewhere

_log = logging.getLogger("ebbtide.embeddings")

_ECHOED = 500
"""Characters of the query that the result repeats."""

_MOST = 20
"""Results that the model can ask for."""

_COUNTED = 50
"""Further results are counted up to here."""

_PASSAGES = 200
"""Passages that are looked at: all that a search finds."""

_ANSWERS = 0.5
"""Of the score of what the user says, what the assistant's words have that are told with it.

Five results then show 67 and 69 % of the evidence for questions about two talks, else 54 and 47.
"""

_NAMING = ("id", "session", "turn")
"""What of an entry says which one it is, beside its excerpt."""


def search_efforts(work: RunningTurn, query: Text, limit: Number = 0) -> tuple[Any, ...]:
    """Answer with what matches best, as much as the free budget allows, and name what is quoted.

    The running turn is not searched: it is in the context. An event tells which efforts were found.
    """
    wanted = query_terms(query)
    if not wanted:
        why = render("nothing_to_search")
        return work, {"query": query[:_ECHOED], "results": [], "why": why}
    limit = min(limit, _MOST) if limit > 0 else work.settings.search_limit
    view, meaning = work.view, None
    try:
        if work.embedder is not None:
            meaning = work.embedder.meaning(query, work.settings.semantic_floor)
    except EmbeddingError as error:
        _log.warning("searched by words alone, the query could not be embedded: %s", error)
    own = view.archive.search_passages(view.owner, view.tip, query, _PASSAGES, meaning)
    best = _of_turns(own)[:_COUNTED]
    others = view.archive.search_sessions(view.owner, query, _COUNTED)
    hits = in_one_list(best[:limit], others[:limit], limit)
    shown, results, quoted = _within_budget(work, _entries(work, hits, wanted, own))
    ids = dict.fromkeys(entry["id"] for entry in results if "id" in entry)
    state = happened(work.state, {"type": "searched", "efforts": [*ids]})
    result: dict[str, Any] = {"query": query[:_ECHOED], "results": results}
    more = len(best) + len(others) - shown
    result |= {"more": more} if results else {"why": render("nothing_found")}
    return work.put(state), result, *quoted


def _of_turns(hits: Sequence[Found]) -> list[Found]:
    """Return the best passage of each turn; of hits by meaning alone, one for each effort.

    All turns that say something count: with those at least 0.8 as good as the best of their effort,
    five results held 69 % of the evidence in place of 77.
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
    """Return how many results are shown, their entries, one at least, and what these quote.

    What an earlier call of this turn, or of the same message, has found is only named: it stands
    above. Where there is little room it may be, or may soon be, shortened: then none counts.
    """
    cut = work.line is not None and work.view.running.turn in work.line.short
    whole = not cut and work.room - work.used >= work.free
    above = {
        _identity(part)
        for message in ((*work.view.running.messages, *work.results) if whole else ())
        if message["data"].get("name") == "search_efforts"
        for part, _ in quotations(message)
    }
    results: list[Mapping[str, Any]] = []
    quoted: list[Recalled] = []
    free, shown = work.free, 0
    for parts in entries:
        for at, (entry, recalled) in enumerate(parts):
            known = recalled is not None and _identity(entry) in above
            named = {name: entry[name] for name in _NAMING if name in entry}
            result = named | {"above": True} if known else entry
            free -= work.count(compact(result))
            if free >= 0 or not results:
                results.append(result)
                quoted += [] if known or recalled is None else [recalled]
                shown += not at
    return shown, results, quoted


def _entries(
    work: RunningTurn, hits: Sequence[_Hit], wanted: Collection[str], found: Sequence[Found]
) -> Iterator[list[_Entry]]:
    """Yield the entries of each result: what was found, and what answers it; summaries once."""
    # The assistant's best passage of a turn, where the user's is the best and not by far.
    best = {hit.turn: hit for hit in _of_turns(found) if hit.user}
    answers = {
        hit.turn: hit
        for hit in reversed(found)
        if hit.turn in best and hit.passage is not None and not hit.user
        if hit.score >= _ANSWERS * best[hit.turn].score
    }
    own = [hit for hit in hits if isinstance(hit, Found)]
    known = work.known([hit.effort for hit in own if hit.effort])
    efforts = {effort.id: effort for effort in known}
    numbers = sorted({hit.turn + step for hit in own for step in (0, 1)})
    records = {record.turn: record for record in work.view.turns(numbers)}
    shown = {hit.turn for hit in own}
    for hit in hits:
        if isinstance(hit, Elsewhere):
            yield [_elsewhere(work, hit, wanted)]
        elif hit.turn in records:
            record, after = records[hit.turn], records.get(hit.turn + 1)
            effort = efforts.pop(hit.effort or "", None)
            passages = _passages(record, hit, answers.get(hit.turn), wanted)
            parts = [_entry(work, hit, effort, (record, passages[0]))]
            parts += [_entry(work, hit, None, (record, passage)) for passage in passages[1:]]
            if after and passages[-1] and passages[-1].asks and after.turn not in shown:
                shown.add(after.turn)
                answer = replace(hit, turn=after.turn, passage=0)
                parts.append(_entry(work, answer, None, (after, _part(after, 0, wanted))))
            yield parts


def _passages(
    record: Record, hit: Found, answer: Found | None, wanted: Collection[str]
) -> list[Excerpt | None]:
    """Return what is shown of a turn: a passage, and the answer to it, as one if they are one."""
    part = _part(record, hit.passage, wanted)
    after = _part(record, answer.passage, wanted) if answer else None
    if part is None or after is None or after.end <= part.end:
        return [part]
    if after.begin <= part.end + 1:
        return [replace(part, end=after.end, asks=after.asks)]
    return [part, after]


def _part(record: Record, passage: int | None, wanted: Collection[str]) -> Excerpt | None:
    """Return what is shown of a turn for a passage, None for none."""
    if passage is None:
        return None
    part = excerpt(record.messages, passage)
    return part or Excerpt(*best_piece(rendered(record.messages), wanted))


def _identity(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(entry.get(name) for name in (*_NAMING, "excerpt"))


def _entry(
    work: RunningTurn, hit: Found, effort: Effort | None, shown: tuple[Record, Excerpt | None]
) -> _Entry:
    """Return a result with its excerpt; its offset if one call of `read_log` stops before it."""
    record, part = shown
    summary = (effort.summary or effort.goal) if effort else ""
    named = {"id": hit.effort, "summary": summary}
    entry: dict[str, Any] = {name: value for name, value in named.items() if value}
    entry |= {"turn": hit.turn, "at": day_of(record.at)}
    if part is None:
        return entry, None
    log = rendered(record.messages)
    if fit(log, work.free, work.count) < part.end:
        entry["offset"] = part.begin
    quoted = Recalled(hit.turn, part.begin, part.end, score=round(hit.score, 2))
    return entry | _quoted(log, part), quoted


def _quoted(log: str, part: Excerpt) -> dict[str, str]:
    """Return an excerpt with who speaks there, unless it says so itself."""
    speaker = {"speaker": part.speaker} if part.speaker else {}
    return {**speaker, "excerpt": log[part.begin : part.end]}


def _elsewhere(work: RunningTurn, hit: Elsewhere, wanted: Collection[str]) -> _Entry:
    """Return what another session concluded, or the best passage of a turn, with its reference."""
    session, tip, score = session_name(hit.owner), hit.tip, round(hit.score, 2)
    entry = {"session": session, "turn": tip.turn, "at": day_of(hit.at)}
    if effort := hit.effort:
        place = session, tip.branch, effort.id
        quoted = Recalled(tip.turn, 0, len(effort.summary), *place, score=score)
        return {"id": qualified(hit.owner, effort.id), **entry, "excerpt": effort.summary}, quoted
    (record,) = past(work.view.archive, hit.owner, tip).turns([tip.turn])
    part = _part(record, hit.passage or 0, wanted) or Excerpt(0, 0)
    quoted = Recalled(tip.turn, part.begin, part.end, session, tip.branch, score=score)
    return entry | _quoted(rendered(record.messages), part), quoted


def in_one_list(own: Sequence[Found], others: Sequence[Elsewhere], limit: int) -> tuple[_Hit, ...]:
    """Return the best `limit` results, each list in its own order.

    Scores of two searches cannot be compared, but how many terms of the query a result says can: an
    effort of another session stands right after the last own result that says as many or more. So
    it never displaces an own result that says as much.
    """
    placed: list[tuple[int, _Hit]] = [(2 * at, hit) for at, hit in enumerate(own)]
    for other in others:
        as_good = [at for at, hit in enumerate(own) if len(hit.said) >= len(other.said)]
        placed.append((2 * as_good[-1] + 1 if as_good else -1, other))
    return tuple(hit for _, hit in sorted(placed, key=lambda pair: pair[0]))[:limit]
