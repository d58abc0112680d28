"""The tools that the model has for efforts: what they answer, and what they change.

Page 01, "Tools the model has", "Concluding" and "Banners".
"""

from pathlib import Path
from typing import Any

import pytest

from ebbtide import Settings
from tests.acceptance.stage import AUTH, EXACT, PERF, log_in, stage
from tests.doubles import ScriptedModel, call, malformed, together
from tests.memory.conversations import words_of


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Auth bug", "auth-bug"),
        ("  Fix: the 401s! ", "fix-the-401s"),
        ("Проверка связи", "проверка-связи"),
        ("数据库", "数据库"),
        ("CON", "con"),
        ("a" * 64, "a" * 64),
    ],
)
def test_name_becomes_a_slug(tmp_path: Path, name: str, slug: str) -> None:
    """01, `open_effort`: lower case, letters and digits of any script, single hyphens."""
    opened = stage(tmp_path).use("open_effort", name=name, goal="To be done")

    assert opened.results == [{"status": "opened", "effort_id": slug}]
    assert opened.memory["active_effort"] == slug


@pytest.mark.parametrize("name", ["../../etc", "", "!!!", "🙂", "x" * 10_000])
def test_name_that_cannot_be_one(tmp_path: Path, name: str) -> None:
    """01, `open_effort`: path syntax, nothing left or too long is an error, and changes nothing."""
    opened = stage(tmp_path).use("open_effort", name=name)

    assert [*opened.results[0]] == ["error"]
    assert opened.memory["open_efforts"] == {}


@pytest.mark.parametrize(
    ("answers", "suggested"),
    [(("Well.",), "switch_effort"), ((call("close_effort"), "Closed."), "reopen_effort")],
)
def test_name_that_exists(tmp_path: Path, answers: tuple[Any, ...], suggested: str) -> None:
    """01, `open_effort`: an error that says which, and what would work."""
    here = stage(tmp_path)
    here.say(AUTH.log, call("open_effort", name="auth-bug"), "Opened.")
    here.say("On.", *answers)

    error = here.use("open_effort", name="Auth Bug").results[0]["error"]

    assert "auth-bug" in error
    assert suggested in error


def test_opening_makes_active(tmp_path: Path) -> None:
    """01, `open_effort`: the new effort becomes active, others stay open."""
    here = stage(tmp_path)
    here.use("open_effort", name="one")

    opened = here.use("open_effort", name="two")

    assert opened.memory["active_effort"] == "two"
    assert {*opened.memory["open_efforts"]} == {"one", "two"}
    assert opened.banners == ["--- Started effort: two ---"]


def test_two_efforts_of_one_name_in_one_message(tmp_path: Path) -> None:
    """01, bad input: of two opens of one slug in one message the second is an error."""
    both = together(call("open_effort", name="one"), call("open_effort", name="One"))

    opened = stage(tmp_path).say("Go.", both, "Done.")

    assert ["error" in one for one in opened.results] == [False, True]
    assert [*opened.memory["open_efforts"]] == ["one"]


def test_too_many_open_efforts(tmp_path: Path) -> None:
    """01, `open_effort`: more than 32 open efforts is an error that names the longest idle."""
    here = stage(tmp_path)
    many = together(*(call("open_effort", name=f"work {number}") for number in range(32)))
    here.say("Go.", many, "Done.")

    error = here.use("open_effort", name="one more").results[0]["error"]

    assert "work-0" in error


def test_closing_concludes(tmp_path: Path) -> None:
    """01, `close_effort`: the active one by default, with its summary, and none is active then."""
    here = stage(tmp_path)
    here.say(AUTH.log, call("open_effort", name="auth-bug"), "Opened.")

    closed = here.use("close_effort")

    answer = {"status": "concluded", "effort_id": "auth-bug", "summary": AUTH.summary}
    assert closed.results == [answer]
    assert closed.memory["active_effort"] is None
    assert closed.memory["open_efforts"] == {}
    assert [*closed.memory["summaries"]] == ["auth-bug"]


def test_closing_is_told_with_the_summary(tmp_path: Path) -> None:
    """01, Banners: the effort was concluded, and its summary."""
    closed = stage(tmp_path).work(AUTH)

    (banner,) = closed.banners

    assert banner.startswith("--- Concluded effort: auth-bug ---")
    assert AUTH.summary in banner


def test_closing_leaves_no_other_effort_active(tmp_path: Path) -> None:
    """01, `close_effort`: what follows is ambient, though another effort is open."""
    here = stage(tmp_path)
    here.use("open_effort", name="one")
    here.say(AUTH.log, call("open_effort", name="auth-bug"), "Opened.")

    closed = here.use("close_effort")

    assert closed.memory["active_effort"] is None
    assert [*closed.memory["open_efforts"]] == ["one"]


@pytest.mark.parametrize("arguments", [{}, {"effort_id": "nope"}])
def test_nothing_to_close(tmp_path: Path, arguments: dict[str, str]) -> None:
    """01: an error is a result that quotes the bad value, never an exception."""
    closed = stage(tmp_path).use("close_effort", **arguments)

    assert [*closed.results[0]] == ["error"]
    assert arguments.get("effort_id", "") in closed.results[0]["error"]


def test_short_log_gets_a_canned_summary(tmp_path: Path) -> None:
    """01, Concluding: under 50 characters of text no model is asked."""
    here = stage(tmp_path)
    here.say("Go.", call("open_effort", name="nothing"), "Ok.")

    closed = here.say("End.", call("close_effort"), "Ok.")

    assert here.talk.model.asked == []
    assert closed.results[0]["status"] == "concluded"


def test_long_summary_is_cut(tmp_path: Path) -> None:
    """01, Concluding: a summary over `summary_max_tokens` is cut at the end of a sentence."""
    told = "It was about the gateway. " * 60
    here = stage(tmp_path, structured=[{"summary": told, "keywords": [], "importance": 50}])
    here.say(AUTH.log, call("open_effort", name="auth-bug"), "Opened.")

    summary = here.use("close_effort").results[0]["summary"]

    assert len(summary) < len(told) / 2
    assert summary.endswith("gateway.")


def test_summary_is_a_call_of_its_own(tmp_path: Path) -> None:
    """01, Concluding: the whole log is read, this turn so far included."""
    here = stage(tmp_path)
    here.say(AUTH.log, call("open_effort", name="auth-bug"), "Opened.")
    here.say("One more thing: it began on Monday.")

    here.say("Close it, and mind the release.", call("close_effort"), "Closed.")

    (asked,) = here.talk.model.asked
    assert AUTH.log in asked.text
    assert "it began on Monday" in asked.text
    assert "mind the release" in asked.text


@pytest.mark.usefixtures("impatient")
def test_failed_summary_leaves_the_effort_open(tmp_path: Path) -> None:
    """01, Concluding: if the call fails, the effort stays open and the tool says so."""
    here = stage(tmp_path, structured=[ConnectionError("gone")] * 9)
    here.say(AUTH.log, call("open_effort", name="auth-bug"), "Opened.")

    closed = here.use("close_effort")

    assert [*closed.results[0]] == ["error"]
    assert closed.memory["active_effort"] == "auth-bug"


def test_switching(tmp_path: Path) -> None:
    """01, `switch_effort`: it answers with goal and constraints, and the other one is active."""
    here = stage(tmp_path)
    here.use("open_effort", name="one", goal="Ship it", constraints=["No downtime"])
    here.use("open_effort", name="two")

    switched = here.use("switch_effort", effort_id="one")

    answer = {"effort_id": "one", "goal": "Ship it", "constraints": ["No downtime"]}
    assert switched.results == [{"status": "switched", **answer}]
    assert switched.memory["active_effort"] == "one"
    assert switched.banners == ["--- Switched to effort: one ---"]


def test_pausing(tmp_path: Path) -> None:
    """01, `switch_effort`: with "" no effort is active and all stay open."""
    here = stage(tmp_path)
    here.use("open_effort", name="one")

    paused = here.use("switch_effort", effort_id="")

    assert paused.results[0]["status"] == "paused"
    assert paused.memory["active_effort"] is None
    assert [*paused.memory["open_efforts"]] == ["one"]


def test_switching_to_what_is_concluded(tmp_path: Path) -> None:
    """01, `switch_effort`: open efforts only; the error says what would work."""
    here = stage(tmp_path)
    here.work(AUTH)

    error = here.use("switch_effort", effort_id="auth-bug").results[0]["error"]

    assert "reopen_effort" in error


def test_reopening(tmp_path: Path) -> None:
    """01, `reopen_effort`: open and active again, with the prior summary, and not expanded."""
    here = stage(tmp_path)
    here.work(AUTH)
    here.use("expand_effort", effort_id="auth-bug")

    reopened = here.use("reopen_effort", effort_id="auth-bug")

    (answer,) = reopened.results
    assert (answer["status"], answer["prior_summary"]) == ("reopened", AUTH.summary)
    assert reopened.memory["active_effort"] == "auth-bug"
    assert reopened.memory["expanded"] == reopened.memory["summaries"] == {}
    assert reopened.banners == ["--- Reopened effort: auth-bug ---"]


def test_closing_again_summarises_the_whole_log(tmp_path: Path) -> None:
    """01, `reopen_effort`: its log goes on."""
    here = stage(tmp_path, settings=EXACT)
    here.work(AUTH)
    here.chat(3)
    here.use("reopen_effort", effort_id="auth-bug")
    here.say(PERF.log)

    here.use("close_effort")

    assert AUTH.log in here.talk.model.asked[-1].text
    assert PERF.log in here.talk.model.asked[-1].text


def test_goal_and_constraints_change(tmp_path: Path) -> None:
    """01, `update_goal`: constraints are added and lifted word for word."""
    here = stage(tmp_path)
    here.use("open_effort", name="one", goal="Ship it", constraints=["No downtime", "By Friday"])

    updated = here.use(
        "update_goal", goal="Ship half", add_constraints=["No PHP"], drop_constraints=["By Friday"]
    )

    aims = {"effort_id": "one", "goal": "Ship half", "constraints": ["No downtime", "No PHP"]}
    assert updated.results == [{"status": "updated", **aims}]


def test_expanding(tmp_path: Path) -> None:
    """01, `expand_effort`: the log is sent with the next call, and it is told."""
    here = stage(tmp_path, settings=EXACT)
    here.work(AUTH)
    here.chat(4)

    expanded = here.use("expand_effort", effort_id="auth-bug")

    (answer,) = expanded.results
    assert (answer["status"], answer["effort_id"]) == ("expanded", "auth-bug")
    assert (log_in(expanded.first, AUTH), log_in(expanded.sent, AUTH)) == (0, 1)
    assert expanded.banners[0].startswith("--- Expanded effort: auth-bug (")
    assert [*expanded.memory["expanded"]] == ["auth-bug"]


def test_expanding_in_part(tmp_path: Path) -> None:
    """01, `expand_effort`: only the turns asked for are shown."""
    here = stage(tmp_path, settings=EXACT)
    here.work(AUTH)
    here.chat(4)

    expanded = here.use("expand_effort", effort_id="auth-bug", turns="1")

    assert log_in(expanded.sent, AUTH) == 0
    assert expanded.results[0]["turns"] == "1"


@pytest.mark.parametrize(
    ("tool", "why"), [("expand_effort", "open"), ("collapse_effort", "expanded")]
)
def test_expanding_what_is_open(tmp_path: Path, tool: str, why: str) -> None:
    """01: only what is concluded is expanded, only what is expanded collapses."""
    here = stage(tmp_path)
    here.use("open_effort", name="one")

    error = here.use(tool, effort_id="one").results[0]["error"]

    assert why in error


def test_status_of_all(tmp_path: Path) -> None:
    """01, `effort_status`: what is said of each effort."""
    here = stage(tmp_path)
    here.work(AUTH)
    here.use("open_effort", name="one")

    efforts = {one["id"]: one for one in here.use("effort_status").results[0]["efforts"]}

    auth = efforts["auth-bug"]
    assert (auth["status"], auth["active"], auth["expanded"]) == ("concluded", False, False)
    assert (auth["summary"], auth["turns"]) == (AUTH.summary, "1-3")
    assert auth["raw_tokens"] > auth["summary_tokens"] > 0
    assert efforts["one"]["active"] is True


def test_status_of_one(tmp_path: Path) -> None:
    """01, `effort_status(effort_id)`: that effort alone, and it counts as referenced."""
    here = stage(tmp_path)
    here.work(AUTH)
    here.work(PERF)
    here.chat(2)

    status = here.use("effort_status", effort_id="auth-bug")

    assert [one["id"] for one in status.results[0].get("efforts", [])] == ["auth-bug"]
    assert [one["effort"] for one in status.memory["references"]] == ["auth-bug"]


def test_reading_the_log(tmp_path: Path) -> None:
    """01, `read_log`: any turns that this session can see, word for word."""
    here = stage(tmp_path, settings=Settings(ambient_window=1, rebuild="every-turn"))
    here.work(AUTH)
    here.chat(6)

    (answer,) = here.use("read_log", turns="2-4").results

    assert [one["turn"] for one in answer["turns"]] == [2, 3, 4]
    assert AUTH.log in words_of(answer["turns"][0])


def test_reading_goes_on(tmp_path: Path) -> None:
    """01, `read_log`: `next` says how to go on, and the parts are the whole."""
    here = stage(tmp_path)
    said = "".join(f"word{number} " for number in range(3_000))
    here.say(said)

    (begin,) = here.use("read_log", turns="1").results
    (rest,) = here.use("read_log", turns="1", offset=begin["next"]["offset"]).results

    read = words_of(begin["turns"][0]) + words_of(rest["turns"][0])
    assert said.startswith(read[read.index("word0 ") :].partition("\n")[0].strip())


@pytest.mark.parametrize("turns", ["99", "nine", ""])
def test_reading_what_is_not_there(tmp_path: Path, turns: str) -> None:
    """01: an error that quotes the bad value."""
    here = stage(tmp_path)
    here.chat(1)

    (answer,) = here.use("read_log", turns=turns).results

    assert [*answer] == ["error"]
    assert turns in answer["error"]


@pytest.mark.parametrize(
    "bad",
    [
        call("no_such_tool", at=1),
        call("open_effort", title="one"),
        call("expand_effort", effort_id=7, depth=2),
        malformed("open_effort", '{"name": "one'),
    ],
)
def test_bad_call_is_answered(tmp_path: Path, bad: Any) -> None:
    """01, bad input: an unknown tool or malformed arguments get an error, and the turn goes on."""
    said = stage(tmp_path).say("Go.", bad, "Sorry.")

    assert said.answer == "Sorry."
    assert said.memory["open_efforts"] == {}
    assert "error" in said.sent.messages[-1].text.lower()


def test_efforts_with_other_summariser(tmp_path: Path) -> None:
    """00, Public API: `summary_model` is the model that summarises."""
    other = ScriptedModel(structured=[{"summary": "By the other.", "keywords": []}])
    here = stage(tmp_path, summary_model=other)
    here.say(AUTH.log, call("open_effort", name="auth-bug"), "Opened.")

    closed = here.use("close_effort")

    assert closed.results[0]["summary"] == "By the other."
    assert here.talk.model.asked == []
