"""Search what was said: read which passages and headings have a query's rarest terms; score them.

No text is read for it. Of a long query only the rarest terms count, so that a page of text costs no
more than a sentence or two.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import and_, select

from ..dates import When, said_dates, undated
from ..names import session_name
from ..search.embeddings import QueryEmbedding
from ..search.ranking import SHORT, Passages, Rare, Scores, Topics, rarity, score
from ..search.terms import (
    further_terms,
    is_pair,
    leading_name,
    long_enough,
    names,
    names_of_words,
    query_terms,
    tells,
    terms,
    title_terms,
)
from ..serialised import clean
from .branches import Branches, Heading, Place
from .database import again_if_lost
from .index import SPEAKER, any_of, unpack_layout
from .load import AMBIENT
from .query import (
    WEAK,
    Found,
    Said,
    at_most,
    dated,
    few,
    in_turns,
    of_dates,
    passages_of_turn,
    rarest,
    said_in,
    strongest,
)
from .schema import PASSAGE_BITS, TURN_BITS, members, passage_id, turns, vectors
from .vectors import MOST, Nearness, cosines, nearest

T = TypeVar("T")

_PASSAGES_READ = 30_000
"""Newest passages that are read of one term: a term that more of them say tells little of a turn.

Of 100,000 efforts 95 % are found first, as with all rows; with 10,000 it is 87 %.
"""

_HEADINGS_READ = 2_000
"""Newest headings that are read of one term: twenty for each of those that are looked up."""

_HEADINGS_LOOKED_UP = 100
"""Headings whose efforts are looked up, those that say most: two for each effort that counts."""

_CANDIDATES = 100
"""Turns by their words that are ranked with windows and headings.

Ten for each result of the default `search_limit`, which the constants below refer to too.
"""

_HEADINGS = 50
"""Efforts by their headings that are ranked too: five for each result."""

_NEAR = 50
"""Turns by their meaning that are ranked too: five for each result."""

_DATED = 2.0
"""What a date weighs among candidates, as a term that 13 % of the turns say."""

_DATE = "\u00b6date"
"""Stands for a date among the terms; no term has the sign."""

_MOST = 200
"""Passages, and efforts, that are returned at most: twenty for each result."""

_LONG = 500
"""Turns from which on an effort is scored by those around the best alone, not by all it says."""

_OTHERS_READ = 5_000
"""Newest passages, and headings, of other sessions that are read of one term."""

_DATED_READ = 2_000
"""Turns, those that say most, of which it is asked whether they are of a date in the query."""

_SEVERAL = 3
"""Terms of which a competing statement may lack one."""

_COMPETING = 20
"""Turns that are looked at for a newer statement."""

_AROUND = range(-2, 3)
"""Steps to the turns around one: a passage's window, two passages each way, reaches no further."""

_TURN = (turns.c.id, turns.c.run, turns.c.place, turns.c.turn, turns.c.at)
_CANDIDATE = select(*_TURN, turns.c.efforts, turns.c.passages).where(any_of(turns.c.id, "ids"))
_TIMES = select(turns.c.id, turns.c.at).where(any_of(turns.c.id, "ids"))
# SQLite may not conclude that the turns are of these runs, too: it would read all of theirs first.
_SAME_TURN = (
    turns.c.run == members.c.run + 0,
    turns.c.turn == members.c.turn,
    turns.c.place == members.c.place,
)
_OF_EFFORTS = (any_of(members.c.run, "runs"), any_of(members.c.effort, "efforts"))
_IN_EFFORTS = (
    select(*_TURN, turns.c.passages, members.c.effort)
    .join(members, and_(*_SAME_TURN))
    .where(*_OF_EFFORTS)
)
_IN_PARTS = _IN_EFFORTS.where(any_of(members.c.turn, "numbers"))
_MEMBERS = select(members.c.run, members.c.place, members.c.turn, members.c.effort).where(
    *_OF_EFFORTS
)


class _Row(NamedTuple):
    """A turn to score: its branch and number in one, unlike those of other branches."""

    effort: Place
    turn: int
    id: int
    at: str
    passages: bytes


@dataclass(frozen=True, slots=True)
class _Query:
    """A query with what the index has of it in one session.

    `length` is how many terms the query has. `rare` has those that count, the rarest first, and
    `passages` and `turns` who says them. `headings` has for each the efforts whose visible headings
    say it, with the newest one. `unknown` weighs the terms that no text says,
    `by_speakers` has the ids of passages of speakers whom the query names, `periods` the times at
    which each date begins and ends. `near` is None without vectors. `naming` has the terms that
    name something, and `is_strange` tells whether nobody said one of the names, `dates_said`
    whether a text says one of the dates or months. `when` has the period that is searched.
    """

    branches: Branches
    length: int
    rare: Rare
    unknown: float
    passages: Said
    turns: Mapping[str, set[int]]
    headings: Mapping[str, Mapping[Place, Heading]]
    by_speakers: frozenset[int]
    periods: Sequence[tuple[str, str]]
    near: Nearness | None
    naming: frozenset[str]
    is_strange: bool
    dates_said: bool
    when: When

    @property
    def telling(self) -> frozenset[str]:
        return frozenset(filter(tells, self.rare))

    @property
    def passing(self) -> frozenset[str]:
        """The names among them that so few turns or headings say that a text with one is no chance.

        Other words that are rare here may be common elsewhere.
        """
        most = few(self.branches.total)
        return frozenset(
            term
            for term in self.telling & self.naming
            if max(len(self.turns[term]), len(self.headings[term])) <= most
        )

    def is_dated(self, at: str) -> bool:
        return any(since <= at < until for since, until in self.periods)

    def newest_heading(self, effort: Place) -> Heading:
        """Return the newest heading that was found of an effort, of turn 0 for none."""
        if self.near and effort in self.near.headings:
            return self.near.headings[effort]
        found = (newest[effort] for newest in self.headings.values() if effort in newest)
        return max(found, default=(0, "", 0))


@dataclass(frozen=True, slots=True, eq=False)
class _Ranking:
    """Scored passages, by row with their ids and times, and scored efforts, with their places.

    `near` has the rows of passages that are near in meaning, `near_topics` those of efforts. A text
    must say a term of `passing`, or it is weak, and one of `telling`, or it is none; without them
    all pass.
    """

    ids: Sequence[int]
    times: Sequence[str]
    passages: Passages
    places: Sequence[Place]
    topics: Topics
    scores: Scores
    near: frozenset[int] = frozenset()
    near_topics: frozenset[int] = frozenset()
    passing: frozenset[str] | None = None
    telling: frozenset[str] | None = None


def find(
    branches: Branches,
    query: str,
    limit: int,
    meaning: QueryEmbedding | None = None,
    *,
    when: When | None = None,
) -> tuple[Found, ...]:
    """Return up to `limit` passages that match a query, best first, with the weak ones.

    The texts of turns count, and the ids, goals, summaries and keywords of efforts. A query of
    stop words alone finds nothing. With the query's `meaning`, cosines join the ranking, and
    find texts that share no word with the query but are as near as the meaning's floor. A date
    in the query is read as `when` says; a query of a date alone finds what was said then. Of other
    sessions count what their newest branches say, and the efforts that they concluded; if they are
    searched, what may be newer than the best comes last, `newest_with` it.
    """
    when, past = when or When(), branches.past

    def read() -> tuple[Found, ...]:
        with past.parsing(), past.connect():
            return _search(branches, clean(query), meaning, when)

    return tuple(first_distinct(again_if_lost(read), limit, attrgetter("place")))


def _search(
    branches: Branches, query: str, meaning: QueryEmbedding | None, when: When
) -> tuple[Found, ...]:
    """Return the passages that match a query, best first, and efforts by their headings alone.

    If nothing does, those of the dates that it names. If there are none, what was read as a date
    may be a name or a version.
    """
    words = undated(query, when.today)
    hits: tuple[Found, ...] = ()
    if query_terms(words, any_name=True) or said_dates(query):
        hits = _by_words(_look_up(branches, query, words, meaning, when))
    if hits and terms(words):
        return hits
    of_days = of_dates(branches, query, when, weak=bool(terms(words)))
    if not (hits or of_days or terms(words)) and terms(query):
        hits = _by_words(_look_up(branches, query, query, meaning, when))
        return tuple(replace(hit, weak=True) for hit in hits)
    known = {hit.place for hit in hits}
    return (*hits, *(hit for hit in of_days if hit.place not in known))


def _by_words(query: _Query) -> tuple[Found, ...]:
    ranking = _rank_by_words(query)
    if query.near is not None:
        ranking = _blend(query.branches, query.near, ranking)
    return _hits(query, ranking)


def _look_up(
    branches: Branches, query: str, words: str, meaning: QueryEmbedding | None, when: When
) -> _Query:
    required = at_most(query_terms(words, any_name=True))
    # A text of that day need not name it; one that does has the day, or the month.
    months = {term for term in terms(query) if not term.isdigit()}.difference(terms(words))
    further = at_most([*further_terms(words), *said_dates(query), *sorted(months)])
    wanted = list(dict.fromkeys([*required, *further]))
    asked = [*wanted, *(SPEAKER + term for term in required)]
    passages, headings = _postings(branches, words, asked, when.language)
    by_turn = in_turns({term: passages[term] for term in wanted})
    rare = rarest(branches.total, wanted, by_turn, headings)
    absent = [term for term in required if not passages[term] and not headings[term]]
    named = [terms for terms in names(words) if any(tells(term) for term in terms)]
    is_said = {term for term in wanted if passages[term] or headings[term]}
    is_strange = any(terms <= {*wanted} and terms.isdisjoint(is_said) for terms in named)
    # Stars are not "Star Wars", of which nobody spoke.
    parts = frozenset[str]().union(
        *(terms for terms in names_of_words(words) if not terms.isdisjoint(absent))
    )
    titles = title_terms(words)
    absent = [term for term in absent if term not in titles]
    # What a run of Chinese says counts once, though it has many pairs of characters.
    unknown = len([term for term in absent if not is_pair(term)]) + any(map(is_pair, absent))
    # Of a short query one term is enough: "authentication problem" is to find `auth-bug`.
    short = len(required) in SHORT and rare
    weight = max(rare.values()) if short else rarity(branches.total)
    return _Query(
        branches,
        len(required),
        rare,
        unknown * weight,
        {term: passages[term] for term in rare},
        {term: by_turn[term] for term in rare},
        _efforts_by_term(branches, headings, rare),
        frozenset().union(*(passages[SPEAKER + term] for term in required)),
        dated(branches, query, when),
        Nearness.of(branches, meaning) if meaning else None,
        leading_name(words).union(*named) - parts,
        is_strange,
        not rare.keys().isdisjoint([*said_dates(query), *months]),
        when,
    )


def _postings(
    branches: Branches, query: str, asked: Sequence[str], language: str
) -> list[dict[str, list[int]]]:
    """Return the passages and the headings by term: the own ones, then those of other sessions."""
    own, others = (_PASSAGES_READ, _HEADINGS_READ), (_OTHERS_READ, _OTHERS_READ)
    past = branches.past
    with past.connect() as connection:
        place = connection, branches.user
        found = said_in((*place, past.ranges), query, asked, own, language)
        if branches.others:
            more = said_in((*place, branches.others), query, asked, others, language)
            for known, new in zip(found, more, strict=True):
                for term, ids in new.items():
                    known[term] += ids
    return found


def _efforts_by_term(
    branches: Branches, headings: Mapping[str, Sequence[int]], rare: Rare
) -> dict[str, dict[Place, Heading]]:
    best = strongest(headings, rare, _HEADINGS_LOOKED_UP)
    found = branches.headings(best) if best else ()
    rows = {row.id: (place, (row.turn, row.at, row.id)) for place, row in found}
    newest: dict[str, dict[Place, Heading]] = {}
    for term in rare:
        efforts = newest.setdefault(term, {})
        for place, at in (rows[number] for number in headings[term] if number in rows):
            efforts[place] = max(efforts.get(place, at), at)
    return newest


def _rank_by_words(query: _Query) -> _Ranking:
    """Score the passages of the best turns, and the efforts by headings and all that they say."""
    strengths: dict[Place, float] = defaultdict(float)
    for term, newest in query.headings.items():
        for place in newest:
            strengths[place] += query.rare[term]
    near = query.near.efforts if query.near else {}
    efforts = [
        *nlargest(_HEADINGS, strengths, key=strengths.__getitem__),
        *nlargest(_HEADINGS, near, key=near.__getitem__),
    ]
    rows = _turns_to_score(query, efforts)
    in_turns = (row.effort for row in rows if row.effort[1] != AMBIENT)
    places = list(dict.fromkeys([*efforts, *in_turns]))
    ids, times, passages = _passages(rows, places, query)
    topics = _topics(places, passages, query)
    scores = score(passages, topics, query.rare, query.length, of_date=not query.dates_said)
    ranking = _Ranking(ids, times, passages, places, topics, scores)
    match = scores.match(passages, topics, query.rare, query.unknown)
    # All that is said of dogs is at most a hint if Maria's are asked for, of whom nobody spoke.
    is_clear = match == "clear" and not query.is_strange
    if match != "little" and (is_clear or query.passing):
        return ranking
    if match != "little":
        return replace(ranking, passing=frozenset())
    return replace(ranking, passing=query.passing, telling=query.telling)


def _topics(places: Sequence[Place], passages: Passages, query: _Query) -> Topics:
    headings = [
        {term: 1.0 for term in query.rare if place in query.headings[term]} for place in places
    ]
    says, lengths = [heading.copy() for heading in headings], [0.0] * len(places)
    of_passages = zip(passages.topics, passages.counted, passages.lengths, strict=True)
    for topic, counted, length in of_passages:
        if topic >= 0:
            lengths[topic] += length
            for term, count in counted.items():
                says[topic][term] = says[topic].get(term, 0.0) + count
    return Topics(headings, says, lengths)


def _turns_to_score(query: _Query, headings: Sequence[Place]) -> list[_Row]:
    """Return the turns of the best efforts, those of `headings` too, by effort and turn.

    Of long efforts and of no effort, only the best turns and those around them.
    """
    branches = query.branches
    efforts_of = {
        (at, row.turn): [(at, name) for name in json.loads(row.efforts)]
        for at, row in _candidates(query)
    }
    efforts = {*headings}.union(*efforts_of.values())
    counts = Counter[Place]()
    if efforts and any(turn >= _LONG for _, turn in efforts_of):
        rows = branches.visible(_MEMBERS, efforts=[*{name for _, name in efforts}])
        counts.update((at, row.effort) for at, row in rows)
    long = {place for place in efforts if counts[place] >= _LONG}
    around = {
        (at, turn + step)
        for (at, turn), places in efforts_of.items()
        if not places or not long.isdisjoint(places)
        for step in _AROUND
    }
    parts = {
        "efforts": [*{name for _, name in long}, AMBIENT],
        "numbers": [*{turn for _, turn in around}],
    }
    short = [*{name for _, name in efforts - long}]
    found = [
        *(branches.visible(_IN_EFFORTS, efforts=short) if short else ()),
        *(branches.visible(_IN_PARTS, **parts) if around else ()),
    ]
    return sorted(
        _Row(place, at << TURN_BITS | row.turn, row.id, row.at, row.passages)
        for at, row in found
        if (place := (at, row.effort)) in efforts - long
        or ((row.effort == AMBIENT or place in long) and (at, row.turn) in around)
        if query.when.includes(row.at)
    )


def _candidates(query: _Query) -> list[tuple[int, Any]]:
    """Return the best visible turns by the rarity of the terms that they say, and the nearest."""
    said, weights = dict[str, Collection[int]](query.turns), dict(query.rare)
    if query.periods:
        ids = strongest(said, weights, _DATED_READ)
        times = query.branches.past.rows(_TIMES, ids=ids) if ids else ()
        said[_DATE] = [row.id for row in times if query.is_dated(row.at)]
        weights[_DATE] = _DATED
    best, most = list[tuple[int, Any]](), _CANDIDATES
    while len(best) < _CANDIDATES:  # of many turns none may be visible
        order = strongest(said, weights, most)
        best = _visible(query, order, _CANDIDATES)
        if len(order) < most:
            break
        most *= 8
    if query.near:
        seen: list[tuple[int, Any]] = []
        for passages in nearest(query.branches, vectors, query.near.meaning, MOST):
            near = [passage for passage, cosine in passages.items() if cosine > 0]
            order = [*dict.fromkeys(passage >> PASSAGE_BITS for passage in near)]
            seen = _visible(query, order, _NEAR)
            if len(seen) in {len(order), _NEAR} or len(near) < len(passages):
                break
        best = [*{of[1].id: of for of in (*best, *seen)}.values()]
    return best


def _visible(query: _Query, order: Sequence[int], limit: int) -> list[tuple[int, Any]]:
    """Return the first `limit` visible turns of the period among these, in their order."""
    first: list[tuple[int, Any]] = []
    size = max(limit, len(order) // 8)  # few questions even if none of many turns is visible
    for start in range(0, len(order), size):
        part = order[start : start + size]
        query.branches.read_those_of(part)
        found = query.branches.visible(_CANDIDATE, ids=part)
        rows = {row.id: (at, row) for at, row in found if query.when.includes(row.at)}
        first += [rows[number] for number in part if number in rows]
        if len(first) >= limit:
            break
    return first[:limit]


def _passages(
    rows: Sequence[_Row], places: Sequence[Place], query: _Query
) -> tuple[Sequence[int], Sequence[str], Passages]:
    row_of = {place: row for row, place in enumerate(places)}
    topics = [row_of.get(row.effort, -1) for row in rows]
    layouts = [unpack_layout(row.passages) for row in rows]
    every = [*chain.from_iterable([at] * len(layout) for at, layout in enumerate(layouts))]
    sized = ((passage_id(row.id), len(one)) for row, one in zip(rows, layouts, strict=True))
    ids = [number for first, length in sized for number in range(first, first + length)]
    lengths, user, asks = zip(*chain.from_iterable(layouts), strict=True) if ids else ((), (), ())
    times = [rows[at].at for at in every]
    says: dict[int, dict[str, float]] = {number: {} for number in ids}
    for term, having in query.passages.items():
        for number in says.keys() & having:
            says[number][term] = 1.0
    passages = Passages(
        topics=[topics[at] for at in every],
        turns=[rows[at].turn for at in every],
        says=[says[number] for number in ids],
        lengths=lengths,
        user=user,
        asks=asks,
        named=[number in query.by_speakers for number in ids],
        dated=[*map(query.is_dated, times)],
    )
    return ids, times, passages


def _blend(branches: Branches, near: Nearness, ranking: _Ranking) -> _Ranking:
    """Return the ranking by words and by meaning as one.

    What shares no word with the query, and whose cosine is below the floor, has no score.
    """
    passages, words = ranking.passages, ranking.scores
    floor = near.meaning.floor
    by_id = cosines(branches, vectors, near.meaning, len(ranking.ids), ranking.ids)
    own = [by_id.get(number) for number in ranking.ids]
    headings = [near.efforts.get(place, 0.0) for place in ranking.places]
    both = words.blended(passages.similarity(own, headings))
    near_rows = frozenset(
        row for row, cosine in enumerate(own) if cosine is not None and cosine >= floor
    )
    near_topics = {topic for topic, cosine in enumerate(headings) if cosine >= floor}
    near_topics |= {passages.topics[row] for row in near_rows} - {-1}
    scores = Scores(
        [
            points if said > 0 or row in near_rows or passages.topics[row] in near_topics else 0.0
            for row, (points, said) in enumerate(zip(both.passages, words.passages, strict=True))
        ],
        [
            points if said > 0 or topic in near_topics else 0.0
            for topic, (points, said) in enumerate(zip(both.topics, words.topics, strict=True))
        ],
    )
    return replace(ranking, scores=scores, near=near_rows, near_topics=frozenset(near_topics))


def _hits(query: _Query, ranking: _Ranking) -> tuple[Found, ...]:
    """Return the best passages; the best one of an effort has the score of the effort.

    Those that say little of the query are weak, and left out where others say enough.
    """
    passages, topics, scores = ranking.passages, ranking.topics, ranking.scores
    dates = [*zip(ranking.times, passages.turns, strict=True)]
    newest_first = sorted(range(len(dates)), key=dates.__getitem__, reverse=True)
    # A passage has a row for each effort of its turn.
    rows = _best(scores.passages, newest_first, ranking.ids.__getitem__)
    ambient = _terms_of_ambient(passages, rows)
    terms = [frozenset(says) for says in topics.says]
    topic_rows = range(len(ranking.places))
    unplaced = {row: ranking.places[row] for row in _best(scores.topics, topic_rows, int)}
    in_rows = {ranking.places[passages.topics[row]] for row in rows if passages.topics[row] >= 0}
    concluded = query.branches.concluded(in_rows)
    most = max(query.branches.total // 2, few(query.branches.total))
    usable = {term for term in query.rare if len(query.turns[term]) <= most} or {*query.rare}
    hits: list[Found] = []
    for row in rows:
        topic, key, points = passages.topics[row], passages.turns[row], scores.passages[row]
        at, turn = key >> TURN_BITS, key & ((1 << TURN_BITS) - 1)
        place = ranking.ids[row] & ((1 << PASSAGE_BITS) - 1)
        by_neighbours = row not in ranking.near and not passages.says[row]
        heading = topics.headings[topic] if topic >= 0 else ()
        said = {*passages.counted_near[row], *heading}
        is_near = row in ranking.near or topic in ranking.near_topics
        if not _says_any(said, ranking.telling) and not is_near:
            continue
        # A goodbye that says the user's name, as most turns do, tells nothing.
        alike = said.isdisjoint(usable)
        weak = (alike and not is_near) or not _says_any(said, ranking.passing)
        speaks = passages.user[row], by_neighbours, weak, ranking.times[row]
        passage = (place, *speaks, query.branches.read[at], ranking.ids[row], alike)
        if topic >= 0:
            points = scores.topics[topic] if unplaced.pop(topic, None) else points
            effort = ranking.places[topic]
            # An effort that is open elsewhere is no memory, but what is said in it is.
            name = effort[1] if not at or effort in concluded else None
            hits.append(Found(name, turn, points, terms[topic], *passage))
        elif ambient[key] or row in ranking.near:
            hits.append(Found(None, turn, points, ambient[key], *passage))
    for row, effort in unplaced.items():
        heading = topics.headings[row]
        weak = not heading or not _says_any(heading, ranking.passing)
        is_found = row in ranking.near_topics or _says_any(heading, ranking.telling)
        turn, time, number = query.newest_heading(effort)
        if is_found and turn:
            branch = query.branches.read[effort[0]]
            hit = Found(effort[1], turn, scores.topics[row], terms[row], weak=weak)
            hits.append(replace(hit, at=time, branch=branch, id=number))
    hits.sort(key=_age, reverse=True)
    hits.sort(key=Found.order)
    clear = sum(not hit.weak for hit in hits)
    if clear or ranking.telling is not None:  # else three would miss too much
        hits = hits[: clear + WEAK]
    top = next((hit for hit in hits if hit.is_said), None)
    if top and query.branches.session:
        hits += _competing(query, top, usable)
    return tuple(hits)


def _age(hit: Found) -> tuple[str, str, int, str]:
    """Return the key that orders results of one score, so that all databases agree."""
    thread = session_name(hit.branch.session) if hit.branch else ""
    return hit.at, thread, hit.turn, hit.effort or ""


def _competing(query: _Query, top: Found, usable: Collection[str]) -> Iterator[Found]:
    """Yield passages that may say the same as the best one of another time, the newest first.

    They are of the same side, and have all terms of the query that it has, or all but one word of
    three and more rare terms: what is said of team C is no newer statement on team B.
    """
    own = [term for term in query.rare if top.id in query.passages[term]]
    said = [term for term in own if tells(term) or not long_enough([term])]
    named = {term for term in said if term in query.naming or not tells(term)}
    shared = [term for term in said if term in usable]
    having = [{*query.passages[term]} for term in said if term in named or term not in usable]
    counts = Counter(chain.from_iterable(query.passages[term] for term in shared))
    least = len(shared) - (len(shared) >= _SEVERAL)
    known = {number >> PASSAGE_BITS for number, count in counts.items() if count >= least}
    times = query.branches.past.rows(_TIMES, ids=sorted(known, reverse=True)[:_DATED_READ])
    newest = sorted(times, key=lambda row: (row.at, row.id), reverse=True)[:_COMPETING]
    for at, row in _visible(query, [row.id for row in newest], _COMPETING):
        for hit, asks in passages_of_turn(query.branches, at, row):
            is_other = counts[hit.id] >= least and hit.id != top.id and hit.user == top.user
            if is_other and not asks and all(hit.id in ids for ids in having):
                both = tuple(term for term in shared if hit.id in query.passages[term])
                yield replace(hit, said=frozenset(both), newest_with=both)


def _says_any(said: Collection[str], terms: frozenset[str] | None) -> bool:
    """Tell whether a text says one of some terms, or nothing is asked for."""
    return terms is None or not terms.isdisjoint(said)


def _best(scores: Sequence[float], order: Iterable[int], key: Callable[[int], int]) -> list[int]:
    """Return the rows of the best distinct keys with a score above 0, equal ones in this order."""
    rows = sorted((row for row in order if scores[row] > 0), key=lambda row: -scores[row])
    return first_distinct(rows, _MOST, key)


def first_distinct(items: Sequence[T], limit: int, key: Callable[[T], object]) -> list[T]:
    """Return the first items that have at most `limit` distinct keys.

    >>> first_distinct([1, 1, 2, 3, 2], 2, int)
    [1, 1, 2, 2]
    """
    keys = {*[*dict.fromkeys(map(key, items))][:limit]}
    return [item for item in items if key(item) in keys]


def _terms_of_ambient(passages: Passages, rows: Sequence[int]) -> dict[int, frozenset[str]]:
    terms = {passages.turns[row]: set[str]() for row in rows if passages.topics[row] < 0}
    for topic, turn, says in zip(passages.topics, passages.turns, passages.says, strict=True):
        if topic < 0 and turn in terms:
            terms[turn].update(says)
    return {turn: frozenset(said) for turn, said in terms.items()}
