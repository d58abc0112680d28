"""A year, day by day: what is in attention is what the law says of each memory alone."""

from collections.abc import Callable
from dataclasses import replace

from ebbtide.memory.attention.law import Attention, Kept, ranked
from tests.memory.remembering import USER, attended, day, ids, memory

CONCLUDED = {
    0: memory("t1/idle", 60, 0, ["redis"]),
    3: memory("t2/weekly", 90, 3),
    10: memory("t3/returning", 60, 10),
    20: memory("t4/unwanted", 90, 20),
    300: memory("t1/idle", 60, 300, ["redis"]),
}
ACCESSED = {
    "t2/weekly": {*range(7, 365, 7)},
    "t3/returning": {44, 50},
    "t4/unwanted": {25},
}
SUPPRESSED = 40


def lived(attention: Attention, seen: Callable[[int, list[str]], None]) -> dict[str, Kept]:
    """Live through the year, tell each evening what the law says, and return what is kept."""
    known: dict[str, Kept] = {}
    for today in range(365):
        if one := CONCLUDED.get(today):
            attention.add(USER, one, now=day(today))
            known[one.id] = replace(known.get(one.id, Kept(one)), memory=one)
        for name in [name for name, days in ACCESSED.items() if today in days]:
            attention.touch(USER, name, now=day(today))
            known[name] = replace(known[name], accesses=known[name].accesses + 1)
        if today == SUPPRESSED:
            attention.suppress(USER, "t4/unwanted", now=day(today))
            known["t4/unwanted"] = replace(known["t4/unwanted"], suppressed=True)
        seen(today, ids(ranked(known.values(), 40.0, now=day(today))))
    return known


def test_each_day_is_as_the_law_says(attention: Attention) -> None:
    """Each evening of the year attention has exactly those that the law puts in, in order.

    Memories enter, fade, return and are taken out on the days that can be computed by hand.
    """
    days: list[tuple[list[str], list[str]]] = []

    lived(attention, lambda today, found: days.append((attended(attention, today), found)))

    assert len(days) == 365
    assert [found for found, _ in days] == [said for _, said in days]
    evenings: dict[str, list[int]] = {}
    for today, (found, _) in enumerate(days):
        for name in found:
            evenings.setdefault(name, []).append(today)
    # 60 fades on day 34, and again 34 days after it was concluded again.
    assert evenings["t1/idle"] == [*range(34), *range(300, 334)]
    # 90 fades on day 66 despite nine accesses; the 25th, on day 175, lifts its floor of 27 to 40.5.
    assert evenings["t2/weekly"] == [*range(3, 66), *range(175, 365)]
    # On day 44 an access lifts 39.6 by two percent to 40.4, which lasts a day.
    assert evenings["t3/returning"] == [*range(10, 45)]
    # Suppressed on day 40, long before it would have faded.
    assert evenings["t4/unwanted"] == [*range(20, 40)]
