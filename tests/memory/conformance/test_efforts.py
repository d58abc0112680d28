"""Efforts: how the events of the visible turns left them, and which turns are theirs."""

import pytest

from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.efforts import Effort
from ebbtide.memory.turn import StoredTurn, Tip
from tests.memory.turns import SESSION, commit_all, concluded, effort_in, opened, turn

UPDATED = {"type": "goal_updated", "effort": "a", "goal": "better"}


def life() -> list[StoredTurn]:
    """Return four turns in which an effort is opened, changed, and concluded."""
    return [
        turn(1, efforts=["a"], events=[opened("a", constraints=["soon"])]),
        turn(2, efforts=["a"], events=[UPDATED]),
        turn(3),
        turn(4, efforts=["a"], events=[concluded("a", "Done.", keywords=["k"], tokens=9)]),
    ]


def test_effort_is_as_its_last_change_left_it(archive: Archive) -> None:
    """An effort has what the event of its last status change says."""
    tip = commit_all(archive, life())

    assert effort_in(archive, SESSION, tip, "a") == Effort(
        "a", "concluded", summary="Done.", keywords=("k",), tokens=9, turn=4
    )


@pytest.mark.parametrize(
    ("number", "goal"), [(0, None), (1, "do a"), (2, "better"), (3, "better"), (4, "")]
)
def test_effort_goes_back_with_the_tip(archive: Archive, number: int, goal: str | None) -> None:
    """An effort is seen as it was at the tip."""
    tip = commit_all(archive, life())

    effort = effort_in(archive, SESSION, Tip(number, tip.id), "a")

    assert (effort and effort.goal) == goal


def test_list_goes_on_after_efforts_that_nobody_asked_for_by_name(archive: Archive) -> None:
    """What was listed alone stays in the list when another turn is committed."""
    events = [opened(name) for name in "abc"]
    tip = commit_all(archive, [turn(1, "no secret"), turn(2, efforts=["a"], events=events)])
    archive.erase(SESSION, tip, 1)  # all is read anew
    archive.load(SESSION, tip).efforts(3)

    tip = archive.commit(SESSION, tip, turn(3, efforts=["a"], events=[concluded("a", "Done.")])).tip

    listed = archive.load(SESSION, tip).efforts(3)
    assert ([effort.id for effort in listed.efforts], listed.total) == (["a", "c", "b"], 3)


def test_other_events_change_no_effort(archive: Archive) -> None:
    """Events that are no status change make no effort."""
    tip = commit_all(archive, [turn(1, events=[{"type": "expanded", "effort": "a"}])])

    assert archive.load(SESSION, tip).efforts(3).total == 0


@pytest.mark.parametrize(
    "name",
    ["con", "日本語", "a" * 64, "語" * 64, "été", "x" * 300, "../x", "", "50%", "a\0b", "%00"],
)
def test_any_name_is_kept(archive: Archive, name: str) -> None:
    """Whatever an effort is called, its turns and its texts are found again."""
    tip = commit_all(archive, [turn(1, efforts=[name], events=[opened(name)]), turn(2)])

    (effort,) = archive.load(SESSION, tip).efforts(2).efforts
    assert archive.load(SESSION, tip).turns_of(name) == (1,)
    assert (effort.id, effort_in(archive, SESSION, tip, name)) == (name, effort)
    assert archive.verify(SESSION) == ()
