"""What a search finds.

Page 02, "Search", "Time" and "Recall hints"; the source is slice 4, "`search_efforts` Tool".
"""

import json
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from ebbtide import commands
from tests.acceptance.stage import AUTH, EXACT, PERF, Stage, recalled, stage
from tests.agents import THREAD
from tests.doubles import call


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """Conclude two efforts, and talk about both and about other things."""
    here = stage(tmp_path_factory.mktemp("two"), settings=EXACT)
    here.work(AUTH)
    here.work(PERF)
    here.say("Compare auth-bug and perf-fix, please.", "The one is about tokens.")
    here.chat(12)
    return here


def results(here: Stage, query: str) -> list[dict[str, Any]]:
    """Return what a search finds, best first."""
    found = commands.search(here.talk.agent, here.config, query)
    return [asdict(one) for one in found.results]


def found(here: Stage, query: str) -> str:
    """Return all that a search shows of its best result."""
    return json.dumps(results(here, query)[:1], ensure_ascii=False)


@pytest.mark.parametrize(
    "query",
    [
        "auth fix",
        "What was the fix for the auth thing?",
        "refresh token",
        "401 error",
        "axios",
    ],
)
def test_simple_things_first(two: Stage, query: str) -> None:
    """02, "Simple things first": all find `auth-bug` first, whose summary the prompt has."""
    first, *_ = results(two, query)

    assert (first["id"], first["summary"]) == ("auth-bug", "")


@pytest.mark.parametrize("query", ["capital of France", "go on", "the thing"])
def test_nothing_is_found(two: Stage, query: str) -> None:
    """02, "Simple things first": what nobody spoke of is not found, stop phrases neither."""
    assert results(two, query) == []


def test_relevance_decides(two: Stage) -> None:
    """Slice 4, "`search_efforts` ranks by relevance"."""
    first, *_ = results(two, "dashboard query")

    assert first["id"] == "perf-fix"


def test_ambient_turn_is_found(two: Stage) -> None:
    """02: ambient turns are found by their turn, also out of the window."""
    assert "train number 2 " in found(two, "train number 2")


def test_open_effort_is_found(tmp_path: Path) -> None:
    """02: open efforts are found, too."""
    here = stage(tmp_path)
    here.say(AUTH.log, call("open_effort", name="night-shift"), "Opened.")
    here.chat(1)

    first, *_ = results(here, "gate.py cookie midnight")

    assert first["id"] == "night-shift"


def test_tool_and_command_agree(tmp_path: Path) -> None:
    """02: the command is the same call as the tool, with all fields of its result."""
    here, query = stage(tmp_path), "port of the gateway xylophone"
    here.say("The port of the gateway is 8443.")
    here.say("From now on the port of the gateway is 9000.")
    told = here.use("search_efforts", query=query, limit=1).results[0]

    page = commands.search(here.talk.agent, here.config, query, limit=1)
    command = TypeAdapter(commands.SearchPage).dump_python(page, exclude_defaults=True, mode="json")

    assert command == told
    assert (told["more"], told["unmatched"]) == (1, ["xylophone"])
    assert "newest_with" in told["results"][0]["passages"][0]


def test_limit(two: Stage) -> None:
    """02: ten results by default, at most `limit` where it is given."""
    few = two.use("search_efforts", query="train leaves", limit=2).results[0]

    assert len(results(two, "train leaves")) == 10
    assert len(few["results"]) == 2


def test_branches_are_apart(tmp_path: Path) -> None:
    """02: results respect the branch."""
    here = stage(tmp_path)
    here.chat(1)
    here.say("My locker is number 7313.")
    here.say("My boat is the Albatross.", config=here.after(1))

    assert results(here, "locker 7313") == []
    assert "Albatross" in found(here, "boat")


def test_result_has_passages(two: Stage) -> None:
    """01, `search_efforts`: status, and passages with turn, day, speaker and text."""
    first, *_ = results(two, "cookie midnight")

    assert first.get("status") == "concluded"
    assert {"turn", "at", "speaker", "text"} <= {*first["passages"][0]}


def test_unmatched_words_are_named(two: Stage) -> None:
    """02, Search: words of the query that match nothing are named."""
    answer = commands.search(two.talk.agent, two.config, "401 xylophone")

    assert answer.unmatched == ("xylophone",)


def test_several_phrasings(two: Stage) -> None:
    """02, Search: `also` takes further phrasings."""
    answer = two.use("search_efforts", query="zeppelin", also=["axios interceptor"]).results[0]

    assert [one["id"] for one in answer.get("results", [])] == ["auth-bug"]


def test_since_narrows(two: Stage) -> None:
    """02, Time: `since` and `until` narrow; nothing was said in a year to come."""
    answer = two.use("search_efforts", query="401 error", since="2900-01-01").results[0]

    assert answer.get("results") == []


@pytest.fixture(scope="module")
def small_talk(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """Return some small talk; whatever is said then begins a branch of its own."""
    here = stage(tmp_path_factory.mktemp("small-talk"))
    here.chat(3)
    return replace(here, config=here.after(3))


def asked(small_talk: Stage, said: list[str], query: str) -> str:
    """Say things between small talk, and return all that a search shows of its best result."""
    small_talk.say(said[0])
    here = replace(small_talk, config=THREAD)
    for words in said[1:]:
        here.say(words)
    here.chat(3, first=4)
    return found(here, query)


HOLLBERG = ["Hollberg pays by direct debit."]
HASH = ["The build broke with commit 4f2a9c81d0e7b6a5."]


@pytest.mark.parametrize(
    ("said", "query", "first"),
    [
        (HOLLBERG, "Hollberg", "direct debit"),
        (HOLLBERG, "user's preferred payment method Hollberg", "direct debit"),
        (HOLLBERG, "Wie bezahlt Hollberg seine Rechnungen?", "direct debit"),
        (["Die Küche ist in Besançon."], "Besancon", "Küche"),
        (["Frau Müller rief an."], "Mueller", "Müller"),
        (["The option maxRetryCount is 7."], "maxRetryCount", "is 7"),
        (["The option maxRetryCount is 7."], "max retry count", "is 7"),
        (["数据库的密码在保险箱里。"], "数据库", "保险箱"),
        (["Attachments may have 25 MB."], "25MB", "25 MB"),
        (HASH, "4f2a9c8", "4f2a9c81"),
        (["I met Will at noon."], "Will", "at noon"),
        (["The colours are teal and grey."], "colors", "teal"),
    ],
)
def test_words_as_people_type_them(
    small_talk: Stage, said: list[str], query: str, first: str
) -> None:
    """02, Search: rare words, letters, identifiers and numbers."""
    assert first in asked(small_talk, said, query)


@pytest.mark.parametrize(
    ("said", "query", "first"),
    [
        (["The router is 10.1.20.7.", "The printer is 10.20.1.7."], "10.20.1.7", "printer"),
        (
            ["The port of the gateway is 8443.", "The port of the gateway is 9000."],
            "port of the gateway",
            "9000",
        ),
    ],
)
def test_best_comes_first(small_talk: Stage, said: list[str], query: str, first: str) -> None:
    """02, Search: the literal identifier first, and of two statements the newer one."""
    assert first in asked(small_talk, said, query)


@pytest.fixture(scope="module")
def evicted(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """Evict an effort; whatever is said then begins a branch of its own."""
    update = {"summary_eviction_threshold": 1, "ambient_window": 2}
    settings = EXACT.model_copy(update=update)
    here = stage(tmp_path_factory.mktemp("evicted"), settings=settings)
    here.work(AUTH)
    here.chat(5)
    return replace(here, config=here.after(8))


@pytest.mark.parametrize(
    ("words", "hints", "shown"),
    [
        ("Do the axios interceptor and refresh tokens work?", 3, True),
        ("Do the axios interceptor and refresh tokens work?", 0, False),
        ("How did that auth thing end?", 3, True),
        ("continue", 3, False),
        ("go on", 3, False),
        ("yes", 3, False),
        ("I like sailing.", 3, False),
    ],
)
def test_recall_hints(evicted: Stage, words: str, hints: int, shown: bool) -> None:
    """02, Recall hints: what the message clearly points at is named before it, and no more."""
    said = evicted.say(words, context={"recall_hints": hints})

    assert ("- auth-bug\n" in recalled(said.first)) is shown
    assert AUTH.summary not in recalled(said.first)


def test_hint_is_no_reference(evicted: Stage) -> None:
    """02, Recall hints: hints are no references, what is evicted stays evicted."""
    said = evicted.say("Which interceptor has axios, and what refreshes?")

    assert said.memory["summaries"] == {}


def test_prompt_says_the_day(tmp_path: Path) -> None:
    """02, Time: the prompt says what day it is, where the first turn begins."""
    said = stage(tmp_path).say("Hello.")

    assert str(datetime.now().astimezone().year) in recalled(said.sent)
