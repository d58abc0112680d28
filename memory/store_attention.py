"""Attention kept in a LangGraph store, whichever the graph is compiled with."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from threading import Lock
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from langgraph.store.base import BaseStore, GetOp, Item, Op, PutOp, Result, SearchOp

from .attention import Explanation, Kept, Memory, Ranked, explained, ranked
from .errors import AttentionError
from .fading import index_terms
from .keeping import label, packed, quoted, unpacked

Namespace: TypeAlias = tuple[str, ...]

ROOT: Namespace = ("ebbtide", "attention")
"""Below it each user has a namespace, and in it those of the kinds below."""

MEMORIES, MEMBERS, SUPPRESSED, KEYWORDS = "memories", "members", "suppressed", "keywords"
"""What is kept of each memory; which are in attention; which are suppressed; which have a term."""

_ALL = 1_000_000
_AT_ONCE = 1_000
"""Operations in a batch: databases bound the parameters of a statement."""

_log = logging.getLogger("ebbtide.attention")
_locks: WeakKeyDictionary[BaseStore, Lock] = WeakKeyDictionary()


class StoreAttention:
    """Attention on a LangGraph `BaseStore`; see the protocol `Attention`.

    Threads of a process share a lock for each store. Stores cannot compare and set: when two
    processes count an access of one memory at the same moment, they may count one. Use Redis where
    that matters.

    The index of terms lists what a message could lift to the threshold: what it reads of others,
    it deletes. Another instance with a lower threshold finds those after their next access.
    """

    def __init__(self, store: BaseStore, *, threshold: float = 40.0, capacity: int = 200) -> None:
        """Keep attention in a store; up to `capacity` memories of a user are in attention."""
        self._store = store
        self._threshold = threshold
        self._capacity = capacity
        self._lock = _locks.setdefault(store, Lock())

    def add(self, user_id: str, memory: Memory, *, now: datetime) -> None:
        """Keep a memory, or renew it; it enters if it is at the threshold or above."""
        with self._lock:
            was = self._kept(user_id, memory.id) or Kept(memory)
            kept = replace(was, memory=memory, withdrawn=False)
            gone = {*index_terms(was.memory.keywords)} - {*index_terms(memory.keywords)}
            self._save(user_id, kept, now, _unlisted(user_id, memory.id, gone))

    def touch(self, user_id: str, memory_id: str, *, now: datetime) -> None:
        """Count an access; the memory may enter again."""
        with self._lock:
            if kept := self._kept(user_id, memory_id):
                self._save(user_id, replace(kept, accesses=kept.accesses + 1), now)

    def top(self, user_id: str, limit: int, *, now: datetime) -> tuple[Ranked, ...]:
        """Return the memories that hold most of attention; those that have faded leave first."""
        with self._lock:
            members, _ = self._pruned(user_id, now)
        return ranked(members, self._threshold, now=now)[: max(0, limit)]

    def prune(self, user_id: str, *, now: datetime) -> int:
        """Let those leave that have faded, and return how many did."""
        with self._lock:
            _, left = self._pruned(user_id, now)
        return left

    def refresh_for_context(
        self, user_id: str, message: str, limit: int, *, now: datetime
    ) -> tuple[Ranked, ...]:
        """Return what `top` would if a message were the context, of all memories."""
        with self._lock:
            found = self._related(user_id, index_terms([message]), now)
        return ranked(found, self._threshold, now=now, message=message)[: max(0, limit)]

    def suppress(self, user_id: str, memory_id: str, *, now: datetime) -> bool:
        """Take a memory out of attention until `unsuppress`; tell whether it is known."""
        return self._set(user_id, memory_id, suppressed=True, now=now)

    def unsuppress(self, user_id: str, memory_id: str, *, now: datetime) -> bool:
        """Undo `suppress`: the memory may enter again; tell whether it is known."""
        return self._set(user_id, memory_id, suppressed=False, now=now)

    def suppressed(self, user_id: str, *, now: datetime) -> tuple[str, ...]:  # noqa: ARG002 (the protocol's)
        """Return the ids of the memories that are suppressed, in order."""
        with self._lock:
            found = self._listed(user_id, SUPPRESSED)
            kept = self._read(user_id, found)
        return tuple(sorted(one.memory.id for one in kept if one.suppressed))

    def withdraw(self, user_id: str, memory_id: str, *, now: datetime) -> None:
        """Take out a memory whose effort was reopened, until it is added again."""
        with self._lock:
            if kept := self._kept(user_id, memory_id):
                self._save(user_id, replace(kept, withdrawn=True), now)

    def forget(self, user_id: str, memory_id: str, *, now: datetime) -> None:  # noqa: ARG002 (as above)
        """Delete all that is kept of a memory."""
        key = label(memory_id)
        with self._lock:
            kept = self._kept(user_id, memory_id)
            terms = index_terms(kept.memory.keywords) if kept else ()
            kinds = (MEMORIES, MEMBERS, SUPPRESSED)
            gone = [_deleting(_place(user_id, kind), key) for kind in kinds]
            self._batch([*gone, *_unlisted(user_id, memory_id, terms)])

    def explain(self, user_id: str, memory_id: str, *, now: datetime) -> Explanation | None:
        """Return how a memory stands, None if it is unknown."""
        key = label(memory_id)
        places = (_place(user_id, MEMORIES), _place(user_id, MEMBERS))
        with self._lock:
            found, member = self._batch([_getting(place, key) for place in places])
        kept = _believed(found, places[0])
        if kept is None:
            return None
        attended = bool(member) and kept.enters(self._threshold, now)
        return explained(kept, self._threshold, attended=attended, now=now)

    def _set(self, user_id: str, memory_id: str, *, suppressed: bool, now: datetime) -> bool:
        with self._lock:
            kept = self._kept(user_id, memory_id)
            if kept:
                self._save(user_id, replace(kept, suppressed=suppressed), now)
        return kept is not None

    def _save(self, user_id: str, kept: Kept, now: datetime, also: Iterable[Op] = ()) -> None:
        """Write what is kept of a memory and list it where it belongs now; the lowest may leave."""
        memory, key = kept.memory, label(kept.memory.id)
        value, members = {"id": quoted(memory.id)}, _place(user_id, MEMBERS)
        terms = index_terms(memory.keywords) if kept.is_liftable(self._threshold, now) else ()
        enters = kept.enters(self._threshold, now)
        leaving = self._crowded_out(user_id, kept, now) if enters else set()
        self._batch(
            [
                *also,
                *(_deleting(members, one) for one in leaving - {key}),
                _putting(_place(user_id, MEMORIES), key, packed(kept)),
                *(_putting(_place(user_id, KEYWORDS, term), key, value) for term in terms),
                _putting(members, key, value if enters and key not in leaving else None),
                _putting(_place(user_id, SUPPRESSED), key, value if kept.suppressed else None),
            ]
        )

    def _crowded_out(self, user_id: str, entering: Kept, now: datetime) -> set[str]:
        """Return the keys of those that do not fit in when a memory enters."""
        key = label(entering.memory.id)
        others = [one for one in self._listed(user_id, MEMBERS) if one != key]
        if len(others) < self._capacity:
            return set()
        kept = [entering, *self._read(user_id, others)]
        staying = ranked(kept, self._threshold, now=now)[: self._capacity]
        return {key, *others} - {label(one.id) for one in staying}

    def _pruned(self, user_id: str, now: datetime) -> tuple[list[Kept], int]:
        """Let the members leave that have faded; return the others, and how many left."""
        keys = self._listed(user_id, MEMBERS)
        members = [one for one in self._read(user_id, keys) if one.enters(self._threshold, now)]
        left = {*keys} - {label(one.memory.id) for one in members}
        self._batch([_deleting(_place(user_id, MEMBERS), key) for key in left])
        return members, len(left)

    def _related(self, user_id: str, terms: Sequence[str], now: datetime) -> list[Kept]:
        """Return the members and what a message with these terms could lift to the threshold."""
        members = _place(user_id, MEMBERS)
        places = [members, *(_place(user_id, KEYWORDS, term) for term in terms)]
        results = self._batch([_searching(place) for place in places])
        found = {place: _keys(items, place) for place, items in zip(places, results, strict=True)}
        kept = self._read(user_id, dict.fromkeys(key for keys in found.values() for key in keys))
        liftable = [one for one in kept if one.is_liftable(self._threshold, now)]
        listed = {label(one.memory.id) for one in liftable}
        self._batch(
            [
                _deleting(place, key)
                for place in places[1:]
                for key in found[place]
                if key not in listed
            ]
        )
        return liftable

    def _kept(self, user_id: str, memory_id: str) -> Kept | None:
        return next(iter(self._read(user_id, [label(memory_id)])), None)

    def _listed(self, user_id: str, kind: str) -> list[str]:
        place = _place(user_id, kind)
        (items,) = self._batch([_searching(place)])
        return _keys(items, place)

    def _read(self, user_id: str, keys: Iterable[str]) -> list[Kept]:
        """Return what is kept under keys; what is not there, or is damaged, is left out."""
        place = _place(user_id, MEMORIES)
        results = self._batch([_getting(place, key) for key in keys])
        return [kept for found in results if (kept := _believed(found, place))]

    def _batch(self, ops: Sequence[Op]) -> list[Result]:
        try:
            return [
                result
                for start in range(0, len(ops), _AT_ONCE)
                for result in self._store.batch(ops[start : start + _AT_ONCE])
            ]
        except Exception as error:  # each store raises its own
            raise AttentionError(f"the store of attention failed: {error!r}") from error


def _place(user_id: str, *kind: str) -> Namespace:
    """Return a namespace of a user; the last word of `kind` may be any text."""
    return (*ROOT, label(user_id), *(label(word) for word in kind))


def _unlisted(user_id: str, memory_id: str, terms: Iterable[str]) -> list[Op]:
    """Return what takes a memory out of the lists of terms."""
    return [_deleting(_place(user_id, KEYWORDS, term), label(memory_id)) for term in terms]


def _getting(place: Namespace, key: str) -> Op:
    return GetOp(place, key, refresh_ttl=False)


def _searching(place: Namespace) -> Op:
    return SearchOp(place, limit=_ALL, refresh_ttl=False)


def _putting(place: Namespace, key: str, value: dict[str, Any] | None) -> Op:
    """Return what writes an item that no semantic index sees and that never expires."""
    return PutOp(place, key, value, index=False, ttl=None)


def _deleting(place: Namespace, key: str) -> Op:
    return _putting(place, key, None)


def _keys(found: Result, place: Namespace) -> list[str]:
    """Return the keys of what was found exactly there: some stores match prefixes loosely."""
    items = found if isinstance(found, list) else []
    return [one.key for one in items if isinstance(one, Item) and one.namespace == place]


def _believed(found: Result, place: Namespace) -> Kept | None:
    """Return what is kept in an item, None if there is none, or if it is not what it should be."""
    if not isinstance(found, Item):
        return None
    try:
        kept = unpacked(found.value)
    except ValueError as error:
        _log.warning("skipped an item of the store of attention: %s", error)
        return None
    if found.namespace == place and found.key == label(kept.memory.id):
        return kept
    _log.warning("skipped an item of the store of attention: %r is kept as %r", kept, found.key)
    return None
