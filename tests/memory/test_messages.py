"""Messages: their text, their calls, and what makes two groups the same."""

import pytest

from ebbtide.memory.messages import answered, calls, clean, digest, text, unanswered
from tests.memory.turns import answer, human

CALL = {"name": "f", "args": {"x": 1}, "id": "1", "type": "tool_call"}
BAD = {"name": "f", "args": "{", "id": "2", "error": "no JSON"}


def result(call: str) -> dict[str, object]:
    """Return the result of a call."""
    return {"type": "tool", "data": {"content": "ok", "tool_call_id": call}}


@pytest.mark.parametrize(
    "other",
    [
        human("hi", id="2"),
        human("hi", usage_metadata={"input_tokens": 3}),
        human("hi", response_metadata={"created": 1}),
        human("hi", additional_kwargs={"tool_calls": [{"id": "x"}]}),
        human("hi", name=None, tool_calls=[]),
    ],
)
def test_digest_ignores_what_models_invent(other: dict[str, object]) -> None:
    """Ids, usage, times and empty fields do not make a message another one."""
    assert digest([other]) == digest([human("hi", id="1")])


@pytest.mark.parametrize(
    "other",
    [[human("hi!")], [answer("hi")], [human("hi", name="ann")], [human("hi"), human("hi")], []],
)
def test_digest_tells_contents_apart(other: list[dict[str, object]]) -> None:
    """Another text, role, name or number of messages is another group."""
    assert digest(other) != digest([human("hi")])


def test_digest_ignores_ids_of_calls() -> None:
    """Ids of tool calls, which models choose, do not count; their arguments do."""
    one = answer("", tool_calls=[CALL])

    assert digest([one]) == digest([answer("", tool_calls=[{**CALL, "id": "9"}])])
    assert digest([one]) != digest([answer("", tool_calls=[{**CALL, "args": {}}])])


def test_clean_replaces_lone_surrogates_at_any_depth() -> None:
    """Lone surrogates are replaced in keys and values; all else stays."""
    assert clean({"\ud800": ["a\udfff", ("b", 1)], "x": None}) == {
        "\ufffd": ["a\ufffd", ("b", 1)],
        "x": None,
    }


def test_text_of_blocks() -> None:
    """The text of a message is that of its blocks, with the kind in place of other blocks."""
    blocks = ["a", {"type": "text", "text": "b"}, {"type": "image"}, {"x": 1}]

    assert text({"type": "human", "data": {"content": blocks}}) == "ab[image][content]"
    assert text(human("")) == ""


def test_calls_are_listed_with_the_invalid_ones() -> None:
    """Malformed calls are calls too: they need an answer."""
    message = answer("", tool_calls=[CALL], invalid_tool_calls=[BAD])

    assert [call["id"] for call in calls(message)] == ["1", "2"]


def test_unanswered_calls_are_found_by_round() -> None:
    """A result answers the calls of the message before it, though ids repeat."""
    asks = answer("", tool_calls=[CALL])

    assert unanswered([asks, result("1")]) == ()
    assert unanswered([asks, result("1"), asks]) == (CALL,)
    assert unanswered([asks, answer("", tool_calls=[CALL]), result("1")]) == (CALL,)


def test_answered_is_ended_by_the_model() -> None:
    """A turn is answered when it ends in an assistant message without calls."""
    assert answered([human("hi"), answer("yes")])
    assert not answered([human("hi")])
    assert not answered([answer("", tool_calls=[CALL])])
    assert not answered([])
