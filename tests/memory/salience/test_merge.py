"""Salient items are merged if they say the same, and leave if a model says so."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.compressions import DONE, Item, Kind
from ebbtide.memory.salience.merge import (
    Merge,
    Merged,
    Table,
    embedding_similarity,
    lexical,
    merged,
)
from ebbtide.memory.search.embeddings import Embedder
from ebbtide.memory.veto import differ
from tests.doubles import Concepts

PAIRS = Path(__file__).parents[1]
ROWS = [
    row
    for name in ("pairs.json", "paraphrases.json")
    for part in json.loads((PAIRS / name).read_text(encoding="utf-8")).values()
    for row in part
]


def facts(*quotes: str) -> list[Item]:
    """Return facts, one of each turn from the first on."""
    return [Item(Kind.FACT, quote, turn) for turn, quote in enumerate(quotes, 1)]


def equal(texts: Sequence[str], others: Sequence[str]) -> Table:
    """Take all texts for equal, as the worst embedding model would."""
    return [[1.0] * len(others) for _ in texts]


def current(items: tuple[Item, ...]) -> list[str]:
    """Return the quotes that nothing superseded."""
    return [item.quote for item in items if not item.superseded_by]


@pytest.mark.parametrize(
    ("one", "other", "one_stays"),
    [
        ("Max upload is 10 MB.", "Max upload is now 25 MB.", False),
        ("The timeout is 30 s.", "The timeout is 30 min.", False),
        ("Retries must be on.", "Retries must not be on.", False),
        ("We can't use cookies.", "We can use cookies.", False),
        ("Send the contract to Maria.", "Send the contract to Jonas.", False),
        ("Anna checks the design.", "Ben looks at the design today.", False),
        ("The key is in config/dev.yaml.", "The key is in config/prod.yaml.", False),
        ("Copy the file from A to B.", "Copy the file from B to A.", False),
        ("Ask before deleting files.", "Ask after deleting files.", False),
        ("需要三个审核人。", "需要两个审核人。", False),
        ("We chose Redis because it is fast.", "Because it is fast, we chose Redis.", True),
        ("The limit is 10 MB.", "The limit is 10MB.", True),
        ("Don't use global variables.", "Do not use global variables.", True),
        ("All responses must be in JSON.", "Every response must be JSON.", True),
        ("Guests sign in with 6 digits.", "Customers log on with 6 digits.", True),
        ("用户只能看到自己的订单。", "用户只能看到自己的订单", True),
    ],
)
def test_items_that_are_alike(one: str, other: str, *, one_stays: bool) -> None:
    """What says the same is one item; numbers, units, negations and names keep items apart."""
    made = merged([], facts(one, other), equal, 0.85)

    assert len(current(made.items)) == (1 if one_stays else 2)


def test_no_look_alike_of_the_labelled_pairs_is_merged() -> None:
    """The veto alone keeps all of them apart, and leaves most paraphrases to the similarity."""
    free = [row for row in ROWS if not differ(row["older"], row["newer"])]
    paraphrases = [row for row in ROWS if row["expect"] == "same"]

    assert [row for row in free if row["expect"] != "same"] == []
    assert len(free) >= 0.6 * len(paraphrases)


def test_other_words_merge_likeness() -> None:
    """Items that share few words merge if a model takes them for equal, with the same numbers."""
    similarity = embedding_similarity(Embedder(Concepts("guests customers", "sign log", "in on")))
    said = facts("Guests sign in with 6 digits.", "Customers log on with 6 digits.")

    assert len(merged([], said, similarity, 0.85).merges) == 1


@pytest.mark.parametrize(
    ("quotes", "stays"),
    [
        (("All responses must be JSON.", "Each response must be JSON."), 0),
        (("Logs are kept for all 30 days.", "Logs are kept for 30 days."), 1),
        (("Backups run at 2:00.", "Backups run at 2:00."), 0),
    ],
)
def test_the_shorter_of_two_stays(quotes: tuple[str, str], stays: int) -> None:
    """Of two items that say the same the shorter is kept; of equally long ones the older."""
    pair = facts(*quotes)
    heir, item = pair[stays], pair[1 - stays]

    made = merged(pair[:1], pair[1:], equal, 0.85)

    assert {*made.items} == {heir, replace(item, superseded_by=heir.key)}
    assert made.merges == (Merge(heir.key, item.key, "same", 1.0),)
    assert made.obsolete == ()


def test_the_kept_item_has_the_stronger_kind() -> None:
    """A constraint that is also told as a shorter fact is a constraint still."""
    rule = Item(Kind.CONSTRAINT, "All responses are in JSON, always.", 1)
    fact = Item(Kind.FACT, "All responses are in JSON.", 2)

    *_, kept = merged([rule], [fact], equal, 0.85).items

    assert kept == replace(fact, kind=Kind.CONSTRAINT)


def test_a_quote_given_as_two_kinds_has_the_stronger() -> None:
    """A constraint that a model quotes once more as a fact is a constraint."""
    rule, fact = (Item(kind, "Test first.", 1) for kind in (Kind.CONSTRAINT, Kind.FACT))

    assert merged([], (rule, fact), lexical, 0.85).items == (rule,)
    assert merged([], (fact, rule), lexical, 0.85).items == (rule,)


def named(*pairs: tuple[Item, Item]) -> list[tuple[str, str]]:
    """Return what a model names: each first item is revised by the second one."""
    return [(old.key, new.key) for old, new in pairs]


def test_what_a_model_names_leaves() -> None:
    """A quote that is revised or done is kept with what took its place."""
    old, rule, new = facts("The limit is 10.", "Test first.", "The limit is 20.")
    made = merged([old, rule], [new], lexical, 0.85, [*named((old, new)), (rule.key, DONE)])

    assert current(made.items) == [new.quote]
    assert made.merges == (Merge(new.key, old.key, "superseded"), Merge("done", rule.key, "done"))
    assert made.obsolete == (old.quote, rule.quote)


@pytest.mark.parametrize(
    ("older", "newer", "superseded"),
    [("constraint", "fact", True), ("constraint", "output", False), ("fact", "output", True)],
)
def test_an_output_revises_no_decision(older: str, newer: str, *, superseded: bool) -> None:
    """What a tool printed takes the place of facts, and of nothing that anybody decided."""
    old, new = Item(Kind(older), "It is 10.", 1), Item(Kind(newer), "It is 25.", 2)

    made = merged([old], [new], lexical, 0.85, named((old, new)))

    assert bool(made.items[0].superseded_by) is superseded


def test_items_do_not_supersede_each_other() -> None:
    """What holds no longer takes no place, nor does what is not there, or an item its own."""
    first, second = facts("It is 10.", "It is 25.")
    both = named((first, second), (second, first))

    assert current(merged([first], [second], lexical, 0.85, both).items) == [second.quote]
    for wrong in ((first.key, first.key), (first.key, "nobody"), ("nobody", first.key)):
        assert merged([first], [], lexical, 0.85, [wrong]) == Merged((first,), ())


def test_a_known_item_is_not_merged_with_itself() -> None:
    """An item that is found again in its turn changes nothing."""
    (item,) = facts("Max upload is 10 MB.")

    assert merged([item], [item], lexical, 0.85) == Merged((item,), ())


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


@given(ITEMS, ITEMS, st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=9))
def test_no_item_vanishes_unsaid(
    old: list[Item], new: list[Item], pairs: list[tuple[int, int]]
) -> None:
    """Whatever is merged and named, each item is there once, in the order of turns, or leads on."""
    # From each one that left a way leads to one that holds, whatever circles a model names.
    both = [*old, *new] * 20
    first = merged([], old, lexical, 0.85)
    revisions = named(*((both[one], both[to]) for one, to in pairs if both))
    made = merged(first.items, new, lexical, 0.85, revisions)
    keys = [item.key for item in made.items]
    heirs = {item.key: item.superseded_by or item.key for item in made.items}
    ends = {*keys}
    for _ in keys:
        ends = {heirs[key] for key in ends}

    assert len({*keys}) == len(keys)
    assert {*keys} == {item.key for item in (*old, *new)}
    assert ends == {item.key for item in made.items if not item.superseded_by}
    assert [item.turn for item in made.items] == sorted(item.turn for item in made.items)


@given(ITEMS)
def test_merging_again_changes_nothing(items: list[Item]) -> None:
    """What is merged stays as it is when nothing new comes, or when the same comes again."""
    made = merged([], items, lexical, 0.85)

    assert merged(made.items, [], lexical, 0.85) == Merged(made.items, ())
    assert merged(made.items, made.items, lexical, 0.85) == Merged(made.items, ())


@given(ITEMS, st.integers(1_000, 9_999), st.integers(1, 6))
def test_a_number_of_its_own_is_never_lost(items: list[Item], number: int, turn: int) -> None:
    """An item with a number that no other has is merged with none, however alike they are."""
    own = Item(Kind.FACT, f"Room 4 is {number} seats.", turn)
    made = merged([], [*items, own], equal, 0.85)

    assert own.quote in current(made.items)


def test_a_hundred_items_are_merged_within_a_second() -> None:
    """They are compared each with each, and the veto is asked where a similarity is high."""
    chance = random.Random(1)
    quotes = [f"The service {n % 50} keeps {chance.randint(1, 3)} backups." for n in range(100)]

    begun = perf_counter()
    made = merged([], facts(*quotes), equal, 0.85)

    assert perf_counter() - begun < 1
    assert len(made.items) == 100
