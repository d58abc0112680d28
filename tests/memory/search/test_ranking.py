"""Ranking: passages, windows and efforts by BM25."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.search.ranking import (
    Match,
    Passages,
    Says,
    Scores,
    Topics,
    rarity,
    relevance,
    score,
)

SAYS = st.dictionaries(st.sampled_from("abc"), st.integers(1, 5))
RARE = {"a": 1.0, "b": 2.0, "c": 0.5}


def passages(*says: Says, topic: int = -1, **told: list[bool]) -> Passages:
    """Return passages of 9 characters each, of turns one after the other; nobody's by default."""
    count = len(says)
    flags = {name: [False] * count for name in ("user", "asks", "named", "dated")} | told
    return Passages([topic] * count, range(count), says, [9.0] * count, **flags)


def topics(*says: Says, headings: Sequence[Says] = ()) -> Topics:
    """Return efforts of 9 characters each; their headings say nothing by default."""
    names = [f"e{at}" for at in range(len(says))]
    return Topics(names, headings or [{}] * len(says), says, [9.0] * len(says))


def scored(found: Passages, efforts: Topics | None = None, asked: int = 9) -> Scores:
    """Return the scores for a query of so many terms."""
    return score(found, efforts or topics(), RARE, asked)


@given(st.integers(1, 10**6), st.data())
def test_a_term_is_rarer_the_fewer_have_it(turns: int, data: st.DataObject) -> None:
    """Rarity is above 0 and falls with the number of turns that have a term."""
    having = data.draw(st.integers(1, turns))

    assert rarity(turns, having) > 0
    assert rarity(turns, having) >= rarity(turns, min(turns, having + 1))
    assert rarity(turns) == rarity(turns, 1)


@given(SAYS, st.integers(1, 10**6))
def test_saying_more_scores_more_and_length_costs(says: dict[str, int], length: int) -> None:
    """One more mention never lowers a score, and more length never raises it."""
    said = [says, {**says, "a": says.get("a", 0) + 1}, says]
    plain, more, longer = relevance(said, RARE, [length, length, length + 1.0])

    assert more > plain
    assert longer <= plain


def test_a_neighbour_that_says_it_helps() -> None:
    """A passage near a match scores below the match itself, one that stands apart not at all."""
    found = scored(passages({"a": 1}, {}, {}, {})).passages

    assert found[0] > found[1] == found[2] > found[3] == 0


def test_a_window_ends_with_its_effort_and_its_turns() -> None:
    """Neither what another effort says is near, nor what was said long after."""
    three = passages({"a": 1}, {}, {})
    of_another = replace(three, topics=[-1, 0, 0])
    later = replace(three, turns=[1, 5, 6])

    assert of_another.windows([1, 0, 0]) == [1, 0, 0]
    assert later.windows([1, 0, 0]) == [1, 0, 0]


def test_the_effort_lifts_its_passages() -> None:
    """What matches counts more in an effort that says more of it."""
    found = passages({"a": 1}, topic=0)
    plain, lifted = (scored(found, topics(says)) for says in ({"a": 1}, {"a": 1, "b": 1}))

    assert lifted.passages[0] > plain.passages[0]


@pytest.mark.parametrize(("who", "more"), [("user", 1.5), ("named", 1.1), ("dated", 3.0)])
def test_who_said_it_and_when_counts(who: str, more: float) -> None:
    """What a user said, somebody whom the query names, or in its month, weighs more."""
    plain = passages({"a": 1})
    flags: dict[str, Any] = {who: [True]}
    told = replace(plain, **flags)

    assert scored(told).passages[0] == pytest.approx(more * scored(plain).passages[0])


def test_what_only_asks_answers_nothing() -> None:
    """Asked eight times in vain, a question still stands behind what says half of it."""
    vain = [{"a": 1, "b": 1}, {}] * 8
    found = scored(
        passages(*vain, {}, {}, {"b": 1}, asks=[True, False] * 8 + [False] * 3, user=[False] * 19)
    )

    assert max(found.passages) == found.passages[18]


@pytest.mark.parametrize("asked", [2])
def test_all_terms_of_a_short_query(asked: int) -> None:
    """Whose heading has all of them comes first, then who says all; a question does not count."""
    said = passages({"b": 9}, {}, {}, {"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 1, "c": 1})
    said = replace(said, asks=[False] * 4 + [True], topics=[0, 0, 0, -1, -1])
    all_terms = {"a": 1, "b": 1, "c": 1}
    found = scored(said, topics({"b": 9}, all_terms, headings=[{"b": 1}, all_terms]), asked)

    assert found.topics[1] > found.passages[3] > found.topics[0]
    assert found.passages[3] > found.passages[4]


@pytest.mark.parametrize(
    ("says", "headings", "unknown", "enough"),
    [
        *(({"a": 1, "c": 1}, {}, 0.0, "enough"), ({"a": 1, "c": 1}, {}, 0.5, "little")),
        *(({"a": 1}, {}, 0.0, "little"), ({"b": 1}, {}, 0.5, "enough")),
        *(({"b": 1}, {}, 0.4, "clear"), ({}, {"b": 1}, 0.5, "clear")),
        *(({}, {"b": 1}, 0.6, "little"), ({}, {}, 0.0, "little")),
    ],
)
def test_a_floor(says: Says, headings: Says, unknown: float, enough: Match) -> None:
    """The best has to score a bit more than what is asked for weighs, or to say half of it."""
    said, efforts = passages(says), topics(says, headings=[headings])
    scores = score(said, efforts, RARE, 3)

    assert scores.match(said, efforts, RARE, unknown) == enough
