"""What stands for older turns, once one of them was erased."""

from ebbtide.memory.compressions import DONE, Compression, Item, Kind
from ebbtide.memory.salience.merge import lexical, merged

LIMITS = [
    Item(Kind.FACT, f"Max upload is now {n} MB.", turn) for turn, n in ((1, 10), (2, 25), (3, 50))
]


def current(items: tuple[Item, ...], *erased: int) -> list[str]:
    """Return the quotes that hold once turns were erased."""
    made = Compression("shop", 9, 6, items)
    for turn in erased:
        made = made.without_turn(turn)
    return [item.quote for item in made.current]


def test_what_was_revised_twice_does_not_come_back() -> None:
    """Without the first revision the second one still holds over what was said at first."""
    first, second, third = LIMITS
    items = merged([first], [second], lexical, 0.85, [(first.key, second.key)]).items
    items = merged(items, [third], lexical, 0.85, [(second.key, third.key)]).items

    assert current(items, 2) == ["Max upload is now 50 MB."]
    assert current(items, 3) == ["Max upload is now 25 MB."]
    assert current(items, 2, 3) == current(items, 3, 2) == ["Max upload is now 10 MB."]


def test_what_another_turn_says_too_still_holds() -> None:
    """Of two turns that say the same either may be erased."""
    rules = [Item(Kind.CONSTRAINT, "Orders must never be deleted.", turn) for turn in (1, 2)]
    items = merged([rules[0]], [rules[1]], lexical, 0.85).items

    assert current(items) == ["Orders must never be deleted."]
    assert current(items, 1) == current(items, 2) == ["Orders must never be deleted."]
    assert current(items, 1, 2) == []


def test_what_was_done_stays_done() -> None:
    """Whichever turn is erased: no word of it is in that."""
    plan = Item(Kind.DECISION, "We measure first.", 1, DONE)

    assert current((plan,), 4) == []
