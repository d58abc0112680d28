"""What is made of the items of a sequence that grows, once for each."""

from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any, Generic, TypeVar

from cachetools import LRUCache

T = TypeVar("T")

_LONG = 32  # a shorter sequence is gone through faster than it is looked up


class Growing(Generic[T]):
    """A function of the items of a sequence that grows, made once for each item.

    A turn of a thousand rounds asks for each of its messages several times in every round. What is
    made of an item may depend on what was made of the one before. The items must not change.

    >>> total = Growing[int](lambda item, before: item + (before or 0))
    >>> total([1, 2, 3])
    (1, 3, 6)
    """

    def __init__(self, make: Callable[[Any, T | None], T], limit: int = 16) -> None:
        """Take the function, and how many sequences are kept, by their first item."""
        self._make = make
        self._kept = LRUCache[int, tuple[tuple[Any, ...], tuple[T, ...]]](limit)
        self._lock = Lock()

    def __call__(self, items: Iterable[Any]) -> tuple[T, ...]:
        """Return what is made of each item."""
        given = tuple(items)
        if len(given) < _LONG:
            return self._grown(given, ())
        # The items are kept too, so that no other one gets the id of the first meanwhile.
        with self._lock:
            known, values = self._kept.get(id(given[0])) or ((), ())
        if known[: len(given)] != given[: len(known)]:
            known, values = (), ()
        if len(known) < len(given):
            values = self._grown(given, values)
            with self._lock:
                self._kept[id(given[0])] = given, values
        return values[: len(given)]

    def _grown(self, given: tuple[Any, ...], values: tuple[T, ...]) -> tuple[T, ...]:
        made = [*values]
        for item in given[len(values) :]:
            made.append(self._make(item, made[-1] if made else None))
        return tuple(made)
