"""Cutting texts to a number of tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.tokens import count, fit, fit_end, slices
from tests.memory.conversations import count_words

TEXTS = st.text(alphabet=st.sampled_from("ab \n中é🙂"), max_size=400)


class Counted:
    """A counter of tokens that counts how often it is asked."""

    def __init__(self) -> None:
        """Begin before the first count."""
        self.times = 0

    def __call__(self, text: str) -> int:
        """Return the tokens of a text."""
        self.times += 1
        return count(text)


@given(TEXTS.filter(bool), st.integers(1, 50))
def test_what_fits_is_within_the_limit(text: str, limit: int) -> None:
    """The part that fits has at most so many tokens, and at least one character."""
    end = fit(text, limit, count_words)

    assert 1 <= end <= len(text)
    assert count_words(text[:end]) <= limit


@pytest.mark.parametrize("limit", [0, 1])
def test_one_character_always_fits(limit: int) -> None:
    """Reading goes on by at least one character, even if that alone is over the limit."""
    assert fit("🧑‍🚀", limit, count) == 1


@pytest.mark.parametrize("limit", [500, 4_000])
def test_any_text_is_cut_with_few_counts(limit: int) -> None:
    """A dense text beside a run of spaces, which hardly has tokens, is cut with some 30 counts."""
    dense, spaces = "字x" * (limit // 2) + "字", " " * limit * 15
    head, tail = Counted(), Counted()

    end, begin = fit(dense + spaces, limit, head), fit_end(spaces + dense, limit, tail)

    assert head.times + tail.times < 80
    assert count((dense + spaces)[:end]) == count((spaces + dense)[begin:]) == limit


@given(TEXTS, st.integers(1, 50))
def test_slices_together_are_the_text(text: str, limit: int) -> None:
    """No character is lost or repeated between slices."""
    assert "".join(slices(text, limit, count_words)) == text


@given(TEXTS, st.integers(1, 50))
def test_each_slice_is_within_the_limit(text: str, limit: int) -> None:
    """No slice is longer than the limit."""
    longest = max(map(count_words, slices(text, limit, count_words)), default=0)

    assert longest <= limit


def test_slices_end_at_lines_where_that_is_possible() -> None:
    """A slice ends with a whole line, if the line end is in its second half."""
    assert slices("a b c\nd e f\ng h", 5, count_words) == ["a b c\n", "d e f\ng h"]
