"""Opening, switching, reopening efforts, and changing their goal."""

from typing import Any

import pytest

from tests.memory.conversations import LONG_ENOUGH, Conversation, call

INACTIVE = (
    "no effort is active, so there is no goal to update; use switch_effort or open_effort first;"
)


@pytest.fixture
def talk(talk: Conversation) -> Conversation:
    """Return the conversation in a running first turn."""
    talk.ask(LONG_ENOUGH)
    return talk


@pytest.mark.parametrize(
    ("name", "effort_id"),
    [("Auth Bug", "auth-bug"), ("Größe_2 (neu)", "größe-2-neu"), ("x" * 64, "x" * 64)],
)
def test_an_opened_effort_is_active_under_its_slug(
    talk: Conversation, name: str, effort_id: str
) -> None:
    """The name becomes a slug, the effort is open and active, and the user is told."""
    result = talk.call("open_effort", name=name)

    assert result == {"status": "opened", "effort_id": effort_id}
    assert talk.state.active == effort_id
    assert talk.banners == [f"--- Started effort: {effort_id} ---"]


@pytest.mark.parametrize("name", ["../../etc", "", "🙂", "x" * 10_000])
def test_a_name_that_makes_no_slug_is_an_error(talk: Conversation, name: str) -> None:
    """Path syntax, nothing left and too many characters are errors that quote the name."""
    result = talk.call("open_effort", name=name)

    assert repr(name)[:40] in result["error"]
    assert "such as 'auth-bug'" in result["error"]
    assert len(result["error"]) < 300
    assert (talk.state.open, talk.banners) == ({}, [])


def test_an_open_name_is_taken(talk: Conversation) -> None:
    """Two opens of one slug in one message: the second says that it is open, and what to do."""
    first, second = talk.run(call("open_effort", name="a b"), call("open_effort", name="A-B"))

    assert first["status"] == "opened"
    assert second["error"] == (
        "an effort 'a-b' exists already and is open; "
        "use switch_effort to go on with it, or choose another name"
    )
    assert len(talk.state.events) == 1


def test_a_concluded_name_is_taken(talk: Conversation) -> None:
    """A name that was used before, evicted or not, says that it is concluded and what to do."""
    talk.set(MOST_SUMMARIES=1)
    talk.answer()
    talk.effort("a", "one")
    talk.effort("b", "two")
    talk.ask("three")
    result = talk.call("open_effort", name="a")

    assert result["error"] == (
        "an effort 'a' exists already and is concluded; "
        "use reopen_effort to go on with it, or choose another name"
    )


@pytest.mark.parametrize("tool_name", ["open_effort", "reopen_effort"])
def test_no_more_efforts_are_open_than_may_be(talk: Conversation, tool_name: str) -> None:
    """One more is refused, naming the one that was idle longest."""
    talk.run(call("open_effort", name="c"), call("close_effort"))
    talk.answer()
    talk.set(MOST_OPEN=2)
    talk.turn("one", call("open_effort", name="a"))
    talk.turn("two", call("open_effort", name="b"))
    talk.turn("three", call("switch_effort", effort_id="a"))
    talk.ask("four")
    arguments = {"open_effort": {"name": "d"}, "reopen_effort": {"effort_id": "c"}}[tool_name]
    result = talk.call(tool_name, **arguments)

    assert result["error"] == (
        "2 efforts are open, and no more than 2 may be; "
        "close one first, for example 'b', which was idle longest"
    )


def test_switching_makes_another_open_effort_active(talk: Conversation) -> None:
    """The one that was active stays open, and the user is told."""
    talk.run(
        call("open_effort", name="a", goal="Log in", constraints=["no downtime"]),
        call("open_effort", name="b"),
    )
    result = talk.call("switch_effort", effort_id="A")

    holds = {"goal": "Log in", "constraints": ["no downtime"]}
    assert result == {"status": "switched", "effort_id": "a", **holds}
    assert talk.state.active == "a"
    assert talk.banners[-1] == "--- Switched to effort: a ---"
    assert talk.state.events[-1] == {"type": "switched", "effort": "a"}


def test_switching_to_the_active_effort_changes_nothing(talk: Conversation) -> None:
    """It is no error, and no event either."""
    talk.call("open_effort", name="a")
    before = talk.state
    result = talk.call("switch_effort", effort_id="a")

    assert result == {"status": "switched", "effort_id": "a", "goal": "", "constraints": []}
    assert talk.state == before


@pytest.mark.parametrize("sent", [{}, {"effort_id": " "}])
def test_switching_to_nothing_pauses(talk: Conversation, sent: dict[str, Any]) -> None:
    """No effort is active, all stay open, the user is told, and the turn is ambient."""
    talk.run(call("open_effort", name="a"), call("open_effort", name="b"))
    result = talk.call("switch_effort", **sent)

    assert result == {"status": "paused", "effort_id": "b"}
    assert (talk.state.active, list(talk.state.open)) == (None, ["a", "b"])
    assert talk.banners[-1] == "--- Paused effort: b ---"
    assert talk.state.events[-1] == {"type": "paused", "effort": "b"}
    assert talk.answer().efforts == ()


def test_a_pause_without_an_active_effort_changes_nothing(talk: Conversation) -> None:
    """It is no error, and no event either."""
    before = talk.state

    assert talk.call("switch_effort") == {"status": "paused"}
    assert talk.state == before


@pytest.mark.parametrize(
    ("effort_id", "error"),
    [
        ("done", "effort 'done' is concluded; use reopen_effort to go on with it"),
        ("gone", "no effort 'gone'. Did you mean 'done'? In the context: done."),
    ],
)
def test_only_open_efforts_can_be_switched_to(
    talk: Conversation, effort_id: str, error: str
) -> None:
    """A concluded or unknown effort is refused with what would work."""
    talk.run(call("open_effort", name="done"), call("close_effort"))
    result = talk.call("switch_effort", effort_id=effort_id)

    assert result["error"].startswith(error)


def test_a_reopened_effort_goes_on(talk: Conversation) -> None:
    """It is open and active, its summary and its log are back, and it leaves what is expanded."""
    talk.answer()
    talk.effort("a", LONG_ENOUGH, "And on.")
    talk.ask("Look it up, then go on.")
    talk.call("expand_effort", effort_id="a")
    result = talk.call("reopen_effort", effort_id="a")

    assert result == {
        "status": "reopened",
        "effort_id": "a",
        "prior_summary": "It works now.",
        "goal": "",
        "constraints": [],
        "turns": "2-3",
    }
    assert talk.state.active == "a"
    assert (talk.state.expanded, talk.state.summaries) == ({}, {})
    assert talk.state.open["a"]["opened_turn"] == 4
    assert talk.banners[-1] == "--- Reopened effort: a ---"


def test_of_a_long_log_the_newest_turns_are_back(talk: Conversation) -> None:
    """As many as fit into the share of a log, the rest is named with the call that shows it."""
    talk.answer()
    talk.effort("a", *["word " * 150] * 3)
    talk.set(context_budget=talk.fixed + 1_600)
    talk.ask("Go on with it.")
    result = talk.call("reopen_effort", effort_id="a")

    assert (result["turns"], result["not_shown"]) == ("3-4", "2")
    assert result["how"].startswith('read_log(turns="2")')


@pytest.mark.parametrize(("goal", "holds"), [("", "Log in"), ("Log out", "Log out")])
def test_a_reopened_effort_may_have_a_new_goal(talk: Conversation, goal: str, holds: str) -> None:
    """The goal takes the place of the finished one, and is recorded as a change."""
    talk.run(
        call("open_effort", name="a", goal="Log in", constraints=["no downtime"]),
        call("close_effort"),
    )
    talk.answer()
    talk.ask("Once more.")
    result = talk.call("reopen_effort", effort_id="a", goal=goal)
    changes = [event["goal"] for event in talk.state.events if event["type"] == "goal_updated"]

    assert (result["goal"], result["constraints"]) == (holds, ["no downtime"])
    assert talk.work.find("a").goal == holds
    assert changes == [goal] * bool(goal)


def test_an_open_effort_cannot_be_reopened(talk: Conversation) -> None:
    """It is refused with the tool that makes it active."""
    talk.call("open_effort", name="a")
    result = talk.call("reopen_effort", effort_id="a")

    assert result["error"] == "effort 'a' is open already; use switch_effort to go on with it"


def test_the_goal_of_the_active_effort_is_updated(talk: Conversation) -> None:
    """The change is recorded with why and in its turn; all else stays."""
    talk.call("open_effort", name="a", goal="Log in", constraints=["no downtime"])
    talk.answer()
    talk.ask("Actually, log out.")
    result = talk.call("update_goal", goal="Log out", rationale="changed mind")
    talk.answer()
    effort = talk.work.find("a")

    holds = {"goal": "Log out", "constraints": ["no downtime"]}
    assert result == {"status": "updated", "effort_id": "a", **holds}
    assert (effort.goal, effort.constraints, effort.turn) == ("Log out", ("no downtime",), 2)
    assert talk.banners[-1] == "--- Updated goal of effort: a ---"


def test_constraints_are_added_and_lifted(talk: Conversation) -> None:
    """They stand word for word, each once, in the order they came, recorded with their turn."""
    talk.call("open_effort", name="a", goal="Log in", constraints=["no downtime", "in May"])
    talk.answer()
    talk.ask("It may be down, but keep the API, and log it.")
    result = talk.call(
        "update_goal",
        add_constraints=["Keep the API!", " log  it ", "in May", ""],
        drop_constraints=["no downtime"],
    )
    talk.answer()
    effort = talk.work.find("a")

    assert result["constraints"] == ["in May", "Keep the API!", "log  it"]
    assert (effort.goal, effort.turn) == ("Log in", 2)
    assert effort.constraints == ("in May", "Keep the API!", "log  it")
    assert talk.banners[-1] == "--- Updated constraints of effort: a ---"


def test_a_constraint_is_lifted_as_the_context_shows_it(talk: Conversation) -> None:
    """It is shown in one line and without its final stop."""
    talk.call("open_effort", name="a", constraints=["No  downtime.", "In May."])
    result = talk.call("update_goal", drop_constraints=["No downtime"])

    assert result["constraints"] == ["In May."]


def test_what_holds_already_is_no_change(talk: Conversation) -> None:
    """The same goal and a constraint that is there are answered, and no event is written."""
    talk.call("open_effort", name="a", goal="Log in", constraints=["in May"])
    before = talk.state
    result = talk.call("update_goal", goal="Log in", add_constraints=["in May"])

    assert (result["goal"], result["constraints"]) == ("Log in", ["in May"])
    assert talk.state == before


@pytest.mark.parametrize(
    ("holding", "listed"), [([], "none"), (["in May", "no downtime"], "'in May'; 'no downtime'")]
)
def test_a_constraint_that_is_not_there_cannot_be_dropped(
    talk: Conversation, holding: list[str], listed: str
) -> None:
    """The error lists those that hold, and nothing is changed."""
    talk.call("open_effort", name="a", constraints=holding)
    before = talk.state
    result = talk.call("update_goal", goal="b", drop_constraints=["downtime"])

    why = f"no constraint 'downtime' of 'a' to drop; those that hold: {listed}"
    assert result == {"error": why}
    assert talk.state == before


@pytest.mark.parametrize(
    ("opening", "goal", "error"),
    [
        ([], "b", f"{INACTIVE} open: none"),
        ([call("open_effort", name="a"), call("switch_effort")], "b", f"{INACTIVE} open: a"),
        (
            [call("open_effort", name="a")],
            " ",
            "nothing to update: goal, add_constraints and drop_constraints are empty",
        ),
    ],
)
def test_an_update_needs_words_and_an_active_effort(
    talk: Conversation, opening: list[Any], goal: str, error: str
) -> None:
    """Without an active effort or anything to change, the error says what is missing."""
    talk.run(*opening)
    result = talk.call("update_goal", goal=goal)

    assert result == {"error": error}
