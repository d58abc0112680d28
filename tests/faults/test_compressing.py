"""Processes that compress: killed between archive and checkpoint, or two at the same time."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ebbtide import DiskArchive
from tests.agents import THREAD
from tests.faults.compressing import OWNER, RULE, opened
from tests.graph.long_effort import FILLER, entries, shown, stored


def killed(root: Path, after: str) -> None:
    """Talk in a process of its own until it is killed in its first pass."""
    command = [sys.executable, "-m", "tests.faults.compressing", str(root), after]
    done = subprocess.run(command, capture_output=True, check=False)

    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("again", [None, {"messages": [("user", "Are you there?")]}])
@pytest.mark.parametrize("after", ["commit", "log"])
def test_a_stored_compression_is_taken_up(tmp_path: Path, after: str, again: Any) -> None:
    """Resumed, or with a new message: no second pass, and the state names the first."""
    killed(tmp_path, after)
    with opened(tmp_path, DiskArchive(tmp_path)) as here:
        before = here.agent.get_state(THREAD)

        state = here.agent.invoke(again, THREAD)

        last = here.say("And now?")
        records, findings = here.records(last), here.archive.verify(OWNER)
    assert before.next == ("compress",)
    assert before.values["memory"]["position"]["compressed"] == {}
    turn = before.values["memory"]["turn"]
    assert (
        state["memory"]["position"]["compressed"]
        == last["memory"]["position"]["compressed"]
        == {"shop": turn}
    )
    assert [entry["turn"] for entry in entries(tmp_path)] == [turn] * (after == "log")
    assert f"constraint, turn 2: {RULE}" in shown(here)
    events = [(r.turn, e) for r in records for e in r.events if e["type"] == "compressed"]
    assert [event["turn"] for _, event in events] == [turn]
    assert [one.fatal for one in findings] == []
    assert [record.turn for record in records] == [*range(1, last["memory"]["turn"] + 1)]


def test_two_processes_compress_one_thread(tmp_path: Path) -> None:
    """Both end well; what the first of them made is stored, and both states name it."""
    names, off = ["open", "shut"], {"compression": "off"}
    with opened(tmp_path, DiskArchive(tmp_path), new=True) as here:
        for turn in range(2, 12):
            here.say(f"The shop is {names[turn % 2]}. {FILLER}{turn}", context=off)
        here.say("Go on.", interrupt_before=["compress"], durability="sync")
    command = [sys.executable, "-m", "tests.faults.compressing_together", str(tmp_path)]

    both = [subprocess.Popen([*command, *pair]) for pair in (names, names[::-1])]
    codes = [process.wait(120) for process in both]

    with opened(tmp_path, DiskArchive(tmp_path)) as here:
        states = [s.values for s in here.agent.get_state_history(THREAD) if not s.next]
        last = here.say("And now?")
        made, findings = stored(here, last), here.archive.verify(OWNER)
        events = [e for r in here.records(last) for e in r.events if e["type"] == "compressed"]
    assert codes == [0, 0]
    assert [state["memory"]["position"]["compressed"] for state in states[:2]] == [{"shop": 12}] * 2
    assert [(entry["effort"], entry["turn"]) for entry in entries(tmp_path)] == [("shop", 12)] * 2
    kept = (tmp_path / "default" / "t" / "compressed.jsonl").read_text(encoding="utf-8")
    assert kept.count("\n") == 1
    assert made is not None
    assert [event["turn"] for event in events] == [12]
    assert all(item.quote in shown(here) for item in made.items)
    assert [one for one in findings if one.fatal] == []
    assert last["memory"]["turn"] == 13
