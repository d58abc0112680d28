"""Salient items are merged if they say the same, and superseded if a newer one revises them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.deduplicating import Merge, Merged, merged
from ebbtide.memory.likeness import lexical
from ebbtide.memory.salience import Item, Kind
from tests.memory.pairs import Pair, Part, outcome, pairs

ALL = [*pairs("rules"), *pairs("held out")]
APART = [pair for pair in ALL if pair.expected != "same"]


def facts(*quotes: str) -> list[Item]:
    """Return facts, one of each turn from the first on."""
    return [Item(Kind.FACT, quote, turn) for turn, quote in enumerate(quotes, 1)]


def current(items: tuple[Item, ...]) -> list[str]:
    """Return the quotes that nothing superseded."""
    return [item.quote for item in items if not item.superseded_by]


@pytest.mark.parametrize("pair", APART, ids=str)
def test_what_differs_never_merges(pair: Pair) -> None:
    """Items that differ in what they claim are both kept, however alike they are."""
    made = merged([], [pair.older, pair.newer], lexical, 0.1)

    assert [merge for merge in made.merges if merge.how == "same"] == []


@pytest.mark.parametrize("pair", [pair for pair in ALL if pair.expected == "both"], ids=str)
def test_what_still_holds_stays(pair: Pair) -> None:
    """Neither of two items that both hold is superseded."""
    assert outcome(pair, lexical) == "both"


@pytest.mark.parametrize(("part", "floor"), [("rules", 0.95), ("held out", 0.85)])
@pytest.mark.parametrize("expected", ["same", "superseded"])
def test_most_of_the_rest_is_found(part: Part, floor: float, expected: str) -> None:
    """What says the same merges and what was revised is superseded, by letters alone."""
    found = [outcome(pair, lexical) for pair in pairs(part) if pair.expected == expected]

    assert found.count(expected) / len(found) >= floor


def test_the_shorter_of_two_stays() -> None:
    """Of two items that say the same the shorter is kept, whichever came first."""
    long, short = facts("All responses must be in JSON.", "Every response must be JSON.")
    made = merged([long], [short], lexical, 0.85)

    assert made.items == (replace(long, superseded_by=short.key), short)
    assert made.merges == (Merge(short.key, long.key, "same", 1.0),)


def test_a_chain_leaves_its_last_item() -> None:
    """Each revision supersedes the one before, and a return to the first value is current."""
    quotes = ["Max upload is 10 MB.", "Max upload is now 25 MB.", "Max upload is 10 MB."]
    made = merged([], facts(*quotes), lexical, 0.85)

    assert [bool(item.superseded_by) for item in made.items] == [True, True, False]
    assert [merge.how for merge in made.merges] == ["superseded", "superseded"]


def test_one_of_two_equally_long_ones() -> None:
    """Of two equally long items the older one is kept, so that the context stays as it is."""
    older, newer = facts("Backups run at 2:00.", "Backups run at 2:00.")
    made = merged([older], [newer], lexical, 0.85)

    assert made.items == (older, replace(newer, superseded_by=older.key))
    assert made.merges == (Merge(older.key, newer.key, "same", 1.0),)


def test_the_kept_item_has_the_stronger_kind() -> None:
    """A constraint that is also told as a shorter fact is a constraint still."""
    rule = Item(Kind.CONSTRAINT, "All responses are in JSON, always.", 1)
    fact = Item(Kind.FACT, "All responses are in JSON.", 2)

    *_, kept = merged([rule], [fact], lexical, 0.85).items

    assert kept == replace(fact, kind=Kind.CONSTRAINT)


def test_what_superseded_an_item_may_merge() -> None:
    """If the item that superseded another merges into a shorter one, the chain leads there."""
    first, second, third = facts(
        "Max upload is 10 MB.", "The max upload is really 25 MB now.", "Max upload is 25 MB."
    )
    made = merged(merged([first], [second], lexical, 0.85).items, [third], lexical, 0.85)

    chain = [item.superseded_by for item in made.items]
    assert chain == [second.key, third.key, ""]


@pytest.mark.parametrize(
    ("older", "newer", "superseded"),
    [
        ("constraint", "constraint", True),
        ("constraint", "decision", True),
        ("constraint", "goal", True),
        ("constraint", "fact", False),
        ("constraint", "output", False),
        ("decision", "fact", True),
        ("decision", "output", False),
        ("goal", "output", False),
        ("fact", "output", True),
        ("output", "fact", True),
    ],
)
def test_which_kind_supersedes_which(older: str, newer: str, superseded: bool) -> None:  # noqa: FBT001 (a cell of a table)
    """What a tool printed is no decision, and a mere fact lifts no constraint."""
    made = merged(
        [Item(Kind(older), "Max upload is 10 MB.", 1)],
        [Item(Kind(newer), "Max upload is 25 MB.", 2)],
        lexical,
        0.85,
    )

    assert bool(made.items[0].superseded_by) is superseded


def test_items_of_one_turn_are_a_list() -> None:
    """Lines of one turn hold together, unless a later one says that it corrects the other."""
    lines = [Item(Kind.FACT, f"The limit is {limit}.", 4) for limit in ("10", "20", "now 30")]

    assert current(merged([], lines[:2], lexical, 0.85).items) == [line.quote for line in lines[:2]]
    assert current(merged([], lines, lexical, 0.85).items) == ["The limit is now 30."]


def test_an_item_that_arrives_late_is_the_older_one() -> None:
    """By the turn that it stands in an item is superseded, not by when it was found."""
    older, newer = facts("Max upload is 10 MB.", "Max upload is 25 MB.")
    made = merged([newer], [older], lexical, 0.85)

    assert made.items == (replace(older, superseded_by=newer.key), newer)


def test_a_known_item_is_not_merged_with_itself() -> None:
    """An item that is found again in its turn changes nothing."""
    (item,) = facts("Max upload is 10 MB.")

    assert merged([item], [item], lexical, 0.85) == Merged((item,), ())


def test_a_lifted_value_leaves_what_depends_on_another() -> None:
    """A switch supersedes the choice that it names, and nothing else that mentions the name."""
    said = facts(
        "We will use Postgres.",
        "The backups of Postgres run nightly.",
        "The reports need Postgres 15.",
        "We switch from Postgres to MySQL.",
    )

    assert current(merged([], said, lexical, 0.85).items) == [item.quote for item in said[1:]]


QUOTES = st.builds(
    "{0} {1} {2}{3}.".format,
    st.sampled_from(["Max upload", "The upload limit", "Room 4", "We", "The cache", "Retries"]),
    st.sampled_from(["is", "is now", "is not", "must be", "uses", "no longer uses"]),
    st.sampled_from(["10 MB", "25 MB", "on", "off", "Postgres", "MySQL", "3 seats", "three seats"]),
    st.sampled_from(["", " instead", " instead of Postgres", " for guests", ", not 10 MB"]),
)
ITEMS = st.lists(
    st.builds(Item, st.sampled_from(Kind), QUOTES, st.integers(1, 6)),
    max_size=10,
    unique_by=lambda item: item.key,
)


@given(ITEMS, ITEMS)
def test_no_item_vanishes_unsaid(old: list[Item], new: list[Item]) -> None:
    """Whatever is merged, each item is there once, in the order of turns."""
    first = merged([], old, lexical, 0.85)
    made = merged(first.items, new, lexical, 0.85)
    keys = [item.key for item in made.items]
    superseded = {item.superseded_by for item in made.items} - {""}

    assert len({*keys}) == len(keys)
    assert {*keys} == {item.key for item in (*old, *new)}
    assert superseded <= {*keys}
    assert [item.turn for item in made.items] == sorted(item.turn for item in made.items)


@given(ITEMS)
def test_merging_again_changes_nothing(items: list[Item]) -> None:
    """What is merged stays as it is when nothing new comes, or when the same comes again."""
    made = merged([], items, lexical, 0.85)

    assert merged(made.items, [], lexical, 0.85) == Merged(made.items, ())
    assert merged(made.items, made.items, lexical, 0.85) == Merged(made.items, ())
    assert merged([], made.items, lexical, 0.85).items == made.items


@given(ITEMS, st.integers(1_000, 9_999), st.integers(1, 6))
def test_a_number_of_its_own_is_never_lost(items: list[Item], number: int, turn: int) -> None:
    """An item with a number that no other has is there, and says the same as no other."""
    own = Item(Kind.FACT, f"Room 4 is {number} seats.", turn)
    made = merged([], [*items, own], lexical, 0.85)

    assert own.quote in [item.quote for item in made.items]
    assert own.key not in [merge.gone for merge in made.merges if merge.how == "same"]
