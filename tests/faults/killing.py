"""Run turns in child processes and kill them.

`python -m tests.faults.killing ROOT MODE KILLS SEED` prints one JSON line. `lost`, `doubled`,
`disordered` and `altered` count turns of the lineage that the last checkpoint continues; `leaves`
counts branches that it does not.
"""

import json
import os
import random
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Durability

from ebbtide import DiskArchive, create_memory_agent
from ebbtide.memory.messages import text
from ebbtide.memory.record import Owner, Record
from ebbtide.memory.tokens import count
from tests.agents import tip_in
from tests.doubles import ScriptedModel, call

OWNER = Owner("default", "killed")
CONFIG: RunnableConfig = {"configurable": {"thread_id": OWNER.thread}}
LONGEST = 0.18
"""How long a child works at most before it is killed, in seconds."""

PATIENCE = 20
"""So many times longer where children, on a busy machine, have answered too little so far."""


def answer(messages: list[BaseMessage]) -> AIMessage:
    """Open and close efforts now and then, else answer with something never said before."""
    said = next(m for m in reversed(messages) if m.type == "human" and m.name is None).text
    turn = number(said)
    if not isinstance(messages[-1], ToolMessage):
        if turn % 4 == 1:
            return call("open_effort", name=f"work {turn}")
        if turn % 4 == 3:
            return call("close_effort")
    new = f"answer to {turn}: {random.random()} é中😀\x85"  # noqa: S311
    return AIMessage(new + block(turn))


def block(turn: int) -> str:
    """Return the state block with which the answer of a turn ends, now and then."""
    return f"\n\n---STATE---\nGoal: answer {turn}\n---END STATE---" if turn % 3 == 0 else ""


@contextmanager
def opened(root: Path) -> Iterator[CompiledStateGraph[Any, Any, Any, Any]]:
    """Open the agent on the files below `root`."""
    connection = sqlite3.connect(root / "checkpoints.sqlite", check_same_thread=False)
    try:
        yield create_memory_agent(
            ScriptedModel(answers=answer, structured=[{"summary": "It was done."}] * 1000),
            archive=DiskArchive(root / "archive"),
            checkpointer=SqliteSaver(connection),
        )
    finally:
        connection.close()


def work(root: Path, durability: Durability, chance: random.Random) -> None:
    """Run turns until killed, noting each question before it is sent and each answer after."""
    with opened(root) as agent:
        while True:
            if agent.get_state(CONFIG).next and chance.random() < 0.5:
                agent.invoke(None, CONFIG, durability=durability)
                continue
            turn = len(lines(root / "sent")) + 1
            note(root / "sent", turn)
            said = {"messages": [("user", question(turn))]}
            found = agent.invoke(said, CONFIG, durability=durability)
            note(root / "answered", [turn, found["messages"][-1].text])


def question(turn: int) -> str:
    """Return what is asked in a turn, with characters that files and lines stumble over."""
    return f"message {turn} with \u2028 and \x00 and 你好"


def note(path: Path, value: object) -> None:
    """Append a JSON line that outlives the process."""
    with path.open("a") as file:
        file.write(json.dumps(value) + "\n")


def lines(path: Path) -> list[Any]:
    """Return the JSON values noted in a file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def kill(root: Path, durability: Durability, seed: int, longest: float) -> None:
    """Start a child, let it work for a moment of at most `longest` seconds, kill it."""
    child = os.fork()
    if child == 0:
        work(root, durability, random.Random(seed))  # noqa: S311
    time.sleep(random.Random(-seed).uniform(0.02, longest))  # noqa: S311
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def report(root: Path, durability: Durability) -> dict[str, int]:
    """Let the thread end its last turn, then compare the lineage with what was noted."""
    with opened(root) as agent:
        if agent.get_state(CONFIG).next:
            agent.invoke(None, CONFIG, durability=durability)
        values = agent.get_state(CONFIG).values
    tip = tip_in(values)
    archive = DiskArchive(root / "archive")
    records = archive.turns(OWNER, tip, range(1, tip.turn + 1))
    questions = [said for record in records for said in asked_in(record)]
    asked = [number(said) for said in questions]
    answers = dict(lines(root / "answered"))
    kept = {number(said): text(one.messages[-1]) for one in records for said in asked_in(one)}
    misheard = sum(said != question(number(said)) for said in questions)
    misquoted = sum(
        kept[turn] != said + block(turn) for turn, said in answers.items() if turn in kept
    )
    return {
        "turns": len(records),
        "answered": len(answers),
        "lost": len(answers.keys() - set(asked)) + tip.turn - len(records),
        "doubled": len(asked) - len(set(asked)),
        "disordered": int(asked != sorted(asked)),
        "altered": misheard + misquoted,
        "aborted": sum(record.status == "aborted" for record in records),
        "leaves": len([found for found in archive.verify(OWNER) if not found.fatal]),
        "damage": len([found for found in archive.verify(OWNER) if found.fatal]),
    }


def asked_in(record: Record) -> list[str]:
    """Return the user messages of a record."""
    return [text(message) for message in record.messages if message["type"] == "human"]


def number(said: str) -> int:
    """Return the number of the turn in which something was asked."""
    return int(said.split()[1])


def main(root: Path, durability: Durability, kills: int, seed: int) -> None:
    """Kill `kills` children, then report; what takes long to load is loaded before."""
    count("ready")
    for child in range(kills):
        slow = len(lines(root / "answered")) < child // 2
        kill(root, durability, seed * 10_000 + child, LONGEST * PATIENCE if slow else LONGEST)
    sys.stdout.write(json.dumps(report(root, durability)) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), cast("Durability", sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
