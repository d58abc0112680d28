"""Suppressing: a memory is out of attention until that is undone."""

from ebbtide.memory.attention.law import Attention
from tests.memory.remembering import USER, add_all, attended, day, ids, memory


def test_it_leaves(attention: Attention) -> None:
    """A suppressed memory is neither in attention nor returned beside a message."""
    add_all(attention, memory("t1/a", keywords=["axios"]), memory("t1/b"))

    assert attention.suppress(USER, "t1/a", now=day(0))
    assert attended(attention, 0) == ["t1/b"]
    assert ids(attention.refresh_for_context(USER, "axios", 10, now=day(0))) == ["t1/b"]


def test_undoing_lets_it_enter_again(attention: Attention) -> None:
    """A memory that is at the threshold is in attention again at once."""
    add_all(attention, memory("t1/a", keywords=["axios"]))
    attention.suppress(USER, "t1/a", now=day(0))

    assert attention.unsuppress(USER, "t1/a", now=day(33))
    assert attended(attention, 33) == ["t1/a"]


def test_undoing_lifts_nothing(attention: Attention) -> None:
    """A memory that faded meanwhile stays out, and is again reached by a message."""
    add_all(attention, memory("t1/a", keywords=["axios"]))
    attention.suppress(USER, "t1/a", now=day(0))
    attention.refresh_for_context(USER, "axios", 10, now=day(40))

    assert attention.unsuppress(USER, "t1/a", now=day(40))
    assert attended(attention, 40) == []
    assert ids(attention.refresh_for_context(USER, "axios", 10, now=day(40))) == ["t1/a"]


def test_it_stays_out_whatever_happens(attention: Attention) -> None:
    """Neither an access nor concluding again brings a suppressed memory back."""
    add_all(attention, memory("t1/a"))
    attention.suppress(USER, "t1/a", now=day(0))

    attention.touch(USER, "t1/a", now=day(1))
    add_all(attention, memory("t1/a", created=2))
    assert attended(attention, 2) == []
    assert attention.suppressed(USER, now=day(2)) == ("t1/a",)


def test_its_accesses_count(attention: Attention) -> None:
    """What is accessed while it is suppressed holds more when that is undone."""
    add_all(attention, memory("t1/a", 50))
    attention.suppress(USER, "t1/a", now=day(0))

    attention.touch(USER, "t1/a", now=day(0))
    attention.unsuppress(USER, "t1/a", now=day(0))
    assert [one.effective for one in attention.top(USER, 10, now=day(0))] == [51.0]


def test_it_can_be_done_twice(attention: Attention) -> None:
    """Suppressing what is suppressed, and undoing what is not, changes nothing."""
    add_all(attention, memory("t1/a"))

    assert attention.unsuppress(USER, "t1/a", now=day(0))
    assert attended(attention, 0) == ["t1/a"]
    assert attention.suppress(USER, "t1/a", now=day(0))
    assert attention.suppress(USER, "t1/a", now=day(0))
    assert attention.suppressed(USER, now=day(0)) == ("t1/a",)


def test_it_is_no_fading(attention: Attention) -> None:
    """What was suppressed is not counted by `prune`."""
    add_all(attention, memory("t1/a"), memory("t1/b"))

    attention.suppress(USER, "t1/a", now=day(0))
    assert attention.prune(USER, now=day(40)) == 1


def test_an_unknown_memory_is_told(attention: Attention) -> None:
    """Neither suppressing nor undoing knows what was never added, and keeps nothing of it."""
    assert not attention.suppress(USER, "t1/a", now=day(0))
    assert not attention.unsuppress(USER, "t1/a", now=day(0))
    assert attention.suppressed(USER, now=day(0)) == ()
    assert attention.explain(USER, "t1/a", now=day(0)) is None


def test_they_are_listed_in_order(attention: Attention) -> None:
    """The ids of suppressed memories are returned in order, in attention before or not."""
    add_all(attention, *(memory(name) for name in ("t2/b", "t1/a", "t2/a")), memory("t1/z", 5))
    attention.suppress(USER, "t2/b", now=day(0))
    attention.suppress(USER, "t1/z", now=day(0))
    attention.suppress(USER, "t2/a", now=day(0))

    assert attention.suppressed(USER, now=day(0)) == ("t1/z", "t2/a", "t2/b")
    attention.unsuppress(USER, "t2/a", now=day(0))
    assert attention.suppressed(USER, now=day(0)) == ("t1/z", "t2/b")
