"""Erasing while a turn runs that no checkpoint shows: what it made goes when it is erased too."""

from pathlib import Path
from typing import Any

import pytest

from ebbtide import commands, erase
from tests.agents import THREAD
from tests.graph.erase.test_erase import ANSWERED, SECRETS, TELLING, WORDS, begun, traces

pytestmark = pytest.mark.usefixtures("entry")

CABLES = {"summary": "Something was kept.", "keywords": []}


def test_turn_that_ran_unseen_is_erased_with_what_it_repeats(tmp_path: Path) -> None:
    """An effort that it closed, with `durability="exit"`, then keeps nothing of the first turn."""
    with begun(tmp_path, WORDS[:3]) as chat:

        def summarise(_messages: Any) -> dict[str, Any]:
            chat.model.structured = [CABLES] * 9
            erase(chat.agent, THREAD, 2)
            return TELLING

        chat.model.structured = summarise
        chat.say(WORDS[3], durability="exit")
        before = traces(tmp_path, [ANSWERED])

        report = erase(chat.agent, THREAD, 4)

        known = commands.efforts(chat.agent, THREAD).efforts
    assert before != []
    assert report.stale == ()
    assert ANSWERED not in str(known)
    assert traces(tmp_path, SECRETS) == []
