"""Fences around quoted text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.messages import fenced, unquoted


@given(st.text())
def test_the_quoted_text_stands_unchanged(content: str) -> None:
    """Between the first line and the last stands the text, character for character."""
    quoted = fenced("log", content)

    assert quoted.split("\n", 1)[1].rsplit("\n", 1)[0] == content


@given(
    st.text() | st.sampled_from(["</log>", "</log 2cf24dba5fb0a30e>", '<log key="0">\n</log 0>'])
)
def test_only_the_last_line_closes_the_fence(content: str) -> None:
    """The key of the opening line occurs once more, and that is the end of the quote."""
    quoted = fenced("log", content)
    key = re.findall(r'key="(\w{16})"', quoted)[0]

    assert quoted.index(f"</log {key}>") == len(quoted) - len(f"</log {key}>")


def test_a_copied_quote_does_not_close_the_quote_around_it() -> None:
    """A log that holds an earlier quote of the same kind gets another key."""
    inner = fenced("effort", "user: hi", id="a")

    outer = fenced("effort", inner, id="a")

    assert outer.splitlines()[0] != inner.splitlines()[0]
    assert outer.splitlines()[-1] != inner.splitlines()[-1]


@pytest.mark.parametrize("content", ["", "one", "\n", "\ud800"])
def test_the_same_text_gives_the_same_fence(content: str) -> None:
    """A fence depends on its content only, whatever that is."""
    assert fenced("log", content) == fenced("log", content)


def test_attributes_stand_in_the_opening_line_in_their_order() -> None:
    """The opening line names the attributes as they were given, the key last."""
    opening = fenced("effort", "hello", id="a", turns="3-9").splitlines()[0]

    assert opening == '<effort id="a" turns="3-9" key="2cf24dba5fb0a30e">'


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"{{a}} and {fenced('log', fenced('log', 'x'))}!", "{a} and !"),
        (f"{fenced('log', 'x')}{fenced('effort', '')}", ""),
        ('<log key="2cf24dba5fb0a30e">\nhello\n</log 0>', None),
        (f'<log key="2cf24dba5fb0a30e">\n{fenced("log", "x")}', '<log key="2cf24dba5fb0a30e">\n'),
    ],
)
def test_whole_quotes_are_left_out(text: str, left: str | None) -> None:
    """What is quoted goes with its fences; a fence that nothing closes stays."""
    assert unquoted(text) == (text if left is None else left)


def test_very_many_fences_that_nothing_closes() -> None:
    """Each is looked for once, so that a pasted text of any length is read."""
    text = "".join(f'<log key="{number:016x}">\n' for number in range(2_000))

    assert unquoted(text * 2) == text * 2
