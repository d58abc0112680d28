"""What grows with the rounds of one turn: time, memory of the process and bytes of checkpoints.

python benchmarks/long_turn_growth.py --out results 100 300 1000

One request, and as many rounds as the largest of these numbers, each with a result of 200 words. A
row is an agent and the 50 rounds that end with a number: CPU time of a round (mean, 5th and 95th
percentile) and kilobytes of checkpoints a round, with SQLite and `durability="sync"`, and the
memory that the process has taken since the turn began. It is the mean, since rounds in which the
context is cut take longer. Each agent keeps only its newest checkpoint, as those of a thousand
rounds would fill a disk.
"""

import gc
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from langchain_core.messages import ToolCall
from langgraph.checkpoint.sqlite import SqliteSaver
from peers import DELTA, DeltaState, Maker, deep, langchain, ours
from report import argument_parser, ranged, write
from talks import TalkingModel, Turn

AROUND, SIZE, BUDGET = 50, 200, 8_000
CONFIG: Any = {"configurable": {"thread_id": "long"}, "recursion_limit": 10_000}
AGENTS: dict[str, Maker] = {
    "ebbtide": ours(context_budget=BUDGET),
    "create_agent": langchain(),
    "deepagents": deep,
    DELTA: langchain(state=DeltaState),
}

_STORED = """
SELECT (SELECT coalesce(sum(length(checkpoint) + length(metadata)), 0) FROM checkpoints)
     + (SELECT coalesce(sum(length(value)), 0) FROM writes)
"""
_OLD = ("checkpoints", "writes")


def request(rounds: int) -> Turn:
    """Return a turn of so many rounds."""
    calls = (
        ToolCall(name="look_up", args={"topic": f"part {at}", "words": SIZE}, id=f"call-{at}")
        for at in range(rounds)
    )
    return Turn("Look up all of it, and never use tabs.", tuple(calls), "All of it is there.")


def rows(name: str, numbers: Sequence[int], folder: Path) -> Iterator[dict[str, Any]]:
    """Let an agent do the turn, and yield a row at each of the numbers of rounds."""
    process, model, turn = psutil.Process(), TalkingModel(), request(max(numbers))
    with closing(sqlite3.connect(folder / "checkpoints", check_same_thread=False)) as connection:
        try:
            agent = AGENTS[name](model, SqliteSaver(connection), folder)
        except ModuleNotFoundError as missing:
            yield {"agent": f"{name}: no {missing.name}"}
            return
        model.begin(turn)
        memory, written, done = _memory(process), 0, 0
        steps = agent.stream({"messages": turn.question}, CONFIG, durability="sync")
        start, begun, times = time.process_time(), 0, list[float]()
        for step in steps:
            if not step.keys() & {"application_tools", "tools"}:
                continue
            times.append(1_000 * (time.process_time() - start))
            done += 1
            written += _drop_old(connection)
            if done in numbers:
                yield {
                    "agent": name,
                    "round": done,
                    **ranged("CPU ms a round", times[-AROUND:]),
                    "CPU ms a round": round(fmean(times[-AROUND:]), 1),
                    "checkpoint KB a round": round((written - begun) / AROUND / 1e3, 1),
                    "memory MB more": round(_memory(process) - memory, 1),
                }
            if done + AROUND in numbers:
                begun = written
            start = time.process_time()


def _drop_old(connection: sqlite3.Connection) -> int:
    """Delete all checkpoints but the newest, and return how many bytes were deleted."""
    before = int(connection.execute(_STORED).fetchone()[0])
    newest = connection.execute("SELECT max(checkpoint_id) FROM checkpoints").fetchone()
    for table in _OLD:
        connection.execute(f"DELETE FROM {table} WHERE checkpoint_id < ?", newest)  # noqa: S608 (ours)
    return before - int(connection.execute(_STORED).fetchone()[0])


def _memory(process: psutil.Process) -> float:
    gc.collect()
    return float(process.memory_info().rss) / 1e6


def main() -> None:
    """Let each agent that is installed do the turn."""
    parser = argument_parser(__doc__)
    parser.add_argument("numbers", type=int, nargs="+", help="rounds at which is measured")
    options = parser.parse_args()
    made = []
    for name in AGENTS:
        with TemporaryDirectory() as folder:
            for row in rows(name, options.numbers, Path(folder)):
                print(row, flush=True)
                made.append(row)
    write(options.out, "long_turn_growth", "What grows with the rounds of a turn", made)


if __name__ == "__main__":
    main()
