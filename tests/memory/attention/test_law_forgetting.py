"""Forgetting: what is forgotten is gone."""

from ebbtide.memory.attention.law import Attention, Ranked
from tests.memory.remembering import USER, add_all, attended, day, ids, memory


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
