"""The results of a search: passages by the effort or turn that they are of, up to a budget.

Passages are stored as references, so that no text of another session is copied into this one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from ..archive.protocol import Elsewhere
from ..archive.query import Found
from ..context.budget import high_water
from ..context.rounds import RESULT_SHARE
from ..dates import UNDATED, When, local, local_day
from ..efforts import Effort
from ..facts import is_fact
from ..messages import compact
from ..names import qualified, session_name
from ..recalled import Recalled, quotations, result_of
from ..running_turn import Turn
from ..search.literal import Literal
from ..search.passages import LONGEST, Passage, best_excerpt, excerpt, passages, shown_excerpt
from ..search.terms import query_terms
from ..spans import kept
from ..tokens import fit
from ..transcript import excerpted, log_text, offsets, speakers
from ..turn import StoredTurn
from ..view import view_at
from .read_log import DEFAULT_LIMIT

Hit: TypeAlias = Found | Elsewhere
"""What a search finds: of this session, or of another one of the user."""

_BUDGET = 1_200
"""Tokens of the results: of LoCoMo's evidence they have 80 %, with 1,000 it is 77."""

_NEAR = 0.3
"""Share of the best score that a passage must have which only stands beside what matches."""

_WHOLE = 3 * LONGEST
"""Characters of an excerpt that is shown whole; passages of very large results are longer."""

_APART = 3
"""Hours between two turns of one day from which on a result shows the hour."""


@dataclass(slots=True)
class _Range:
    """Characters of a turn that are shown; `score` is of the best passage in them."""

    turn: StoredTurn
    begin: int
    end: int
    score: float
    weak: bool = False
    foreign: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return excerpted(self.turn.messages, self.begin, self.end)

    @property
    def quote(self) -> Recalled:
        score = round(self.score, 2)
        return Recalled(self.turn.number, self.begin, self.end, **self.foreign, score=score)


class SearchResults:
    """The results of a search, filled with passages up to a budget of tokens."""

    def __init__(self, work: Turn, phrasings: Sequence[str], when: When) -> None:
        """Take the running turn, what is searched for, and how the search reads time."""
        self._work, self._when = work, when
        self._phrasings = phrasings
        self._terms = frozenset(term for text in phrasings for term in query_terms(text))
        self._free = min(work.free, _BUDGET)
        self._ranges: dict[str | tuple[str, int], list[_Range]] = {}
        self._heads: dict[str | tuple[str, int], dict[str, Any]] = {}
        self._records: dict[int, StoredTurn] = {}
        self._passages: dict[int, list[Passage]] = {}
        self._literals = [Literal(text) for text in phrasings]
        self._summaries: dict[str | tuple[str, int], tuple[dict[str, Any], Recalled]] = {}

    def filled(
        self, own: Sequence[Found], foreign: Sequence[Elsewhere], limit: int
    ) -> tuple[list[Mapping[str, Any]], list[Recalled], set[int]]:
        """Return the results, the quoted ranges in their order, and the turns that are shown."""
        numbers = sorted({hit.turn + step for hit in own for step in (0, 1)})
        running = self._work.view.running
        self._records = {turn.number: turn for turn in self._work.view.past.turns(numbers)}
        if any(hit.turn == running.number for hit in own):
            self._records[running.number] = running
        own = self._literal_first(map(self._in_span, own))
        least = _NEAR * max((hit.score for hit in own), default=0.0)
        own = [hit for hit in own if self._is_shown(hit) and (not hit.near or hit.score >= least)]
        first = {_place(hit): hit for hit in reversed(own)}
        best = [hit for hit in own if first[_place(hit)] is hit]
        chosen = in_one_list(best, foreign, limit)
        efforts = [hit.effort for hit in chosen if isinstance(hit, Found) and hit.effort]
        known = {effort.id: effort for effort in self._work.known(efforts)}
        for hit in _in_order(own, chosen):
            if isinstance(hit, Elsewhere):
                self._add_foreign(hit)
            elif not self._add(hit, known.get(hit.effort or "")):
                break
        return self._written()

    def _literal_first(self, hits: Iterable[Found]) -> list[Found]:
        """Return the hits, each passage once for its effort, with what says it literally first."""
        own: dict[tuple[str | None, int, int | None], Found] = {}
        for hit in hits:
            turn = self._records.get(hit.turn)
            is_of_several = hit.user and turn is not None and kept(turn)  # its request is one
            effort = None if is_of_several else hit.effort
            own.setdefault((effort, hit.turn, hit.passage), hit)
        if not any(literal.telling for literal in self._literals):
            return [*own.values()]
        scored = [replace(hit, score=hit.score * (1 + self._share(hit))) for hit in own.values()]
        return sorted(scored, key=lambda hit: (hit.weak, -hit.score))

    def _share(self, hit: Found) -> float:
        """Return how much of a phrasing a passage has literally."""
        pieces = self._pieces(hit.turn)
        text = pieces[hit.passage].text if pieces and hit.passage is not None else ""
        return max(literal.share(text) for literal in self._literals) if text else 0.0

    def _pieces(self, turn: int) -> list[Passage]:
        """Return the passages of a turn, none if it was erased since."""
        if turn not in self._passages:
            stored = self._records.get(turn)
            self._passages[turn] = passages(stored.messages) if stored else []
        return self._passages[turn]

    def _in_span(self, hit: Found) -> Found:
        """Return a passage as one of the effort whose round it is; the request is of each."""
        turn = self._records.get(hit.turn)
        rounds = kept(turn) if turn and hit.passage is not None else []
        if not turn or not rounds:
            return hit
        at = self._pieces(hit.turn)[hit.passage or 0].message
        if turn.messages[at].type == "human":
            return hit
        effort = next((name for name, begin, end in rounds if begin <= at < end), "")
        return replace(hit, effort=effort or None)

    def _is_shown(self, hit: Found) -> bool:
        turn = self._records.get(hit.turn)
        if turn is None:
            return False
        now = not turn.id
        return not self._when.until if now else is_within(turn.at, self._when)

    def _add(self, hit: Found, effort: Effort | None) -> bool:
        """Add a passage; return whether there was room for it."""
        turn, key = self._records[hit.turn], _place(hit)
        if key not in self._heads and not self._add_head(key, _head(hit, effort)):
            return False
        if hit.passage is None:
            return True
        part = shown_excerpt(turn.messages, hit.passage, self._terms)
        if part.end - part.begin > _WHOLE:
            part = best_excerpt(turn.messages, self._terms, part.begin, part.end)
        one = _Range(turn, part.begin, part.end, hit.score, hit.weak)
        if not self._add_range(key, one):
            return False
        # A question is often answered only in the next turn.
        after = self._records.get(hit.turn + 1)
        if part.asks and after and after.id and (answer := excerpt(after.messages, 0)):
            self._add_range(key, _Range(after, answer.begin, answer.end, hit.score, hit.weak))
        return True

    def _add_head(self, key: str | tuple[str, int], head: dict[str, Any]) -> bool:
        cost = self._work.run.count(compact(head))
        if self._heads and cost > self._free:
            return False
        self._free -= cost
        self._heads[key] = head
        return True

    def _spend(self, cost: int) -> bool:
        """Take tokens for a passage, of the first in any case; return whether there were any."""
        is_first = not any(self._ranges.values()) and not self._summaries
        if not is_first and cost > self._free:
            return False
        self._free -= cost
        return True

    def _add_range(self, key: str | tuple[str, int], one: _Range) -> bool:
        """Add a range, or what of it is not shown yet; return whether there was room for it."""
        every = [other for ranges in self._ranges.values() for other in ranges]
        shown = [
            other
            for other in every
            if (other.turn.number, other.foreign) == (one.turn.number, one.foreign)
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

    def _add_foreign(self, hit: Elsewhere) -> None:
        """Add an effort with its summary, a fact, or the best passage of a turn."""
        session, tip = session_name(hit.session), hit.tip
        if effort := hit.effort:
            is_item = is_fact(effort.id)
            name = effort.id if is_item else qualified(hit.session, effort.id)
            head = {"id": name, "session": session}
            head |= {} if is_item else {"status": effort.status}
            text = effort.summary
            stored = session, tip.id, effort.id
            quote = Recalled(tip.turn, 0, len(text), *stored, score=round(hit.score, 2))
            passage = {
                "turn": tip.turn,
                "at": local_day(hit.at, self._when.zone) or UNDATED,
                "text": text,
            }
            passage |= {"weak": True} if hit.weak else {}
            if self._spend(self._work.run.count(compact({**head, **passage}))):
                self._heads[name] = head
                self._summaries[name] = passage, quote
            return
        (turn,) = view_at(self._work.view.archive, hit.session, tip).past.turns([tip.turn])
        part = shown_excerpt(turn.messages, hit.passage or 0, self._terms)
        key = tip.id, tip.turn
        if self._add_head(key, {"session": session}):
            place = {"session": session, "id": tip.id}
            one = _Range(turn, part.begin, part.end, hit.score, hit.weak, place)
            if not self._add_range(key, one):
                del self._heads[key]

    def _written(self) -> tuple[list[Mapping[str, Any]], list[Recalled], set[int]]:
        """Return the results as the model reads them, the quoted ranges, and the turns."""
        above, summarised = self._earlier()
        turns = {one.turn.number for ranges in self._ranges.values() for one in ranges}
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
                weak = {"weak": True} if one.weak else {}
                around = self._around(one, hour=one.turn.number in hours)
                passages.append({**around, "text": one.text, **weak})
                quotes.append(one.quote)
            if passages or head:  # for the passage of a turn there may have been no room
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
        reach = min(self._work.free, self._work.room // RESULT_SHARE, DEFAULT_LIMIT)
        is_far = not one.foreign and fit(log_text(messages), reach, self._work.run.count) < one.end
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


def is_within(at: str, when: When) -> bool:
    """Tell whether a time is in the period that is searched."""
    return when.since <= at and (not when.until or at < when.until)


def _place(hit: Found) -> str | tuple[str, int]:
    return hit.effort or ("", hit.turn)


def _head(hit: Found, effort: Effort | None) -> dict[str, Any]:
    """Return what stands before the passages of a result."""
    if effort is None:
        return {"id": hit.effort} if hit.effort else {}
    summary = effort.summary or effort.goal
    return {"id": effort.id, "status": effort.status, **({"summary": summary} if summary else {})}


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


def _in_order(own: Sequence[Found], chosen: Sequence[Hit]) -> Iterator[Hit]:
    """Yield the passages of the chosen results, the best first, each foreign one at its place."""
    keys = {_place(hit) for hit in chosen if isinstance(hit, Found)}
    first = next((place for place, hit in enumerate(chosen) if isinstance(hit, Found)), len(chosen))
    yield from chosen[:first]
    waiting = [*chosen[first:]]
    for hit in own:
        if _place(hit) not in keys:
            continue
        yield hit
        if waiting and waiting[0] is hit:
            waiting.pop(0)
        while waiting and isinstance(waiting[0], Elsewhere):
            yield waiting.pop(0)
    yield from (hit for hit in waiting if isinstance(hit, Elsewhere))


def in_one_list(own: Sequence[Found], foreign: Sequence[Elsewhere], limit: int) -> tuple[Hit, ...]:
    """Merge the results of this session and of others, each list in its own order; first `limit`.

    The scores of two searches cannot be compared, but the numbers of query terms can: a result of
    another session comes right after the last own result that has as many terms or more, so that it
    never displaces one of these.
    """
    places: list[tuple[int, Hit]] = [(2 * place, hit) for place, hit in enumerate(own)]
    for hit in foreign:
        as_good = [n for n, own_hit in enumerate(own) if len(own_hit.said) >= len(hit.said)]
        places.append((2 * as_good[-1] + 1 if as_good else -1, hit))
    return tuple(hit for _, hit in sorted(places, key=lambda pair: pair[0]))[:limit]
