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


def test_it_stays_out_whatever_happens(attention: Attention) -> None:
    """Neither an access nor concluding again brings a suppressed memory back."""
    add_all(attention, memory("t1/a"))
    attention.suppress(USER, "t1/a", now=day(0))

    attention.touch(USER, "t1/a", now=day(1))
    add_all(attention, memory("t1/a", created=2))
    assert attended(attention, 2) == []
    assert attention.suppressed(USER, now=day(2)) == ("t1/a",)


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
