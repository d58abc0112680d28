"""Which efforts share enough distinctive keywords with a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.overlap import about
from ebbtide.memory.settings import Settings

KNOWN = {
    "auth": frozenset({"token", "login", "refresh", "code"}),
    "css": frozenset({"colour", "grid", "login", "code"}),
    "db": frozenset({"index", "query", "code"}),
    "ops": frozenset({"deploy", "server", "code"}),
}


def found(text: str, **chosen: float) -> set[str]:
    """Return what a text is about."""
    settings = Settings().model_copy(update=chosen)
    return set(about(text.split(), KNOWN, KNOWN, settings))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("refresh token", {"auth"}),
        ("refresh", set()),
        ("refresh code", set()),
        ("colour grid refresh token", {"auth", "css"}),
        ("colour grid" + " other" * 200, {"css"}),
        ("", set()),
    ],
)
def test_two_distinctive_keywords_are_a_reference(text: str, expected: set[str]) -> None:
    """A word that all efforts use counts for none; rare ones count in texts of any length."""
    assert found(text) == expected


def test_a_shared_word_goes_to_the_effort_that_matches_better() -> None:
    """What another effort explains better is weaker evidence."""
    text = "token refresh login " + " ".join(f"w{n}" for n in range(20))

    assert found(text) == {"auth"}


@pytest.mark.parametrize(("overlap", "expected"), [(1, {"auth"}), (2, {"auth"}), (3, set())])
def test_the_overlap_is_a_setting(overlap: int, expected: set[str]) -> None:
    """As many distinctive keywords as the setting says are needed."""
    assert found("token refresh", min_keyword_overlap=overlap) == expected


def test_only_what_is_shown_is_found() -> None:
    """Efforts that only weigh the words are not returned."""
    assert about(["refresh", "token"], KNOWN, ["css"], Settings()) == frozenset()


def test_without_efforts_nothing_is_found() -> None:
    """The first turn of a session is about no effort."""
    assert about(["refresh", "token"], {}, [], Settings()) == frozenset()


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), max_size=12),
    st.integers(0, 30),
)
def test_with_different_efforts_the_rule_is_the_plain_one(
    said: list[tuple[int, int]], noise: int
) -> None:
    """If no word is shared between efforts, two shared words are a reference, and one is none."""
    known = {f"e{n}": frozenset(f"e{n}w{word}" for word in range(6)) for n in range(5)}
    spoken = {f"e{effort}w{word}" for effort, word in said}
    text = [*spoken, *(f"noise{n}" for n in range(noise))]

    assert about(text, known, known, Settings()) == {
        name for name, words in known.items() if len(words & spoken) >= 2
    }
