"""The results of a search: passages by the effort or turn that they are of, up to a budget.

Passages are stored as references, so that no text of another session is copied into this one.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from cachetools import LRUCache, cached

from ..archive.branches import Branch
from ..archive.query import Found, turns_of
from ..archive.search import first_distinct
from ..context.budget import high_water
from ..context.rounds import RESULT_SHARE
from ..dates import UNDATED, When, local, local_day
from ..efforts import Effort, one_line
from ..locks import CACHES
from ..messages import compact
from ..names import qualified, session_name
from ..recalled import Recalled, quotations, result_of
from ..running_turn import Turn
from ..search.literal import Literal
from ..search.passages import LONGEST, Passage, best_excerpt, excerpt, passages, shown_excerpt
from ..search.terms import indexed, query_terms, unsaid_words
from ..spans import kept
from ..tokens import fit
from ..transcript import excerpted, log_text, offsets, speakers
from ..turn import StoredTurn
from ..veto import claim
from .read_log import DEFAULT_LIMIT
from .search_facts import FactHit

Hit: TypeAlias = Found | FactHit
"""What a search finds: what was said, or a fact."""

_Key: TypeAlias = tuple[Branch | None, str | int]
"""A result: an effort, or a turn of none, of a branch."""

_BUDGET = 1_200
"""Tokens of the results: of LoCoMo's evidence they have 80 %, with 1,000 it is 77."""

_NEAR = 0.3
"""Share of the best score that a passage must have which only stands beside what matches."""

_READ = 60
"""Passages whose turns are read, six for each result: with 200 no more evidence is found."""

_WHOLE = 3 * LONGEST
"""Characters of an excerpt that is shown whole; passages of very large results are longer."""

_SENTENCES = re.compile(r"(?<=[.!?;。！？])\s+|\n+")

_CACHED = 4_000_000
"""Characters of turns whose passages are cached: 10 MB when full."""

_APART = 3
"""Hours between two turns of one day from which on a result shows the hour."""


@dataclass(slots=True)
class _Range:
    """Characters of a turn that are shown; `best` is the best passage in them."""

    turn: StoredTurn
    begin: int
    end: int
    best: Found

    @property
    def text(self) -> str:
        return excerpted(self.turn.messages, self.begin, self.end)

    @property
    def quote(self) -> Recalled:
        branch, score = self.best.branch, round(self.best.score, 2)
        of = (session_name(branch.session), self.turn.id) if branch else ("", "")
        return Recalled(self.turn.number, self.begin, self.end, *of, score=score)


class SearchResults:
    """The results of a search, filled with passages up to a budget of tokens."""

    def __init__(self, work: Turn, phrasings: Sequence[str], when: When) -> None:
        """Take the running turn, what is searched for, and how the search reads time."""
        self._work, self._when = work, when
        self._phrasings = phrasings
        self._terms = frozenset(term for text in phrasings for term in query_terms(text))
        self._free = min(work.free, _BUDGET)
        self._ranges: dict[_Key, list[_Range]] = {}
        self._heads: dict[_Key, dict[str, Any]] = {}
        self._records: dict[tuple[Branch | None, int], StoredTurn] = {}
        self._passages: dict[tuple[Branch | None, int], list[Passage]] = {}
        self._literals = [Literal(text) for text in phrasings]
        self._with_summary: set[_Key] = set()
        self._turns: set[tuple[Branch | None, int]] = set()
        self._summaries: dict[_Key, tuple[dict[str, Any], Recalled]] = {}

    def filled(
        self, hits: Sequence[Found], facts: Sequence[FactHit], limit: int
    ) -> tuple[list[Mapping[str, Any]], list[Recalled], set[Any]]:
        """Return the results, the quoted ranges in their order, and which turns are shown.

        They follow their scores, up to the first that has no room.
        """
        running, competing = self._work.view.running, [hit for hit in hits if hit.newest_with]
        found = [hit for hit in hits if not hit.newest_with][:_READ]
        self._records = turns_of(self._work.view.past, [*found, *competing])
        self._records |= {(None, running.number): running}
        found = self._literal_first(map(self._in_span, found))
        least = _NEAR * max((hit.score for hit in found), default=0.0)
        found = [
            hit for hit in found if self._is_shown(hit) and (not hit.near or hit.score >= least)
        ]
        found = first_distinct(self._newest_first(found, competing), limit, _key)
        efforts = self._efforts({*map(_key, found)})
        self._summarise(found, efforts)
        for hit in _with_facts(found, facts):
            if isinstance(hit, FactHit):
                self._add_fact(hit)
            elif not (self._add(hit, efforts.get(_key(hit))) and self._add_answer(hit)):
                break
        return self._written()

    def _newest_first(self, found: Sequence[Found], competing: Sequence[Found]) -> list[Found]:
        """Return hits with the newest of competing statements first, marked.

        It has a value in a sentence with the terms that the best passage does not have.
        """
        best = next((hit for hit in found if hit.is_said), None)
        text = self._text(best) if best and competing else ""
        known, said = _values(text), frozenset(indexed(text))
        for hit in (one for one in competing if said.issuperset(one.newest_with)):
            says_other = any(
                not sentence.lstrip().startswith(">")
                and not frozenset(indexed(sentence)).isdisjoint(hit.newest_with)
                and _values(sentence) - known
                for sentence in _SENTENCES.split(self._text(hit))
            )
            if best and hit.id != best.id and self._is_shown(hit) and says_other:
                newest = max(best, hit, key=lambda one: (one.at, one.turn))
                same = next((one for one in found if one.place == newest.place), newest)
                words = unsaid_words("\n".join(self._phrasings), frozenset(hit.newest_with))
                marked = tuple(dict.fromkeys(words))
                first = replace(same, newest_with=marked, score=best.score, weak=False)
                return [first, *(one for one in found if one.place != first.place)]
        return [*found]

    def _summarise(self, found: Sequence[Found], efforts: Mapping[_Key, Effort]) -> None:
        """Choose the results that have a summary: the best concluded one that is out of the prompt.

        Others have one only if no passage of theirs is found.
        """
        shown = {*self._work.efforts.summaries, *self._work.efforts.expanded}
        with_passage = {_key(hit) for hit in found if hit.passage is not None}
        for key in dict.fromkeys(map(_key, found)):
            effort = efforts.get(key)
            if effort and effort.status == "concluded" and effort.summary:
                name = qualified(key[0].session, effort.id) if key[0] else effort.id
                if name not in shown and (not self._with_summary or key not in with_passage):
                    self._with_summary.add(key)

    def _efforts(self, keys: Iterable[_Key]) -> dict[_Key, Effort]:
        names: dict[Branch | None, list[str]] = {}
        for branch, name in keys:
            names.setdefault(branch, []).extend([name] if isinstance(name, str) else [])
        return {
            (branch, effort.id): effort
            for branch, named in names.items()
            for effort in (branch.past.efforts_named if branch else self._work.known)(named)
        }

    def _literal_first(self, hits: Iterable[Found]) -> list[Found]:
        """Return the hits, each passage once for its effort, with what says it literally first."""
        own: dict[Any, Found] = {}
        for hit in hits:
            turn = self._records.get(hit.place[:2])
            is_of_several = hit.user and turn is not None and kept(turn)  # its request is one
            effort = None if is_of_several else hit.effort
            own.setdefault((effort, *hit.place), hit)
        if not any(literal.telling for literal in self._literals):
            return [*own.values()]
        shares = {
            hit: max(one.share(self._text(hit)) for one in self._literals) for hit in own.values()
        }
        scored = [replace(hit, score=hit.score * (1 + share)) for hit, share in shares.items()]
        return sorted(scored, key=Found.order)

    def _text(self, hit: Found) -> str:
        """Return the text of a passage, empty for a heading, and for a turn that was erased."""
        piece = self._piece(hit)
        return piece.text if piece else ""

    def _piece(self, hit: Found) -> Passage | None:
        found = self._pieces(hit)[hit.passage :][:1] if hit.passage is not None else ()
        return found[0] if found else None

    def _pieces(self, hit: Found) -> list[Passage]:
        """Return the passages of a turn, none if it was erased since."""
        key = hit.place[:2]
        if key not in self._passages:
            stored = self._records.get(key)
            cut = _cached_passages if stored and stored.id else _passages
            self._passages[key] = cut(stored) if stored else []
        return self._passages[key]

    def _in_span(self, hit: Found) -> Found:
        """Return a passage as one of the effort whose round it is; the request is of each."""
        turn = self._records.get(hit.place[:2])
        rounds, piece = kept(turn) if turn else [], self._piece(hit)
        if not turn or not rounds or piece is None:
            return hit
        at = piece.message
        if turn.messages[at].type == "human":
            return hit
        effort = next((name for name, begin, end in rounds if begin <= at < end), "")
        return replace(hit, effort=effort or None)

    def _is_shown(self, hit: Found) -> bool:
        turn = self._records.get(hit.place[:2])
        is_shown = self._when.includes(turn.at) if turn and turn.id else not self._when.until
        return turn is not None and is_shown

    def _add(self, hit: Found, effort: Effort | None) -> bool:
        """Add a passage; return whether there was room for it."""
        turn, key = self._records[hit.place[:2]], _key(hit)
        if key not in self._heads and not self._add_result(hit, effort):
            return False
        if hit.passage is None:
            self._turns.add(hit.place[:2])
            return True
        part = shown_excerpt(turn.messages, hit.passage, self._terms, self._pieces(hit))
        if part.end - part.begin > _WHOLE:
            part = best_excerpt(turn.messages, self._terms, part.begin, part.end)
        return self._add_range(key, _Range(turn, part.begin, part.end, hit))

    def _add_answer(self, hit: Found) -> bool:
        """Add what was said after a question, which often answers it; return if there was room."""
        piece = self._piece(hit)
        if piece is None or not piece.asks:
            return True
        past = hit.branch.past if hit.branch else self._work.view.past
        for after in past.turns([hit.turn + 1]):
            if answer := excerpt(after.messages, 0):
                best = replace(hit, newest_with=())
                return self._add_range(_key(hit), _Range(after, answer.begin, answer.end, best))
        return True

    def _add_result(self, hit: Found, effort: Effort | None) -> bool:
        """Add what stands before the passages of a result; return whether there was room."""
        key, branch = _key(hit), hit.branch
        of_session = {"session": session_name(branch.session)} if branch else {}
        head: dict[str, Any] = {**({"id": hit.effort} if hit.effort else {}), **of_session}
        if effort:
            name = qualified(branch.session, effort.id) if branch else effort.id
            head = {"id": name, **of_session, "status": effort.status}
            if key in self._with_summary and not branch:
                head["summary"] = one_line(effort.summary)
        cost = self._work.run.count(compact(head))
        if self._heads and cost > self._free:
            return False
        self._free -= cost
        self._heads[key] = head
        if branch and effort and key in self._with_summary:
            for turn in branch.past.turns([effort.turn]):
                of = session_name(branch.session), turn.id, effort.id
                quote = Recalled(turn.number, 0, len(effort.summary), *of)
                of_summary = replace(hit, at=turn.at, newest_with=())
                self._add_text(key, quote, effort.summary, of_summary)
        return True

    def _add_text(self, key: _Key, quote: Recalled, text: str, of: Hit) -> bool:
        """Add a summary of another session, or a fact, by reference; return if there was room."""
        day = local_day(of.at, self._when.zone) or UNDATED
        passage = {"turn": quote.turn, "at": day, "text": text}
        passage |= _marks(of)
        fits = self._spend(self._work.run.count(compact(passage)))
        if fits:
            self._summaries[key] = passage, quote
        return fits

    def _spend(self, cost: int) -> bool:
        """Take tokens for a passage, of the first in any case; return whether there were any."""
        is_first = not any(self._ranges.values()) and not self._summaries
        if not is_first and cost > self._free:
            return False
        self._free -= cost
        return True

    def _add_range(self, key: _Key, one: _Range) -> bool:
        """Add a range, or what of it is not shown yet; return whether there was room for it."""
        every = [other for ranges in self._ranges.values() for other in ranges]
        shown = [
            other
            for other in every
            if (other.turn.number, other.best.branch) == (one.turn.number, one.best.branch)
            if _is_one(*sorted((one, other), key=lambda each: each.begin))
        ]
        begin = min((other.begin for other in shown), default=one.begin)
        end = max((other.end for other in shown), default=one.end)
        begin, end = min(begin, one.begin), max(end, one.end)
        cost = self._work.run.count(excerpted(one.turn.messages, begin, end))
        cost -= sum(self._work.run.count(other.text) for other in shown)
        cost += 0 if shown else self._work.run.count(compact(self._around(one)))
        if not self._spend(cost):
            return False
        if shown:
            kept, *others = shown
            kept.begin, kept.end = begin, end
            for name, ranges in self._ranges.items():
                self._ranges[name] = [r for r in ranges if all(r is not other for other in others)]
        else:
            self._ranges.setdefault(key, []).append(one)
        return True

    def _add_fact(self, hit: FactHit) -> None:
        fact, session = hit.fact, session_name(hit.fact.session)
        of = session, fact.tip.id, fact.id, round(hit.score, 2)
        quote = Recalled(fact.tip.turn, 0, len(fact.told), *of)
        if self._add_text((None, fact.id), quote, fact.told, hit):
            self._heads[None, fact.id] = {"id": fact.id, "session": session}

    def _written(self) -> tuple[list[Mapping[str, Any]], list[Recalled], set[Any]]:
        """Return the results as the model reads them, the quoted ranges, and the turns."""
        above, summarised = self._earlier()
        turns = self._turns.union(
            (one.best.branch, one.turn.number) for ranges in self._ranges.values() for one in ranges
        )
        hours = _hours(self._ranges.values(), self._when.zone)
        results: list[Mapping[str, Any]] = []
        quotes: list[Recalled] = []
        for key, head in self._heads.items():
            if head.get("id") in summarised:
                head.pop("summary", None)
            passages: list[Mapping[str, Any]] = []
            if key in self._summaries:
                passage, quote = self._summaries[key]
                if _covered(quote, above):
                    passage = {"turn": passage["turn"], "above": True}
                else:
                    quotes.append(quote)
                passages.append(passage)
            for one in self._ranges.get(key, ()):
                if _covered(one.quote, above):
                    passages.append({"turn": one.turn.number, "above": True})
                    continue
                around = self._around(one, hour=one.turn.number in hours)
                passages.append({**around, "text": one.text, **_marks(one.best)})
                quotes.append(one.quote)
            if passages or "id" in head:  # for those of a turn there may have been no room
                results.append({**head, "passages": passages})
        return results, quotes, turns

    def _around(self, one: _Range, *, hour: bool = False) -> dict[str, Any]:
        """Return what stands before the text: with an offset if one reading does not reach it."""
        zone, messages = self._when.zone, one.turn.messages
        none = UNDATED if one.turn.id else "now"
        around: dict[str, Any] = {
            "turn": one.turn.number,
            "at": local_day(one.turn.at, zone, hour=hour) or none,
            "speaker": speakers(messages, one.begin, one.end),
        }
        work = self._work
        reach = min(work.free, work.room // RESULT_SHARE, DEFAULT_LIMIT)
        is_far = not one.best.branch and fit(log_text(messages), reach, work.run.count) < one.end
        return around | ({"offset": one.begin} if is_far else {})

    def _earlier(self) -> tuple[list[Recalled], set[str]]:
        """Return the ranges and the summaries that earlier searches of this turn have shown.

        None if the turn is shortened, or may be once this result is added: those results may then
        be gone from the context.
        """
        work, plan = self._work, self._work.plan
        most = high_water(work.room, plan.size if plan else 0)
        if (plan and plan.rounds) or work.used + min(work.free, _BUDGET) > most:
            return [], set()
        searches = [
            message
            for message in (*work.view.running.messages, *work.results)
            if message.name == "search_efforts"
        ]
        parts = [part for message in searches for part in result_of(message).get("results", ())]
        return (
            [quote for message in searches for _, quote in quotations(message)],
            {part["id"] for part in parts if "summary" in part and "id" in part},
        )


def _is_one(first: _Range, second: _Range) -> bool:
    """Tell whether two ranges overlap, or follow each other without a result ending between."""
    if second.begin <= first.end:
        return True
    messages = first.turn.messages
    ends = [place.end for place in offsets(messages)]
    is_result = first.end + 1 in ends and messages[ends.index(first.end + 1)].type == "tool"
    return second.begin == first.end + 1 and not is_result


def _passages(turn: StoredTurn) -> list[Passage]:
    return passages(turn.messages)


# What is erased later changes the content of a turn, or its status.
_cached_passages = cached(
    LRUCache[Any, list[Passage]](_CACHED, lambda found: 1 + sum(len(one.text) for one in found)),
    lambda turn: (turn.id, turn.content, turn.status),
    CACHES,
)(_passages)


def _marks(hit: Hit) -> dict[str, Any]:
    is_weak = hit.weak or (isinstance(hit, Found) and hit.alike)
    weak = {"weak": True} if is_weak else {}
    return weak | ({"newest_with": [*hit.newest_with]} if hit.newest_with else {})


def _values(text: str) -> frozenset[str]:
    marks, negated, _ = claim(text)
    return frozenset([*marks, *(f"not {term}" for term in negated)])


def _key(hit: Found) -> _Key:
    return hit.branch, hit.effort or hit.turn


def _covered(quote: Recalled, above: Iterable[Recalled]) -> bool:
    """Tell whether an earlier result shows a range."""
    place = quote.turn, quote.session, quote.id, quote.effort
    return any(
        place == (other.turn, other.session, other.id, other.effort)
        and other.offset <= quote.offset
        and other.end >= quote.end
        for other in above
    )


def _hours(shown: Iterable[Sequence[_Range]], zone: str) -> set[int]:
    """Return the turns that are of the same day as another one shown, some hours apart."""
    times = {
        one.turn.number: local(one.turn.at, zone)
        for ranges in shown
        for one in ranges
        if one.turn.at
    }
    return {
        turn
        for turn, at in times.items()
        for other in times.values()
        if other.date() == at.date() and abs((other - at).total_seconds()) > _APART * 3600
    }


def _with_facts(hits: Sequence[Found], facts: Sequence[FactHit]) -> list[Hit]:
    """Return hits with facts among them, each after the last that has as many terms of the query.

    What holds in place of another fact stands before the first.

    The scores of two searches cannot be compared, but the numbers of terms can.
    """
    places: list[tuple[int, Hit]] = [(2 * place, hit) for place, hit in enumerate(hits)]
    for fact in facts:
        as_good = [n for n, hit in enumerate(hits) if len(hit.said) >= len(fact.said)]
        before, after = (2 * as_good[0] - 1, 2 * as_good[-1] + 1) if as_good else (-1, -1)
        places.append((before if fact.newest_with else after, fact))
    return [hit for _, hit in sorted(places, key=lambda pair: pair[0])]
