"""Explaining: how a memory stands, whether it is in attention or not."""

from ebbtide.memory.attention.law import Attention, Explanation
from tests.memory.remembering import USER, access, add_all, day, memory


def test_it_tells_all_of_it(attention: Attention) -> None:
    """An explanation says what the law asks, what it answers, and when the memory fades."""
    add_all(attention, memory("t1/a", 50))
    attention.touch(USER, "t1/a", now=day(1))
    found = attention.explain(USER, "t1/a", now=day(10))

    assert found == Explanation(
        id="t1/a",
        base=50,
        days=10.0,
        accesses=1,
        effective=45.9,
        level="medium",
        fades=day(22),
        suppressed=False,
        attended=True,
    )


def test_the_unknown_has_none(attention: Attention) -> None:
    """Of a memory that was never added there is nothing to explain."""
    found = attention.explain(USER, "t1/a", now=day(0))

    assert found is None


def test_what_never_fades_has_no_day(attention: Attention) -> None:
    """A memory that stays for good says so."""
    add_all(attention, memory("t1/a", 89))
    access(attention, "t1/a", 25)
    found = attention.explain(USER, "t1/a", now=day(0))

    assert found is not None
    assert found.fades is None
    assert found.level == "high"
