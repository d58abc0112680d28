"""One open effort for hundreds of turns: in its share, with what its goal depends on verbatim."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import Settings, restore
from tests.agents import THREAD, Talk, talk
from tests.doubles import ScriptedModel, call
from tests.graph.planted import CONSTRAINTS, DECISIONS, GONE, HOLDING, REVISED, plan

FILLER = "We looked at the shop for a while, and talked about this and that without a result. " * 8
SMALL = Settings(context_budget=6_000)
GOAL = "Bring the shop to the new platform"


def extracting(messages: list[BaseMessage]) -> dict[str, Any]:
    """Quote every planted statement that stands in the log, as a model does that misses nothing."""
    said = messages[-1].text.split("<log", 1)[1]
    kinds = {**dict.fromkeys(CONSTRAINTS, "constraint"), **dict.fromkeys(DECISIONS, "decision")}
    numbers = [version for versions in REVISED for version in versions]
    known = {**kinds, **dict.fromkeys(numbers, "fact")}
    items = [{"quote": one, "kind": kind, "turn": 0} for one, kind in known.items() if one in said]
    return {"items": items}


def compressing(root: Path, answers: Any = None, **options: Any) -> Talk:
    """Return an agent with an open effort whose other models quote and summarise."""
    extraction = options.pop("extraction", extracting)
    background = options.pop("background", lambda _: "They worked on the shop.")
    options.setdefault("settings", SMALL)
    here = talk(
        root,
        answers or (lambda _: "Seen."),
        extraction_model=ScriptedModel(answers=["no JSON"] * 900, structured=extraction),
        compression_model=ScriptedModel(answers=background),
        **options,
    )
    opening = call("open_effort", name="shop", goal=GOAL)
    first = talk(root, [opening, "Opened."], checkpointer=here.agent.checkpointer)
    first.say("Let's move the shop.")
    return here


def shown(here: Talk) -> str:
    """Return all text of the last context."""
    return "\n".join(message.text for message in here.last)


def entries(root: Path) -> list[dict[str, Any]]:
    """Return the log of extractions."""
    path = root / "default" / "t" / "extractions.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def talked(here: Talk, turns: int, said: dict[int, str] | None = None) -> list[dict[str, Any]]:
    """Go through turns, each with a filler and what is planted in it, and return the states."""
    planted = said or {}
    return [here.say(f"{planted.get(turn, '')} {FILLER}{turn}") for turn in range(2, turns + 1)]


def test_300_turns_stay_in_budget_and_keep_what_holds(tmp_path: Path) -> None:
    """All planted constraints, decisions and newest numbers stand verbatim; old numbers do not."""
    settings = Settings(context_budget=16_000)
    here = compressing(tmp_path, settings=settings)

    states = talked(here, 300, plan(300))

    context = shown(here)
    assert len(HOLDING) + len(GONE) == 40
    assert max(state["context_report"]["total"] for state in states) <= 16_000
    assert [one for one in HOLDING if one not in context] == []
    assert [one for one in GONE if one in context] == []
    said = "\n".join(here.said(states[-1]))
    assert [one for one in (*HOLDING, *GONE) if one not in said] == []
    passes = [state for state in states if any("Compressed" in one for one in state["banners"])]
    assert 5 < len(passes) < 60


LONG_QUOTE = "The contract says that " + "the shop answers, and " * 500 + "that is all."


def quoting(*quotes: str, kind: str = "fact") -> Any:
    """Return what a model answers that always gives these quotes."""
    return lambda _: {"items": [{"quote": quote, "kind": kind, "turn": 2} for quote in quotes]}


def passed(root: Path, said: str = "", turns: int = 14, **options: Any) -> tuple[Talk, Any]:
    """Talk until the effort was compressed, `said` in the second turn; return the log entry."""
    here = compressing(root, **options)
    talked(here, turns, {2: said})
    return here, entries(root)[0]


EDGES = {
    "nothing salient": (quoting(), "", {"method": "protected-core"}, []),
    "a quote": (quoting("It is 8443."), "It is 8443.", {"method": "salience"}, ["verbatim"]),
    "near miss": (
        quoting("The gateway listens to port 8443 only."),
        "The gateway listens on port 8443 only.",
        {"method": "salience"},
        ["mended"],
    ),
    "fabricated": (
        quoting("It is 8443.", "The moon is made of cheese."),
        "It is 8443.",
        {"method": "salience"},
        ["verbatim", "fabricated"],
    ),
    "only fabricated": (
        quoting("The moon is made of cheese."),
        "We must never use cheese.",
        {"method": "protected-core"},
        ["fabricated"],
    ),
    "2,000 tokens": (quoting(LONG_QUOTE), LONG_QUOTE, {"method": "salience"}, ["verbatim"]),
    "500 items": (
        lambda _: {"items": [{"quote": f"Rule {at} is {at * 7}.", "turn": 2} for at in range(500)]},
        " ".join(f"Rule {at} is {at * 7}." for at in range(500)),
        {"method": "salience"},
        ["verbatim"] * 500,
    ),
    "invalid JSON": (lambda _: "{ no", "We must stay.", {"method": "protected-core"}, []),
    "an error": (
        lambda _: ValueError("refused"),
        "We must stay.",
        {"method": "protected-core"},
        [],
    ),
}


@pytest.mark.parametrize("edge", EDGES)
def test_edge_cases_have_their_log_entry(tmp_path: Path, edge: str) -> None:
    """Whatever the extraction answers, the effort is compressed, in budget, and logged."""
    extraction, said, told, verdicts = EDGES[edge]

    here, entry = passed(tmp_path, said, extraction=extraction)

    assert told.items() <= entry["told"].items()
    assert [quote["verdict"] for quote in entry["told"]["quotes"]] == verdicts
    assert ("fallback" in entry["told"]) == (told["method"] == "protected-core")
    assert {"before", "after"} == entry["told"]["tokens"].keys()
    assert [one["what"] for one in entry["told"]["calls"]][-1] == "background"
    report = here.agent.get_state(THREAD).values["context_report"]
    assert report["total"] <= SMALL.context_budget
    assert report["left_out"]["active"]["compressed"].startswith("shop: 1-")


def test_quotes_stand_in_the_context_and_what_was_made_up_does_not(tmp_path: Path) -> None:
    """A near miss stands in the words of the log."""
    extraction = quoting("The gateway listens to port 8443 only.", "The moon is made of cheese.")

    here, _ = passed(tmp_path, "The gateway listens on port 8443 only.", extraction=extraction)

    assert "fact, turn 2: The gateway listens on port 8443 only." in shown(here)
    assert "moon" not in shown(here)
    assert "background: They worked on the shop." in shown(here)


def test_protected_core_asks_no_model(tmp_path: Path) -> None:
    """With `protected-core` rules find what is quoted; there is no background."""
    settings = SMALL.model_copy(update={"compression": "protected-core"})

    here, entry = passed(
        tmp_path, "Orders must never be deleted.", settings=settings, extraction=[], background=[]
    )

    assert "constraint, turn 2: Orders must never be deleted." in shown(here)
    assert (entry["told"]["calls"], "fallback" in entry["told"]) == ([], False)


def test_off_compresses_nothing(tmp_path: Path) -> None:
    """With `off` nothing is made and nothing asked; the hard budget alone cuts."""
    settings = SMALL.model_copy(update={"compression": "off"})
    here = compressing(tmp_path, settings=settings, extraction=[], background=[])

    states = talked(here, 40)

    assert (states[-1]["compressed"], entries(tmp_path)) == ({}, [])
    assert states[-1]["context_report"]["total"] <= SMALL.context_budget


@pytest.mark.parametrize("down", ["background", "both"])
def test_failure_changes_nothing_and_the_next_turn_tries_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, down: str
) -> None:
    """A failed background leaves state and context as they were; each turn tries at most once."""
    broken = [True]

    def failing(_: list[BaseMessage]) -> Any:
        return ValueError("no answer") if broken[0] else "They worked on the shop."

    extraction = failing if down == "both" else quoting("It is 8443.")
    here = compressing(tmp_path, background=failing, extraction=extraction)
    with caplog.at_level(logging.WARNING):
        states = talked(here, 16, {2: "It is 8443."})

    tried = entries(tmp_path)
    turns = [entry["turn"] for entry in tried]
    assert states[-1]["compressed"] == {}
    assert turns == sorted(set(turns))
    assert turns[-1] == 16
    assert all(entry["told"]["failed"].startswith("ValueError") for entry in tried)
    assert "was not compressed" in caplog.text
    assert not any("Compressed" in banner for state in states for banner in state["banners"])
    broken[0] = False
    if down == "background":
        state = here.say("and now?")
        assert state["compressed"] == {"shop": 17}


def test_goal_changes_are_quoted(tmp_path: Path) -> None:
    """The goals between the first and the present one stand in the context with their turns."""
    answers = [
        call("update_goal", goal="Move the shop by May", rationale="the lease ends"),
        *["Seen."] * 30,
    ]
    here = compressing(tmp_path, answers, extraction=quoting("It is 8443."))

    talked(here, 16, {2: "It is 8443."})

    assert "goal, turn 2: Move the shop by May" in shown(here)


def test_conclude_and_reopen_keep_it(tmp_path: Path) -> None:
    """A reopened effort stands in the context as it was compressed before it was concluded."""
    answers = [
        *["Seen."] * 14,
        call("close_effort"),
        "Done.",
        call("reopen_effort", effort_id="shop"),
    ]
    here = compressing(tmp_path, [*answers, "Open."], extraction=quoting("It is 8443."))
    *_, before = talked(here, 15, {2: "It is 8443."})
    closed = here.say("that's it")

    state = here.say("once more")

    assert (closed["compressed"], state["compressed"]) == ({}, before["compressed"])
    assert "fact, turn 2: It is 8443." in shown(here)


def test_time_travel_takes_it_back(tmp_path: Path) -> None:
    """A state before the pass shows the turns as they were, and goes on without it."""
    here = compressing(tmp_path, extraction=quoting("It is 8443."))
    talked(here, 14, {2: "It is 8443."})
    history = here.agent.get_state_history(THREAD)
    before = next(s for s in history if s.values["turn"] == 5 and not s.next)

    state = here.agent.invoke({"messages": [("user", "another way")]}, before.config)

    assert (state["turn"], state["compressed"]) == (6, {})
    assert "compressed:" not in shown(here)


def test_restored_thread_has_it_again(tmp_path: Path) -> None:
    """A thread that lost its checkpoints takes up what is in the archive."""
    saver = InMemorySaver()
    here = compressing(tmp_path, extraction=quoting("It is 8443."), checkpointer=saver)
    states = talked(here, 14, {2: "It is 8443."})
    saver.delete_thread("t")
    restore(here.agent, THREAD)

    state = here.say("go on")

    assert state["compressed"].keys() == states[-1]["compressed"].keys() == {"shop"}
