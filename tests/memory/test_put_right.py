"""An edited memory: what the archive bears out stays, and everything else is taken out."""

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.efforts import EMPTY
from ebbtide.memory.put_right import put_right
from ebbtide.memory.record import Owner
from ebbtide.memory.view import ArchiveView, past
from ebbtide.testing import InMemoryArchive
from tests.memory.turns import OWNER, commit_all, concluded, opened, turn

OPENED = {"opened_turn": 2, "last_active_turn": 2, "last_referenced_turn": 3}
SHOWN = {"expanded_turn": 3, "last_referenced_turn": 3, "turns": [1]}
TRUE = replace(
    EMPTY,
    active="open",
    open={"open": OPENED},
    expanded={"done": SHOWN, "t2/done": {**SHOWN, "turns": [7]}},
    summaries={"done": 3, "t2/done": 1},
    compressed={"open": 2},
)


@pytest.fixture
def view() -> ArchiveView:
    """Return the view after three turns, of which one concluded an effort and one opened one."""
    archive: Archive = InMemoryArchive()
    done = turn(1, "", ["done"], [opened("done"), concluded("done", "Well.")])
    elsewhere = turn(1, "", ["done"], [opened("done"), concluded("done", "Well.")])
    archive.commit(Owner(OWNER.user, "t2"), commit_all(archive, []), elsewhere)
    tip = commit_all(archive, [done, turn(2, "", ["open"], [opened("open")]), turn(3)])
    return past(archive, OWNER, tip)


def test_true_memory_stays(view: ArchiveView) -> None:
    """Nothing of what the nodes wrote is touched."""
    assert put_right(TRUE, view) == (TRUE, ())


@pytest.mark.parametrize(
    "changes",
    [
        {"summaries": {}},
        {"summaries": {"done": 1}},
        {"expanded": {}},
        {"anchor": {"Goal": "tea"}},
        {"active": None},
    ],
)
def test_edit_that_makes_sense_is_taken(view: ArchiveView, changes: dict[str, Any]) -> None:
    """What was taken out stays out, and what is shown may be chosen."""
    edited = replace(TRUE, **changes)

    assert put_right(edited, view) == (edited, ())


WRONG: list[tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]] = [
    ({"active": "nobody"}, {"active": None}, ("active_effort",)),
    ({"active": "done"}, {"active": None}, ("active_effort",)),
    ({"open": {"nobody": OPENED, "open": OPENED}}, {}, ("open_efforts",)),
    ({"open": {"done": OPENED, "open": OPENED}}, {}, ("open_efforts",)),
    (
        {"open": {}},
        {"open": {}, "active": None, "compressed": {}},
        ("active_effort", "compressed"),
    ),
    (
        {"open": {"open": {**OPENED, "last_active_turn": 99}}},
        {"open": {"open": {**OPENED, "last_active_turn": 3}}},
        ("open_efforts",),
    ),
    ({"expanded": {**TRUE.expanded, "open": SHOWN, "x": SHOWN}}, {}, ("expanded",)),
    ({"expanded": {**TRUE.expanded, "t9/done": SHOWN}}, {}, ("expanded",)),
    (
        {"expanded": {"done": {**SHOWN, "expanded_turn": 9, "turns": [1, 9]}}},
        {"expanded": {"done": SHOWN}},
        ("expanded",),
    ),
    ({"summaries": {**TRUE.summaries, "open": 2, "x": 2, "t2/x": 1}}, {}, ("summaries",)),
    ({"summaries": {"done": 99, "t2/done": 1}}, {}, ("summaries",)),
    ({"compressed": {"done": 1, "open": 2}}, {}, ("compressed",)),
]


@pytest.mark.parametrize(("edited", "right", "keys"), WRONG)
def test_wrong_memory_is_put_right(
    view: ArchiveView, edited: dict[str, Any], right: dict[str, Any], keys: tuple[str, ...]
) -> None:
    """What the archive contradicts is taken out, later turns become the last, the keys are told."""
    expected = replace(TRUE, **right)

    assert put_right(replace(TRUE, **edited), view) == (expected, keys)
