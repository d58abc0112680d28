"""Random conversations through the middleware: bounded, lossless, well-formed, whatever is said."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide import Settings, SettingsError
from ebbtide.memory.messages import text
from tests.agents import Talk, talk
from tests.doubles import call, together
from tests.draws import examples
from tests.files import png
from tests.graph.test_budget import tokens
from tests.test_complaints import orphans

SAID = st.builds(
    lambda words, times: " ".join(words * times),
    st.lists(
        st.sampled_from(["the port is 8080", "数据库 连接", "🙂 👩‍👩‍👧", "12:30", "x\n\ty"]),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([1, 1, 3, 30, 300, 4_000]),
)
NAMES = st.sampled_from("abc")
STEP = st.one_of(
    st.lists(SAID, min_size=1, max_size=12),
    st.builds(lambda name: call("open_effort", name=name), NAMES),
    st.builds(lambda name: call("reopen_effort", effort_id=name), NAMES),
    st.builds(lambda name: call("switch_effort", effort_id=name), NAMES),
    st.builds(lambda name: call("expand_effort", effort_id=name), NAMES),
    st.builds(lambda turn: call("read_log", turns=turn), st.integers(1, 6)),
    st.just(call("close_effort")),
)
TURN = st.tuples(SAID, st.sampled_from([0, 0, 1, 20]), st.lists(STEP, max_size=3), SAID)
"""What the user says, with photos; what the model does (parallel calls, or one), its answer."""


def asking(words: str, photos: int) -> list[dict[str, Any]]:
    """Return the content of a question with so many photos."""
    kind = {"type": "image", "mime_type": "image/png"}
    files = [{**kind, "base64": png(800, 600 + at)} for at in range(photos)]
    return [{"type": "text", "text": words}, *files]


class Found:
    """A tool whose results are given in the order in which they are asked for."""

    def __init__(self) -> None:
        """Begin without results."""
        self.results: list[str] = []

    def look_up(self, at: int) -> str:
        """Look something up."""
        return self.results[at]

    def step(self, drawn: Any) -> Any:
        """Return the message in which a model takes a step."""
        if not isinstance(drawn, list):
            return drawn
        begin = len(self.results)
        self.results += drawn
        return together(*(call("look_up", at=begin + at) for at in range(len(drawn))))


def begun(root: Path, found: Found, script: list[Any], above_the_floor: int) -> tuple[Talk, int]:
    """Return an agent with a budget so far above its floor, and the budget."""
    with pytest.raises(SettingsError) as refused:
        talk(root, script, tools=[found.look_up], settings=Settings(context_budget=2_000))
    floor = int(str(refused.value).split("floor of ")[1].split(" ")[0])
    budget = floor + above_the_floor
    chosen = Settings(context_budget=budget)
    return talk(root, script, tools=[found.look_up], settings=chosen, entry="middleware"), budget


@settings(max_examples=examples(3))
@given(st.lists(TURN, min_size=1, max_size=6), st.sampled_from([0, 0, 50, 500, 5_000, 47_000]))
def test_any_conversation(turns: list[Any], above_the_floor: int) -> None:
    """Invariants 1, 2 and 5: every request fits, has no orphan, and all is kept byte for byte."""
    found = Found()
    script = [
        message
        for *_, steps, answer in turns
        for message in [*(found.step(step) for step in steps), answer]
    ]
    with TemporaryDirectory() as folder:
        chat, budget = begun(Path(folder), found, script, above_the_floor)
        asked = [asking(words, photos) for words, photos, *_ in turns]
        states = [chat.say(question) for question in asked]
        kept = [turn.messages for turn in chat.turns(states[-1])]
        chat.archive.close()

    assert max(map(tokens, chat.model.sent)) <= budget
    assert [orphans(sent.messages) for sent in chat.model.sent] == [0] * len(script)
    for question, (*_, steps, answer), messages in zip(asked, turns, kept, strict=True):
        looked_up = [said for step in steps if isinstance(step, list) for said in step]
        results = [m for m in messages if m.name == "look_up"]
        assert messages[0].content == question
        assert text(messages[-1]) == answer
        assert [text(message) for message in results] == looked_up
