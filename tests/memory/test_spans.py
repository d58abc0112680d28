"""Which messages of a turn belong to which effort."""

from typing import Any

from langchain_core.messages import BaseMessage

from ebbtide.memory.messages import compact
from ebbtide.memory.spans import headed, spans
from tests.memory.conversations import ai, call, human, tool


def changed(name: str, status: str, effort: str) -> list[BaseMessage]:
    """Return a round in which a tool of the memory changed an effort."""
    result: dict[str, Any] = {"status": status, "effort_id": effort}
    return [ai("", call(name, call_id="c")), tool("c", compact(result), name)]


WORK = [ai("", call("look_up", call_id="w")), tool("w")]
OPEN_A = changed("open_effort", "opened", "a")
OPEN_B = changed("open_effort", "opened", "b")
CLOSE_A = changed("close_effort", "concluded", "a")


def test_first_effort_of_a_turn_has_it_from_the_request_on() -> None:
    """What was done before it was opened belongs to it, if no effort was active."""
    messages = [human(), *WORK, *OPEN_A, *WORK, ai("Done.")]

    assert spans(messages, "") == [("a", 0, len(messages))]


def test_rounds_before_a_second_effort_belong_to_the_active_one() -> None:
    """An effort that is opened later in a turn begins with its round."""
    messages = [human(), *WORK, *OPEN_B, *WORK, ai("Done.")]

    assert spans(messages, "a") == [("a", 0, 3), ("b", 3, 8)]


def test_closing_ends_the_span_with_its_round() -> None:
    """What follows is ambient, but for the final answer, which belongs to what was closed last."""
    messages = [human(), *OPEN_A, *WORK, *CLOSE_A, *WORK, ai("Done.")]

    assert spans(messages, "") == [("a", 0, 7), ("", 7, 9), ("a", 9, 10)]


def test_request_heads_every_span() -> None:
    """No effort stands without the request that it serves."""
    messages = [human("Do both."), *OPEN_A, *CLOSE_A, *OPEN_B, ai("Done.")]
    parts = spans(messages, "")

    assert parts == [("a", 0, 5), ("b", 5, 8)]
    assert headed(messages, parts, "b") == (messages[0], *messages[5:])


def test_round_that_closes_one_and_begins_the_next() -> None:
    """Where other tools are called after the next one is opened, the round is the next one's."""
    at_once = [call(name, call_id=name) for name in ("close_effort", "open_effort", "look_up")]
    results = [CLOSE_A[1], OPEN_B[1], tool("look_up")]
    begun = [ai("", *at_once), *results]
    ended = [ai("", at_once[2], *at_once[:2]), results[2], *results[:2]]

    assert spans([human(), *WORK, *begun, ai("Done.")], "a") == [("a", 0, 3), ("b", 3, 8)]
    assert spans([human(), *WORK, *ended, ai("Done.")], "a")[0] == ("a", 0, 7)
