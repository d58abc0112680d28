"""Erase in child processes that are killed at every SQL statement and every file operation.

`python -m tests.faults.erasing ROOT URI SOCKET WHAT FIRST STEP` kills a child at its operation
FIRST, the next one at FIRST + STEP, and so on until one ends by itself. URI is that of a PostgreSQL
database, where an operation counts before it is sent, and when it was sent and is not answered; it
is empty for SQLite's files. SOCKET is that of the Redis that caches attention, empty if none does.
WHAT is what the child does: `turn` erases a turn, `aturn` with PostgreSQL's asynchronous
checkpointer, `session` and `user` delete. It prints one JSON line: how many were killed, how often
the archive was done with its part by then, how often the thread had no state, and what went wrong.
"""

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig

from ebbtide import aerase, delete_session, delete_user, erase
from ebbtide.memory.errors import SessionNotFoundError
from ebbtide.memory.turn import Session
from tests.agents import Talk, talk
from tests.doubles import call
from tests.faults.places import Countdown, Place

SESSION = Session("ann", "erased")
OTHER = Session("ann", "asking")
CONFIG: RunnableConfig = {"configurable": {"thread_id": SESSION.thread, "user_id": SESSION.user}}
ASKED = "Nobody but you and me knows that the zirconium gate is open."
ANSWERED = "I shall keep what you told me of that xylophone to myself."
GOAL = "Keep the secret of the quicksilver"
SECRETS = (ASKED, ANSWERED, GOAL)
STEMS = ("zirconium", "xylophon", "quicksilv")
"""Words that nothing else says, as the search tables have them."""

KEPT = ("Hello there.", "zucchini")
"""What stands beside it, of which no byte may be lost: a sentence of turn 1, a word of turn 3."""

SCRIPT = (
    *("Hello.", call("open_effort", name="gate", goal=GOAL), ANSWERED),
    *(call("close_effort"), "Closed.", "Well.", "On we go."),
)
TOLD = {"summary": f"It was said: {ASKED}", "keywords": ["gate", "zirconium"]}
AGAIN = {"summary": "It is about a garden.", "keywords": ["garden"]}
LATER = "Now that this is settled, what of the zucchini behind the house?"
WORDS = ("Hello there.", ASKED, LATER, "Well?")


@contextmanager
def opened(place: Place, countdown: Countdown | None = None) -> Iterator[Talk]:
    """Open the thread; what the checkpointer does at first is not counted."""
    with (
        place.saver(countdown) as saver,
        place.archive(countdown) as archive,
        place.attention(archive, countdown) as cache,
    ):
        kept = {"archive": archive, "checkpointer": saver, "attention": cache}
        yield talk(place.root, [*SCRIPT], [AGAIN] * 9, **kept)


def done(chat: Talk, what: str) -> list[str]:
    """Erase or delete, and return what is wrong with the report; what is not there is deleted."""
    try:
        if what == "session":
            report: Any = delete_session(chat.agent, CONFIG)
        elif what == "user":
            report = delete_user(chat.agent, SESSION.user)
        else:
            report = erase(chat.agent, CONFIG, 2)
            return [] if report.stale == () else [repr(report)]
    except SessionNotFoundError:
        return [] if what == "session" else ["no session"]
    # A deletion that was killed between checkpoints and archive finds none of them when repeated.
    said = ("`VACUUM FULL`", "`ANALYZE`", *(("checkpointer has none",) if what == "user" else ()))
    return [one for one in report.not_erased if not any(words in one for words in said)]


def killed(place: Place, what: str, number: int) -> bool:
    """Do it in a child that is killed at an operation; tell whether it came to that."""
    child = os.fork()
    if child == 0:
        try:
            begin(place, what, Countdown(number))
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    if not os.WIFSIGNALED(status) and os.waitstatus_to_exitcode(status):
        raise RuntimeError(f"a child failed, counting to {number}")
    return os.WIFSIGNALED(status)


def begin(place: Place, what: str, countdown: Countdown) -> None:
    """Do it, counting each operation."""
    if what == "aturn":
        asyncio.run(abegin(place, countdown))
        return
    with opened(place, countdown) as chat:
        done(chat, what)


async def abegin(place: Place, countdown: Countdown) -> None:
    """Erase the turn with the asynchronous checkpointer."""
    async with place.asaver(countdown) as saver:
        with place.archive(countdown) as archive:
            chat = talk(place.root, [*SCRIPT], [AGAIN] * 9, archive=archive, checkpointer=saver)
            await aerase(chat.agent, CONFIG, 2)


def found(place: Place) -> tuple[bool, bool, list[str]]:
    """Open the archive as anybody would; tell if it is erased there, if the thread has no state.

    With that, what is wrong: a turn that is neither whole nor gone, or text of it in the archive.
    """
    with place.archive() as archive:
        past = archive.load(SESSION)
        tip, (turn, *_) = past.tip, past.turns([2]) or (None,)
        gone = turn is None or turn.status == "erased"
        faults = [f"{f.where}: {f.what}" for f in archive.verify(SESSION) if f.fatal] if tip else []
        hits = archive.elsewhere(OTHER, STEMS[0], 5)
        faults += ["searched"] if bool(hits) == gone else []
    with opened(place) as chat:
        state = chat.agent.get_state(CONFIG).values
    left = place.holding(SECRETS, STEMS) if gone else []
    faults += [one for one in left if "checkpoint" not in one and not one.startswith("Redis")]
    return gone, not state, faults


def completed(place: Place, what: str) -> list[str]:
    """Do it again, and say what went wrong or is left."""
    with opened(place) as chat:
        faults = done(chat, what)
    faults += place.holding(SECRETS, STEMS)
    if what in {"session", "user"}:
        with opened(place) as chat:
            state = chat.agent.get_state(CONFIG).values
            sessions = chat.archive.sessions(SESSION.user)
            memories = chat.archive.attention()._stored(SESSION.user)
        return [*faults, *place.holding(KEPT), *map(str, (*sessions, *memories, *state))]
    lost = {*KEPT} - {line.rpartition(": ")[2] for line in place.holding(KEPT[:1], KEPT[1:])}
    return [*faults, *lost, *talked(place, 5)]


def talked(place: Place, turn: int) -> list[str]:
    """Go on with the thread, and return what was lost."""
    with opened(place) as chat:
        chat.model.answers = ["On we go."]
        state = chat.say("And?", CONFIG)
        turns, branches = chat.turns(state), chat.branches
        fatal = [f"{f.where}: {f.what}" for f in chat.archive.verify(SESSION) if f.fatal]
    wanted = {
        "turn": (state["memory"]["turn"], branches) == (turn, 1),
        "records": [stored.number for stored in turns] == [*range(1, turn + 1)],
        "statuses": {stored.status for stored in turns if stored.number != 2} == {"done"},
        "efforts": (state["memory"]["active_effort"], list(state["memory"]["summaries"]))
        == (None, ["gate"]),
        "messages": [m.type for m in state["messages"]].count("human") > 1,
    }
    return [*fatal, *(f"talked on: {name}" for name, held in wanted.items() if not held)]


def died(place: Place, what: str) -> tuple[bool, bool, list[str]]:
    """Return how far it had come, and what went wrong whoever went on: with it, or with talking."""
    gone, lost, faults = found(first := place.copy())
    faults += completed(again := place.copy(), what)
    first.drop()
    again.drop()
    if what not in {"session", "user"}:
        on = place.copy()
        faults += talked(on, 5)
        with opened(on) as chat:
            faults += done(chat, what)
        faults += [*on.holding(SECRETS, STEMS), *talked(on, 6)]
        on.drop()
    return gone, lost, faults


def main(place: Place, what: str, number: int, step: int) -> None:
    """Kill child after child, and print what was found."""
    with opened(place) as chat:
        chat.model.structured = [TOLD]
        [chat.say(words, CONFIG) for words in WORDS]
        chat.archive.elsewhere(OTHER, STEMS[0], 5)
    held = place.holding(SECRETS, STEMS)
    known, cached = {line.rpartition(": ")[2] for line in held}, " ".join(held).count("Redis")
    kills, erased, stateless, wrong = 0, 0, 0, dict[int, list[str]]()
    while killed(one := place.copy(), what, number):
        gone, lost, faults = died(one, what)
        kills, erased, stateless = kills + 1, erased + gone, stateless + lost
        wrong |= {number: faults} if faults else {}
        one.drop()
        number += step
    one.drop()
    counts = {"kills": kills, "erased": erased, "stateless": stateless, "wrong": wrong}
    sys.stdout.write(json.dumps({**counts, "known": len(known), "cached": cached}) + "\n")


if __name__ == "__main__":
    main(
        Place(Path(sys.argv[1]), *sys.argv[2:4]).begun(),
        sys.argv[4],
        *map(int, sys.argv[5:7]),
    )
