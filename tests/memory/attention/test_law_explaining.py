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


def test_what_faded_is_low(attention: Attention) -> None:
    """A memory below the threshold is not in attention, before it is pruned and after."""
    add_all(attention, memory("t1/a", 50))
    before = attention.explain(USER, "t1/a", now=day(21))
    attention.prune(USER, now=day(21))
    after = attention.explain(USER, "t1/a", now=day(21))

    assert before == after
    assert after is not None
    assert (after.level, after.attended, after.fades) == ("low", False, day(21))


def test_what_is_suppressed_says_so(attention: Attention) -> None:
    """A suppressed memory has its level and is not in attention."""
    add_all(attention, memory("t1/a", 80))
    attention.suppress(USER, "t1/a", now=day(0))
    found = attention.explain(USER, "t1/a", now=day(0))

    assert found is not None
    assert (found.level, found.suppressed, found.attended) == ("high", True, False)


def test_what_is_withdrawn_is_not_in_attention(attention: Attention) -> None:
    """A withdrawn memory is known, and not in attention."""
    add_all(attention, memory("t1/a", 80))
    attention.withdraw(USER, "t1/a", now=day(0))
    found = attention.explain(USER, "t1/a", now=day(0))

    assert found is not None
    assert (found.suppressed, found.attended) == (False, False)
