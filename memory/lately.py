"""What was used last, by its key, up to a number: for any thread."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Lately(Generic[T]):
    """Values by their keys, of which those that were used longest ago leave."""

    def __init__(self, most: int) -> None:
        """Hold nothing yet, and never more than `most`."""
        self._most, self._lock = most, Lock()
        self._held: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        """Return what is held under a key, None if nothing is."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)

    def put(self, key: Hashable, value: T) -> T:
        """Hold a value, and return it."""
        with self._lock:
            self._held[key] = value
            if len(self._held) > self._most:
                self._held.popitem(last=False)
        return value

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what is held under a key, else make and hold it."""
        held = self.get(key)
        return self.put(key, make()) if held is None else held

    def clear(self) -> None:
        """Hold nothing any more."""
        with self._lock:
            self._held.clear()
