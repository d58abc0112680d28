"""Pointing: which thing a message clearly is about."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.archive.protocol import Pointing
from ebbtide.memory.context.hints import pointed_at

TERMS = "klm", "mno", "opq", "rst", "zzz"
SAID: dict[str | int, list[str]] = {
    "a": ["klm mno opq zzz"],
    7: ["rst zzz"],
    "c": ["opq zzz", "rst"],
}


def asking(message: Sequence[str], said: Mapping[str | int, Sequence[str]]) -> Pointing:
    """Return what a message points at if these say these terms; most say `zzz`."""
    rare = {term: 0.1 if term == "zzz" else 2.0 for term in message}
    found = {
        name: [frozenset(message).intersection(one.split()) for one in each]
        for name, each in said.items()
    }
    return Pointing(rare, {name: each for name, each in found.items() if any(each)})


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (["klm", "mno", "opq", "unknown"], "a"),
        (["klm", "mno", "opq", "xxx", "yyy"], None),
        (["klm", "mno"], None),
        ([], None),
    ],
)
def test_what_a_message_points_at(message: list[str], name: str | None) -> None:
    """It takes three telling words, and most of what the message says."""
    assert pointed_at(asking(message, SAID)) == name


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ({"a": ["klm mno opq"], "b": ["klm mno opq"]}, None),
        ({4: ["klm mno opq"], "b": ["klm", "mno"]}, 4),
        ({"a": ["klm", "mno", "opq"], "b": ["klm"]}, None),
        ({"a": ["klm mno opq"], "b": ["klm", "mno", "opq"]}, "a"),
    ],
)
def test_one_turn_says_much_of_it(said: Mapping[str | int, list[str]], name: str | None) -> None:
    """Words here and there are chance; of two that say as much neither is pointed at."""
    assert pointed_at(asking(["klm", "mno", "opq"], said)) == name


@given(st.lists(st.sampled_from(TERMS), unique=True))
def test_order_does_not_matter(message: list[str]) -> None:
    """A message is the set of what it says."""
    backwards = dict(reversed(SAID.items()))

    assert pointed_at(asking(message, SAID)) == pointed_at(asking(message[::-1], backwards))
