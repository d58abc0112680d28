"""Erasing while a turn runs that no checkpoint shows: erasing again takes out what it made."""

from pathlib import Path
from typing import Any

import pytest

from ebbtide import commands, erase
from tests.agents import THREAD
from tests.graph.erase.test_erase import ANSWERED, SECRETS, TELLING, WORDS, begun, traces

pytestmark = pytest.mark.usefixtures("entry")

CABLES = {"summary": "Something was kept.", "keywords": []}


def test_summary_of_a_log_read_before_is_written_again(tmp_path: Path) -> None:
    """An effort that is closed meanwhile, with `durability="exit"`, keeps nothing of the turn."""
    with begun(tmp_path, WORDS[:3]) as here:

        def summarise(_messages: Any) -> dict[str, Any]:
            here.model.structured = [CABLES] * 9
            erase(here.agent, THREAD, 2)
            return TELLING

        here.model.structured = summarise
        here.say(WORDS[3], durability="exit")
        before = traces(tmp_path, [ANSWERED])

        report = erase(here.agent, THREAD, 2)

        known = commands.efforts(here.agent, THREAD)["efforts"]
    assert before != []
    assert (report.resummarised, report.stale) == (("keys",), ())
    assert [effort["summary"] for effort in known] == [CABLES["summary"]]
    assert traces(tmp_path, SECRETS) == []
