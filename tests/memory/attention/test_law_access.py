"""Access: each one counts, and may bring a memory back."""

import pytest

from ebbtide.memory.attention.law import Attention, Ranked
from tests.memory.remembering import USER, access, add_all, attended, day, memory


@pytest.mark.parametrize(("times", "held"), [(1, 51), (25, 75), (40, 75)])
def test_each_access_counts(attention: Attention, times: int, held: float) -> None:
    """An access adds two percent of the base, up to half of it."""
    add_all(attention, memory("t1/a", 50))
    access(attention, "t1/a", times)

    assert attention.top(USER, 10, now=day(0)) == (Ranked("t1/a", held),)


def test_it_enters_again(attention: Attention) -> None:
    """A memory that left is in attention again if an access lifts it to the threshold."""
    add_all(attention, memory("t1/a", 50))
    assert attended(attention, 21) == []

    attention.touch(USER, "t1/a", now=day(21))
    assert attended(attention, 21) == ["t1/a"]


def test_an_unknown_memory_changes_nothing(attention: Attention) -> None:
    """An access of what was never added is not kept for later."""
    attention.touch(USER, "t1/a", now=day(0))
    assert attention.explain(USER, "t1/a", now=day(0)) is None

    add_all(attention, memory("t1/a", 50))
    assert attention.top(USER, 10, now=day(0)) == (Ranked("t1/a", 50.0),)


def test_reading_is_no_access(attention: Attention) -> None:
    """Neither `top` nor the others that read count as an access."""
    add_all(attention, memory("t1/a", 50, keywords=["axios"]))
    attention.top(USER, 10, now=day(0))
    attention.refresh_for_context(USER, "axios", 10, now=day(0))
    attention.prune(USER, now=day(0))
    found = attention.explain(USER, "t1/a", now=day(0))

    assert found is not None
    assert found.accesses == 0
