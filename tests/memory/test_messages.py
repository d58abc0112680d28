"""Messages: their text, their calls, and what makes two groups the same."""

import pytest
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from ebbtide.memory.messages import block_text, unanswered
from ebbtide.memory.serialised import digest
from tests.memory.turns import answer, human

CALL = {"name": "f", "args": {"x": 1}, "id": "1", "type": "tool_call"}


def result(call: str) -> ToolMessage:
    """Return the result of a call."""
    return ToolMessage("ok", tool_call_id=call)


@pytest.mark.parametrize(
    "other",
    [
        human("hi", id="2"),
        human("hi", usage_metadata={"input_tokens": 3}),
        human("hi", additional_kwargs={"tool_calls": [{"id": "x"}]}),
        human("hi", name=None, tool_calls=[]),
    ],
)
def test_digest_ignores_what_models_invent(other: HumanMessage) -> None:
    """Ids, usage, times and empty fields do not make a message another one."""
    assert digest([other]) == digest([human("hi", id="1")])


@pytest.mark.parametrize(
    "other",
    [[human("hi!")], [answer("hi")], [human("hi", name="ann")]],
)
def test_digest_tells_contents_apart(other: list[BaseMessage]) -> None:
    """Another text, role, name or number of messages is another group."""
    assert digest(other) != digest([human("hi")])


def test_digest_tells_calls_apart() -> None:
    """Their arguments and ids count, and so does which of them a result answers."""
    calls = [CALL, {**CALL, "id": "9"}, {**CALL, "args": {}}]
    one, *others = [answer("", tool_calls=[made]) for made in calls]

    assert digest([one]) not in {digest([other]) for other in others}
    assert digest([result("1")]) != digest([result("9")])


def test_unanswered_calls_are_found_by_round() -> None:
    """A result answers the calls of the message before it, though ids repeat."""
    asks = answer("", tool_calls=[CALL])

    assert unanswered([asks, result("1")]) == ()
    assert unanswered([asks, result("1"), asks]) == (CALL,)
    assert unanswered([asks, answer("", tool_calls=[CALL]), result("1")]) == (CALL,)


def test_what_only_a_provider_reads_is_no_text() -> None:
    """Of a block of any other kind its texts are read, and neither signatures nor data."""
    found = {"title": "Ports", "encrypted_content": "c2ln", "url": f"data:{'QUJD' * 99}"}
    block = {"type": "search_results", "tool_use_id": "t1", "content": [{"text": "8443"}, found]}

    assert block_text(block) == "[search_results]\n8443\nPorts"
