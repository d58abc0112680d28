"""Processes that are killed inside a turn of many rounds: each finished result is kept once.

With `sync` a checkpoint names all that the archive has; with `async` and `exit` rounds may be made
again, and what was stored of the first time stays as a part that `verify` lists.
"""

import asyncio
import os
import random
import re
import signal
import time
import traceback
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.errors import GraphRecursionError
from langgraph.types import Command, interrupt

from ebbtide import Settings
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.messages import text
from ebbtide.memory.turn import Part, Session, StoredTurn
from tests.agents import Talk, talk
from tests.doubles import call
from tests.faults.places import Countdown, Place

SESSION = Session("", "killed")
CONFIG: RunnableConfig = {"configurable": {"thread_id": SESSION.thread}, "recursion_limit": 500}
ROUNDS = 30
KILLS = 4


def answer(messages: Sequence[BaseMessage]) -> AIMessage:
    """Look at the stone after the one that was seen last."""
    seen = re.match(r"stone<(\d+)>", messages[-1].text)
    stone = int(seen[1]) + 1 if seen else 1
    return call("look", stone=stone) if stone <= ROUNDS else AIMessage("Done.")


@contextmanager
def opened(place: Place, countdown: Countdown | None = None) -> Iterator[Talk]:
    """Open the agent in its place; the countdown counts the parts that were stored."""
    with place.saver() as saver, place.archive() as archive:
        if countdown is not None:
            _count_parts(archive, countdown)
        yield looking(place, saver, archive)


def looking(place: Place, saver: Any, archive: SqlArchive) -> Talk:
    """Return the agent, whose tool notes each stone, and asks a person at one of them."""

    @tool
    def look(stone: int) -> str:
        """Look at a stone."""
        answer = interrupt("May I?") if stone == asked_at(place) else ""
        with (place.root / "looked").open("a", encoding="utf-8") as file:
            file.write(f"{stone}\n")
        return f"stone<{stone}> {answer} " + " ".join(f"w{stone * k % 997}" for k in range(120))

    settings = Settings(context_budget=4_000)
    options: Any = {"archive": archive, "checkpointer": saver, "settings": settings}
    return talk(place.root, answer, tools=[look], **options)


def asked_at(place: Place) -> int:
    """Return the stone at which a person is asked, 0 for none."""
    path = place.root / "asked"
    return int(path.read_text()) if path.exists() else 0


def looked(place: Place) -> list[int]:
    """Return the stones that the tool was called for."""
    path = place.root / "looked"
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def _count_parts(archive: SqlArchive, countdown: Countdown) -> None:
    store = archive.add_part

    def stored(session: Session, part: Part) -> str:
        last = store(session, part)
        countdown.counted()
        return last

    archive.add_part = stored  # type: ignore[method-assign]


def work(place: Place, durability: Any, countdown: Countdown | None = None) -> None:
    """Begin the turn, or go on with it where it was."""
    with opened(place, countdown) as chat:
        state = chat.agent.get_state(CONFIG)
        # Between what a node wrote and its checkpoint there is no next node.
        waiting = state.next or (durability == "sync" and state.values.get("messages"))
        given = None if waiting else {"messages": "Look at every stone."}
        chat.agent.invoke(given, CONFIG, durability=durability)


def killed(place: Place, durability: str, countdown: Countdown, after: float = 60) -> bool:
    """Work in a child that is killed by the countdown, or after some seconds, and say whether."""
    child = os.fork()
    if child == 0:
        try:
            work(place, durability, countdown)
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    end = time.monotonic() + after
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            ended = os.waitpid(child, 0)
            break
        time.sleep(0.01)
    assert ended[1] in {0, signal.SIGKILL}
    return ended[1] != 0


def stones(place: Place) -> list[int]:
    """Return the stones in the results of the newest turn, in their order."""
    with place.archive() as archive:
        past = archive.load(SESSION)
        (turn,) = past.turns([past.until])
        assert [found for found in archive.verify(SESSION) if found.fatal] == []
    return results_of(turn)


def results_of(turn: StoredTurn) -> list[int]:
    """Return the stones in the results of a turn."""
    results = [text(message) for message in turn.messages if message.type == "tool"]
    return [int(number) for words in results for number in re.findall(r"^stone<(\d+)>", words)]


def loose(place: Place) -> int:
    """Count the parts that no turn joined."""
    with place.archive() as archive:
        return sum(found.where.startswith("part") for found in archive.verify(SESSION))


@pytest.mark.thorough
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_killed_between_part_and_checkpoint(place: Place, durability: str) -> None:
    """Rounds that were stored and are still in the state are there once in the end."""
    assert all(killed(place, durability, Countdown(number)) for number in (1, 2, 2))

    work(place, durability)

    assert stones(place) == [*range(1, ROUNDS + 1)]
    assert durability != "sync" or loose(place) == 0


@pytest.mark.thorough
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_killed_at_any_moment(place: Place, durability: str) -> None:
    """With `sync` a kill repeats one round at most, and nothing is stored that no turn joins."""
    chance = random.Random(3)
    kills = sum(
        killed(place, durability, Countdown(0), chance.uniform(0.2, 0.8)) for _ in range(KILLS)
    )

    work(place, durability)

    assert stones(place) == [*range(1, ROUNDS + 1)]
    assert durability != "sync" or len(looked(place)) <= ROUNDS * (1 + KILLS - kills) + kills
    assert durability != "sync" or loose(place) == 0


@pytest.mark.thorough
def test_stopped_and_continued(place: Place) -> None:
    """A turn that stops at a person and at the recursion limit keeps each result once."""
    (place.root / "asked").write_text("12")
    with opened(place) as chat:
        state = chat.agent.invoke({"messages": "Look at every stone."}, CONFIG, durability="sync")
        assert "__interrupt__" in state
        limited: RunnableConfig = {**CONFIG, "recursion_limit": 30}
        with pytest.raises(GraphRecursionError):
            chat.agent.invoke(Command(resume="yes"), limited, durability="sync")
    done = looked(place)

    with opened(place) as chat:
        chat.model.answers = lambda _: AIMessage("Stopped.")
        chat.agent.invoke({"messages": "Stop."}, CONFIG, durability="sync")
    with place.archive() as archive:
        first, second = archive.load(SESSION).turns([1, 2])

    assert (first.status, second.status) == ("aborted", "done")
    assert results_of(first) == done == [*range(1, len(done) + 1)]
    assert len(done) > 18
    assert loose(place) == 0


@pytest.mark.thorough
async def test_cancelled(place: Place) -> None:
    """A run that is cancelled after 20 rounds goes on where it was."""
    async with asynchronous(place) as saver:
        with place.archive() as archive:
            agent = looking(place, saver, archive).agent
            given = {"messages": "Look at every stone."}
            run = asyncio.create_task(agent.ainvoke(given, CONFIG, durability="sync"))
            while len(looked(place)) < 20:  # noqa: ASYNC110 (the tool runs in a thread)
                await asyncio.sleep(0.01)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run

            await agent.ainvoke(None, CONFIG, durability="sync")

    assert stones(place) == [*range(1, ROUNDS + 1)]
    assert len(looked(place)) <= ROUNDS + 1
    assert loose(place) == 0


@asynccontextmanager
async def asynchronous(place: Place) -> AsyncIterator[Any]:
    """Yield a checkpointer for asynchronous runs."""
    if place.uri:
        async with place.asaver(Countdown(0)) as saver:
            yield saver
    else:
        async with AsyncSqliteSaver.from_conn_string(str(place.root / "cancelled")) as saver:
            yield saver
