"""Attention in a LangGraph store: what the store is asked, and what it may do wrong."""

import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import Op, PutOp, Result, SearchOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from ebbtide.memory.attention import Kept, Memory
from ebbtide.memory.errors import AttentionError
from ebbtide.memory.keeping import label, packed, unpacked
from ebbtide.memory.store_attention import StoreAttention
from tests.memory.remembering import USER, add_all, attended, day, ids, memory

MEMORIES = ("ebbtide", "attention", "ann", "memories")
DAMAGED: list[dict[str, Any]] = [
    {},
    {"id": "t1/a"},
    {**packed(Kept(memory("t1/a"))), "base": "60"},
    {**packed(Kept(memory("t1/a"))), "created": "yesterday"},
    {**packed(Kept(memory("t1/a"))), "created": "2026-01-01T09:00:00"},
    {**packed(Kept(memory("t1/a"))), "created": "9999-12-31T23:59:59-23:00"},
    {**packed(Kept(memory("t1/a"))), "keywords": [1]},
    {**packed(Kept(memory("t1/a"))), "accesses": None},
    {**packed(Kept(memory("t1/a"))), "id": "%ff"},
    packed(Kept(memory("t1/b"))),
]


class Watched(InMemoryStore):
    """A store that keeps what it was asked, and fails from some moment on."""

    __slots__ = ("asked", "broken")

    def __init__(self) -> None:
        """Begin empty and whole."""
        super().__init__()
        self.asked: list[Op] = []
        self.broken = False

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Answer, or raise as a database does whose connection is lost."""
        asked = list(ops)
        self.asked += asked
        if self.broken:
            raise ConnectionResetError("connection lost")
        return super().batch(asked)


class Loose(InMemoryStore):
    """A store that takes a namespace for any other one, as LIKE takes an underscore."""

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Search everywhere, whatever the prefix."""
        return super().batch(
            [one._replace(namespace_prefix=()) if isinstance(one, SearchOp) else one for one in ops]
        )


@pytest.mark.parametrize("value", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_item_is_skipped(value: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """An item that is not what it should be is unknown, with a warning, until it is added anew."""
    store = InMemoryStore()
    attention = StoreAttention(store)
    add_all(attention, memory("t1/a"), memory("t1/c"))
    store.put(MEMORIES, label("t1/a"), value)

    assert attended(attention, 0) == ["t1/c"]
    assert attention.explain(USER, "t1/a", now=day(0)) is None
    assert {(one.name, one.levelno) for one in caplog.records} == {
        ("ebbtide.attention", logging.WARNING)
    }
    add_all(attention, memory("t1/a"))
    assert attended(attention, 0) == ["t1/a", "t1/c"]


def test_a_failing_store_is_named() -> None:
    """Whatever a store raises becomes an error of attention that says so."""
    store = Watched()
    attention = StoreAttention(store)
    store.broken = True

    with pytest.raises(AttentionError, match="connection lost"):
        attention.top(USER, 10, now=day(0))


def test_a_failure_holds_no_lock() -> None:
    """After a failure attention goes on as soon as its store does."""
    store = Watched()
    attention = StoreAttention(store)
    store.broken = True
    with pytest.raises(AttentionError):
        add_all(attention, memory("t1/a"))

    store.broken = False
    add_all(attention, memory("t1/b"))
    assert attended(attention, 0) == ["t1/b"]


def test_no_item_is_indexed_nor_expires() -> None:
    """What is written is not for the application's semantic index, and stays."""
    store = Watched()
    attention = StoreAttention(store)
    add_all(attention, memory("t1/a", keywords=["axios"]))
    attention.suppress(USER, "t1/a", now=day(0))
    written = [one for one in store.asked if isinstance(one, PutOp)]

    assert written
    assert {(one.index, one.ttl) for one in written} == {(False, None)}


def test_top_reads_only_what_is_in_attention() -> None:
    """A thousand memories that faded cost nothing when the members are read."""
    store = Watched()
    attention = StoreAttention(store)
    add_all(attention, *(memory(f"t1/{number}", 10) for number in range(1_000)), memory("t2/a"))
    store.asked.clear()

    assert attended(attention, 0) == ["t2/a"]
    assert len(store.asked) == 2


def test_a_message_reads_only_what_it_could_lift() -> None:
    """What faded beyond the reach of a message is read by it once, and never again."""
    store = Watched()
    attention = StoreAttention(store)
    add_all(attention, *(memory(f"t1/{number}", 40, 0, ["axios"]) for number in range(50)))
    attention.prune(USER, now=day(50))
    attention.refresh_for_context(USER, "axios", 10, now=day(50))
    store.asked.clear()

    assert attention.refresh_for_context(USER, "axios", 10, now=day(50)) == ()
    assert len(store.asked) == 2


def test_a_loose_store_shows_nobody_anothers() -> None:
    """What a store finds in other namespaces than the one that was asked for is not believed."""
    attention = StoreAttention(Loose())
    add_all(attention, memory("t1/a", keywords=["axios"]), user="ann")
    add_all(attention, memory("t1/b", keywords=["axios"]), user="a_n")
    attention.suppress("a_n", "t1/b", now=day(0))

    assert attended(attention, 0, "ann") == ["t1/a"]
    assert attended(attention, 0, "a_n") == []
    assert attention.suppressed("ann", now=day(0)) == ()
    assert ids(attention.refresh_for_context("ann", "axios", 10, now=day(0))) == ["t1/a"]


def test_threads_lose_no_access(tmp_path: Path) -> None:
    """Accesses that eight threads count at once, by instances of their own, are all counted."""
    with SqliteStore.from_conn_string(str(tmp_path / "attention.sqlite")) as store:
        add_all(StoreAttention(store), memory("t1/a"))
        with ThreadPoolExecutor(8) as threads:
            for _ in range(40):
                threads.submit(StoreAttention(store).touch, USER, "t1/a", now=day(0))
        found = StoreAttention(store).explain(USER, "t1/a", now=day(0))

    assert found is not None
    assert found.accesses == 40


def test_it_outlives_its_process(tmp_path: Path) -> None:
    """What is kept in a database is there when it is opened again."""
    for base in (60, 70):
        with SqliteStore.from_conn_string(str(tmp_path / "attention.sqlite")) as store:
            add_all(StoreAttention(store), memory(f"t1/{base}", base))

    with SqliteStore.from_conn_string(str(tmp_path / "attention.sqlite")) as store:
        assert attended(StoreAttention(store), 0) == ["t1/70", "t1/60"]


@given(
    st.builds(
        Kept,
        st.builds(
            Memory,
            st.text(),
            st.integers(),
            st.datetimes(timezones=st.just(UTC)),
            st.lists(st.text()).map(tuple),
        ),
        st.integers(0),
        st.booleans(),
        st.booleans(),
    )
)
def test_what_is_packed_is_unpacked(kept: Kept) -> None:
    """What is kept comes back as it was, whatever characters its texts have."""
    found = unpacked(packed(kept))

    assert found == kept


@given(st.lists(st.text(), unique=True, min_size=2, max_size=2))
def test_labels_are_words_of_their_own(texts: list[str]) -> None:
    """Different texts have different labels, none empty and none with a dot."""
    labels = {label(text) for text in texts}

    assert len(labels) == 2
    assert all(one and "." not in one for one in labels)
