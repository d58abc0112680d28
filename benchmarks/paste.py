"""The turns of one user while another user of the same archive pastes a large text.

    python benchmarks/paste.py --out results
    python benchmarks/paste.py --out results --url postgresql+psycopg://USER@HOST/NAME

The text has 1.5 MB of distinct words. It is pasted once alone, for the CPU time of its turn, and
once while another thread of this process runs short turns. The write lock is held from the
beginning of the transaction that writes to its commit.
"""

import random
import string
from collections.abc import Collection, Sequence
from tempfile import TemporaryDirectory
from threading import Thread, get_ident
from time import perf_counter
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from report import argument_parser, cpu_clock, timed, write
from sqlalchemy import Connection, Engine, event
from talks import TalkingModel

from ebbtide import SqlArchive, create_memory_agent
from ebbtide.memory.errors import ArchiveLockedError

LETTERS = 7
"""Letters of a word."""


class Noting(TalkingModel):
    """Answers anything with one word."""

    def answer(self, _messages: Sequence[BaseMessage], _tools: Collection[str]) -> AIMessage:
        """Return the answer."""
        return AIMessage("Noted.")


def distinct_words(size: int, seed: int) -> str:
    """Return a text of so many characters, whose words are all different."""
    chance, count = random.Random(seed), size // (LETTERS + 1)
    numbers = chance.sample(range(26**LETTERS), count)
    letters = ((number // 26**place % 26 for place in range(LETTERS)) for number in numbers)
    return " ".join("".join(string.ascii_lowercase[one] for one in word) for word in letters)


def measured(archive: SqlArchive, size: int, turns: int) -> dict[str, Any]:
    """Return what a paste costs, and what another user's turns take before and during it."""
    agent = create_memory_agent(Noting(), archive=archive, checkpointer=InMemorySaver())
    pasting, begun, held, locked = [0], [0.0], [0.0], [0]

    def begin(_: Connection) -> None:
        begun[0] = perf_counter() if get_ident() in pasting else begun[0]

    def commit(_: Connection) -> None:
        if get_ident() in pasting:
            held.append(perf_counter() - begun[0])

    def say(user: str, text: str) -> float:
        config = {"configurable": {"thread_id": user, "user_id": user}}
        return timed(lambda: agent.invoke({"messages": text}, config))[0]

    def paste() -> None:
        pasting.append(get_ident())
        say("dora", distinct_words(size, 2))

    for user in ("ann", "bob", "carl", "dora"):
        say(user, "Hello.")
    clock = cpu_clock(archive)
    used = clock()
    say("carl", distinct_words(size, 1))
    used = clock() - used
    before = max(say("bob", f"Short {number}.") for number in range(turns))
    event.listen(Engine, "begin", begin)
    event.listen(Engine, "commit", commit)
    thread, during = Thread(target=paste), [0.0]
    thread.start()
    while thread.is_alive():
        try:
            during.append(say("bob", "Short."))
        except ArchiveLockedError:
            locked[0] += 1
    thread.join()
    return {
        "database": "SQLite" if archive.database.sqlite else "PostgreSQL",
        "characters": size,
        "CPU of the paste s": round(used, 2),
        "write lock held s": round(max(held), 3),
        "other user's turns": len(during) - 1,
        "slowest before ms": round(before, 1),
        "slowest during ms": round(max(during), 1),
        "ArchiveLockedError": locked[0],
    }


def main() -> None:
    """Measure a paste."""
    parser = argument_parser(__doc__, size=1_500_000, turns=50)
    parser.add_argument("--url", default="")
    options = parser.parse_args()
    with (
        TemporaryDirectory() as folder,
        SqlArchive(options.url or folder, durable=False) as archive,
    ):
        row = measured(archive, options.size, options.turns)
    name = "paste" if options.url else "paste_sqlite"
    write(options.out, name, "Another user's turns beside a large paste", [row])


if __name__ == "__main__":
    main()
