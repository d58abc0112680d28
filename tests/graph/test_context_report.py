"""`context_report`: what was sent, what was left out and where it is, and what was as before."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from ebbtide import Settings
from ebbtide.memory.tokens import count_messages, count_tools
from ebbtide.nodes.plain import plain
from tests.agents import Talk, talk
from tests.doubles import call, together

BUDGET = 4_500
LONG = "The port of the service is 8080, and the connection was refused again. " * 12


def look_up() -> str:
    """Look something up."""
    return LONG * 40


def shared(before: Sequence[BaseMessage], now: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """Return the messages that two requests begin with alike, byte for byte."""
    pairs = zip(plain(before), plain(now), strict=False)
    alike = next((at for at, (one, other) in enumerate(pairs) if one != other), len(before))
    return now[:alike]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> tuple[Talk, list[dict[str, Any]]]:
    """Return an agent whose conversation filled every tier beyond its share, and its reports."""
    script: list[Any] = []
    for name in ("first", "second", "third"):
        script += [call("open_effort", name=name), *["Noted. " + LONG] * 3]
        script += [call("close_effort"), "Closed."]
    script += [call("expand_effort", effort_id="first"), "Shown.", *["Well. " + LONG] * 4]
    script += [call("open_effort", name="left"), *["Yes. " + LONG] * 3]
    script += [call("open_effort", name="right"), *["No. " + LONG] * 3]
    script += [together(*[call("look_up")] * 3), "Found."]
    settings = Settings(context_budget=BUDGET, ambient_window=0, decay_threshold=100)
    root = tmp_path_factory.mktemp("report")
    talked = talk(root, script, [{"summary": LONG}] * 3, tools=[look_up], settings=settings)
    reports: list[dict[str, Any]] = []
    while len(talked.model.sent) < len(script):
        said = f"Question {len(reports) + 1}. {LONG}"
        reports.append(talked.say(said)["memory"]["context_report"])
    return talked, reports


def test_the_prefix_is_what_the_request_before_began_with(tmp_path: Path) -> None:
    """Its tokens are those of the tools and of the messages that both requests begin with."""
    answers = [*["Yes."] * 3, call("open_effort", name="a"), *["Well."] * 3]
    here = talk(tmp_path, answers, settings=Settings(context_budget=BUDGET))
    begin, found = 0, []
    for _ in range(6):
        said = here.say(LONG)["memory"]["context_report"]["prefix"]
        sent = here.model.sent
        before = sent[-2].messages if len(sent) > 1 else []
        alike = shared(before, sent[-1].messages)
        tools = count_tools(sent[-1].tools) if alike else 0
        found.append(said == tools + count_messages(plain(alike)))
        begin += len(alike)

    assert found == [True] * 6
    assert begin > 20


def test_what_was_left_out_is_named_with_its_place(
    here: tuple[Talk, list[dict[str, Any]]],
) -> None:
    """Of each tier: summaries by effort, turns by number, previews by turn with their pointers."""
    talked, reports = here
    left, sent = reports[-1]["left_out"], talked.model.sent[-1].text

    assert [*left] == ["memory", "expanded", "open", "ambient", "active", "turn"]
    assert left["memory"] == {"summaries": 2, "efforts": ["second", "third"]}
    assert left["expanded"] == {"first": "the end of the last turn"}
    assert left["turn"] == {"previews": "results", "turn": 24}
    assert [f"- {name}:" in sent for name in ("first", "second", "third")] == [True, False, False]
    gone = {*range(13, 16), *range(18, 22)}
    assert {turn for turn in range(13, 24) if f"Question {turn}." not in sent} == gone
    assert (left["ambient"]["turns"], left["active"]["turns"]) == ("13-15", "21")
    short = [left[name]["previews"] for name in ("open", "ambient", "active")]
    assert short == ["18-20", "16-17", "22-23"]
    assert all(f"read_log(turn={turn}, offset=" in sent for turn in (16, 17, 22, 23, 24))
    assert all(f"is left out here. read_log(turn={turn}) reads it" in sent for turn in (18, 19, 20))


def test_the_model_is_told_what_was_left_out(here: tuple[Talk, list[dict[str, Any]]]) -> None:
    """One note names it in the words of the report."""
    talked, _ = here

    (told,) = [m.text for m in talked.model.sent[-1].messages if "lack of room, and" in m.text]

    assert told.startswith("[Memory: left out here for lack of room, and stored: 2 summaries of ")
    assert "of logs of expanded efforts, first: the end of the last turn" in told
    assert "of recent conversation, turns before 16" in told
    assert "of the active effort 'right', turns 21" in told
