"""Bringing logs back into the context, and taking them out again."""

from dataclasses import replace

import pytest

from ebbtide.memory.context.budget import LOG_SHARE, LOGS_SHARE
from ebbtide.memory.context.changes import new_plan
from ebbtide.memory.messages import text
from tests.memory.context.test_render import expanded
from tests.memory.conversations import Conversation, call, unfenced, words_of

QUESTIONS = ("the login fails", "the token expired", "the cache is cold", "all is well")
"""Four turns; they take 16, 8, 9 and 17 words of a log."""


@pytest.fixture
def talk(talk: Conversation) -> Conversation:
    """Return a conversation with a concluded effort of four turns, in a running fifth turn."""
    talk.effort("a", *QUESTIONS)
    talk.ask("How was that?")
    return talk


@pytest.fixture
def tight(talk: Conversation) -> Conversation:
    """Return the conversation with room for 35 of the 50 words of the log."""
    talk.set(context_budget=talk.fixed + int(35 / LOG_SHARE))
    return talk


def test_the_answer_says_what_is_not_shown_and_how_to_get_it(talk: Conversation) -> None:
    """A part names the rest and the calls that show it, but nothing that an earlier call shows."""
    result = talk.call("expand_effort", effort_id="a", turns="2-3")
    second = talk.call("expand_effort", effort_id="a", turns="4")

    assert result["not_shown"] == "1,4"
    assert result["how"].startswith("expand_effort with turns=")
    assert 'read_log(turns="1,4")' in result["how"]
    assert second["not_shown"] == "1"


def test_a_log_too_long_for_its_share_is_expanded_as_far_as_it_goes(talk: Conversation) -> None:
    """How it began and ended come first; what is asked for then is added, and nothing leaves.

    Where no more has room, the result names the call that reads the rest.
    """
    talk.answer()
    talk.effort("b", *["word " * 60] * 4)
    talk.ask("Show all of it.")
    talk.set(context_budget=talk.fixed + 800)
    first = talk.call("expand_effort", effort_id="b")
    second = talk.call("expand_effort", effort_id="b", turns=first["not_shown"])
    third = talk.call("expand_effort", effort_id="b")

    assert (first["turns"], first["not_shown"]) == ("6,9", "7-8")
    assert second["turns"] == "7"
    assert 'read_log(turns="8")' in second["how"]
    assert "expand_effort" not in second["how"]
    assert 'read_log(turns="8")' in third["error"]
    assert talk.state.expanded["b"]["turns"] == [6, 7, 9]
    assert sum(log.count("[turn ") for log in expanded(talk)) == 3


def test_turns_of_another_effort_are_refused(talk: Conversation) -> None:
    """The error quotes the turns that are wrong and those that are right."""
    result = talk.call("expand_effort", effort_id="a", turns="3-6,9")

    assert result["error"] == "turns '5-6,9' are not in effort 'a'; it has '1-4'"
    assert talk.state.expanded == {}


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", "1,4"),
        ("something else", "1,4"),
        ("login or cache?", "1,3"),
        ("cold cache", "3"),
        ("TOKEN expired", "2"),
        ("token cache", "2-3"),
        ("the caches", "3"),
        ("what was it?", "1,4"),
    ],
)
def test_of_a_long_log_the_matching_turns_are_shown(
    tight: Conversation, query: str, shown: str
) -> None:
    """What fits of the turns that match best is shown, else first and last."""
    result = tight.call("expand_effort", effort_id="a", query=query)

    assert result["turns"] == shown


def test_one_turn_is_shown_even_if_it_is_too_large(talk: Conversation) -> None:
    """A turn over the share alone is shown by its head, with the call that reads on."""
    talk.answer()
    talk.set(context_budget=2_000, rebuild="every-turn")
    talk.effort("long", "word " * 900)
    talk.turn("Small talk.")
    talk.ask("Show it.")
    result = talk.call("expand_effort", effort_id="long")

    assert result["turns"] == "6"
    assert 'tokens left out; read_log(turns="6", offset=' in expanded(talk)[0]


@pytest.mark.parametrize("asked", [("1", "2"), ("1", "1-2"), ("1-2", "2")])
def test_parts_that_one_turn_brings_back_are_one_log_after_a_change(
    talk: Conversation, asked: tuple[str, ...]
) -> None:
    """Each of its turns is shown once."""
    for turns in asked:
        talk.call("expand_effort", effort_id="a", turns=turns)
    talk.answer()
    talk.plan = new_plan(talk.work, "concluded")
    talk.ask("And now?")

    shown = "".join(expanded(talk))
    assert talk.state.expanded["a"]["turns"] == [1, 2]
    assert (shown.count(QUESTIONS[0]), shown.count(QUESTIONS[1])) == (1, 1)
    assert len(expanded(talk)) == 1


def test_a_log_that_had_to_leave_is_named(talk: Conversation) -> None:
    """The context says that it is gone, and so does `effort_status`."""
    talk.call("expand_effort", effort_id="a")
    talk.answer()
    talk.ask("Which efforts?")
    before = talk.call("effort_status")["efforts"][0]["expanded"]
    talk.plan = replace(new_plan(talk.work, "concluded"), logs={"a": ""})

    shown = [text(message) for message in talk.context.messages]
    assert "out of view again: the log of a. expand_effort shows it." in map(unfenced, shown)
    assert before
    assert not talk.call("effort_status")["efforts"][0]["expanded"]


def test_an_effort_of_this_turn_only_is_in_view_already(talk: Conversation) -> None:
    """Opened, closed and expanded in one message: there is no earlier turn to show."""
    *_, shown = talk.run(
        call("open_effort", name="b"), call("close_effort"), call("expand_effort", effort_id="b")
    )

    assert f'read_log(turns="{talk.state.turn}"' in shown["error"]
    assert talk.state.expanded == {}


def test_what_returns_does_not_exceed_the_limit(talk: Conversation) -> None:
    """For a summary that comes back with its log, the longest unreferenced one leaves."""
    talk.set(MOST_SUMMARIES=1)
    talk.run(call("open_effort", name="b"), call("close_effort"))
    talk.answer()
    talk.ask("And the first one?")
    talk.call("expand_effort", effort_id="a")

    happened = [event["type"] for event in talk.state.events[-3:]]
    assert happened == ["returned", "expanded", "evicted"]
    assert list(talk.state.summaries) == ["a"]
    assert talk.banners[-3] == "--- Returned effort: a ---"
    assert talk.banners[-1] == "--- Evicted effort: b (kept in the archive) ---"


def test_expanded_logs_share_a_third_of_the_room(talk: Conversation) -> None:
    """Beside other logs as many turns come as fit; where none does, the error says which leave."""
    for name in ("b", "c"):
        talk.answer()
        talk.effort(name, *QUESTIONS)
        talk.ask("And how was that?")
    talk.set(context_budget=talk.fixed + int(73 / LOGS_SHARE))
    talk.call("expand_effort", effort_id="a")

    part = talk.call("expand_effort", effort_id="b")
    refused = talk.call("expand_effort", effort_id="c")
    talk.call("collapse_effort", effort_id="a")
    whole = talk.call("expand_effort", effort_id="c")

    assert (part["turns"], whole["turns"]) == ("6", "11-14")
    assert part["how"].endswith("no more of the log has room beside that of a")
    assert "(a, b)" in refused["error"]


def test_goals_that_would_not_be_shown_are_refused(talk: Conversation) -> None:
    """Goals and constraints of open efforts have an eighth of the room; less is always taken."""
    talk.call("open_effort", name="c", goal="Ship.", constraints=["Keep the API."])
    rules = [f"never change table {number}" for number in range(talk.room)]

    refused = talk.call("update_goal", add_constraints=rules)
    taken = talk.call("update_goal", add_constraints=rules[:1], drop_constraints=["Keep the API."])

    assert "close an effort" in refused["error"]
    assert taken["constraints"] == rules[:1]


def test_one_long_turn_is_shown_from_what_matches_on(talk: Conversation) -> None:
    """The quote begins with the round of the match, and the offsets are those of the whole turn."""
    talk.answer()
    talk.set(context_budget=talk.fixed + 3_000)
    talk.ask("Mend both.")
    talk.call("open_effort", name="first")
    talk.look_up("something else " * 200, key="first")
    talk.call("close_effort")
    talk.call("open_effort", name="long")
    talk.look_up("word " * 900, key="before")
    talk.look_up("AssertionError: the parser fails at line 7", key="parser")
    talk.look_up("word " * 900, key="after")
    talk.call("close_effort")
    talk.answer("Done.")
    talk.ask("Where did it fail?")

    result = talk.call("expand_effort", effort_id="long", query="parser AssertionError")
    read = talk.call("read_log", turns="6", offset=result["offset"])
    again = talk.call("expand_effort", effort_id="long", query="AssertionError")

    (log,) = expanded(talk)
    assert log.split("\n")[2] == f"[from offset {result['offset']} on]"
    assert log.split("\n")[3].startswith('assistant calls look_up {"key": "parser"}')
    assert "the parser fails at line 7" in log
    assert words_of(read["turns"][0]).startswith('look_up {"key": "parser"}')
    assert f"offset={result['offset']})" in again["how"]


def test_first_of_equal_matches_is_shown(talk: Conversation) -> None:
    """A later place that says the same words more often is none the better."""
    talk.answer()
    talk.set(context_budget=talk.fixed + 3_000)
    talk.ask("Mend it.")
    talk.call("open_effort", name="long")
    talk.look_up("word " * 900 + "\nRan 8 tests in 4 s\n\nFAILED (failures=8)", key="run 1")
    for number in range(2, 9):
        lines = "test_parse ... FAIL\ntest_show ... FAIL\n" * 3
        ended = f"Ran 8 tests in 5 s\nFAILED (failures={number})\n"
        talk.look_up(lines + ended + "word " * 900, key="run")
    talk.call("close_effort")
    talk.answer("Done.")
    talk.ask("What did the first run print?")

    talk.call("expand_effort", effort_id="long", query="Ran 8 tests FAILED (failures=")

    assert all(f"FAILED (failures={number})" in expanded(talk)[0] for number in (8, 2))


def test_query_that_left_nothing_out_is_said_to_have_done_so(talk: Conversation) -> None:
    """A short log is shown whole, whatever is asked for."""
    talk.answer()
    talk.effort("short", "The login fails as its token expired.")
    talk.ask("Why?")

    whole = talk.call("expand_effort", effort_id="short", query="expired token")
    part = talk.call("expand_effort", effort_id="a", query="expired token")

    assert "whole" in whole["how"]
    assert "whole" not in part["how"]
