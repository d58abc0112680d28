"""What grows with a session: a day of efforts with tools and searches that does not end.

python benchmarks/growth.py --out results 100 1000 5000 10000 20000

One agent holds the conversation, with a search every tenth turn; the model answers from a list. A
row is one of the lengths that are asked for: the median CPU time of the 100 turns around it, "of
the first" as a ratio to the first row, the memory of the process after them, the bytes of the
archive per turn, and how long it takes then to open the session anew: its archive, its state and
its context.
"""

import argparse
import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from context_cost import CONFIG, MEMORY_TOOLS
from langchain_core.messages.tool import tool_call
from langgraph.checkpoint.sqlite import SqliteSaver
from peers import ours
from report import write
from talks import TalkingModel, Turn, day

from ebbtide import DiskArchive, commands

_SEARCH_EVERY = 10
_AROUND = 50
"""Turns before and after a length: the first turns, which have all in view, are none of them."""


def talk() -> Iterator[Turn]:
    """Yield the conversation, with a search for words of its question every tenth turn."""
    for number, turn in enumerate(day(1 << 20), 1):
        if number % _SEARCH_EVERY:
            yield turn
            continue
        query = " ".join(turn.question.split()[-6:-2])
        asked = tool_call(name="search_efforts", args={"query": query}, id=f"search_{number}")
        yield replace(turn, calls=(*turn.calls, asked))


def opened(folder: Path) -> float:
    """Return how many milliseconds it takes to open the session: archive, state and context."""
    begun = time.perf_counter()
    with DiskArchive(folder / "archive") as archive, _saver(folder) as saver:
        agent = ours(archive)(TalkingModel(), saver, folder)
        commands.show_context(agent, CONFIG, "And now?")
    return (time.perf_counter() - begun) * 1_000


def held(lengths: list[int], folder: Path) -> Iterator[dict[str, Any]]:
    """Hold the conversation, and yield a row at each of the lengths."""
    first, cpu, process = 0.0, [], psutil.Process()
    with DiskArchive(folder / "archive") as archive, _saver(folder) as saver:
        saver.setup()
        model = TalkingModel().watched(lambda *_: None)
        agent = ours(archive)(model, saver, folder)
        for number, turn in enumerate(islice(talk(), max(lengths) + _AROUND), 1):
            model.begin(turn, {*MEMORY_TOOLS, "search_efforts"})
            cpu.append(_cpu(lambda turn=turn: agent.invoke(_said(turn), CONFIG)))
            if number - _AROUND not in lengths:
                continue
            gc.collect()
            now = 1_000 * median(cpu[-2 * _AROUND :])
            first = first or now
            yield {
                "turns": number - _AROUND,
                "CPU ms": round(now, 1),
                "of the first": round(now / first, 2),
                "memory MB": round(process.memory_info().rss / 1e6, 1),
                "archive bytes a turn": _bytes(folder / "archive") // number,
                "opening ms": round(opened(folder), 1),
            }
            print(f"{number - _AROUND:,} turns", flush=True)


def _cpu(do: Callable[[], Any]) -> float:
    begun = time.process_time()
    do()
    return time.process_time() - begun


def _said(turn: Turn) -> Any:
    return {"messages": [("user", turn.question)]}


def _saver(folder: Path) -> Any:
    return SqliteSaver.from_conn_string(str(folder / "checkpoints"))


def _bytes(folder: Path) -> int:
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())


def main() -> None:
    """Hold the conversation, and write what grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("lengths", type=int, nargs="+", help="turns after which is measured")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        rows = [*held(options.lengths, Path(folder))]
    write(options.out, "growth", "What grows", rows)


if __name__ == "__main__":
    main()
