"""Users and ids: any text is one, and nobody sees what is another's."""

import pytest

from ebbtide.memory.attention.law import Attention
from tests.memory.remembering import USER, add_all, attended, day, ids, memory

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
def test_each_has_their_own(attention: Attention, stranger: str) -> None:
    """Two users keep a memory of one id each, and neither changes the other's."""
    add_all(attention, memory("t1/a", 60, keywords=["axios"]))
    add_all(attention, memory("t1/a", 90, keywords=["axios"]), memory("t1/b"), user=stranger)

    attention.suppress(stranger, "t1/b", now=day(0))
    beside = attention.refresh_for_context(USER, "axios", 10, now=day(0))
    assert [one.effective for one in attention.top(USER, 10, now=day(0))] == [60.0]
    assert [one.effective for one in attention.top(stranger, 10, now=day(0))] == [90.0]
    assert [one.effective for one in beside] == [72.0]
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
