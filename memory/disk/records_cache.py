"""The records read last, up to a number of bytes; what changes one opens the index anew."""

from collections import OrderedDict
from threading import Lock
from typing import TypeAlias

from ..record import Record

RecordKey: TypeAlias = tuple[int, str, int]
"""The opening of the index that the place was read from, branch, turn."""


class RecordsCache:
    """The records used last, from any session and in any thread."""

    def __init__(self, limit: int) -> None:
        """Hold records whose lines have up to `limit` bytes together."""
        self._limit, self._size = limit, 0
        self._held: OrderedDict[RecordKey, tuple[Record, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, place: RecordKey) -> Record | None:
        """Return the record of a place, if it is held."""
        with self._lock:
            if place not in self._held:
                return None
            self._held.move_to_end(place)
            return self._held[place][0]

    def clear(self) -> None:
        """Hold nothing any more."""
        with self._lock:
            self._held.clear()
            self._size = 0

    def put(self, place: RecordKey, record: Record, size: int) -> None:
        """Hold a record whose line has `size` bytes, in place of those used longest ago."""
        with self._lock:
            if place in self._held or size > self._limit:
                return
            self._held[place] = (record, size)
            self._size += size
            while self._size > self._limit:
                _, (_, freed) = self._held.popitem(last=False)
                self._size -= freed
