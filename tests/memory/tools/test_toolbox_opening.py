"""Opening, switching, reopening efforts, and changing their goal."""

from typing import Any

import pytest

from tests.memory.conversations import LONG_ENOUGH, Conversation, call

INACTIVE = (
    "no effort is active, so there is no goal to update; use switch_effort or open_effort first;"
)

OPEN = call("open_effort", name="a")


@pytest.fixture
def talk(talk: Conversation) -> Conversation:
    """Return the conversation in a running first turn."""
    talk.ask(LONG_ENOUGH)
    return talk


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


def test_what_changes_nothing_is_no_error_and_no_event(talk: Conversation) -> None:
    """A pause without an active effort, a switch to the active one, and what holds already."""
    before = talk.state
    assert talk.call("switch_effort") == {"status": "paused"}
    assert talk.state == before

    talk.call("open_effort", name="a", goal="Log in", constraints=["in May"])
    before, holds = talk.state, {"goal": "Log in", "constraints": ["in May"]}
    switched = talk.call("switch_effort", effort_id="a")
    updated = talk.call("update_goal", goal="Log in", add_constraints=["in May"])

    assert switched == {"status": "switched", "effort_id": "a", **holds}
    assert holds.items() <= updated.items()
    assert talk.state == before


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

    assert (result["goal"], result["constraints"]) == (holds, [])
    assert result["former_constraints"] == ["no downtime"]
    assert talk.work.find("a").goal == holds
    assert changes == [goal] * bool(goal)


@pytest.mark.parametrize("in_one_turn", [False, True])
def test_a_former_constraint_is_dropped(talk: Conversation, *, in_one_turn: bool) -> None:
    """It does not hold any more, so that nothing changes; any other one is still an error."""
    talk.answer()
    steps = (
        call("open_effort", name="a", constraints=["no downtime"]),
        call("close_effort"),
        call("reopen_effort", effort_id="a"),
    )
    for step in steps[: 0 if in_one_turn else 3]:
        talk.turn("Go.", step)
    talk.ask("It may be down.")
    for step in steps[0 if in_one_turn else 3 :]:
        talk.call(step["name"], **step["args"])
    done = talk.call("update_goal", drop_constraints=["no downtime."])
    wrong = talk.call("update_goal", drop_constraints=["in May"])

    assert (done["status"], done["constraints"]) == ("updated", [])
    assert "no constraint 'in May'" in wrong["error"]


@pytest.mark.parametrize(
    "opening",
    [
        call("open_effort", name="b", constraints=["x " * 40] * 2),
        call("reopen_effort", effort_id="old", goal="x " * 80),
    ],
)
def test_what_would_not_be_shown_is_not_opened(talk: Conversation, opening: dict[str, Any]) -> None:
    """Goals and constraints beyond their share would be cut in silence."""
    talk.answer()
    talk.turn("Go.", call("open_effort", name="old"))
    talk.turn("Done.", call("close_effort"))
    talk.ask("Next.")
    talk.call("open_effort", name="a", constraints=["x " * 70])
    talk.set(context_budget=talk.fixed + 1_000)

    assert "nothing was changed" in talk.run(opening)[0]["error"]
    assert [*talk.state.open] == ["a"]


def test_goal_and_constraints_are_updated(talk: Conversation) -> None:
    """Constraints stand word for word, each once, in the order they came; all have their turn."""
    talk.call("open_effort", name="a", goal="Log in", constraints=["no downtime", "in May"])
    talk.answer()
    talk.ask("Actually, log out. It may be down, but keep the API, and log it.")
    goal = talk.call("update_goal", goal="Log out", rationale="changed mind")
    result = talk.call(
        "update_goal",
        add_constraints=["Keep the API!", " log  it ", "in May", ""],
        drop_constraints=["no downtime"],
    )
    talk.answer()
    effort = talk.work.find("a")

    holds = {"goal": "Log out", "constraints": ["no downtime", "in May"]}
    assert goal == {"status": "updated", "effort_id": "a", **holds}
    assert result["constraints"] == ["in May", "Keep the API!", "log  it"]
    assert (effort.goal, effort.turn) == ("Log out", 2)
    assert effort.constraints == ("in May", "Keep the API!", "log  it")
    assert talk.banners[-2:] == [
        "--- Updated goal of effort: a ---",
        "--- Updated constraints of effort: a ---",
    ]


def test_a_constraint_is_lifted_as_the_context_shows_it(talk: Conversation) -> None:
    """It is shown in one line and without its final stop."""
    talk.call("open_effort", name="a", constraints=["No  downtime.", "In May."])
    result = talk.call("update_goal", drop_constraints=["No downtime"])

    assert result["constraints"] == ["In May."]


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
    ("opening", "asked", "error"),
    [
        ([], call("update_goal", goal="b"), f"{INACTIVE} open: none"),
        ([OPEN, call("switch_effort")], call("update_goal", goal="b"), f"{INACTIVE} open: a"),
        (
            [OPEN],
            call("update_goal", goal=" "),
            "nothing to update: goal, add_constraints and drop_constraints are empty",
        ),
        (
            [OPEN],
            call("reopen_effort", effort_id="a"),
            "effort 'a' is open already; use switch_effort to go on with it",
        ),
    ],
)
def test_an_error_says_what_is_missing(
    talk: Conversation, opening: list[Any], asked: Any, error: str
) -> None:
    """An update needs words and an active effort, and an open effort is not reopened."""
    talk.run(*opening)

    assert talk.run(asked) == [{"error": error}]
