"""A process that is killed between the archive and the checkpoint of a compression."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ebbtide import DiskArchive
from tests.agents import THREAD
from tests.faults.compressing import OWNER, RULE, opened
from tests.graph.long_effort import entries, shown


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
    assert before.values["compressed"] == {}
    turn = before.values["turn"]
    assert state["compressed"] == last["compressed"] == {"shop": turn}
    assert [entry["turn"] for entry in entries(tmp_path)] == [turn] * (after == "log")
    assert f"constraint, turn 2: {RULE}" in shown(here)
    events = [(r.turn, e) for r in records for e in r.events if e["type"] == "compressed"]
    assert [event["turn"] for _, event in events] == [turn]
    assert [one.fatal for one in findings] == []
    assert [record.turn for record in records] == [*range(1, last["turn"] + 1)]
