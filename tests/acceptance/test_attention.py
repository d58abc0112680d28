"""Memory across sessions: what is in a user's attention, and what fades from it.

Page 05; the source is temporal-decay.
"""

import importlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from langchain_core.runnables import RunnableConfig

import ebbtide
from ebbtide import Settings, commands
from tests.acceptance.rules import effective, in_context
from tests.acceptance.stage import (
    AUTH,
    PERF,
    Stage,
    log_in,
    recalled,
    stage,
    summaries_in,
)
from tests.doubles import call
from tests.memory.conversations import words_of


def session(name: str, user: str | None = "ann") -> RunnableConfig:
    """Return the configuration of a session, of a user if one is named."""
    named = {"user_id": user} if user else {}
    return {"configurable": {"thread_id": name, **named}}


def worked(root: Path, user: str | None = "ann") -> Stage:
    """Conclude an effort in session A."""
    here = stage(root, session("a", user))
    here.work(AUTH)
    return here


@pytest.mark.parametrize(
    ("base", "days", "accesses", "expected"),
    [
        (50, 20, 0, 40),
        (50, 21, 0, 39.5),
        (60, 34, 0, 39.6),
        (70, 43, 0, 39.9),
        (90, 56, 0, 39.6),
        (100, 365, 0, 30),
        (50, 0, 10, 60),
        (50, 0, 900, 75),
        (89, 365, 25, 40.05),
        (90, 0, 25, 100),
        (50, 0.5, 0, 49.75),
        (50, -3, 0, 50),
    ],
)
def test_law(base: int, days: float, accesses: int, expected: float) -> None:
    """05, The law, and its checks by eye."""
    assert effective(base, days, accesses) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("attention", "relevance", "expected"), [(50, 0, 50), (50, 0.5, 55), (50, 1, 60), (90, 1, 100)]
)
def test_change_of_context(attention: float, relevance: float, expected: float) -> None:
    """05, `refresh_for_context`: times `1 + 0.2 * relevance`, capped at 100 last."""
    assert in_context(attention, relevance) == pytest.approx(expected)


def test_session_b_of_the_same_user(tmp_path: Path) -> None:
    """05, What must be shown: session B of the same user sees it at its first turn."""
    here = worked(tmp_path)

    said = here.say("Good morning.", config=session("b"))

    assert summaries_in(said.first) == {"auth-bug"}
    assert AUTH.summary not in said.first.messages[0].text
    assert "a/auth-bug" in recalled(said.first)
    assert [*said.memory["summaries"]] == ["a/auth-bug"]


def test_session_b_expands_it(tmp_path: Path) -> None:
    """05, What must be shown: and expands it."""
    here = worked(tmp_path)
    expanding = call("expand_effort", effort_id="a/auth-bug")

    said = here.say("Show me.", expanding, "Here.", config=session("b"))

    assert said.results[0]["status"] == "expanded"
    assert log_in(said.sent, AUTH) == 1


def test_session_b_searches_and_reads(tmp_path: Path) -> None:
    """05, Entering and leaving: summaries and raw turns of other sessions are found and read."""
    here = worked(tmp_path)
    searching = call("search_efforts", query="cookie dropped at midnight")
    reading = call("read_log", turns="2", session="a")

    found = here.say("Where was it?", searching, "There.", config=session("b"))
    read = here.say("Read it.", reading, "There.", config=session("b"))

    assert AUTH.log in str(found.results[0]["results"][0])
    assert AUTH.log in words_of(read.results[0]["turns"][0])


@pytest.mark.parametrize(("first", "second"), [("ann", "bob"), ("ann", None), (None, None)])
def test_nobody_else_sees_it(tmp_path: Path, first: str | None, second: str | None) -> None:
    """05, Interface: no user sees another's memories; without a user there are none."""
    here = worked(tmp_path, first)
    expanding = call("expand_effort", effort_id="a/auth-bug")

    said = here.say("Show me.", expanding, "No.", config=session("c", second))

    assert AUTH.summary not in said.sent.text
    assert log_in(said.sent, AUTH) == 0
    assert [*said.results[0]] == ["error"]
    assert said.memory["summaries"] == {}


@pytest.mark.parametrize(("importance", "surfaced"), [(39, False), (41, True), (100, True)])
def test_entering(tmp_path: Path, importance: int, *, surfaced: bool) -> None:
    """05, Entering: on concluding, if it is at the threshold of 40 or above."""
    told = {"summary": AUTH.summary, "keywords": [], "importance": importance}
    here = stage(tmp_path, session("a"), structured=[told])
    here.work(AUTH)

    said = here.say("Good morning.", config=session("b"))

    assert (summaries_in(said.first) == {"auth-bug"}) is surfaced


def test_importance_is_clamped(tmp_path: Path) -> None:
    """01, Concluding: importance is clamped to 0-100."""
    told = {"summary": AUTH.summary, "keywords": [], "importance": 900}
    here = stage(tmp_path, session("a"), structured=[told])
    here.work(AUTH)

    assert commands.explain(here.talk.agent, here.config, "a/auth-bug").base == 100


def test_explaining(tmp_path: Path) -> None:
    """05, Interface: base, days, accesses, effective, and the day on which it will fade."""
    here = worked(tmp_path)

    explained = commands.explain(here.talk.agent, here.config, "a/auth-bug")

    assert (explained.base, explained.accesses) == (50, 0)
    assert explained.effective == pytest.approx(50, abs=0.01)
    assert explained.level == "medium"
    assert explained.fades is not None
    assert explained.fades - datetime.now(UTC) == pytest.approx(
        timedelta(days=21), abs=timedelta(minutes=5)
    )


def test_access_renews(tmp_path: Path) -> None:
    """05, Entering: on access, in any session, `access_count + 1`."""
    here = worked(tmp_path)
    expanding = call("expand_effort", effort_id="a/auth-bug")
    here.say("Show me.", expanding, "Here.", config=session("b"))

    explained = commands.explain(here.talk.agent, here.config, "a/auth-bug")

    assert explained.accesses == 1
    assert explained.effective == pytest.approx(51, abs=0.01)


def test_suppressing(tmp_path: Path) -> None:
    """05, Leaving: suppressed it is not surfaced, `unsuppress` undoes it."""
    here = worked(tmp_path)

    commands.suppress(here.talk.agent, here.config, "a/auth-bug")
    without = here.say("Good morning.", config=session("b"))
    commands.unsuppress(here.talk.agent, here.config, "a/auth-bug")
    again = here.say("Good morning.", config=session("c"))

    assert summaries_in(without.first) == set()
    assert summaries_in(again.first) == {"auth-bug"}


def test_reopening_takes_it_out(tmp_path: Path) -> None:
    """05, Leaving: reopening an effort takes it out; concluding it again brings it back."""
    here = worked(tmp_path)
    here.use("reopen_effort", effort_id="auth-bug")
    without = here.say("Good morning.", config=session("b"))
    here.use("close_effort")
    again = here.say("Good morning.", config=session("c"))

    assert summaries_in(without.first) == set()
    assert summaries_in(again.first) == {"auth-bug"}


@pytest.mark.parametrize(
    ("settings", "surfaced"),
    [
        (Settings(attention_limit=1), {"perf-fix"}),
        (Settings(attention_limit=0), set()),
        (Settings(attention_threshold=60), set()),
        (Settings(), {"auth-bug", "perf-fix"}),
    ],
)
def test_limit_and_threshold(tmp_path: Path, settings: Settings, surfaced: set[str]) -> None:
    """05: the top `attention_limit` above `attention_threshold`, ties newest first."""
    here = stage(tmp_path, session("a"), settings=settings)
    here.work(AUTH)
    here.work(PERF)

    said = here.say("Good morning.", config=session("b"))

    assert summaries_in(said.first) == surfaced


def test_message_decides_what_is_surfaced(tmp_path: Path) -> None:
    """05, Change of context: the first message of a session lifts what it is about."""
    told = [
        {"summary": AUTH.summary, "keywords": ["axios", "interceptor"], "importance": 50},
        {"summary": PERF.summary, "keywords": ["dashboard", "query"], "importance": 50},
    ]
    here = stage(tmp_path, session("a"), settings=Settings(attention_limit=1), structured=told)
    here.work(AUTH)
    here.work(PERF)

    said = here.say("Is the axios interceptor there?", config=session("b"))

    assert summaries_in(said.first) == {"auth-bug"}


def test_change_of_subject(tmp_path: Path) -> None:
    """05, On a change of context: a message about something else brings hints, once."""
    told = {"summary": AUTH.summary, "keywords": ["axios", "interceptor"], "importance": 50}
    here = stage(tmp_path, session("a"), structured=[told], settings=Settings(attention_limit=0))
    here.work(AUTH)

    before = here.say("Good morning.", config=session("b"))
    about = here.say("I plan an axios interceptor for the shop.", config=session("b"))
    again = here.say("Shall the axios interceptor retry?", config=session("b"))

    sent = [said.first.text.count("- a/auth-bug\n") for said in (before, about, again)]
    assert sent == [0, 1, 1]


def test_foreign_summaries_are_evicted_like_any(tmp_path: Path) -> None:
    """05, At the start of a session: decay and eviction treat them as any summary."""
    settings = Settings(summary_eviction_threshold=2, rebuild="every-turn")
    here = stage(tmp_path, session("a"), settings=settings)
    here.work(AUTH)
    for words in ("One.", "Two.", "Three."):
        said = here.say(words, config=session("b"))

    assert said.memory["summaries"] == {}


def test_what_fades_is_still_stored(tmp_path: Path) -> None:
    """05: memories fade from attention, not from storage."""
    here = stage(tmp_path, session("a"), settings=Settings(attention_threshold=99))
    here.work(AUTH)
    searching = call("search_efforts", query="401 axios interceptor")

    said = here.say("Where was it?", searching, "There.", config=session("b"))

    assert summaries_in(said.first) == set()
    assert said.results[0]["results"][0]["id"] == "a/auth-bug"


def test_facts_are_memories(tmp_path: Path) -> None:
    """05: an item of `Facts` of a state block is surfaced in the next session."""
    here = stage(tmp_path, session("a"))
    fact = "allergic to peanuts"
    here.say("I can't eat that.", f"Noted.\n---STATE---\nFacts: {fact}\n---END STATE---")

    said = here.say("Good morning.", config=session("b"))

    assert fact in recalled(said.first)


def test_memories_of_a_user() -> None:
    """00, Public API: `ebbtide.memories` lists, edits, suppresses and deletes."""
    assert callable(getattr(ebbtide, "memories", None))


@pytest.mark.parametrize("name", ["AttentionManager", "compute_effective_salience"])
def test_interface_of_the_source(name: str) -> None:
    """05, Interface: the source's own names in `ebbtide.attention`."""
    found = importlib.util.find_spec("ebbtide.attention")

    assert found is not None
    assert hasattr(importlib.import_module("ebbtide.attention"), name)
