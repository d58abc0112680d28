"""Processes that compress: killed between archive and checkpoint, or two at the same time."""

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import select

from ebbtide.memory.archive.rows import unzipped
from ebbtide.memory.archive.schema import compressions, extractions
from tests.agents import THREAD, Talk
from tests.faults.compressing import RULE, SESSION, opened
from tests.faults.places import Place
from tests.graph.long_effort import FILLER, quoted, shown, stored
from tests.processes import ended


def killed(place: Place) -> None:
    """Talk in a process of its own until it is killed in its first pass."""
    done = ended(["-m", "tests.faults.compressing", str(place.root), place.uri])

    assert done.code == -signal.SIGKILL


def logged(chat: Talk) -> list[tuple[str, int]]:
    """Return of which efforts, and after which turns, passes were logged."""
    with chat.archive.database.reading() as connection:
        rows = connection.execute(select(extractions.c.entry).order_by(extractions.c.id))
        entries = [json.loads(unzipped(row.entry)) for row in rows]
    return [(entry["effort"], entry["turn"]) for entry in entries]


RESUMED, ASKED = None, {"messages": [("user", "Are you there?")]}


@pytest.mark.thorough
@pytest.mark.parametrize("again", [RESUMED, ASKED])
def test_a_stored_compression_is_taken_up(place: Place, again: Any) -> None:
    """Resumed, or with a new message: no second pass, and the state names the first."""
    killed(place)
    with opened(place) as chat:
        before = chat.agent.get_state(THREAD)

        state = chat.agent.invoke(again, THREAD)

        last = chat.say("And now?")
        turns, findings, passes = chat.turns(last), chat.archive.verify(SESSION), logged(chat)
    turn = before.values["memory"]["turn"] - 1
    assert before.next == ("compress",)
    assert quoted(before.values) == {}
    assert [quoted(one) for one in (state, last)] == [{"shop": turn}] * 2
    assert passes == [("shop", turn)]
    assert f"constraint, turn 2: {RULE}" in shown(chat)
    assert [one.fatal for one in findings] == []
    assert [stored.number for stored in turns] == [*range(1, last["memory"]["turn"] + 1)]


@pytest.mark.thorough
def test_two_processes_compress_one_thread(place: Place) -> None:
    """Both end well; what the first of them made is stored, and both states name it."""
    names, off = ["open", "shut"], {"compression": "off"}
    with opened(place, new=True) as chat:
        for turn in range(2, 12):
            chat.say(f"The shop is {names[turn % 2]}. {FILLER}{turn}", context=off)
        chat.say("Go on.", interrupt_before=["compress"], durability="sync")
    command = ["-m", "tests.faults.compressing_together", str(place.root), place.uri]

    with ThreadPoolExecutor() as pool:
        both = pool.map(lambda pair: ended([*command, *pair]), (names, names[::-1]))
        codes = [one.code for one in both]

    with opened(place) as chat:
        states = [s.values for s in chat.agent.get_state_history(THREAD) if not s.next]
        last = chat.say("And now?")
        made, findings, passes = stored(chat, last), chat.archive.verify(SESSION), logged(chat)
        events = [e for r in chat.turns(last) for e in r.events if e["type"] == "compressed"]
        with chat.archive.database.reading() as connection:
            kept = connection.execute(select(compressions)).all()
    assert codes == [0, 0]
    assert [quoted(state) for state in states[:2]] == [{"shop": 11}] * 2
    assert passes == [("shop", 11)] * 2
    assert len(kept) == 1
    assert made is not None
    assert [event["turn"] for event in events] == [11]
    assert all(item.quote in shown(chat) for item in made.items)
    assert [one for one in findings if one.fatal] == []
    assert last["memory"]["turn"] == 13
