"""All that an archive answers about a session, to compare it with what it answers later."""

from pathlib import Path
from typing import Any

from ebbtide.memory.disk.archive import DiskArchive
from ebbtide.memory.record import Tip
from tests.memory.turns import OWNER, START, concluded, opened, turn

EFFORTS = ("a", "b")


def populate(archive: DiskArchive) -> Tip:
    """Write a session with efforts, a turn in two of them, and a fork; return the tip of main."""
    first = archive.commit(OWNER, START, turn(1)).tip
    second = archive.commit(OWNER, first, turn(2, "", ["a"], [opened("a")])).tip
    both = turn(3, "", ["b", "a"], [concluded("a", "A is done."), opened("b")])
    third = archive.commit(OWNER, second, both).tip
    archive.commit(OWNER, first, turn(2, "forked", ["b"], [opened("b", goal="other")]))
    return archive.commit(OWNER, third, turn(4)).tip


def answers(root: Path) -> dict[str, Any]:
    """Return what an archive that is opened anew answers to every question, from every tip."""
    with DiskArchive(root, durable=False) as archive:
        said: dict[str, Any] = {"newest": archive.newest(OWNER), "tips": archive.tips(OWNER)}
        for tip in archive.tips(OWNER):
            said[tip.branch] = [
                archive.turns(OWNER, tip, range(20)),
                archive.ambient(OWNER, tip, 9),
                archive.ambient_count(OWNER, tip),
                archive.efforts(OWNER, tip, 9),
                [archive.effort(OWNER, tip, name) for name in EFFORTS],
                [archive.effort_turns(OWNER, tip, name) for name in EFFORTS],
                [archive.search(OWNER, tip, word, 9) for word in ("question", "forked", "a b")],
            ]
        return said
