"""Which efforts share enough distinctive keywords with a text."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.keywords import (
    about,
    counted,
    keywords,
    passages_of,
)
from tests.constants import constants
from tests.memory.conversations import ai, human

KNOWN = {
    "auth": dict.fromkeys(["token", "login", "refresh", "code"], 1.0),
    "css": dict.fromkeys(["colour", "grid", "login", "code"], 1.0),
    "db": dict.fromkeys(["index", "query", "code"], 1.0),
    "ops": dict.fromkeys(["deploy", "server", "code"], 1.0),
}
OTHER = " w1 w2 w3 w4 w5 w6 w7 w8"


def found(text: str, recent: Sequence[str] = (), **chosen: float) -> set[str]:
    """Return what a text is about after recent turns."""
    turns = [turn.split() for turn in recent]
    with constants(**chosen):
        return set(about([text.split()], KNOWN, KNOWN, turns))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("refresh token", {"auth"}),
        ("refresh", set()),
        ("refresh code", set()),
        ("colour grid refresh token", {"auth", "css"}),
        ("colour grid" + OTHER[:-3], {"css"}),
        ("colour grid" + OTHER, set()),
    ],
)
def test_two_distinctive_keywords_are_a_reference(text: str, expected: set[str]) -> None:
    """A word that all efforts use counts for none; in a text of ten terms two are too few."""
    assert found(text) == expected


def test_words_of_the_recent_talk_weigh_little() -> None:
    """Keywords that stood in the turns before are weaker evidence, others are not."""
    said = "colour grid" + OTHER[:-3]

    assert found(said, ["the grid again", "a grid"]) == set()
    assert found(said, ["the query", "an index"]) == {"css"}


def test_a_keyword_counts_as_much_as_it_says() -> None:
    """Keywords that only a log has count less, and make a reference in a shorter text."""
    logged = {"auth": {"token": 0.5, "refresh": 0.5}}

    assert [*about([["token", "refresh", "w1", "w2"]], logged, logged)] == ["auth"]
    assert about([["token", "refresh", *OTHER.split()]], logged, logged) == {}


def test_a_shared_word_goes_to_the_effort_that_matches_better() -> None:
    """What another effort explains better is weaker evidence."""
    assert found("token refresh login" + OTHER) == {"auth"}


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), max_size=12),
    st.integers(0, 30),
)
def test_with_different_efforts_the_rule_is_the_plain_one(
    said: list[tuple[int, int]], noise: int
) -> None:
    """If no word is shared between efforts, two shared words are a reference, and one is none."""
    # In a text of ten terms and more it takes a fifth of them.
    known = {f"e{n}": {f"e{n}w{word}": 1.0 for word in range(6)} for n in range(5)}
    spoken = {f"e{effort}w{word}" for effort, word in said}
    text = [*spoken, *(f"noise{n}" for n in range(noise))]
    enough = max(2, (len(text) + 1) / 5)

    assert {*about([text], known, known)} == {
        name for name, words in known.items() if len(words.keys() & spoken) >= enough
    }


def test_the_best_passage_decides() -> None:
    """Of a long text one sentence is enough, if it is about the effort."""
    said = "What else? Was the refresh of the token late? " + "It rained on all the roads. " * 9

    assert {*about(passages_of(said), KNOWN, KNOWN)} == {"auth"}


def test_what_only_the_assistant_said_is_no_reference() -> None:
    """Its words add to the share of a text, but two others must be keywords."""
    logged = keywords(["auth"], [counted([human("Fix the login"), ai("Done, 14 cases pass.")])], 9)

    assert about([["done", "case", "pass"]], {"x": logged}, ["x"]) == {}
    assert about([["login", "auth", "case"]], {"x": logged}, ["x"]) == {"x": ("auth", "login")}
