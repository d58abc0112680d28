"""Efforts: what events say of them."""

from ebbtide.memory.efforts import Effort, changed, changes
from tests.memory.turns import concluded, opened


def test_event_leaves_an_effort() -> None:
    """An event of a status change says how it left the effort, and in which turn."""
    event = opened("a", constraints=["soon"])

    assert changed(event, 3) == Effort("a", "open", goal="do a", constraints=("soon",), turn=3)


def test_other_event_changes_nothing() -> None:
    """An event that changes no status leaves no effort."""
    assert changed({"type": "expanded", "effort": "a"}, 3) is None


def test_changes_come_in_order() -> None:
    """Changes come in the order of the events, the other events left out."""
    events = [opened("a"), {"type": "switched", "effort": "a"}, concluded("a", "Done.")]

    assert [effort.status for effort in changes(events, 1)] == ["open", "concluded"]


def test_snapshot_is_what_an_event_says() -> None:
    """An event made of a snapshot leaves the same effort."""
    effort = Effort("a", "concluded", "g", ("c",), "s", ("k",), 7, 8, 9)

    assert changed({"type": "concluded", **effort.snapshot()}, 9) == effort
