"""What a turn does, in numbers that do not depend on the machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from sqlalchemy import event

from ebbtide import DiskArchive, Settings
from tests.agents import THREAD, Talk, talk
from tests.doubles import call

SAID = "The gateway answers with an error because the certificate of the server was rotated."


class Watched(DiskArchive):
    """An archive that keeps the statements that it sends."""

    statements: list[str]

    def watch(self) -> None:
        """Begin to keep them."""
        self.statements = []

        def keep(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
            self.statements.append(statement)

        event.listen(self.database._engine, "before_cursor_execute", keep)

    def taken(self) -> list[str]:
        """Return the statements since the last time, without those that begin a transaction."""
        beginnings = ("BEGIN", "SELECT version FROM")
        found = [one for one in self.statements if not one.startswith(beginnings)]
        self.statements.clear()
        return found


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Watched]:
    """Yield an empty archive that is watched."""
    with Watched(tmp_path, durable=False) as watched:
        watched.watch()
        yield watched


def begun(archive: Watched, opening: list[Any], turns: int) -> Talk:
    """Return a talk of so many turns, the first of which calls tools."""
    chat = talk(archive.root, [*opening, *["Done."] * 200], archive=archive)
    for _ in range(turns):
        chat.say(SAID)
    archive.taken()
    return chat


@pytest.mark.thorough
@pytest.mark.parametrize(
    "opening", [[], [call("open_effort", name="gateway")]], ids=["talk", "effort"]
)
def test_statements_of_a_turn(archive: Watched, opening: list[Any]) -> None:
    """A turn of one call reads the session at its beginning, searches once and commits once."""
    # Whatever else context and references need is known since then or since the turn before, and
    # after the commit nothing is read at all. Late turns do as early ones.
    chat = begun(archive, opening, 8)

    found = []
    for _ in range(15):
        chat.say(SAID)
        found.append(archive.taken())

    sessions = [sum("FROM ebbtide_sessions" in one for one in turn) for turn in found]
    assert sessions == [2] * 15
    writes = [sum(one.startswith(("INSERT", "UPDATE")) for one in turn) for turn in found]
    assert writes == [5] * 15
    assert max(map(len, found)) <= 15


def test_round_trips_of_a_turn(archive: Watched) -> None:
    """A turn reads in three round trips what it needs, what is out of view too, then it commits."""
    settings = Settings(ambient_window=1, rebuild="every-turn")
    script = [call("open_effort", name="move"), call("switch_effort"), *["Done."] * 60]
    chat = talk(archive.root, script, archive=archive, settings=settings)
    for number in range(15):
        archive.taken()
        chat.say(f"{SAID} It was number {number} of the server room.")

    found = [one for one in archive.taken() if "ebbtide_version" not in one]
    commits = [at for at, one in enumerate(found) if "FROM ebbtide_sessions" in one][1]
    assert commits == 3
    assert sum("MATCH" in one for one in found[:3]) == 1
    wrote = [at for at, one in enumerate(found) if not one.lstrip().startswith("SELECT")]
    assert wrote == [*range(wrote[0], len(found))]


def test_message_without_a_subject_is_not_searched_for(archive: Watched) -> None:
    """Fewer terms than a hint needs are looked up nowhere."""
    chat = begun(archive, [], 4)

    chat.say("Thanks, go on.")

    assert [one for one in archive.taken() if "ebbtide_said" in one and "MATCH" in one] == []


def test_steps_of_a_turn(archive: Watched) -> None:
    """A turn of one call is eight checkpoints: two of the input, and one for each node."""
    saver = InMemorySaver()
    chat = talk(archive.root, ["Done."] * 9, archive=archive, checkpointer=saver)
    chat.say(SAID)
    before = len([*saver.list(THREAD)])

    chat.say(SAID)

    assert len([*saver.list(THREAD)]) - before == 8
