"""What a store does beyond ranking all memories: zones, ages, capacities, users and their ids."""

from datetime import timedelta, timezone

import pytest

from ebbtide.memory.attention.law import Attention, Memory, Ranked
from tests.memory.attention.conftest import Make
from tests.memory.remembering import START, USER, access, add_all, attended, day, ids, memory

MESSAGE = "Why does the refresh token of axios expire?"


def beside(attention: Attention, message: str, on: float = 0) -> list[str]:
    """Return the ids of what would be in attention beside a message."""
    return ids(attention.refresh_for_context(USER, message, 1_000, now=day(on)))


def test_time_zones_do_not_matter(attention: Attention) -> None:
    """Moments are compared as moments, in whatever zone they are given."""
    east, west = timezone(timedelta(hours=9)), timezone(timedelta(hours=-8))
    attention.add(USER, Memory("t1/a", 50, START.astimezone(east)), now=START)

    assert attention.top(USER, 10, now=day(20).astimezone(west)) == (Ranked("t1/a", 40.0),)


def test_it_is_pruned_by_another_instance(make: Make) -> None:
    """What one instance added another one sees, and prunes."""
    add_all(make(), memory("t1/a", 50), memory("t1/b", 60))

    assert make().prune(USER, now=day(21)) == 1
    assert attended(make(), 21) == ["t1/b"]


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

    assert beside(attention, MESSAGE, on) == ["t1/a"] * found


def test_it_reaches_what_did_not_fit_in(make: Make) -> None:
    """A memory that the capacity left out is returned if it shares a keyword."""
    attention = make(capacity=1)
    add_all(attention, memory("t1/a", 60), memory("t1/b", 55, keywords=["axios"]))

    assert beside(attention, MESSAGE) == ["t1/b", "t1/a"]


@pytest.mark.parametrize("keyword", ["修复登录", "c++ 17"])
def test_any_script_is_found(attention: Attention, keyword: str) -> None:
    """A keyword is found in its own words, whatever they are; other messages change nothing."""
    add_all(attention, memory("t1/a", 36, keywords=[keyword]))

    assert beside(attention, f"About {keyword} again") == ["t1/a"]
    assert [beside(attention, message) for message in ("", "\0", "a b " * 9_000)] == [[]] * 3


def test_a_smaller_capacity_lets_all_leave_that_do_not_fit(make: Make) -> None:
    """Under a smaller capacity the next to enter makes attention as small."""
    add_all(make(), *(memory(f"t1/{base}", base) for base in (50, 60, 70, 80)))

    add_all(make(capacity=2), memory("t1/75", 75))
    assert attended(make(), 0) == ["t1/80", "t1/75"]


STRANGERS = ["ANN", "", "a[n]n"]
NAMES = ["t1/*", "gro\u0308ße", "\ud800", "t1/" + "é" * 10_000]


@pytest.mark.parametrize("stranger", STRANGERS, ids=ascii)
def test_nobody_sees_anothers(attention: Attention, stranger: str) -> None:
    """Another user is told nothing of a memory, by no method, and changes nothing of it."""
    add_all(attention, memory("t1/a", keywords=["axios"]))

    assert attended(attention, 0, stranger) == []
    assert attention.refresh_for_context(stranger, "axios", 10, now=day(0)) == ()
    assert attention.explain(stranger, "t1/a", now=day(0)) is None
    assert not attention.suppress(stranger, "t1/a", now=day(0))
    assert not attention.unsuppress(stranger, "t1/a", now=day(0))
    assert attention.suppressed(stranger, now=day(0)) == ()
    attention.touch(stranger, "t1/a", now=day(0))
    attention.forget(stranger, "t1/a", now=day(0))
    assert attention.prune(stranger, now=day(90)) == 0
    assert [one.effective for one in attention.top(USER, 10, now=day(0))] == [60.0]


@pytest.mark.parametrize("stranger", STRANGERS, ids=ascii)
def test_each_has_their_own(make: Make, stranger: str) -> None:
    """Two users keep a memory of one id each, neither changes the other's or takes its place."""
    attention = make(capacity=1)
    add_all(attention, memory("t1/a", 60, keywords=["axios"]))
    add_all(attention, memory("t1/a", 90, keywords=["axios"]), memory("t1/b"), user=stranger)
    add_all(attention, memory("t1/c", 50), user="cid")

    attention.suppress(stranger, "t1/b", now=day(0))
    beside = attention.refresh_for_context(USER, "axios", 10, now=day(0))
    assert [one.effective for one in attention.top(USER, 10, now=day(0))] == [60.0]
    assert [one.effective for one in attention.top(stranger, 10, now=day(0))] == [90.0]
    assert [one.effective for one in beside] == [72.0]
    assert attended(attention, 0, "cid") == ["t1/c"]
    assert attention.suppressed(USER, now=day(0)) == ()
    assert attention.suppressed(stranger, now=day(0)) == ("t1/b",)


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:40])
def test_any_id_is_kept(attention: Attention, name: str) -> None:
    """A memory of any id is returned under this id, byte for byte."""
    add_all(attention, memory(name, keywords=["axios"]))
    attention.touch(USER, name, now=day(0))
    found = attention.explain(USER, name, now=day(0))

    assert attended(attention, 0) == [name]
    assert ids(attention.refresh_for_context(USER, "axios", 10, now=day(0))) == [name]
    assert found is not None
    assert (found.id, found.accesses) == (name, 1)
    assert attention.suppress(USER, name, now=day(0))
    assert attention.suppressed(USER, now=day(0)) == (name,)
    attention.forget(USER, name, now=day(0))
    assert attention.explain(USER, name, now=day(0)) is None


@pytest.mark.parametrize("keyword", ["a\0b", "\ud800 axios", "*"])
def test_any_keyword_is_kept(attention: Attention, keyword: str) -> None:
    """A memory of any keyword is in attention, and found beside it."""
    add_all(attention, memory("t1/a", keywords=[keyword]))

    assert attended(attention, 0) == ["t1/a"]
    assert ids(attention.refresh_for_context(USER, keyword, 10, now=day(0))) == ["t1/a"]
