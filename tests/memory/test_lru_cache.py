"""The LRU cache: which values it drops."""

from ebbtide.memory.lru_cache import LruCache


def test_the_least_recently_used_value_is_dropped() -> None:
    """A cache for two values drops the one that was used longest ago."""
    cache: LruCache[str] = LruCache(2)
    cache.put("a", "a")
    cache.put("b", "b")
    cache.get("a")
    cache.put("c", "c")

    assert [cache.get(key) for key in "abc"] == ["a", None, "c"]


def test_values_count_by_their_size() -> None:
    """A value that is put again counts once, and one larger than the limit is not stored."""
    cache: LruCache[str] = LruCache(5, len)
    cache.put("a", "aa")
    cache.put("a", "aaa")
    cache.put("b", "bb")
    both = [cache.get("a"), cache.get("b")]
    cache.put("c", "cccccc")

    assert both == ["aaa", "bb"]
    assert [cache.get(key) for key in "abc"] == ["aaa", "bb", None]
