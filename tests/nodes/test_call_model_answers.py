"""What a model answered is made fit to be kept: ids of its own, no call without a result."""

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from ebbtide import SettingsError
from ebbtide.memory.messages import unanswered
from tests.doubles import call, malformed, together
from tests.nodes.model_calls import a_call


@pytest.fixture(name="kept")
def answers(tmp_path: Path) -> "Kept":
    """Return what an answer to a question is kept as."""
    return Kept(tmp_path)


class Kept:
    """What an answer is kept as, beside a message with the id "old"."""

    def __init__(self, root: Path) -> None:
        """Keep the archive of the agent."""
        self.root = root

    def messages(self, answer: AIMessage, limit: int | None = None) -> list[BaseMessage]:
        """Return the messages of an answer, of one beyond the limit of rounds if one is given."""
        state = {"messages": [HumanMessage("Go on.", id="old")]}
        made: list[BaseMessage] = a_call(self.root, state, limit=limit).answered([answer])[
            "messages"
        ]
        return made

    def answer(self, answer: AIMessage) -> AIMessage:
        """Return the one message of an answer."""
        (message,) = self.messages(answer)
        assert isinstance(message, AIMessage)
        return message


def test_what_is_no_answer_is_refused(tmp_path: Path) -> None:
    """A model that answers with a message of another kind is named, with what to pass instead."""
    made = a_call(tmp_path, {"messages": [HumanMessage("Go on.")]})

    with pytest.raises(SettingsError, match="ScriptedModel returned a HumanMessage instead"):
        made.answered([HumanMessage("Yes.")])


def test_an_id_that_is_taken_is_replaced(kept: Kept) -> None:
    """A cached answer, whose id came before, gets another one."""
    answer = kept.answer(AIMessage("hello", id="old"))

    assert answer.id not in {None, "old"}


def test_calls_get_distinct_ids(kept: Kept) -> None:
    """Ids that are doubled or missing are replaced, over valid and malformed calls alike."""
    asked = together(call("add", a=1), call("add", a=2), malformed("add", "oops"))
    asked.tool_calls[1]["id"] = asked.tool_calls[0]["id"]
    asked.invalid_tool_calls[0]["id"] = None

    answer = kept.answer(asked)

    first, second = (one["id"] for one in answer.tool_calls)
    assert first == "call_1_add"
    assert len({first, second, answer.invalid_tool_calls[0]["id"], None, ""}) == 5


def test_a_call_without_a_name_has_an_empty_one(kept: Kept) -> None:
    """A malformed call of no tool can be answered by name."""
    asked = malformed("add", "oops")
    asked.invalid_tool_calls[0]["name"] = None

    answer = kept.answer(asked)

    assert answer.invalid_tool_calls[0]["name"] == ""


def test_calls_beyond_the_limit_get_errors_and_words_follow(kept: Kept) -> None:
    """Every call has an error result that names the limit, and the turn ends in words."""
    messages = kept.messages(together(call("add", a=1), malformed("add", "oops")), 1)

    results = [message for message in messages if isinstance(message, ToolMessage)]
    assert [result.status for result in results] == ["error", "error"]
    assert "limit of 1 for rounds" in results[0].text
    assert "limit of 1 for rounds" in messages[-1].text
    assert unanswered(messages) == ()
    assert len({message.id for message in messages}) == 4
