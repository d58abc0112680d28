"""What faults do to a conversation, beside agents that summarise.

    python benchmarks/faults.py --out results

All agents hold the same conversation (see `witness`), with checkpoints and archive in SQLite files.

- killed: the process is killed before a random statement to its databases, within the next two
  turns. After half of the kills the broken turn is resumed, after the others the next question is
  asked. "statements" is how many an agent makes in a turn.
- disk full: from a random statement of each turn on the disk refuses every write. When it has room
  again, the turn is resumed, or its question asked again if nothing of it is stored.
- fork: a trunk of thirty turns, and a branch of twenty others from the checkpoint of turn 10.
- summary fails: every call for a summary raises, in half as many turns.
- large result: a tool returns 5 MB in the third of ten turns.
- results cut apart: each turn has two results of tools that were called together.
- Chinese: a conversation whose characters have more tokens than those of English.

The columns count, after one more question:

- lost: answered turns that no checkpoint has any more, of Ebbtide: that its archive does not have.
- doubled: questions that are stored twice. torn: stored calls without a result, or the reverse.
- out of reach: answered turns whose fact is neither in the last request, nor in a file of the
  agent, nor in the result of a search.
- refused: requests that a provider refuses, since they have torn calls or exceed the window.
- without the question: requests that do not contain the question. failed: turns that raised.
- leaked: facts of the other branch that are within reach.
"""

import multiprocessing
import os
import random
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from archive_load import question_number
from report import argument_parser, write
from witness import CONFIG, OURS, PEERS, Side, fact, opened, unpaired

Row: TypeAlias = dict[str, Any]

FORK_AT, TRUNK, BRANCH = 10, 30, 20
"""Where a branch begins, the length of the trunk, and of the branch."""

OTHER, LAST = 1_000, 9_000
"""Added to the numbers of a branch's questions, and of the last ones."""

COUNTED = 10
"""Turns over which the statements of a turn are counted."""


@dataclass(slots=True)
class Countdown:
    """Does something before a statement of a given number."""

    strike: Callable[[], None]
    left: int = 0

    def count(self, statement: str) -> None:
        """Count a statement, but for those that SQLite makes itself inside of another one."""
        self.left -= not statement.startswith("--")
        if self.left == 0 and not statement.startswith("--"):
            self.strike()


def die() -> None:
    """Kill this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def refuse_writes() -> None:
    """Refuse every write of this process to a file, as a disk without room does."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def allow_writes() -> None:
    """Allow them again."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def statements_of_a_turn(name: str, folder: Path) -> int:
    """Return how many statements an agent makes in a turn; imports what it needs, too."""
    countdown = Countdown(die)
    with opened(name, folder, "short", countdown.count) as side:
        countdown.left = 0
        for number in range(1, COUNTED + 1):
            side.ask(number, "short")
    return -countdown.left // COUNTED


def killed(name: str, folder: Path, kills: int) -> Row:
    """Kill a process `kills` times, each time at a random statement."""
    with TemporaryDirectory() as other:
        statements = statements_of_a_turn(name, Path(other))
    processes = multiprocessing.get_context("fork")
    for kill in range(kills):
        at = random.Random(kill).randint(1, 2 * statements)
        process = processes.Process(target=_work, args=(name, folder, kill, at))
        process.start()
        process.join()
        if process.exitcode != -signal.SIGKILL:
            raise RuntimeError(f"{name}: process {kill} ended with {process.exitcode}")
    with opened(name, folder, "short") as side:
        row = judged(side, "short", _noted(folder, "answered"))
    counts = {
        "failed": len(_noted(folder, "failed")),
        "refused": sum(_noted(folder, "refused")),
        "without the question": sum(_noted(folder, "blind")),
    }
    return _with({**row, "statements": statements}, counts)


def _work(name: str, folder: Path, seed: int, at: int) -> None:
    """Resume the turn that was cut off or ask the next question, until killed."""
    chance, countdown = random.Random(seed), Countdown(die)
    with opened(name, folder, "short", countdown.count) as side:
        countdown.left = at
        while True:
            if side.agent.get_state(CONFIG).tasks and chance.random() < 1 / 2:
                done = _succeeds(side.resume)
            else:
                number = max(_noted(folder, "asked"), default=0) + 1
                _note(folder, "asked", number)
                done = _succeeds(partial(side.ask, number, "short"))
            _note(folder, "answered" if done else "failed", side.watch.asked)
            for key in ("refused", "blind"):
                _note(folder, key, getattr(side.watch, key))
                setattr(side.watch, key, 0)


def _note(folder: Path, name: str, number: int) -> None:
    with (folder / name).open("a", encoding="utf-8") as file:
        file.write(f"{number}\n")


def _noted(folder: Path, name: str) -> list[int]:
    path = folder / name
    return [*map(int, path.read_text(encoding="utf-8").split())] if path.exists() else []


def _succeeds(run: Callable[[], object]) -> bool:
    """Return whether something runs without an error; the error is printed."""
    try:
        run()
    except Exception as error:  # noqa: BLE001 (whatever an agent raises is what is measured)
        print(f"{type(error).__name__}: {str(error)[:200]}", file=sys.stderr, flush=True)
        return False
    return True


def full_disk(name: str, folder: Path, faults: int) -> Row:
    """Let the disk refuse writes from a random statement on; after the turn it has room again."""
    countdown, answered, failed = Countdown(refuse_writes), list[int](), 0
    with TemporaryDirectory() as other:
        statements = statements_of_a_turn(name, Path(other))
    with opened(name, folder, "short", countdown.count) as side:
        for number in range(1, faults + 1):
            countdown.left = random.Random(number).randint(1, statements)
            done = _succeeds(partial(_until_room, side, number))
            countdown.left = 0
            failed += not done
            if done or _succeeds(partial(go_on, side, number)):
                answered.append(number)
        return {**judged(side, "short", answered), "failed": failed, "statements": statements}


def _until_room(side: Side, number: int) -> None:
    """Ask a question; then the disk has room again."""
    try:
        side.ask(number, "short")
    finally:
        allow_writes()


def go_on(side: Side, number: int) -> None:
    """Resume a broken turn, or ask its question again if nothing of it is stored."""
    if side.agent.get_state(CONFIG).tasks:
        side.resume()
    else:
        side.ask(number, "short")


def forked(name: str, folder: Path) -> Row:
    """Hold two conversations that have their first turns in common."""
    with opened(name, folder, "long") as side:
        trunk = range(1, TRUNK + 1)
        branch = [*range(1, FORK_AT + 1), *range(OTHER + FORK_AT + 1, OTHER + FORK_AT + BRANCH + 1)]
        _held(side, "long", trunk[:FORK_AT])
        fork = side.agent.get_state(CONFIG).config
        _held(side, "long", trunk[FORK_AT:])
        end = side.agent.get_state(CONFIG).config
        side.ask(branch[FORK_AT], "long", fork)
        _held(side, "long", branch[FORK_AT + 1 :])
        row = judged(side, "long", branch)
        leaked = len(side.reach({*trunk} - {*branch}))
        side.ask(LAST, "long", end)
        last = judged(side, "long", trunk)
        leaked += len(side.reach({*branch} - {*trunk}))
    sums = ("answered", "failed", "lost", "doubled", "torn", "out of reach")
    return {**last, **{key: row[key] + last[key] for key in sums}, "leaked": leaked}


def summary_fails(name: str, folder: Path, turns: int) -> Row:
    """Hold a conversation while the model does not answer for summaries."""
    with opened(name, folder, "long") as side:
        side.watch.fails = True
        answered = _held(side, "long", range(1, turns + 1))
        side.watch.fails = False
        return _with(judged(side, "long", answered), {"failed": turns - len(answered)})


def held(name: str, folder: Path, talk: str, turns: int) -> Row:
    """Hold a conversation."""
    with opened(name, folder, talk) as side:
        answered = _held(side, talk, range(1, turns + 1))
        return _with(judged(side, talk, answered), {"failed": turns - len(answered)})


def _held(side: Side, talk: str, numbers: Iterable[int]) -> list[int]:
    """Ask questions, and return the numbers of those that were answered."""
    return [number for number in numbers if _succeeds(partial(side.ask, number, talk))]


def judged(side: Side, talk: str, answered: Iterable[int]) -> Row:
    """Let the last turn end and ask one more question; then count what became of the turns."""
    known = {*answered}
    if side.agent.get_state(CONFIG).tasks:
        _succeeds(side.resume)
    failed = not _succeeds(partial(side.ask, LAST + 1, talk))
    messages, stored = side.messages(), side.stored()
    numbers = Counter(filter(None, map(question_number, messages)))
    return {
        "answered": len(known),
        "failed": int(failed),
        "lost": sum(fact(number) not in stored for number in known),
        "doubled": sum(times - 1 for times in numbers.values()),
        "torn": unpaired(messages),
        "out of reach": len(known - side.reach(known)),
        "refused": side.watch.refused,
        "without the question": side.watch.blind,
        "largest call": side.watch.largest,
    }


def _with(row: Row, counts: Mapping[str, int]) -> Row:
    """Return a row with these counts added to its own."""
    return {**row, **{key: row[key] + count for key, count in counts.items()}}


def strikes(kills: int, turns: int) -> Mapping[str, Callable[[str, Path], Row]]:
    """Return the faults by their names."""
    return {
        f"killed {kills} times": partial(killed, kills=kills),
        f"disk full in {turns} turns": partial(full_disk, faults=turns),
        "fork": forked,
        "summary fails": partial(summary_fails, turns=turns // 2),
        "large result": partial(held, talk="large", turns=10),
        "results cut apart": partial(held, talk="results", turns=turns),
        "Chinese": partial(held, talk="Chinese", turns=turns),
    }


def main() -> None:
    """Let every fault strike every agent that is installed."""
    agents = [*OURS, *PEERS]
    parser = argument_parser(__doc__, kills=300, turns=60)
    parser.add_argument("--agents", nargs="+", choices=agents, default=agents)
    parser.add_argument("--faults", nargs="+", help="some of them, by the beginning of their names")
    options = parser.parse_args()
    rows = []
    for fault, strike in strikes(options.kills, options.turns).items():
        if options.faults and not fault.startswith(tuple(options.faults)):
            continue
        for name in options.agents:
            row: Row = {"fault": fault, "agent": name}
            with TemporaryDirectory() as folder:
                try:
                    row |= strike(name, Path(folder))
                except ModuleNotFoundError as missing:
                    row["agent"] = f"{name}: no {missing.name}"
            print(row, flush=True)
            rows.append(row)
    write(options.out, "faults", "Faults", rows)


if __name__ == "__main__":
    main()
