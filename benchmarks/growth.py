"""What grows with a session: an endless day of efforts, with tools and searches.

    python benchmarks/growth.py --out results 100 1000 5000 10000 20000

One agent has the conversation, with a search every tenth turn. The model answers from a list. A row
has, for one of the given lengths: the median CPU time of the 100 turns around it, the same for
turns 51-150 of five other sessions that alternate with them, the ratio of both, the memory of the
process, the bytes of the archive per turn, and the time to open the session: archive, state and
context. Times have their 5th and 95th percentile; the ratio has those of the ratios turn by turn.
"""

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from context_cost import CONFIG
from langchain_core.messages.tool import tool_call
from langgraph.checkpoint.sqlite import SqliteSaver
from peers import ours
from report import argument_parser, ranged, stored_bytes, timed, write
from talks import TalkingModel, Turn, day

from ebbtide import DiskArchive, commands

_SEARCH_EVERY = 10
"""Turns between two searches that are timed."""
_YOUNG = 5
"""Short sessions beside the long one: by its subject alone a turn varies by a third."""


@dataclass(frozen=True, slots=True)
class Session:
    """A running conversation: an agent, its model, and the coming turns."""

    agent: Any
    model: TalkingModel
    turns: Iterator[Turn]

    def go_on(self) -> float:
        """Run the next turn, and return its CPU seconds."""
        turn = next(self.turns)
        self.model.begin(turn)
        start = time.process_time()
        self.agent.invoke({"messages": [("user", turn.question)]}, CONFIG)
        return time.process_time() - start


@contextmanager
def holding(folder: Path, seed: str) -> Iterator[Session]:
    """Yield a new conversation in a folder."""
    folder.mkdir(exist_ok=True)
    with DiskArchive(folder / "archive") as archive, _saver(folder) as saver:
        saver.setup()
        model = TalkingModel()
        yield Session(ours(archive)(model, saver, folder), model, talk(seed))


@contextmanager
def young() -> Iterator[list[Session]]:
    """Yield the short sessions to compare with."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        places = ((Path(folder) / str(number), f"young {number}") for number in range(_YOUNG))
        yield [stack.enter_context(holding(*place)) for place in places]


def talk(seed: str) -> Iterator[Turn]:
    """Yield the conversation, with a search for words of its question every tenth turn."""
    for number, turn in enumerate(day(1 << 20, seed), 1):
        if number % _SEARCH_EVERY:
            yield turn
            continue
        query = " ".join(turn.question.split()[-6:-2])
        search = tool_call(name="search_efforts", args={"query": query}, id=f"search_{number}")
        yield replace(turn, calls=(*turn.calls, search))


def opened(folder: Path) -> None:
    """Open the session: archive, state and context."""
    with DiskArchive(folder / "archive") as archive, _saver(folder) as saver:
        agent = ours(archive)(TalkingModel(), saver, folder)
        commands.show_context(agent, CONFIG, "And now?")


def rows(lengths: Sequence[int], around: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Hold the conversation, and yield a row at each of the lengths."""
    done, process = 0, psutil.Process()
    with holding(folder, "day") as old:
        for length in lengths:
            for _ in range(length - around - done):
                old.go_on()
            with young() as young_sessions:
                for session in young_sessions:
                    for _ in range(around):  # the first turns have no older ones
                        session.go_on()
                old_times, young_times, ratios = list[float](), list[float](), list[float]()
                for _ in range(2 * around):
                    old_times.append(1_000 * old.go_on())
                    beside = [1_000 * session.go_on() for session in young_sessions]
                    young_times += beside
                    ratios.append(old_times[-1] / median(beside))
            done = length + around
            gc.collect()
            yield {
                "turns": length,
                **ranged("CPU ms", old_times),
                **ranged("turns 51-150 beside it", young_times),
                **ranged("ratio", ratios, 2),
                "ratio": round(median(old_times) / median(young_times), 2),
                "memory MB": round(process.memory_info().rss / 1e6, 1),
                "archive bytes a turn": stored_bytes(folder / "archive") // done,
                "opening ms": round(timed(lambda: opened(folder))[0], 1),
            }
            print(f"{length:,} turns", flush=True)


def _saver(folder: Path) -> Any:
    return SqliteSaver.from_conn_string(str(folder / "checkpoints"))


def main() -> None:
    """Hold the conversation, and write the rows."""
    parser = argument_parser(__doc__)
    parser.add_argument("lengths", type=int, nargs="+", help="turns after which is measured")
    parser.add_argument("--around", type=int, default=50, help="turns before and after a length")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        table = [*rows(sorted(options.lengths), options.around, Path(folder))]
    write(options.out, "growth", "What grows", table)


if __name__ == "__main__":
    main()
