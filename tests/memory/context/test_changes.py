"""When the plan changes, what it then shows, and how it is cut."""

import re
from dataclasses import replace
from typing import Any

import pytest
from cachetools import LRUCache

from ebbtide.memory.archive.sql import DiskArchive
from ebbtide.memory.compressions import Compression
from ebbtide.memory.context.budget import low_water, size
from ebbtide.memory.context.changes import before_turn, new_plan
from ebbtide.memory.context.plan import Plan
from ebbtide.memory.context.render import parts_of
from ebbtide.memory.messages import text
from ebbtide.memory.salience.compress import outgrown
from ebbtide.memory.tools.summary import EffortSummary
from tests.memory.contexts import begins
from tests.memory.conversations import LONG_ENOUGH, Conversation, call
from tests.memory.turns import put_compression

RESULT = "word " * 400


def plan_of(talk: Conversation) -> Plan:
    """Return what the context shows."""
    assert talk.plan is not None
    return talk.plan


def sent(talk: Conversation) -> str:
    """Return the texts of the context."""
    return "\n".join(map(text, talk.context.messages))


def logs(talk: Conversation) -> list[str]:
    """Return the turns that the logs in the context are of, in order."""
    shown = [part for part in talk.context.parts if part.name == "expanded"]
    said = [text(message) for part in shown for message in part.messages]
    return re.findall(r", turns? ([\d,-]+), word for word", "\n".join(said))


def searching(talk: Conversation) -> Plan:
    """Look things up, turn by turn, until the context was cut, and return its plan."""
    for _ in range(60):
        talk.ask("Look.")
        talk.look_up(RESULT)
        if talk.context.plan.why == "high-water":
            break
        talk.answer()
    return plan_of(talk)


def reasons(talk: Conversation) -> str:
    """Return why the plan that the next turn begins with was made."""
    return plan_of(talk).why


def test_a_concluded_effort_leaves_in_its_turn(talk: Conversation) -> None:
    """Of its last turn request and answer stay for one turn more; the summary stands for it."""
    talk.effort("a", "The very first question.", "The last one.")
    talk.ask("What else?")
    following = sent(talk)

    assert reasons(talk) == "concluded"
    assert "The very first question." not in following
    assert "The last one." in following
    assert "close_effort" not in following
    assert "- a: " in following


def test_what_only_appends_is_no_change(talk: Conversation) -> None:
    """An expansion, a new goal and a new effort stand where they happened; nothing leaves."""
    talk.effort("a", "one", "two")
    talk.turns(["Small talk."] * 2)
    talk.ask("Begin.")
    before = talk.context
    talk.call("open_effort", name="b")
    talk.call("update_goal", goal="Ship it")
    talk.call("expand_effort", effort_id="a")
    during = talk.context
    talk.answer()
    talk.ask("Next.")

    assert begins(during, before)
    assert begins(talk.context, during)


def test_an_evicted_effort_that_is_expanded_returns_at_once(talk: Conversation) -> None:
    """Its summary and its log are in the next call of the same turn."""
    talk.set(summary_eviction_threshold=1, rebuild="every-turn")
    talk.effort("a", "The very first question.", "two")
    talk.turn("Small talk.")
    talk.turn("More of it.")
    talk.ask("Show it.")
    before = sent(talk)
    talk.call("expand_effort", effort_id="a")

    assert "- a: " not in before
    assert "- a: " in sent(talk)
    assert logs(talk) == ["1-2"]


def test_a_log_leaves_out_what_stands_above_it(talk: Conversation) -> None:
    """Right after its conclusion request and answer of the last turn stand above the log."""
    talk.effort("a", "one", "The last question.")
    talk.ask("Show it.")
    talk.call("expand_effort", effort_id="a")
    during = sent(talk)
    talk.answer()
    talk.plan = new_plan(talk.work, "cold-cache")
    talk.ask("And?")

    assert during.count("The last question.") == 1
    assert "without what of turn 2 stands above" in during
    assert sent(talk).count("The last question.") == 1
    assert "stands above" not in sent(talk)


def test_a_log_that_is_expanded_elsewhere_moves(talk: Conversation) -> None:
    """Other turns of an expanded effort take the place of those that were shown."""
    talk.effort("a", "Question one.", "two")
    talk.turn("Small talk.")
    talk.turn("Show it.", call("expand_effort", effort_id="a", turns="1"))
    talk.ask("And the other one?")
    talk.call("expand_effort", effort_id="a", turns="2")

    assert logs(talk) == ["2"]
    assert "Question one." not in sent(talk)


def test_summaries_that_are_due_leave_with_the_next_change(talk: Conversation) -> None:
    """Until then they stay, in the state and in the context, for five turns at most."""
    talk.set(summary_eviction_threshold=2, ambient_window=100)
    talk.effort("a", "one")
    shown = []
    for _ in range(9):
        talk.turn("Small talk.")
        listed = "a" in talk.state.summaries
        talk.ask("And?")
        shown.append(("- a: " in sent(talk), listed))
        talk.messages, talk.state = (), replace(talk.state, turn=talk.tip.turn)

    assert shown == [(True, True)] * 5 + [(False, False)] * 4
    assert reasons(talk) == "due"


def test_old_state_blocks_leave_when_they_are_four(talk: Conversation) -> None:
    """Three that a newer one has replaced may stand in the context."""
    whys = []
    for number in range(6):
        goal = f"step {number}"
        talk.turn("Go on.", answer=f"Yes.\n---STATE---\nGoal: {goal}\n---END STATE---")
        whys.append(reasons(talk))

    assert whys == ["new"] * 4 + ["state-blocks"] * 2


def test_results_become_previews_after_five_turns(talk: Conversation) -> None:
    """A long result of a turn before the last three is due to shrink, but not at once."""
    talk.set(ambient_window=100)
    talk.ask("Look.")
    talk.look_up(RESULT)
    talk.answer()
    whys = []
    for _ in range(9):
        talk.turn("Small talk.")
        whys.append(reasons(talk))

    assert whys == ["new"] * 7 + ["due"] * 2
    assert plan_of(talk).previews == 6


def test_a_turn_that_was_broken_off_changes_the_plan(talk: Conversation) -> None:
    """What it concluded has no end of a turn to leave at; it leaves before the next turn."""
    talk.turn("The very first question.", call("open_effort", name="a"))
    talk.ask("That was all.")
    plan = talk.plan
    talk.call("close_effort")
    talk.answer()
    talk.plan = plan

    assert plan_of(talk).why == "new"
    assert before_turn(talk.work, talk.at).plan == replace(
        new_plan(talk.work, "concluded"), why="concluded"
    )


@pytest.mark.parametrize(
    ("now", "why"), [("12:05:00.000Z", "new"), ("12:05:01.000Z", "cold-cache")]
)
def test_when_the_cache_is_cold_a_rebuild_is_free(talk: Conversation, now: str, why: str) -> None:
    """Five minutes after the turn before the provider has forgotten the prefix."""
    talk.turn("one")
    talk.state = talk.state.activated("a").closed("a")

    plan = before_turn(talk.work, f"2026-11-21T{now}").plan
    assert plan is not None
    assert plan.why == why


@pytest.mark.parametrize(
    "chosen",
    [{"ambient_window": 3}, {"context_budget": 9000}],
)
def test_other_settings_are_a_reason(talk: Conversation, chosen: dict[str, Any]) -> None:
    """What they lay out otherwise is rebuilt before the next turn, once."""
    talk.turn("one")
    talk.set(**chosen)
    talk.ask("two")
    first = plan_of(talk)
    again = before_turn(talk.work, talk.at)

    assert (first.after_turn, first.why) == (1, "settings")
    assert again.plan is first


def test_above_high_water_it_is_cut_to_low_water(talk: Conversation) -> None:
    """Whole turns leave, oldest first, and stay away; the last three stay whole."""
    talk.set(context_budget=8_000, ambient_window=0)
    plan = searching(talk)
    parts = parts_of(talk.work, plan)
    large = [part.tokens > 400 for part in parts if part.name == "turns" and part.turn]
    talk.answer()
    talk.plan = new_plan(talk.work, "cold-cache")

    assert plan.turns[0] > 1
    assert plan.turns == tuple(range(plan.turns[0], plan.after_turn + 1))
    assert large == [False] * (len(large) - 3) + [True] * 3
    assert plan.size == size(parts) <= low_water(talk.room, 8_000)
    assert plan_of(talk).turns[0] == plan.turns[0]


def test_a_huge_result_takes_no_place_from_other_turns(talk: Conversation) -> None:
    """While its turn is new it is shortened, later its preview is counted."""
    talk.set(context_budget=8_000)
    talk.turn("The very first question.")
    talk.ask("Look.")
    talk.look_up("word " * 20_000)
    talk.answer()
    talk.day += 1
    talk.ask("What is in it?")
    first, wide = talk.context.plan, size(talk.context.parts)
    for _ in range(4):
        talk.answer()
        talk.ask("And?")
    talk.plan = later = new_plan(talk.work, "cold-cache")

    assert (first.turns, first.brief) == ((1, 2), ())
    assert (later.turns, later.previews, later.brief) == ((1, 2, 3, 4, 5, 6), 3, ())
    assert size(talk.context.parts) < wide / 2


@pytest.fixture
def resumed(talk: Conversation) -> Conversation:
    """Return a conversation in whose seventh turn an effort of two turns is reopened."""
    talk.set(rebuild="every-turn", ambient_window=1, decay_threshold=100)
    talk.effort("a", "The very first question.", "And on.")
    for _ in range(4):
        talk.turn("Something else.")
    talk.turn("Back to it.", call("reopen_effort", effort_id="a"))
    return talk


def test_a_reopened_effort_stands_where_it_was_reopened(resumed: Conversation) -> None:
    """Its earlier turns are a log before that turn, through all rebuilds."""
    resumed.ask("Go on.")
    before = logs(resumed)
    resumed.answer()
    resumed.turns(["Go on."] * 5)

    assert before == logs(resumed) == ["1-2"]
    assert plan_of(resumed).turns == tuple(range(6, 14))
    before_it, _, after = sent(resumed).partition("The very first question.")
    assert "Back to it." in after.partition("And on.")[2]
    assert "The very first question." not in before_it + after


@pytest.mark.parametrize("rebuild", ["every-turn", "on-change"])
def test_what_a_turn_collapsed_again_does_not_come_back(talk: Conversation, rebuild: str) -> None:
    """If the turn then expands a part of the same log, only that part is shown."""
    talk.set(rebuild=rebuild)
    talk.effort("a", "one", "two")
    talk.turns(["Something else."] * 3)
    talk.ask("Show it.")
    talk.call("expand_effort", effort_id="a")
    talk.call("collapse_effort", effort_id="a")
    talk.call("expand_effort", effort_id="a", turns="2")
    during = logs(talk)
    talk.answer()
    talk.ask("And?")

    assert during == logs(talk) == ["2"]


def test_calls_with_the_same_id_have_each_its_log(talk: Conversation) -> None:
    """Models repeat ids: each log stands after the result of its own call, before and after."""
    talk.set(rebuild="every-turn")
    talk.effort("a", "This is of a.")
    talk.effort("b", "This is of b.")
    talk.ask("Show both.")
    talk.run(call("expand_effort", effort_id="a", call_id="x"))
    talk.run(call("expand_effort", effort_id="b", call_id="x"))
    said = [text(message) for message in talk.context.messages[-6:]]
    before = logs(talk)
    talk.answer()

    assert ['"status":"expanded"' in words for words in said] == [False, True, False] * 2
    assert ["This is of a." in words for words in said] == [False, False, True, *[False] * 3]
    assert before == logs(talk) == ["1", "2"]


def test_of_two_logs_of_an_effort_the_later_leaves_out_what_the_other_shows(
    talk: Conversation,
) -> None:
    """In the turn itself and after it no turn of a log stands there twice."""
    talk.set(rebuild="every-turn")
    talk.effort("a", "Question one.", "Question two.")
    talk.turn("Small talk.")
    talk.ask("Show it.")
    talk.run(call("expand_effort", effort_id="a", turns="1", call_id="x"))
    talk.run(call("expand_effort", effort_id="a", turns="1-2", call_id="x"))
    before = sent(talk)
    talk.answer()

    assert [before.count(f"Question {number}.") for number in ("one", "two")] == [1, 1]
    assert [sent(talk).count(f"Question {number}.") for number in ("one", "two")] == [1, 1]


@pytest.mark.parametrize("budget", [2_000, 6_100])
def test_a_large_turn_shortens_no_small_ones(talk: Conversation, budget: int) -> None:
    """Where the last turns fit beside half a room they stay as they are."""
    talk.set(context_budget=budget)
    talk.turns(f"Fact {number}." for number in range(4))
    talk.ask("Look.")
    talk.look_up("word " * int(0.95 * talk.room))
    context = talk.context

    assert {*context.plan.brief} <= {5}
    assert all(f"Fact {number}." in sent(talk) for number in (1, 2, 3))


def test_a_compressed_effort_that_is_reopened_lacks_no_turn(talk: Conversation) -> None:
    """What quotes do not stand for is there as it was said."""
    talk.turn("Begin.", call("open_effort", name="a"))
    talk.turns(f"Step {number}." for number in range(2, 8))
    put_compression(talk.archive, talk.tip, Compression("a", 7, 4), talk.session)
    talk.turn("That is all.", call("close_effort"))
    talk.turns(["Small talk."] * 12)
    talk.ask("Again.")
    result = talk.call("reopen_effort", effort_id="a")
    talk.answer()
    talk.plan = new_plan(talk.work, "cold-cache")
    talk.ask("What was step 6?")

    assert result["log"] == "1-8"
    assert "turns" not in result  # no log is shown that could have them

    assert all(f"Step {number}." in sent(talk) for number in (5, 6, 7))
    assert logs(talk) == []


def test_turns_that_a_log_shows_are_not_out_of_view(talk: Conversation) -> None:
    """The log of a reopened effort and the note on what is hidden agree, in the turn and after."""
    talk.effort("a", "Question one.", "Question two.", "Question three.")
    talk.turns(["Small talk."] * 12)
    talk.ask("Go on with it.")
    talk.run(call("reopen_effort", effort_id="a"))
    during = sent(talk)
    talk.answer()
    talk.ask("And now?")

    assert len(logs(talk)) == 1
    assert all("out of view and stored: turns 4-" in words for words in (during, sent(talk)))


def test_hints_fit_into_a_full_turn(talk: Conversation) -> None:
    """However many there are, and however long, the context stays within the budget."""
    names = [f"{'matter-' * 7}{number}" for number in range(20)]
    talk.set(recall_hints=20, MOST_SUMMARIES=1, context_budget=talk.fixed + 1_000)
    for name in names:
        talk.replies.append(EffortSummary(summary="word " * 100))
        talk.effort(name, LONG_ENOUGH)
    talk.ask(" and ".join(names))
    talk.look_up("word " * 900)
    context = talk.context

    assert context.report["total"] <= talk.settings.context_budget


OPENING = call("open_effort", name="ship", goal="ship 1.2", constraints=["never on a Friday"])
PORT = call("open_effort", name="port", goal="port the parser", constraints=["no new library"])


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("calls", "shown", "hidden"),
    [
        (
            [OPENING, call("update_goal", add_constraints=["tests first"])],
            ["ship 1.2", "never on a Friday", "tests first"],
            [],
        ),
        (
            [OPENING, PORT, call("switch_effort", effort_id="ship")],
            ["ship 1.2", "never on a Friday"],
            ["no new library"],
        ),
        ([OPENING, call("close_effort")], [], ["never on a Friday"]),
    ],
)
@pytest.mark.parametrize("rounds", [60, pytest.param(120, marks=pytest.mark.soak)])
def test_what_holds_is_said_where_its_call_is_left_out(
    talk: Conversation, calls: list[Any], shown: list[str], hidden: list[str], rounds: int
) -> None:
    """A turn of many rounds is folded; the goal of the effort that it opened stays in view."""
    talk.set(context_budget=talk.fixed + 1_000)
    talk.ask("Begin.")
    for one in calls:
        talk.call(one["name"], **one["args"])
    for _ in range(rounds):
        talk.look_up("word " * 30)
        assert talk.context.report["total"] <= talk.settings.context_budget
    said = sent(talk)
    done = [text(one) for one in talk.context.messages if "done before in" in text(one)]

    assert "left out" in said
    assert [one for one in shown if one not in said] == []
    assert [one for one in hidden if one in said and one not in done[0]] == []


def test_open_efforts_that_cannot_be_named_are_counted(talk: Conversation) -> None:
    """Names that take more than there is room for leave no empty quote."""
    talk.set(context_budget=talk.fixed + 1_000)
    talk.count = lambda said: len(said.split()) + 60 * said.count("ꙮ")
    for number in range(2):
        talk.turn("Begin.", call("open_effort", name=f"ꙮꙮꙮ{number}"))
    talk.turn("Pause.", call("switch_effort", effort_id=""))
    talk.turns(["Small talk."] * 4)
    searching(talk)

    assert "2 open efforts" in sent(talk)
    assert "<efforts" not in sent(talk)


def test_turns_of_a_parked_effort_that_were_cut_are_compressed(talk: Conversation) -> None:
    """The newest of an effort are spared only while they are in view."""
    talk.set(context_budget=talk.fixed + 2_000)
    for name in ("a", "b"):
        talk.turn("word " * 60, call("open_effort", name=name))
        for _ in range(2 if name == "a" else 3):
            talk.turn("word " * 120, answer="word " * 120)
    talk.ask("And now?")
    talk.look_up("word " * 900)
    context = talk.context
    talk.answer()
    found = outgrown(talk.work)

    assert context.plan.turns[0] > 3
    assert found is not None
    assert (found.effort.id, found.through) == ("a", 3)


def test_recalled_text_is_gone_once_it_is_erased_elsewhere(talk: Conversation) -> None:
    """What is laid out once for all calls is laid out anew, whoever erased what it quotes."""
    assert isinstance(talk.archive, DiskArchive)
    talk.set(ambient_window=3)
    talk.turn("My cat is called Minka.")
    talk.turn("What is she called?", call("read_log", turns="1"), answer="I have read it.")
    talk.turns(["Right."] * 2)
    talk.plan = new_plan(replace(talk.work, plan=None), "new")
    talk.ask("And now?")

    assert 1 not in plan_of(talk).turns
    assert "Minka" in sent(talk)
    with DiskArchive(talk.archive.root) as other:
        other.erase(talk.session, talk.tip, 1)
    assert "Minka" not in sent(talk)


def both_ways(talk: Conversation, calls: list[Any]) -> list[list[Any]]:
    """Go through a turn, and return what is laid out with what is held of turns, and without."""
    talk.ask("word " * 30)
    talk.run(*calls)
    plans = (plan_of(talk), new_plan(replace(talk.work, plan=None), "new"))
    works = (talk.work, replace(talk.work, run=replace(talk.work.run, laid_out=LRUCache(1))))
    laid_out = [[parts_of(work, plan) for plan in plans] for work in works]
    talk.answer()
    return laid_out


def test_what_is_held_of_turns_is_what_would_be_laid_out_anew(talk: Conversation) -> None:
    """Whatever their tools did to efforts, before and after a rebuild."""
    talk.set(ambient_window=2)
    script = [
        [OPENING],
        [call("update_goal", add_constraints=["tests first"])],
        [PORT],
        [call("switch_effort", effort_id="ship")],
        [call("close_effort", effort_id="ship")],
        [call("expand_effort", effort_id="ship")],
        [call("read_log", turns="1")],
        [call("reopen_effort", effort_id="ship")],
        *[[]] * 4,
    ]
    laid_out = [both_ways(talk, calls) for calls in script]

    assert [with_held for with_held, _ in laid_out] == [anew for _, anew in laid_out]
