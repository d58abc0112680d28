"""Run turns in child processes and kill them.

`python -m tests.faults.killing ROOT URI MODE KILLS SEED` prints one JSON line; URI is that of a
PostgreSQL database, empty for SQLite's files. `lost`, `doubled`, `disordered` and `altered` count
turns of the lineage that the last checkpoint continues, `told` texts of erased turns that are still
somewhere; `leaves` counts branches that the last checkpoint does not continue.
"""

import json
import os
import random
import re
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Durability

from ebbtide import Settings, TurnRunningError, erase
from ebbtide.memory.messages import text
from ebbtide.memory.tokens import count
from ebbtide.memory.turn import Session, StoredTurn
from tests.agents import Talk, talk, tip_in
from tests.doubles import ScriptedModel, call
from tests.faults.places import Place

SESSION = Session("", "killed")
CONFIG: RunnableConfig = {"configurable": {"thread_id": SESSION.thread}}
SMALL = Settings(context_budget=4_000)
LONG = "We looked at the shop for a while, and talked about this and that without a result. " * 8
LONGEST = 0.25
"""How long a child works at most before it is killed, in seconds."""

PATIENCE = 20
"""So many times longer where children, on a busy machine, have answered too little so far."""

OPENED, CLOSED, ERASED_EVERY = 2, 11, 6
"""The turns of each dozen that open and conclude an effort; how often an old turn is erased."""


def answer(messages: list[BaseMessage]) -> AIMessage:
    """Open and close an effort in each dozen, else answer with something never said before."""
    said = next(m for m in reversed(messages) if m.type == "human" and m.name is None).text
    turn = number(said)
    if not isinstance(messages[-1], ToolMessage):
        if turn % 12 == OPENED:
            return call("open_effort", name=f"work {turn}", goal=f"Work off message {turn}")
        if turn % 12 == CLOSED:
            return call("close_effort")
    new = f"answer to {turn}: {random.random()} é中😀\x85"
    return AIMessage(new + block(turn))


def block(turn: int) -> str:
    """Return the state block with which the answer of a turn ends, now and then."""
    return f"\n\n---STATE---\nGoal: answer {turn}\n---END STATE---" if turn % 3 == 0 else ""


def quoting(messages: list[BaseMessage]) -> dict[str, Any]:
    """Quote what was asked in the log of an effort."""
    asked = re.findall(r"message \d+ with", messages[-1].text)
    return {"new": [{"quote": one, "kind": "fact", "turn": 0} for one in asked[:3]]}


@contextmanager
def opened(place: Place) -> Iterator[Talk]:
    """Open the agent in its place."""
    with place.saver() as saver, place.archive() as archive:
        yield talk(
            place.root,
            answer,
            [{"summary": "It was done."}] * 1000,
            archive=archive,
            checkpointer=saver,
            settings=SMALL,
            extraction_model=ScriptedModel(answers=["no JSON"] * 900, structured=quoting),
        )


def work(place: Place, durability: Durability, chance: random.Random) -> None:
    """Run turns until killed, noting each question before it is sent and each answer after."""
    sent, answered, erased = (place.root / name for name in ("sent", "answered", "erased"))
    with opened(place) as chat:
        while True:
            following = chat.agent.get_state(CONFIG).next
            if following and chance.random() < 0.5:
                chat.agent.invoke(None, CONFIG, durability=durability)
                continue
            turn = len(lines(sent)) + 1
            if turn % ERASED_EVERY == 0 and not following and chance.random() < 0.7:
                with suppress(TurnRunningError):  # the kill came between writes and checkpoint
                    erase_one(chat, erased, chance)
            note(sent, turn)
            said = {"messages": [("user", question(turn))]}
            found = chat.agent.invoke(said, CONFIG, durability=durability)
            note(answered, [turn, found["messages"][-1].text])


def erase_one(chat: Talk, erased: Path, chance: random.Random) -> None:
    """Erase an old turn, noting before what it said; what was cut off is often done again."""
    values, known = state(chat), lines(erased)
    turns = chat.turns(values) if values else ()
    whole = [one for one in turns[:-2] if one.status != "erased" and asked_in(one)]
    if known and chance.random() < 0.5:
        erase(chat.agent, CONFIG, known[-1]["turn"])
    elif whole:
        one = chance.choice(whole)
        asked = asked_in(one)
        note(erased, {"turn": one.number, "asked": [*map(number, asked)], "said": texts(one)})
        erase(chat.agent, CONFIG, one.number)


def texts(turn: StoredTurn) -> list[str]:
    """Return what nobody but a turn says: its questions, and the numbers in its answers."""
    said = (text(m).partition(": ")[2].split(" ")[0] for m in turn.messages if m.type == "ai")
    return [
        *(asked.partition(" with ")[0] + " with" for asked in asked_in(turn)),
        *filter(None, said),
    ]


def state(chat: Talk) -> dict[str, Any]:
    """Return the newest state of the thread."""
    values: dict[str, Any] = chat.agent.get_state(CONFIG).values
    return values


def question(turn: int) -> str:
    """Return what is asked in a turn, with characters that files and lines stumble over."""
    return f"message {turn} with \u2028 and \x00 and 你好 {LONG}"


def note(path: Path, value: object) -> None:
    """Append a JSON line that outlives the process."""
    with path.open("a") as file:
        file.write(json.dumps(value) + "\n")


def lines(path: Path) -> list[Any]:
    """Return the JSON values noted in a file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def kill(place: Place, durability: Durability, seed: int, longest: float) -> None:
    """Start a child, let it work for a moment of at most `longest` seconds, kill it.

    Raises `RuntimeError` if it ended before that.
    """
    child = os.fork()
    if child == 0:
        try:
            work(place, durability, random.Random(seed))
        finally:
            traceback.print_exc()
            os._exit(1)
    time.sleep(random.Random(-seed).uniform(0.02, longest))
    os.kill(child, signal.SIGKILL)
    if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):
        raise RuntimeError(f"a child failed, with seed {seed}")


def report(place: Place, durability: Durability) -> dict[str, int]:
    """Let the thread end its last turn and its erasures, then compare it with what was noted."""
    erased = lines(place.root / "erased")
    with opened(place) as chat:
        if state(chat):  # a kill before the checkpoint of a last step leaves no node to follow
            chat.agent.invoke(None, CONFIG, durability=durability)
        for turn in {one["turn"] for one in erased}:
            erase(chat.agent, CONFIG, turn)
        values = state(chat)
        turns = chat.turns(values)
        findings = chat.archive.verify(SESSION)
        made = [
            chat.archive.load(SESSION, tip_in(values)).compression(one) for one in efforts(turns)
        ]
    gone = {turn for one in erased for turn in one["asked"]}
    told = place.holding({said for one in erased for said in one["said"]})
    return {
        **compared(turns, tip_in(values).turn, dict(lines(place.root / "answered")), gone),
        "aborted": sum(stored.status == "aborted" for stored in turns),
        "concluded": sum(e["type"] == "concluded" for one in turns for e in one.events),
        "compressed": sum(one is not None for one in made),
        "erased": sum(stored.status == "erased" for stored in turns),
        "told": len(told),
        "leaves": sum("leaf" in found.what for found in findings),
        "damage": sum(found.fatal for found in findings),
    }


def compared(
    turns: Sequence[StoredTurn], newest: int, answers: dict[int, str], gone: set[int]
) -> dict[str, int]:
    """Return how a lineage differs from what was noted, but for what was erased."""
    questions = [said for stored in turns for said in asked_in(stored)]
    asked = [number(said) for said in questions]
    kept = {number(said): text(one.messages[-1]) for one in turns for said in asked_in(one)}
    misheard = sum(said != question(number(said)) for said in questions)
    misquoted = sum(
        kept[turn] != said + block(turn) for turn, said in answers.items() if turn in kept
    )
    return {
        "turns": len(turns),
        "answered": len(answers),
        "lost": len(answers.keys() - {*asked} - gone) + newest - len(turns),
        "doubled": sum(times - 1 for times in Counter(asked).values()),
        "disordered": int(asked != sorted(asked)),
        "altered": misheard + misquoted,
        "back": len(gone & {*asked}),
    }


def efforts(turns: Sequence[StoredTurn]) -> list[str]:
    """Return the efforts that turns belong to."""
    return list(dict.fromkeys(name for turn in turns for name in turn.efforts))


def asked_in(turn: StoredTurn) -> list[str]:
    """Return the user messages of a record."""
    return [text(message) for message in turn.messages if message.type == "human"]


def number(said: str) -> int:
    """Return the number of the turn in which something was asked."""
    return int(said.split()[1])


def main(place: Place, durability: Durability, kills: int, seed: int) -> None:
    """Kill `kills` children, then report; what takes long to load is loaded before."""
    count("ready")
    for child in range(kills):
        slow = len(lines(place.root / "answered")) < child // 2
        kill(place, durability, seed * 10_000 + child, LONGEST * PATIENCE if slow else LONGEST)
    sys.stdout.write(json.dumps(report(place, durability)) + "\n")


if __name__ == "__main__":
    main(
        Place(Path(sys.argv[1]), sys.argv[2]).begun(),
        cast("Durability", sys.argv[3]),
        int(sys.argv[4]),
        int(sys.argv[5]),
    )
