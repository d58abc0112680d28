"""What a model answered is made fit to be kept: ids of its own, no call without a result."""

from langchain_core.messages import AIMessage, ToolMessage

from ebbtide.memory.messages import unanswered
from ebbtide.nodes.turn.langchain_messages import accepted, cut_short, to_dicts
from tests.doubles import call, malformed, together


def test_an_id_that_is_free_is_kept() -> None:
    """An answer with an id that no message has is the same answer."""
    answer = AIMessage("hello", id="new")

    assert accepted(answer, ["old", None]) == answer


def test_an_id_that_is_taken_is_replaced() -> None:
    """A cached answer, whose id came before, gets another one."""
    answer = accepted(AIMessage("hello", id="old"), ["old"])

    assert answer.id not in {None, "old"}


def test_an_answer_without_an_id_gets_one() -> None:
    """An answer that has no id gets one."""
    answer = accepted(AIMessage("hello"), [])

    assert answer.id


def test_calls_get_distinct_ids() -> None:
    """Ids that are doubled or missing are replaced, over valid and malformed calls alike."""
    asked = together(call("add", a=1), call("add", a=2), malformed("add", "oops"))
    asked.tool_calls[1]["id"] = asked.tool_calls[0]["id"]
    asked.invalid_tool_calls[0]["id"] = None

    answer = accepted(asked, [])

    first, second = (one["id"] for one in answer.tool_calls)
    assert first == "call_1_add"
    assert len({first, second, answer.invalid_tool_calls[0]["id"], None, ""}) == 5


def test_a_call_without_a_name_has_an_empty_one() -> None:
    """A malformed call of no tool can be answered by name."""
    asked = malformed("add", "oops")
    asked.invalid_tool_calls[0]["name"] = None

    answer = accepted(asked, [])

    assert answer.invalid_tool_calls[0]["name"] == ""


def test_lone_surrogates_are_replaced() -> None:
    """Text that no checkpointer could store is mended."""
    answer = accepted(AIMessage("half \ud83d"), [])

    assert answer.text == "half \ufffd"


def test_an_answer_without_calls_is_not_cut_short() -> None:
    """Words are the last answer, whatever the limit."""
    answer = AIMessage("done", id="a")

    assert cut_short([answer], 0) == [answer]


def test_calls_beyond_the_limit_get_errors_and_words_follow() -> None:
    """Every call has an error result that names the limit, and the turn ends in words."""
    answer = accepted(together(call("add", a=1), malformed("add", "oops")), [])

    messages = cut_short([answer], 1)

    results = [message for message in messages if isinstance(message, ToolMessage)]
    assert [result.status for result in results] == ["error", "error"]
    assert "limit of 1 for rounds" in results[0].text
    assert "limit of 1 for rounds" in messages[-1].text
    assert unanswered(to_dicts(messages)) == ()
    assert len({message.id for message in messages}) == 4
