"""An LRU cache, limited by number or by size, that threads may share."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class LruCache(Generic[T]):
    """A cache that drops the least recently used values.

    >>> cache = LruCache[int](2)
    >>> [cache.put(key, number) for number, key in enumerate("abc")]
    [0, 1, 2]
    >>> cache.drop("b")
    >>> cache.get("a"), cache.get("b"), cache.get("c")
    (None, None, 2)
    """

    def __init__(self, limit: int, size: Callable[[T], int] = lambda _: 1) -> None:
        """Start empty; the sizes of all values stay within `limit`, by default their number."""
        # Without the lock a thread could drop a value that another is moving.
        self._limit, self._size, self._lock = limit, size, Lock()
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._sum = 0

    def get(self, key: Hashable) -> T | None:
        """Return the value of a key, None if there is none."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: Hashable, value: T) -> T:
        """Store a value and return it."""
        with self._lock:
            if key in self._values:
                self._sum -= self._size(self._values.pop(key))
            self._values[key] = value
            self._sum += self._size(value)
            while self._sum > self._limit:
                self._sum -= self._size(self._values.popitem(last=False)[1])
        return value

    def get_or_make(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of a key, made and stored if there is none."""
        value = self.get(key)
        return self.put(key, make()) if value is None else value

    def drop(self, key: Hashable) -> None:
        """Drop the value of a key, if there is one."""
        with self._lock:
            if key in self._values:
                self._sum -= self._size(self._values.pop(key))

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            self._values.clear()
            self._sum = 0
