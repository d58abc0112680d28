"""The cache of records: bounded by bytes, the longest unused go first."""

from ebbtide.memory.disk.records_cache import RecordsCache
from ebbtide.memory.record import place
from tests.memory.turns import turn

ONE, TWO, THREE = (place(turn(number), "main", "", None) for number in (1, 2, 3))


def test_held_record_is_returned() -> None:
    """A record that was put in is returned, for its own place only."""
    cache = RecordsCache(100)
    cache.put((0, "main", 1), ONE, 50)

    assert cache.get((0, "main", 1)) is ONE
    assert cache.get((1, "main", 1)) is None


def test_longest_unused_goes_first() -> None:
    """When the bytes are used up, the record that was not used for longest goes."""
    cache = RecordsCache(100)
    cache.put((0, "main", 1), ONE, 50)
    cache.put((0, "main", 2), TWO, 50)
    cache.get((0, "main", 1))
    cache.put((0, "main", 3), THREE, 50)

    held = [cache.get((0, "main", number)) for number in (1, 2, 3)]

    assert held == [ONE, None, THREE]


def test_too_large_a_record_is_not_held() -> None:
    """A record larger than the cache drives nothing out."""
    cache = RecordsCache(100)
    cache.put((0, "main", 1), ONE, 50)
    cache.put((0, "main", 2), TWO, 101)

    assert cache.get((0, "main", 1)) is ONE
    assert cache.get((0, "main", 2)) is None
