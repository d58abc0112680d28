"""Talk in child processes that are killed, and go on where they were.

`python -m tests.acceptance.dying ROOT URI DURABILITY KILLS SEED` prints one JSON line: what was
said, what was answered, how often an effort was compressed, and what the archive has in the end,
turn by turn. URI is that of a PostgreSQL database, empty for SQLite's files.
"""

import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Durability

from ebbtide import Settings
from tests.acceptance.stage import Stage
from tests.agents import Talk, talk
from tests.doubles import ScriptedModel, call
from tests.faults.places import Place

CONFIG: RunnableConfig = {"configurable": {"thread_id": "dying"}}
LONGEST = 0.4
"""Seconds for which a child lives at most, ten times as many where little was answered so far."""

WORDS = "with \u2028 and \x00 and 你好"
"""Characters that files and lines stumble over."""

LONG = "It was looked at for a while, and nothing came of it. " * 18
"""What makes an effort of a few turns outgrow its share."""


def answer(messages: Sequence[BaseMessage]) -> AIMessage:
    """Open an effort in each tenth turn, close it before the next, and repeat what was said."""
    said = next(m for m in reversed(messages) if m.type == "human" and m.name != "ebbtide").text
    number = int(said.split()[0])
    if messages[-1].type != "tool" and number % 10 == 1:
        return call("open_effort", name=f"work {number}")
    if messages[-1].type != "tool" and number % 10 == 0:
        return call("close_effort")
    return AIMessage(f"You said {said}")


def described(_: Sequence[BaseMessage]) -> str:
    """Write a background, slowly enough that a process is killed in a pass now and then."""
    time.sleep(0.03)
    return "They looked at it."


@contextmanager
def opened(place: Place) -> Iterator[Talk]:
    """Open the agent in its place."""
    summary = {"summary": "It was done.", "keywords": [], "importance": 50}
    with place.saver() as saver, place.archive() as archive:
        structured: Any = lambda _: summary  # noqa: E731 (a script of the model)
        slow = ScriptedModel(answers=described, structured=lambda _: {"new": []})
        yield talk(
            *(place.root, answer, structured),
            archive=archive,
            checkpointer=saver,
            settings=Settings(context_budget=4_000),
            extraction_model=slow,
            compression_model=slow,
        )


def live(place: Place, durability: Durability, chance: random.Random) -> None:
    """Talk until killed, noting what is said before and what is answered after."""
    said, answered = place.root / "said", place.root / "answered"
    with opened(place) as chat:
        while True:
            if chat.agent.get_state(CONFIG).next and chance.random() < 0.5:
                chat.agent.invoke(None, CONFIG, durability=durability)
                continue
            words = f"{len(noted(said))} {WORDS} {LONG}"
            note(said, words)
            state = chat.agent.invoke({"messages": words}, CONFIG, durability=durability)
            note(answered, [words, state["messages"][-1].text])


def note(path: Path, value: object) -> None:
    """Append a JSON line that outlives the process."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(value) + "\n")


def noted(path: Path) -> list[Any]:
    """Return the values that were noted."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def kill(place: Place, durability: Durability, chance: random.Random, longest: float) -> None:
    """Let a child live for at most so many seconds, and kill it."""
    child = os.fork()
    if child == 0:
        try:
            live(place, durability, chance)
        finally:
            traceback.print_exc()
            os._exit(1)
    time.sleep(chance.uniform(0.05, longest))
    os.kill(child, signal.SIGKILL)
    if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):
        raise RuntimeError("a child ended before it was killed")


def main(place: Place, durability: Durability, kills: int, seed: int) -> None:
    """Kill children, then say a last thing and print what there is."""
    chance = random.Random(seed)
    with TemporaryDirectory() as folder, opened(Place(Path(folder))) as chat:
        chat.agent.invoke({"messages": "1 Hello."}, CONFIG)  # no child loads what this loads
    for number in range(kills):  # a busy machine needs longer to answer anything
        patience = 1 if len(noted(place.root / "answered")) > number // 2 else 10
        kill(place, durability, chance, LONGEST * patience)
    with opened(place) as chat:
        last = f"{len(noted(place.root / 'said'))} {WORDS}"
        state = chat.agent.invoke({"messages": last}, CONFIG, durability=durability)
        messages, turns = Stage(chat, CONFIG).read(), chat.turns(state)
    found = {
        "said": [*noted(place.root / "said"), last],
        "answered": noted(place.root / "answered"),
        "compressed": sum(e["type"] == "compressed" for one in turns for e in one.events),
        "kept": [[m.type, m.text] for m in messages if m.text],
    }
    print(json.dumps(found))  # noqa: T201 (the test reads it)


if __name__ == "__main__":
    root, uri, chosen, kills, seed = sys.argv[1:]
    main(Place(Path(root), uri), cast("Durability", chosen), int(kills), int(seed))
