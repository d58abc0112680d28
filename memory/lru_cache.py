"""The LRU cache of cachetools, for threads that share one."""

from collections.abc import Callable, Hashable, Iterable
from threading import RLock
from typing import Any, TypeVar

from cachetools import LRUCache

T = TypeVar("T")


class LruCache(LRUCache[Hashable, T]):
    """An LRU cache that several threads may use.

    >>> cache = LruCache[int](2)
    >>> [cache.put(key, number) for number, key in enumerate("abc")]
    [0, 1, 2]
    >>> cache.drop("b")
    >>> cache.get("a"), cache.get("b"), cache.get("c")
    (None, None, 2)
    """

    def __init__(self, limit: int, size: Callable[[T], int] | None = None) -> None:
        """Start empty; the sizes of all values stay within `limit`, by default their number."""
        super().__init__(limit, size)
        self._lock = RLock()

    def get(self, key: Hashable, default: Any = None) -> T | None:  # type: ignore[override]
        """Return the value of a key, `default` if there is none."""
        with self._lock:
            value: T | None = super().get(key, default)
        return value

    def known(self, keys: Iterable[Hashable]) -> list[T]:
        """Return the values of those keys that have one, in the order of the keys."""
        with self._lock:
            return [self[key] for key in keys if key in self]

    def put(self, key: Hashable, value: T) -> T:
        """Store a value and return it; one that is larger than the limit is not stored."""
        with self._lock:
            self.pop(key, None)
            if self.getsizeof(value) <= self.maxsize:
                self[key] = value
        return value

    def get_or_make(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of a key, made and stored if there is none."""
        value: T | None = self.get(key)
        return self.put(key, make()) if value is None else value

    def drop(self, key: Hashable) -> None:
        """Drop the value of a key, if there is one."""
        with self._lock:
            self.pop(key, None)

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            super().clear()
