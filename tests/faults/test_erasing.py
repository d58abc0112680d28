"""An erasure that dies at any statement, or between any two calls of the checkpointer.

What was being erased is gone from the archive then, or whole; doing it again completes it, and so
does a thread that goes on before. It dies by an exception that nothing catches, and all is opened
anew, as a process does that begins after one was killed.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from sqlalchemy import event

from ebbtide import SessionNotFoundError, aerase, delete_session, delete_user, erase
from ebbtide.memory.archive.database import FILE
from ebbtide.memory.errors import UserDeletedError
from ebbtide.memory.turn import Session
from tests.faults.places import Place
from tests.graph.erase.scene import (
    ANN,
    AROUND,
    NEW,
    OF_TURN_2,
    ONE,
    TEXTS,
    agent_at,
    around,
    left,
    of_its_own,
    opened,
    play,
    say,
    session,
    standing,
)
from tests.memory.turns import elsewhere

_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'"


class Died(BaseException):
    """The process ends here."""


class Countdown:
    """Ends the process at an operation of a given number."""

    def __init__(self, number: int) -> None:
        """Count from here."""
        self.left = number

    def __call__(self, *_: Any) -> None:
        """Count an operation."""
        self.left -= 1
        if self.left == 0:
            raise Died


class _Counting:
    """A checkpointer whose calls are counted, before and after each of them."""

    count: Callable[[], None]

    def _counted(self, name: str, *args: Any, **options: Any) -> Any:
        self.count()
        done = getattr(super(), name)(*args, **options)
        done = iter([*done]) if name == "list" else done
        self.count()
        return done

    def put(self, *args: Any, **options: Any) -> Any:
        """Write a checkpoint."""
        return self._counted("put", *args, **options)

    def list(self, *args: Any, **options: Any) -> Any:
        """List checkpoints."""
        return self._counted("list", *args, **options)

    def delete_thread(self, *args: Any, **options: Any) -> Any:
        """Delete a thread."""
        return self._counted("delete_thread", *args, **options)


class CountingSaver(_Counting, SqliteSaver):
    """The one of a process without an event loop."""


class AsyncCountingSaver(_Counting, AsyncSqliteSaver):
    """The one of an event loop, which commands call from a thread."""


@contextmanager
def counted_archive(place: Place, count: Countdown) -> Iterator[Any]:
    """Open the archive, each of whose statements and commits is counted."""
    with place.archive() as archive:
        for name in ("before_cursor_execute", "commit"):
            event.listen(archive.database._engine, name, count)
        yield archive


def done(agent: Any, what: str) -> None:
    """Erase or delete; what is gone already is no error."""
    if what == "user":
        delete_user(agent, "ann")
    elif what != "session":
        erase(agent, ANN, 2)
    else:
        try:
            delete_session(agent, ANN)
        except SessionNotFoundError:
            return


def died(place: Place, what: str, number: int) -> bool:
    """Do it until the operation of a number; tell whether it came to that."""
    count, where = Countdown(number), "parent" if what == "parent" else "graph"
    path = place.root / "checkpoints.sqlite"
    try:
        if what == "aturn":
            asyncio.run(_adied(place, path, count))
            return False
        with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
            saver = CountingSaver(connection)
            saver.count = count
            with counted_archive(place, count) as archive:
                chat = agent_at(place, where, saver, archive)
                schema = AROUND.get(where)
                done(around(chat, schema, saver) if schema else chat.agent, what)
    except Died:
        return True
    return False


async def _adied(place: Place, path: Path, count: Countdown) -> None:
    async with aiosqlite.connect(path) as connection:
        saver = AsyncCountingSaver(connection)
        saver.count = count
        with counted_archive(place, count) as archive:
            await aerase(agent_at(place, "graph", saver, archive).agent, ANN, 2)


def rows_of(place: Place) -> str:
    """Return a digest of all that is stored: a statement of a transaction changes nothing."""
    found = sha256()
    for path in (place.root / "checkpoints.sqlite", place.root / "archive" / FILE):
        with closing(sqlite3.connect(path)) as connection:
            for (name,) in connection.execute(_TABLES).fetchall():
                rows = connection.execute(f"SELECT * FROM {name}").fetchall()  # noqa: S608 (a table)
                found.update(repr(rows).encode())
    return found.hexdigest()


def faults_of(place: Place, what: str, own: Any) -> list[str]:
    """Return what is wrong after a death: in the archive, done again, and gone on with first."""
    where = "parent" if what == "parent" else "graph"
    is_turn, here = what not in {"session", "user"}, session(where)
    gone = (*OF_TURN_2, NEW) if is_turn else (*TEXTS, NEW)
    with place.archive() as archive:
        past = archive.load(here)
        seen = [
            turn.status == "erased"
            for tip in archive.tips(here)
            for turn in archive.load(here, tip).turns([2])
        ]
        faults = [str(one) for one in archive.verify(here) if one.fatal] if past.tip else []
        is_gone = all(seen)
        faults += ["a form of it is left"] if any(seen) != is_gone and seen else []
        hits = elsewhere(archive, Session("ann", "asking"), "zirconium", 5)
        faults += ["found"] if hits and is_gone else []
        if what == "user" and "ann" in archive.users() and is_gone:
            with pytest.raises(UserDeletedError):
                archive.claim(Session("ann", "new"))
    faults += [one for one in left(place, gone) if is_gone and "checkpoints" not in one]
    again, on = place.copy(), place.copy()
    with opened(again, where) as (_, agent):
        done(agent, what)
        faults += left(again, gone)
        kept = agent.get_state(ANN).values
        faults += [] if is_turn or not kept else [f"kept {kept}"]
        faults += ["its own keys"] if is_turn and of_its_own(agent) != own else []
        faults += [] if _went_on(agent, 6 if is_turn else 1, where) else ["gone on"]
    if is_turn and where == "graph":
        with opened(on) as (_, agent):
            faults += [] if _went_on(agent, 6, where) else ["gone on before"]
            done(agent, what)
            faults += left(on, gone)
            faults += [] if standing(on, [ONE]) else ["lost"]
    for one in (again, on):
        one.drop()
    return faults


def _went_on(agent: Any, turn: int, where: str) -> bool:
    state = say(agent, "And?")
    return where == "parent" or state["memory"]["turn"] == turn


LIGHT = [("turn", 37), ("user", 13)]
THOROUGH = [("turn", 4), ("session", 3), ("user", 1), ("parent", 17), ("aturn", 13)]
SOAK = [(what, 1) for what in ("turn", "session", "parent", "aturn")]


@pytest.mark.parametrize(
    ("what", "step"),
    [
        *LIGHT,
        *(pytest.param(*one, marks=pytest.mark.thorough) for one in THOROUGH),
        *(pytest.param(*one, marks=pytest.mark.soak) for one in SOAK),
    ],
)
def test_died_at_any_operation(tmp_path: Path, what: str, step: int) -> None:
    """Nothing of it is left in the end, nothing else is lost, and the thread goes on."""
    whole, wrong, number = Place(tmp_path / "whole").begun(), dict[int, list[str]](), 1
    where = "parent" if what == "parent" else "graph"
    play(whole, where, edited=True)
    with opened(whole, where) as (_, agent):
        own = of_its_own(agent)

    before, examined = "", 0
    while died(one := whole.copy(), what, number):
        state, before = before, rows_of(one)
        if state != before:
            examined += 1
            wrong |= {number: faults} if (faults := faults_of(one, what, own)) else {}
        one.drop()
        number += step

    assert wrong == {}
    assert examined > 3
