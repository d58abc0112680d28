"""Search a session: read which passages and headings have a query's rarest terms, and score them.

No text is read for it. Of a long query only the rarest terms count, so that a page of text costs no
more than a sentence or two.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import repeat
from operator import attrgetter, neg
from typing import Any, TypeVar

from sqlalchemy import and_, func, select

from ..dates import When, said_dates, undated
from ..search.embeddings import QueryEmbedding
from ..search.ranking import SHORT, Passages, Rare, Scores, Topics, rarity, score
from ..search.terms import (
    further_terms,
    is_pair,
    leading_name,
    names,
    names_of_words,
    query_terms,
    tells,
    terms,
    title_terms,
)
from ..serialised import clean
from .database import again_if_lost
from .index import SPEAKER, any_of
from .load import AMBIENT, CHANGES, Past
from .query import (
    WEAK,
    Found,
    Said,
    at_most,
    dated,
    few,
    ids_between,
    in_turns,
    of_dates,
    passages_in,
    rarest,
    said_in,
    strongest,
)
from .schema import PASSAGE_BITS, TURN_BITS, members, turns, vectors
from .vectors import MOST, Nearness, cosines, nearest

T = TypeVar("T")

_PASSAGES_READ = 30_000
"""Newest passages that are read of one term: a term that more of them say tells little of a turn.

Of 100,000 efforts 95 % are found first, as with all rows; with 10,000 it is 87 %.
"""

_HEADINGS_READ = 2_000
"""Newest headings that are read of one term: ten for each of those that are looked up."""

_HEADINGS_LOOKED_UP = 200
"""Headings whose efforts are looked up, those that say most: four for each effort that counts."""

_CANDIDATES = 100
"""Turns by their words that are ranked with windows and headings.

Twenty for each result of the default `search_limit`, which the constants below refer to too.
"""

_HEADINGS = 50
"""Efforts by their headings that are ranked too: ten for each result."""

_NEAR = 50
"""Turns by their meaning that are ranked too: ten for each result."""

_DATED = 2.0
"""What a date weighs among candidates, as a term that 13 % of the turns say."""

_DATE = "\u00b6date"
"""Stands for a date among the terms; no term has the sign."""

_MOST = 200
"""Passages, and efforts, that are returned at most: forty for each result."""

_LONG = 500
"""Turns from which on an effort is scored by those around the best alone, not by all it says."""

_AROUND = range(-2, 3)
"""Steps to the turns around one: a passage's window, two passages each way, reaches no further."""

_TURN = (turns.c.id, turns.c.run, turns.c.place, turns.c.turn)
_CANDIDATE = select(*_TURN, turns.c.efforts).where(any_of(turns.c.id, "ids"))
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
_TURNS_OF_EFFORTS = (
    select(members.c.effort, func.count()).where(*_OF_EFFORTS).group_by(members.c.effort)
)


@dataclass(frozen=True, slots=True)
class _Query:
    """A query with what the index has of it in one session.

    `length` is how many terms the query has. `rare` has those that count, the rarest first, and
    `passages` and `turns` who says them. `headings` has for each the efforts whose visible headings
    say it, with the turn of the newest one. `unknown` is the weight of the terms that no text says,
    `by_speakers` has the ids of passages of speakers whom the query names, `periods` the ids of the
    first turn of each date and of the one after its last. `near` is None without vectors. `naming`
    has the terms that name something, and `is_strange` tells whether nobody said one of the names,
    `dates_said` whether a text says one of the dates or months. `narrow` has the ids of the first
    turn of the period that is searched and of the one after it.
    """

    past: Past
    length: int
    rare: Rare
    unknown: float
    passages: Said
    turns: Mapping[str, set[int]]
    headings: Mapping[str, Mapping[str, int]]
    by_speakers: frozenset[int]
    periods: Sequence[tuple[int, int]]
    near: Nearness | None
    naming: frozenset[str]
    is_strange: bool
    dates_said: bool
    narrow: tuple[int, int] | None = None

    def is_searched(self, turn_id: int) -> bool:
        return _inside(self.past, self.narrow, turn_id)

    @property
    def telling(self) -> frozenset[str]:
        return frozenset(filter(tells, self.rare))

    @property
    def passing(self) -> frozenset[str]:
        """The names among them that so few turns or headings say that a text with one is no chance.

        Other words that are rare here may be common elsewhere.
        """
        most = few(self.past.session.turns)
        return frozenset(
            term
            for term in self.telling & self.naming
            if max(len(self.turns[term]), len(self.headings[term])) <= most
        )

    def is_dated(self, turn_id: int) -> bool:
        return any(first <= turn_id < end for first, end in self.periods)

    def heading_turn(self, effort: str) -> int:
        """Return the turn of the newest heading that was found of an effort, 0 for none."""
        if self.near and effort in self.near.headings:
            return self.near.headings[effort]
        return max((newest.get(effort, 0) for newest in self.headings.values()), default=0)


@dataclass(frozen=True, slots=True, eq=False)
class _Ranking:
    """Scored passages, by row with their ids, and scored efforts.

    `near` has the rows of passages that are near in meaning, `near_topics` those of efforts. A text
    must say a term of `passing`, or it is weak, and one of `telling`, or it is none; without them
    all pass.
    """

    ids: Sequence[int]
    passages: Passages
    topics: Topics
    scores: Scores
    near: frozenset[int] = frozenset()
    near_topics: frozenset[int] = frozenset()
    passing: frozenset[str] | None = None
    telling: frozenset[str] | None = None


def find(
    past: Past,
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
    in the query is read as `when` says; a query of a date alone finds what was said then.
    """
    when = when or When()

    def read() -> tuple[Found, ...]:
        with past.parsing(), past.connect():
            return _search(past, clean(query), meaning, when)

    if not past.segments:
        return ()
    if meaning:  # not cached: vectors are added at any time
        found = again_if_lost(read)
    else:
        period = when.zone, when.since, when.until
        key = past.session.turns, query, when.today, period, when.language
        found = past.cached("search", key, lambda: again_if_lost(read))
    return tuple(first_distinct(found, limit, lambda hit: (hit.turn, hit.passage)))


def _search(
    past: Past, query: str, meaning: QueryEmbedding | None, when: When
) -> tuple[Found, ...]:
    """Return the passages that match a query, best first, and efforts by their headings alone.

    If nothing does, those of the dates that it names. If there are none, what was read as a date
    may be a name or a version.
    """
    words = undated(query, when.today)
    hits: tuple[Found, ...] = ()
    if query_terms(words, any_name=True) or said_dates(query):
        hits = _by_words(_look_up(past, query, words, meaning, when))
    if hits and terms(words):
        return hits
    of_days = of_dates(past, query, when, weak=bool(terms(words)))
    if not (hits or of_days or terms(words)) and terms(query):
        hits = _by_words(_look_up(past, query, query, meaning, when))
        return tuple(replace(hit, weak=True) for hit in hits)
    known = {(hit.turn, hit.passage) for hit in hits}
    return (*hits, *(hit for hit in of_days if (hit.turn, hit.passage) not in known))


def _inside(past: Past, narrow: tuple[int, int] | None, turn_id: int) -> bool:
    """Tell whether a turn is in a period; what a copied thread has of its origin always is."""
    if narrow is None or turn_id >> TURN_BITS != past.session.id:
        return True
    return narrow[0] <= turn_id < narrow[1]


def _by_words(query: _Query) -> tuple[Found, ...]:
    ranking = _rank_by_words(query)
    return _hits(query, ranking if query.near is None else _blend(query.past, query.near, ranking))


def _look_up(
    past: Past, query: str, words: str, meaning: QueryEmbedding | None, when: When
) -> _Query:
    required = at_most(query_terms(words, any_name=True))
    # A text of that day need not name it; one that does has the day, or the month.
    months = {term for term in terms(query) if not term.isdigit()}.difference(terms(words))
    further = at_most([*further_terms(words), *said_dates(query), *sorted(months)])
    wanted = list(dict.fromkeys([*required, *further]))
    session = past.session
    narrow = ids_between(past, when.since, when.until) if when.since or when.until else None
    speakers = [SPEAKER + term for term in required]
    with past.connect() as connection:
        passages, headings = said_in(
            (connection, session.user, past.ranges),
            words,
            [*wanted, *speakers],
            (_PASSAGES_READ, _HEADINGS_READ),
            when.language,
        )
    if narrow:
        passages, headings = (
            {
                term: [at for at in ids if _inside(past, narrow, at >> PASSAGE_BITS)]
                for term, ids in postings.items()
            }
            for postings in (passages, headings)
        )
    by_turn = in_turns({term: passages[term] for term in wanted})
    rare = rarest(session.turns, wanted, by_turn, headings)
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
    weight = max(rare.values()) if short else rarity(session.turns)
    return _Query(
        past,
        len(required),
        rare,
        unknown * weight,
        {term: passages[term] for term in rare},
        {term: by_turn[term] for term in rare},
        _efforts_by_term(past, headings, rare),
        frozenset().union(*(passages[speaker] for speaker in speakers)),
        dated(past, query, when),
        Nearness.of(past, meaning) if meaning else None,
        leading_name(words).union(*named) - parts,
        is_strange,
        not rare.keys().isdisjoint([*said_dates(query), *months]),
        narrow,
    )


def _efforts_by_term(
    past: Past, headings: Mapping[str, Sequence[int]], rare: Rare
) -> dict[str, dict[str, int]]:
    best = strongest(headings, rare, _HEADINGS_LOOKED_UP)
    rows = {row.id: row for row in past.visible(CHANGES, ids=best)} if best else {}
    newest: dict[str, dict[str, int]] = {}
    for term in rare:
        efforts = newest.setdefault(term, {})
        for row in (rows[number] for number in headings[term] if number in rows):
            efforts[row.effort] = max(efforts.get(row.effort, 0), row.turn)
    return newest


def _rank_by_words(query: _Query) -> _Ranking:
    """Score the passages of the best turns, and the efforts by headings and all that they say."""
    strengths: dict[str, float] = defaultdict(float)
    for term, newest in query.headings.items():
        for name in newest:
            strengths[name] += query.rare[term]
    near = query.near.efforts if query.near else {}
    efforts = [
        *nlargest(_HEADINGS, strengths, key=strengths.__getitem__),
        *nlargest(_HEADINGS, near, key=near.__getitem__),
    ]
    rows = _turns_to_score(query, efforts)
    in_turns = (row.effort for row in rows if row.effort != AMBIENT)
    names = list(dict.fromkeys([*efforts, *in_turns]))
    ids, passages = _passages(rows, names, query)
    headings = [
        {term: 1.0 for term in query.rare if name in query.headings[term]} for name in names
    ]
    says, lengths = [heading.copy() for heading in headings], [0.0] * len(names)
    of_passages = zip(passages.topics, passages.counted, passages.lengths, strict=True)
    for topic, counted, length in of_passages:
        if topic >= 0:
            lengths[topic] += length
            for term, count in counted.items():
                says[topic][term] = says[topic].get(term, 0.0) + count
    topics = Topics(names, headings, says, lengths)
    scores = score(passages, topics, query.rare, query.length, of_date=not query.dates_said)
    ranking = _Ranking(ids, passages, topics, scores)
    match = scores.match(passages, topics, query.rare, query.unknown)
    # All that is said of dogs is at most a hint if Maria's are asked for, of whom nobody spoke.
    is_clear = match == "clear" and not query.is_strange
    if match != "little" and (is_clear or query.passing):
        return ranking
    if match != "little":
        return replace(ranking, passing=frozenset())
    return replace(ranking, passing=query.passing, telling=query.telling)


def _turns_to_score(query: _Query, headings: Sequence[str]) -> list[Any]:
    """Return the turns of the best efforts, those named `headings` too, by effort and turn.

    Of long efforts and of no effort, only the best turns and those around them.
    """
    past = query.past
    efforts_of = {row.turn: json.loads(row.efforts) for row in _candidates(query)}
    in_turns = (name for names in efforts_of.values() for name in names)
    efforts = list(dict.fromkeys([*in_turns, *headings]))
    long: set[str] = set()
    if efforts and past.until >= _LONG:
        bound = {"runs": [segment.run for segment in past.segments], "efforts": efforts}
        counts = past.rows(_TURNS_OF_EFFORTS, **bound)
        long = {name for name, count in map(tuple, counts) if count >= _LONG}
    centres = [turn for turn, names in efforts_of.items() if not names or long.intersection(names)]
    around = sorted({turn + step for turn in centres for step in _AROUND})
    short = [name for name in efforts if name not in long]
    parts = {"efforts": [*long, AMBIENT], "numbers": around}
    order = attrgetter("effort", "turn")
    rows = [
        *sorted(past.visible(_IN_EFFORTS, efforts=short) if short else (), key=order),
        *sorted(past.visible(_IN_PARTS, **parts) if around else (), key=order),
    ]
    return [row for row in rows if query.is_searched(row.id)] if query.narrow else rows


def _candidates(query: _Query) -> list[Any]:
    """Return the best visible turns by the rarity of the terms that they say, and the nearest."""
    said, weights = dict[str, Collection[int]](query.turns), dict(query.rare)
    if query.periods:
        ids = {number for turn_ids in query.turns.values() for number in turn_ids}
        said[_DATE] = [number for number in ids if query.is_dated(number)]
        weights[_DATE] = _DATED
    best, most = list[Any](), _CANDIDATES
    while len(best) < _CANDIDATES:  # of many turns none may be visible
        order = strongest(said, weights, most)
        best = _visible(query.past, order, _CANDIDATES)
        if len(order) < most:
            break
        most *= 8
    if query.near:
        seen: list[Any] = []
        for passages in nearest(query.past, vectors, query.near.meaning, MOST):
            near = [passage for passage, cosine in passages.items() if cosine > 0]
            order = [*dict.fromkeys(passage >> PASSAGE_BITS for passage in near)]
            seen = _visible(query.past, order, _NEAR)
            if len(seen) in {len(order), _NEAR} or len(near) < len(passages):
                break
        best = [*{row.id: row for row in (*best, *seen)}.values()]
    return best


def _visible(past: Past, order: Sequence[int], limit: int) -> list[Any]:
    first: list[Any] = []
    size = max(limit, len(order) // 8)  # few questions even if none of many turns is visible
    for start in range(0, len(order), size):
        part = order[start : start + size]
        rows = {row.id: row for row in past.visible(_CANDIDATE, ids=part)}
        first += [rows[number] for number in part if number in rows]
        if len(first) >= limit:
            break
    return first[:limit]


def _passages(
    rows: Sequence[Any], names: Sequence[str], query: _Query
) -> tuple[Sequence[int], Passages]:
    row_of = {name: row for row, name in enumerate(names)}
    topics, numbers = [row_of.get(row.effort, -1) for row in rows], [row.turn for row in rows]
    ids, passages = passages_in(rows, topics, numbers, query.passages)
    if query.by_speakers:
        passages = replace(passages, named=[number in query.by_speakers for number in ids])
    if query.periods:
        of_dates = [query.is_dated(number >> PASSAGE_BITS) for number in ids]
        passages = replace(passages, dated=of_dates)
    return ids, passages


def _blend(past: Past, near: Nearness, ranking: _Ranking) -> _Ranking:
    """Return the ranking by words and by meaning as one.

    What shares no word with the query, and whose cosine is below the floor, has no score.
    """
    passages, topics, words = ranking.passages, ranking.topics, ranking.scores
    floor = near.meaning.floor
    by_id = cosines(past, vectors, near.meaning, len(ranking.ids), ranking.ids)
    own = [by_id.get(number) for number in ranking.ids]
    headings = [near.efforts.get(name, 0.0) for name in topics.names]
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
    ordered = zip(map(neg, passages.turns), ranking.ids, strict=True)
    rows = _best(scores.passages, ordered, ranking.ids)
    ambient = _terms_of_ambient(passages, rows)
    terms = [frozenset(says) for says in topics.says]
    unplaced = {row: topics.names[row] for row in _best(scores.topics, repeat(()))}
    hits: list[Found] = []
    for row in rows:
        topic, turn, points = passages.topics[row], passages.turns[row], scores.passages[row]
        place = ranking.ids[row] & ((1 << PASSAGE_BITS) - 1)
        by_neighbours = row not in ranking.near and not passages.says[row]
        passage = place, passages.user[row], by_neighbours
        heading = topics.headings[topic] if topic >= 0 else ()
        said = {*passages.counted_near[row], *heading}
        is_near = row in ranking.near or topic in ranking.near_topics
        if not _says_any(said, ranking.telling) and not is_near:
            continue
        weak = not said or not _says_any(said, ranking.passing)
        if topic >= 0:
            points = scores.topics[topic] if unplaced.pop(topic, None) else points
            hits.append(Found(topics.names[topic], turn, points, terms[topic], *passage, weak))
        elif ambient[turn] or row in ranking.near:
            hits.append(Found(None, turn, points, ambient[turn], *passage, weak))
    for row, name in unplaced.items():
        heading = topics.headings[row]
        weak = not heading or not _says_any(heading, ranking.passing)
        is_found = row in ranking.near_topics or _says_any(heading, ranking.telling)
        if is_found and (turn := query.heading_turn(name)):
            hits.append(Found(name, turn, scores.topics[row], terms[row], weak=weak))
    enough = [hit for hit in hits if not hit.weak] or hits
    best = sorted(enough, key=lambda hit: (-hit.score, -hit.turn, hit.effort or ""))
    is_hint = ranking.telling is not None and enough is hits
    return tuple(best[:WEAK] if is_hint else best)


def _says_any(said: Collection[str], terms: frozenset[str] | None) -> bool:
    """Tell whether a text says one of some terms, or nothing is asked for."""
    return terms is None or not terms.isdisjoint(said)


def _best(
    scores: Sequence[float], order: Iterable[tuple[int, ...]], ids: Sequence[int] = ()
) -> list[int]:
    """Return the rows with the highest scores above 0, equal ones in this order.

    Rows with the same of these `ids` count once: a passage has one for each effort of its turn.
    """
    keys = zip(scores, order, range(len(scores)), strict=False)
    found = sorted((-points, rank, row) for points, rank, row in keys if points > 0)
    rows = [row for _, _, row in found]
    return first_distinct(rows, _MOST, ids.__getitem__ if ids else int)


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
