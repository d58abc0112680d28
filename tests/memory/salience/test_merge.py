"""Salient items are merged if they say the same, and leave if a model says so."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.compressions import Item, Kind, Speaker, done_in
from ebbtide.memory.embeddings import Embedder
from ebbtide.memory.salience.merge import (
    Matrix,
    Merge,
    Merged,
    embedding_similarity,
    lexical,
    merged,
)
from tests.doubles import Concepts
from tests.memory.pairs import Pair, Part, is_merged, pairs

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
    assert not is_merged(pair, lexical, 0.1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("HOST is 8443.", "PORT is 8443."),
        ("Then Ann drives to work.", "Often Carl flies home."),
        ("They ship it by air today.", "Parcels do not go out at all."),
    ],
)
def test_look_alikes_are_kept_apart_whatever_embeddings_say(one: str, other: str) -> None:
    """Texts that a model takes for equal stay apart if they name or deny something else."""

    def similarity(texts: Sequence[str], others: Sequence[str]) -> Matrix:
        return np.ones((len(texts), len(others)), np.float32)

    assert merged([], facts(one, other), similarity, 0.85).merges == ()


@pytest.mark.parametrize(("part", "floor"), [("rules", 0.7), ("held out", 0.9)])
def test_most_paraphrases_merge(part: Part, floor: float) -> None:
    """What says the same is merged, by letters alone."""
    found = [is_merged(pair, lexical) for pair in pairs(part) if pair.expected == "same"]

    assert sum(found) / len(found) >= floor


def test_other_words_merge_likeness() -> None:
    """Items that share few words merge if a model takes them for equal, with the same numbers."""
    similarity = embedding_similarity(Embedder(Concepts("guests customers", "sign log", "in on")))
    said = facts("Guests sign in with 6 digits.", "Customers log on with 6 digits.")
    other = facts("Guests sign in with 6 digits.", "Customers log on with 8 digits.")

    assert len(merged([], said, similarity, 0.85).merges) == 1
    assert merged([], other, similarity, 0.1).merges == ()


@pytest.mark.parametrize(
    ("quotes", "stays"),
    [
        (("All responses must be in JSON.", "Every response must be JSON."), 1),
        (("Backups run at 2:00.", "Backups run at 2:00."), 0),
    ],
)
def test_the_shorter_of_two_stays(quotes: tuple[str, str], stays: int) -> None:
    """Of two items that say the same the shorter is kept; of equally long ones the older."""
    pair = facts(*quotes)
    heir, item = pair[stays], pair[1 - stays]

    made = merged(pair[:1], pair[1:], lexical, 0.85)

    assert {*made.items} == {heir, replace(item, superseded_by=heir.key)}
    assert made.merges == (Merge(heir.key, item.key, "same", 1.0),)


def test_the_kept_item_has_the_stronger_kind() -> None:
    """A constraint that is also told as a shorter fact is a constraint still."""
    rule = Item(Kind.CONSTRAINT, "All responses are in JSON, always.", 1)
    fact = Item(Kind.FACT, "All responses are in JSON.", 2)

    *_, kept = merged([rule], [fact], lexical, 0.85).items

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
    gone = [*named((old, new)), (rule.key, done_in(3, 3))]
    made = merged([old, rule], [new], lexical, 0.85, gone)

    assert current(made.items) == [new.quote]
    assert made.merges == (
        Merge(new.key, old.key, "superseded"),
        Merge("done 3-3", rule.key, "done"),
    )


def test_what_superseded_an_item_may_merge() -> None:
    """If the item that superseded another merges into a shorter one, the chain leads there."""
    first, second, third = facts(
        "Max upload is 10 MB.", "The max upload is just 25 MB now.", "Max upload is 25 MB."
    )
    made = merged([first], [second], lexical, 0.85, named((first, second)))
    made = merged(made.items, [third], lexical, 0.85)

    chain = [item.superseded_by for item in made.items]
    assert chain == [second.key, third.key, ""]


@pytest.mark.parametrize(
    ("older", "newer", "superseded"),
    [
        ("constraint", "decision", True),
        ("constraint", "fact", True),
        ("constraint", "output", False),
        ("decision", "output", False),
        ("goal", "output", False),
        ("fact", "output", True),
        ("output", "fact", True),
    ],
)
def test_which_kind_supersedes_which(older: str, newer: str, superseded: bool) -> None:
    """What a tool printed takes the place of facts, and of nothing that anybody decided."""
    old, new = (
        Item(Kind(kind), quote, turn)
        for turn, (kind, quote) in enumerate([(older, "It is 10."), (newer, "It is 25.")], 1)
    )

    made = merged([old], [new], lexical, 0.85, named((old, new)))

    assert bool(made.items[0].superseded_by) is superseded


@pytest.mark.parametrize(
    ("kind", "speaker", "leaves"),
    [
        ("constraint", "user", False),
        ("constraint", "assistant", True),
        ("constraint", "", True),
        ("decision", "user", True),
        ("goal", "record", True),
    ],
)
def test_what_may_be_called_done(kind: str, speaker: Speaker, leaves: bool) -> None:
    """All but a constraint of the user's, which leaves only for a sentence that revises it."""
    rule, new = (
        Item(Kind(kind), quote, 1, speaker=speaker) for quote in ("Test first.", "Test last.")
    )
    done = (rule.key, done_in(2, 2))

    made = merged([rule], [new], lexical, 0.85, [done])
    revised = merged([rule], [new], lexical, 0.85, [done, *named((rule, new))])

    assert bool(made.items[0].superseded_by) is leaves
    assert revised.items[0].superseded_by == (done[1] if leaves else new.key)


def test_items_do_not_supersede_each_other() -> None:
    """What holds no longer takes no place, nor does what is not there, or an item its own."""
    first, second = facts("It is 10.", "It is 25.")
    both = named((first, second), (second, first))

    assert current(merged([first], [second], lexical, 0.85, both).items) == [second.quote]
    assert merged([first], [], lexical, 0.85, [(first.key, first.key)]) == Merged((first,), ())
    assert merged([first], [], lexical, 0.85, [(first.key, "nobody")]) == Merged((first,), ())
    assert merged([first], [], lexical, 0.85, [("nobody", first.key)]) == Merged((first,), ())


@pytest.mark.parametrize("others", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
def test_a_circle_leaves_one(others: list[int]) -> None:
    """Of items that are said to supersede each other in a circle the last one named stays."""
    items = facts("It is 10.", "It is 25.", "It is 40.")
    pairs = named(*((items[at], items[(at + 1) % 3]) for at in others))

    made = merged([items[0]], items[1:], lexical, 0.85, pairs)

    assert current(made.items) == [items[others[-1]].quote]


def test_what_was_revised_twice_does_not_come_back() -> None:
    """The first of three versions leaves in whatever order a model names them."""
    first, second, third = facts("It is 10.", "It is 25.", "It is 40.")
    versions = named((second, third), (first, second))
    lifted = [(second.key, done_in(3, 3)), *named((first, second))]

    assert current(merged([first], [second, third], lexical, 0.85, versions).items) == [third.quote]
    assert current(merged([first], [second], lexical, 0.85, lifted).items) == []


def test_an_output_beside_what_revises_a_rule_keeps_none() -> None:
    """A rule that the user changed leaves, though an output is said to change it as well."""
    rule, new = (Item(Kind.CONSTRAINT, f"At most {n} MB.", n, speaker="user") for n in (10, 25))
    printed = Item(Kind.OUTPUT, "limit=25MB", 25, speaker="tool")

    for heirs in ((new, printed), (printed, new)):
        made = merged([rule], heirs, lexical, 0.85, named(*((rule, heir) for heir in heirs)))
        assert current(made.items) == [heir.quote for heir in heirs]


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
    first = merged([], old, lexical, 0.85)
    both = [*old, *new] * 20
    made = merged(
        first.items,
        new,
        lexical,
        0.85,
        named(*((both[one], both[to]) for one, to in pairs if both)),
    )
    keys = [item.key for item in made.items]
    superseded = {item.superseded_by for item in made.items} - {""}
    heirs = {item.key: item.superseded_by or item.key for item in made.items}
    ends = {*keys}
    for _ in keys:
        ends = {heirs[key] for key in ends}

    assert len({*keys}) == len(keys)
    assert {*keys} == {item.key for item in (*old, *new)}
    assert superseded <= {*keys}
    assert ends == {item.key for item in made.items if not item.superseded_by}
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
