"""The plan through the graph: it goes on whatever fails, and shows the logs of the state."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig

from ebbtide import Settings, erase
from ebbtide.nodes.turn.state import unpacked
from tests.acceptance.stage import AUTH, BILLING, PERF, ambient_in, log_in, stage
from tests.agents import THREAD, talk
from tests.doubles import call, together
from tests.graph.long_effort import SMALL, compressing, talked


def test_a_pass_that_fails_leaves_the_change(tmp_path: Path) -> None:
    """With every-turn the plan is made after each turn, also while no model compresses."""
    failing: dict[str, Any] = {"background": lambda _: ValueError("no answer")}
    settings = SMALL.model_copy(update={"rebuild": "every-turn"})
    chat = compressing(tmp_path, settings=settings, **failing)

    states = [unpacked(state) for state in talked(chat, 12)]

    assert [state for state in states if "quotes" in (state["plan"] or {})] == []
    assert [state["plan"]["after_turn"] for state in states if state["plan"]] == [*range(2, 13)]


@pytest.mark.parametrize("failures", [0, 4])
def test_unanswered_turns_put_nothing_forward(tmp_path: Path, failures: int) -> None:
    """03: what is due waits for five answered turns, however often a question fails meanwhile."""
    here = stage(tmp_path, settings=Settings(ambient_window=0), tools=[look_up])
    here.say("Look.", call("look_up"), "Done.")
    here.chat(3)
    for _ in range(failures):
        with pytest.raises(ConnectionError):
            here.say("Tea, please.", ConnectionError("down"))

    said = here.chat(7, first=5)

    whys = [one.memory["context_report"]["changed"]["why"] for one in said]
    assert whys == ["new"] * 5 + ["due"] * 2


def look_up() -> str:
    """Return a long result."""
    return "Nothing was found. " * 60


EXPAND, CLOSE = call("expand_effort", effort_id="auth-bug"), call("close_effort")


@pytest.mark.parametrize("then", [(CLOSE,), (CLOSE, call("open_effort", name="billing"))])
def test_log_outlives_the_effort_that_expanded_it(tmp_path: Path, then: tuple[Any, ...]) -> None:
    """The rounds of an effort that the turn concluded leave, but for the one with the log."""
    here = stage(tmp_path)
    here.work(AUTH)
    here.say(PERF.log, call("open_effort", name="perf-fix"), "Opened.")

    said = here.say("How was it there?", call("effort_status"), EXPAND, *then, "Done.")
    following = here.say("Go on.")

    assert [*said.memory["expanded"]] == ["auth-bug"]
    assert {log_in(sent, AUTH) for sent in (*said.calls[2:], following.sent)} == {1}
    assert "effort_status" not in str([m.name for m in following.sent.messages])


def test_logs_of_calls_with_one_id(tmp_path: Path) -> None:
    """A log stays when the round of another effort leaves whose call has the same id."""
    here = stage(tmp_path)
    here.works(AUTH, BILLING)
    reopen = [call("reopen_effort", effort_id=name) for name in ("auth-bug", "billing")]
    here.say("Once more.", *reopen, "Reopened.")

    here.say("That was it.", call("close_effort", effort_id="billing"), "Closed.")
    following = here.say("Go on.")

    assert [log_in(following.sent, work) for work in (AUTH, BILLING)] == [1, 0]


def test_effort_reopened_in_the_turn_that_closed_it(tmp_path: Path) -> None:
    """Its rounds come back with it, and the plan changes no more after that."""
    here = stage(tmp_path)
    here.say(AUTH.log, call("open_effort", name="auth-bug"), "Opened.")
    look = call("effort_status")
    looking = together(look, text="I look at the gate.")
    reopen = call("reopen_effort", effort_id="auth-bug")

    said = here.say("Well?", looking, CLOSE, reopen, look, look, "Done.")

    shown = ["I look at the gate." in sent.text for sent in said.calls]
    assert shown == [False, True, False, True, True, True]
    prompts = [[message.content for message in sent.messages] for sent in said.calls[3:]]
    assert all(one == two[: len(one)] for one, two in pairwise(prompts))


def test_logs_that_share_a_turn(tmp_path: Path) -> None:
    """The request of a turn that closed one effort and opened the next stands there once."""
    here = stage(tmp_path)
    here.say(AUTH.log, call("open_effort", name="auth-bug"), "Opened.")
    request = "The gate is mended, on to the index."
    here.say(request, CLOSE, call("open_effort", name="perf-fix"), "Opened.")
    here.say(PERF.log)
    here.use("close_effort")
    here.chat(1)

    opening = together(EXPAND, call("expand_effort", effort_id="perf-fix"))
    said = here.say("Show me both.", opening, "Here.")
    following = here.say("Go on.")

    for sent in (said.sent, following.sent):
        assert [sent.text.count(words) for words in (request, AUTH.log, PERF.log)] == [1, 1, 1]


def test_turn_that_paused_its_effort_is_not_ambient(tmp_path: Path) -> None:
    """It takes nothing out of the window, though no effort is active at its end."""
    here = stage(tmp_path, settings=Settings(ambient_window=2, rebuild="every-turn"))
    here.chat(2)
    here.say(AUTH.log, call("open_effort", name="auth-bug"), "Opened.")

    here.use("switch_effort", effort_id="")

    assert ambient_in(here.say("Go on.").sent) == 2


def test_fork_shows_the_goal_of_its_own_branch(tmp_path: Path) -> None:
    """What is laid out once for one branch is no form of another, though its turns are the same."""

    def change(goal: str) -> Any:
        done = call("close_effort", effort_id="yard", summary="It was swept.")
        return together(call("update_goal", goal=goal), done)

    script = [call("open_effort", name="yard"), "Yes.", call("open_effort", name="work"), "Yes."]
    chat = talk(tmp_path, [*script, change("Ours"), ConnectionError("gone"), change("Theirs"), "."])
    chat.say_all(["Sweep the yard.", "Do the work."])
    before = chat.agent.get_state(THREAD).config
    with pytest.raises(ConnectionError):
        chat.say("Change it.")

    chat.agent.invoke({"messages": "Change it!"}, before)

    past = [sent.text.partition("Change it")[0] for sent in chat.model.sent]
    assert ["Ours" in past[-3], "Theirs" in past[-3]] == [True, False]
    assert ["Ours" in past[-1], "Theirs" in past[-1]] == [False, True]


def test_text_that_another_process_erased_is_not_sent_on(tmp_path: Path) -> None:
    """A past turn that quotes another session is laid out again in each call."""
    first: RunnableConfig = {"configurable": {"thread_id": "a", "user_id": "ann"}}
    second: RunnableConfig = {"configurable": {"thread_id": "b", "user_id": "ann"}}
    read = [call("read_log", turns="1", session="a"), "I read it."]
    later = [call("open_effort", name="b"), "Yes.", call("close_effort"), "Closed.", "1", "2"]
    chat = talk(tmp_path, ["Noted.", *read, *later])
    chat.say("The code is MARIGOLD.", first)
    for words in ("Which code?", "Begin.", "Close it.", "Go on."):
        chat.say(words, second)
    sent = [chat.model.sent[-1].text]
    erase(talk(tmp_path, [], checkpointer=chat.agent.checkpointer).agent, first, 1)

    chat.say("And now?", second)

    sent.append(chat.model.sent[-1].text)
    assert ["MARIGOLD" in text for text in sent] == [True, False]
