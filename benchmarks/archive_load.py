"""Many conversations at once: the time of a turn, and whether a killed process loses anything.

    python benchmarks/archive_load.py --out results --url postgresql+psycopg://USER@HOST/NAME
    python benchmarks/archive_load.py --out results

A hundred threads of fifty turns (see `talks`) run in four processes on one PostgreSQL, which has
the archive and the checkpoints of every step; without `--url` they are in files of SQLite. One
process is killed half-way, and another one resumes its threads. Then every question must be stored
once, in order and with its answer. LangChain's agent has the same conversations on the same
database.
"""

import argparse
import json
import multiprocessing
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from report import argument_parser, timed, write
from talks import TalkingModel, Turn, look_up, scripted

from ebbtide import SqlArchive, commands, create_memory_agent
from ebbtide.memory.turn import Session

PROMPT = "You are a helpful assistant."
OURS, PLAIN = "ebbtide", "create_agent"
LIMIT = 100
"""Steps of one turn at most."""
WAIT = 60
"""Seconds that a process waits for the file of checkpoints while another one writes it."""

PRELOADED = [
    *("langchain.agents", "langgraph.checkpoint.postgres"),
    *(create_memory_agent.__module__, SqlArchive.__module__),
]
"""Modules that the server of processes imports once, since `ebbtide` imports lazily."""

_NUMBER = re.compile(r"uestion (\d+):")


@dataclass(frozen=True, slots=True)
class Load:
    """The work of one process: an agent, a database or a folder, the turns of each of its threads.

    The log has for each turn a line with thread, number and milliseconds.
    """

    agent: str
    url: str
    turns: int
    threads: Sequence[str]
    log: Path

    def done(self) -> list[tuple[str, int, float]]:
        """Return the entries of the log."""
        if not self.log.exists():
            return []
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [tuple(json.loads(line)) for line in lines]


class Rehearsed(TalkingModel):
    """Answers the last question of a conversation from the script, wherever it is resumed."""

    turns: Sequence[Turn] = ()

    def answer(self, messages: Sequence[BaseMessage], tools: Collection[str]) -> AIMessage:
        """Return the next answer to the last question that calls no tool but these."""
        at = max(n for n, message in enumerate(messages) if question_number(message))
        turn = self.turns[question_number(messages[at]) - 1]
        calls = [call for call in turn.calls if call["name"] in tools]
        results = sum(isinstance(message, ToolMessage) for message in messages[at:])
        next_call = calls[results : results + 1]
        return AIMessage("", tool_calls=next_call) if next_call else AIMessage(turn.answer)


def question_number(message: BaseMessage) -> int:
    """Return the number of a question, 0 for any other message."""
    match = _NUMBER.search(message.text) if isinstance(message, HumanMessage) else None
    return int(match[1]) if match and message.name is None else 0


@contextmanager
def checkpointer(url: str) -> Iterator[BaseCheckpointSaver[Any]]:
    """Open the checkpoints in PostgreSQL, or in a file of a folder."""
    if "://" in url:
        with PostgresSaver.from_conn_string(url.replace("+psycopg", "")) as saver:
            saver.setup()
            yield saver
        return
    path = Path(url, "checkpoints.sqlite")
    with closing(sqlite3.connect(path, check_same_thread=False, timeout=WAIT)) as connection:
        yield SqliteSaver(connection)


@contextmanager
def opened(load: Load) -> Iterator[tuple[Any, SqlArchive]]:
    """Open an agent, and the archive."""
    model = Rehearsed(turns=[*scripted(load.turns)])
    with checkpointer(load.url) as saver, SqlArchive(load.url) as archive:
        options: dict[str, Any] = {"checkpointer": saver, "system_prompt": PROMPT}
        if load.agent == OURS:
            yield create_memory_agent(model, tools=[look_up], archive=archive, **options), archive
        else:
            yield create_agent(model, [look_up], **options), archive


def work(load: Load) -> None:
    """Continue the conversations, one turn of each after the other; log each turn."""
    script = [*scripted(load.turns)]
    with opened(load) as (agent, _), load.log.open("a", encoding="utf-8") as log:
        following = {thread: resume(agent, thread) for thread in load.threads}
        for number in range(1, load.turns + 1):
            for thread in load.threads:
                if number >= following[thread]:
                    request = {"messages": [("user", script[number - 1].question)]}
                    milliseconds = timed(lambda s=request, t=thread: invoked(agent, t, s))[0]
                    log.write(json.dumps([thread, number, milliseconds]) + "\n")
                    log.flush()


def resume(agent: Any, thread: str) -> int:
    """Finish the last turn of a thread; return the number of the next turn."""
    state = agent.get_state(config(thread))
    if state.tasks:  # `next` leaves out a step whose writes are there, but no checkpoint after it
        invoked(agent, thread, None)
        state = agent.get_state(config(thread))
    return max(map(question_number, state.values.get("messages", ())), default=0) + 1


def invoked(agent: Any, thread: str, request: Any) -> None:
    """Run one turn, its checkpoints written at each step."""
    agent.invoke(request, config(thread), durability="sync")


def config(thread: str) -> dict[str, Any]:
    """Return the config of a thread."""
    return {"configurable": {"thread_id": thread}, "recursion_limit": LIMIT}


def together(loads: Sequence[Load]) -> float:
    """Run a process for each load; kill the first half-way and resume it. Return the seconds."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(PRELOADED)
    begun = time.perf_counter()
    processes = [server.Process(target=work, args=(load,)) for load in loads]
    for process in processes:
        process.start()
    first, half = processes[0], loads[0].turns * len(loads[0].threads) // 2
    while first.is_alive() and len(loads[0].done()) < half:
        time.sleep(0.02)
    first.kill()
    processes.append(server.Process(target=work, args=(loads[0],)))
    first.join()
    processes[-1].start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes[1:]):
        raise RuntimeError(f"processes failed: {[process.exitcode for process in processes]}")
    return time.perf_counter() - begun


def stored_turns(load: Load) -> Iterator[list[tuple[int, str]]]:
    """Yield for each thread the numbers of the stored questions, each with its answer."""
    with opened(load) as (agent, archive):
        for thread in load.threads:
            if load.agent == PLAIN:
                messages = agent.get_state(config(thread)).values["messages"]
            elif any(finding.fatal for finding in archive.verify(Session("", thread))):
                messages = []
            else:  # twice as many, so that what is doubled is seen
                messages = commands.transcript(agent, config(thread))[0]
            starts = [at for at, message in enumerate(messages) if question_number(message)]
            yield [
                (question_number(messages[begin]), messages[end - 1].text)
                for begin, end in pairwise([*starts, len(messages)])
            ]


def faults(load: Load) -> Counter[str]:
    """Count the turns that are lost, doubled, out of order, or have another answer."""
    script = {number: turn.answer for number, turn in enumerate(scripted(load.turns), 1)}
    counts = Counter[str]()
    for turns in stored_turns(load):
        numbers = [number for number, _ in turns]
        counts["lost"] += len(script.keys() - {*numbers})
        counts["doubled"] += len(numbers) - len({*numbers})
        counts["disordered"] += numbers != sorted(numbers)
        counts["altered"] += sum(script[number] != answer for number, answer in turns)
    return counts


def measured(agent: str, options: argparse.Namespace, folder: str) -> dict[str, Any]:
    """Return the row of one agent."""
    threads = [f"{agent}-{number}" for number in range(options.threads)]
    parts = [threads[at :: options.processes] for at in range(options.processes)]
    loads = [
        Load(agent, options.url, options.turns, part, Path(folder, f"{agent}{at}.jsonl"))
        for at, part in enumerate(parts)
    ]
    seconds = together(loads)
    milliseconds = [duration for load in loads for *_, duration in load.done()]
    cuts = quantiles(milliseconds, n=100)
    wrong = sum(map(faults, loads), Counter())
    return {
        "agent": agent,
        "threads": options.threads,
        "turns": options.threads * options.turns,
        "processes": options.processes,
        **{name: wrong[name] for name in ("lost", "doubled", "disordered", "altered")},
        **{f"p{at} ms": round(cuts[at - 1], 1) for at in (50, 95, 99)},
        "turns per s": round(len(milliseconds) / seconds, 1),
    }


def main() -> None:
    """Measure each agent."""
    parser = argument_parser(__doc__, threads=100, turns=50, processes=4)
    parser.add_argument("--url", default="")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        name, database = "archive_load", "PostgreSQL"
        if not options.url:
            options.url, name, database = folder, "archive_load_sqlite", "SQLite"
        with SqlArchive(options.url) as archive, checkpointer(options.url):
            archive.users()
        rows = [measured(agent, options, folder) for agent in (OURS, PLAIN)]
    write(options.out, name, f"Many conversations at once on one {database}", rows)


if __name__ == "__main__":
    main()
