"""Context: a message lifts the memories whose keywords it holds, for one call."""

import pytest

from ebbtide.memory.attention.law import Attention, Ranked
from tests.memory.attention.conftest import Make
from tests.memory.remembering import USER, access, add_all, attended, day, ids, memory

MESSAGE = "Why does the refresh token of axios expire?"


def beside(attention: Attention, message: str, on: float = 0) -> list[str]:
    """Return the ids of what would be in attention beside a message."""
    return ids(attention.refresh_for_context(USER, message, 1_000, now=day(on)))


def test_relevance_lifts(attention: Attention) -> None:
    """A memory gains a fifth of what it holds if all its keywords are in the message."""
    add_all(attention, memory("t1/a", 50, keywords=["refresh token", "axios"]))
    found = attention.refresh_for_context(USER, MESSAGE, 10, now=day(0))

    assert found == (Ranked("t1/a", 60.0, 1.0),)


def test_it_reaches_what_has_faded(attention: Attention) -> None:
    """A memory that is not in attention is returned if the message lifts it to the threshold."""
    add_all(attention, memory("t1/a", 50, keywords=["axios"]))
    attention.prune(USER, now=day(33))

    assert beside(attention, MESSAGE, 33) == ["t1/a"]
    assert beside(attention, "Something else", 33) == []
    assert beside(attention, MESSAGE, 34) == []


@pytest.mark.parametrize("on", [70, 1_000])
@pytest.mark.parametrize(
    ("base", "times", "found"), [(100, 6, True), (100, 5, False), (75, 25, True)]
)
def test_it_reaches_what_has_decayed_for_good(
    attention: Attention, on: float, base: int, times: int, *, found: bool
) -> None:
    """A memory of any age is returned if its base and accesses are enough, and only then."""
    add_all(attention, memory("t1/a", base, keywords=["axios"]))
    access(attention, "t1/a", times, 1)
    attention.prune(USER, now=day(on))

    assert beside(attention, MESSAGE, on) == ["t1/a"] * (found or on == 69)


def test_it_reaches_what_did_not_fit_in(make: Make) -> None:
    """A memory that the capacity left out is returned if it shares a keyword."""
    attention = make(capacity=1)
    add_all(attention, memory("t1/a", 60), memory("t1/b", 55, keywords=["axios"]))

    assert beside(attention, MESSAGE) == ["t1/b", "t1/a"]


def test_it_is_for_this_call_only(attention: Attention) -> None:
    """Nothing enters or leaves because of a message."""
    add_all(attention, memory("t1/a", 36, keywords=["axios"]), memory("t1/b", 50))

    assert beside(attention, MESSAGE) == ["t1/b", "t1/a"]
    assert attended(attention, 0) == ["t1/b"]
    assert beside(attention, MESSAGE, 21) == []
    assert attention.prune(USER, now=day(21)) == 1


def test_new_keywords_take_the_place_of_the_old(attention: Attention) -> None:
    """A memory that is added again is found by what it says now."""
    add_all(attention, memory("t1/a", 36, keywords=["axios"]))
    add_all(attention, memory("t1/a", 36, created=1, keywords=["redis"]))

    assert beside(attention, MESSAGE, 1) == []
    assert beside(attention, "redis", 1) == ["t1/a"]


@pytest.mark.parametrize("keyword", ["修复登录", "c++ 17"])
def test_any_script_is_found(attention: Attention, keyword: str) -> None:
    """A keyword is found in its own words, whatever they are."""
    add_all(attention, memory("t1/a", 36, keywords=[keyword]))

    assert beside(attention, f"About {keyword} again") == ["t1/a"]


@pytest.mark.parametrize("message", ["", "\0", "a b " * 9_000])
def test_any_message_is_allowed(attention: Attention, message: str) -> None:
    """A message that shares nothing leaves all as it is."""
    add_all(attention, memory("t1/a", 60, keywords=["axios"]))

    assert beside(attention, message) == ["t1/a"]
