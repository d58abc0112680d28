"""Withdrawing and forgetting: what was reopened is out until it is concluded; erased is gone."""

from ebbtide.memory.attention.law import Attention, Ranked
from tests.memory.remembering import USER, add_all, attended, day, ids, memory


def test_it_leaves(attention: Attention) -> None:
    """A withdrawn memory is neither in attention nor returned beside a message."""
    add_all(attention, memory("t1/a", keywords=["axios"]), memory("t1/b"))

    attention.withdraw(USER, "t1/a", now=day(0))
    assert attended(attention, 0) == ["t1/b"]
    assert ids(attention.refresh_for_context(USER, "axios", 10, now=day(0))) == ["t1/b"]


def test_concluding_again_brings_it_back(attention: Attention) -> None:
    """Added again it enters, with its new date and the accesses it had."""
    add_all(attention, memory("t1/a", 50))
    attention.touch(USER, "t1/a", now=day(0))
    attention.withdraw(USER, "t1/a", now=day(1))

    add_all(attention, memory("t1/a", 50, created=9))
    assert attention.top(USER, 10, now=day(9)) == (Ranked("t1/a", 51.0),)


def test_undoing_a_suppression_does_not_bring_it_back(attention: Attention) -> None:
    """What is both suppressed and withdrawn needs both undone."""
    add_all(attention, memory("t1/a"))
    attention.suppress(USER, "t1/a", now=day(0))
    attention.withdraw(USER, "t1/a", now=day(0))

    attention.unsuppress(USER, "t1/a", now=day(0))
    assert attended(attention, 0) == []

    add_all(attention, memory("t1/a"))
    assert attended(attention, 0) == ["t1/a"]


def test_withdrawing_the_unknown_changes_nothing(attention: Attention) -> None:
    """What was never added can be withdrawn; added later it enters."""
    attention.withdraw(USER, "t1/a", now=day(0))
    assert attention.explain(USER, "t1/a", now=day(0)) is None

    add_all(attention, memory("t1/a"))
    assert attended(attention, 0) == ["t1/a"]


def test_nothing_is_kept_of_what_is_forgotten(attention: Attention) -> None:
    """A forgotten memory is unknown to every method."""
    add_all(attention, memory("t1/a", keywords=["axios"]), memory("t1/b"))
    attention.suppress(USER, "t1/a", now=day(0))

    attention.forget(USER, "t1/a", now=day(0))
    assert attention.explain(USER, "t1/a", now=day(0)) is None
    assert attention.suppressed(USER, now=day(0)) == ()
    assert not attention.unsuppress(USER, "t1/a", now=day(0))
    assert attended(attention, 0) == ["t1/b"]
    assert ids(attention.refresh_for_context(USER, "axios", 10, now=day(0))) == ["t1/b"]


def test_what_was_forgotten_begins_anew(attention: Attention) -> None:
    """Added again, a forgotten memory has neither accesses nor suppression."""
    add_all(attention, memory("t1/a", 50))
    attention.touch(USER, "t1/a", now=day(0))
    attention.suppress(USER, "t1/a", now=day(0))
    attention.forget(USER, "t1/a", now=day(0))

    add_all(attention, memory("t1/a", 50))
    assert attention.top(USER, 10, now=day(0)) == (Ranked("t1/a", 50.0),)
