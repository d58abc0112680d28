"""A cache that keeps what was used last, up to a number or a size; safe for threads."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Lately(Generic[T]):
    """A cache that drops what was used longest ago."""

    def __init__(self, most: int, size: Callable[[T], int] = lambda _: 1) -> None:
        """Hold nothing yet, and never more than `most`: so many, or so much by their `size`."""
        # Without it one thread drops what another is about to move, and a sum overwrites another.
        self._most, self._size, self._lock = most, size, Lock()
        self._held: OrderedDict[Hashable, T] = OrderedDict()
        self._sum = 0

    def get(self, key: Hashable) -> T | None:
        """Return what is held under a key, None if nothing is."""
        with self._lock:
            value = self._held.get(key)
            if value is not None:
                self._held.move_to_end(key)
            return value

    def put(self, key: Hashable, value: T) -> T:
        """Hold a value, and return it."""
        with self._lock:
            if key in self._held:
                self._sum -= self._size(self._held.pop(key))
            self._held[key] = value
            self._sum += self._size(value)
            while self._sum > self._most:
                self._sum -= self._size(self._held.popitem(last=False)[1])
        return value

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what is held under a key, else make and hold it."""
        value = self.get(key)
        return self.put(key, make()) if value is None else value

    def clear(self) -> None:
        """Hold nothing any more."""
        with self._lock:
            self._held.clear()
            self._sum = 0
