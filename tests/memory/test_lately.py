"""What was used last: how much of it is held."""

from ebbtide.memory.lately import Lately


def test_what_was_used_longest_ago_leaves() -> None:
    """Of three values a place for two holds those that were used last."""
    held: Lately[str] = Lately(2)
    for key in "ab":
        held.put(key, key)
    held.get("a")
    held.put("c", "c")

    assert [held.get(key) for key in "abc"] == ["a", None, "c"]


def test_values_count_by_their_size() -> None:
    """So much is held; a value that is put again counts once, one that is too large leaves."""
    held: Lately[str] = Lately(5, len)
    for value in ("aa", "aaa", "bb"):
        held.put(value[0], value)
    both = [held.get("a"), held.get("b")]
    held.put("c", "cccccc")

    assert both == ["aaa", "bb"]
    assert [held.get(key) for key in "abc"] == [None, None, None]
