"""Passages of a turn, and the excerpts that show them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage, ToolMessage

from ebbtide.memory.search.passages import (
    LONGEST,
    excerpt,
    passage_spans,
    passages,
    shown_excerpt,
)
from ebbtide.memory.transcript import excerpted, log_text
from tests.memory.conversations import ai, call, human, tool

SENTENCE = "This sentence is one of very many that are all the same. "
PARAGRAPH = SENTENCE * 9


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            human([{"type": "text", "text": "see"}, {"type": "image"}, "this"]),
            ["see\n[image]\nthis"],
        ),
        (ai("", call("look_up", key="größe")), ['\nlook_up {"key": "größe"}']),
        (ai("", call("expand_effort", effort_id="a")), []),
        (tool("1", "8080", "read_log"), []),
        (human(f"see {'QUJD' * 200} here"), ["see   here"]),
        (ToolMessage("", tool_call_id="1"), []),
    ],
)
def test_a_message_is_searched_by_its_texts_and_calls(
    message: BaseMessage, said: list[str]
) -> None:
    """Texts, calls and results of the application count; own tools and encoded data do not."""
    assert [one.text for one in passages([message])] == said


@given(st.text(alphabet=st.sampled_from('ab .!?\n。"*{},:0\u00e9'), max_size=3_000))
def test_nothing_is_lost(said: str) -> None:
    """Passages follow each other, the first from the beginning, the last to the end."""
    found = list(passage_spans(said))

    assert "".join(said[begin:end] for begin, end in found) == said
    assert all(0 < end - begin <= LONGEST + len(said) for begin, end in found)


@pytest.mark.parametrize(
    ("message", "speaker"),
    [
        (human("Ann Lee: yes"), "Ann Lee"),
        (human("I have a cat.", name="Bob"), "Bob"),
        (human("Have you one? It is: grey."), ""),
        (human("port: 8080"), ""),
    ],
)
def test_a_speaker_is_named_by_text_or_message(message: BaseMessage, speaker: str) -> None:
    """A name before the text, or of the message, is the speaker's."""
    (found,) = passages([message])

    assert found.speaker == speaker
    assert found.searched.startswith(speaker)


@pytest.mark.parametrize(
    ("message", "asks"),
    [
        (human("Ann: which port?"), True),
        (human("It is down. Which port?"), False),
        (human("OK, please search our notes for the retry budget."), True),
        (human("what was the fix for the auth thing"), True),
        (human("Remind me to call Ann at five."), False),
        (human("What we did was to raise the retry budget."), False),
        (human("auth fix"), False),
        (ai("Which port?"), False),
    ],
)
def test_a_passage_of_only_questions_asks(message: BaseMessage, *, asks: bool) -> None:
    """A passage of the user asks if all its sentences do, with a question mark or without."""
    (found,) = passages([message])

    assert found.asks == asks


def test_a_passage_of_only_query_terms_asks() -> None:
    """A passage of the user with no terms but those of the turn's search asks."""
    searched = ai("", call("search_efforts", query="authentication problem"))
    said = ("The auth problems!", "The authentication problem is a clock.")
    found = [passages([human(one), searched, ai("I do not find it.")])[0].asks for one in said]

    assert found == [True, False]


@pytest.mark.parametrize(
    "messages",
    [
        [ai(f"{PARAGRAPH}\n\n{PARAGRAPH}")],
        [human("a"), ai("", call("look_up", key="port")), tool("1", '{"port": 8080}')],
        [tool("1", f"{'a ' * 350}. {'b ' * 150}. {'a ' * 350}.")],
    ],
    ids=["paragraphs", "call", "repeated text"],
)
def test_an_excerpt_contains_its_passage(messages: list[Any]) -> None:
    """The excerpt for a passage has its text as the turn says it."""
    for place, one in enumerate(passages(messages)):
        part = excerpt(messages, place)
        assert part is not None
        assert one.text.strip() in log_text(messages)[part.begin : part.end]


def test_calls_are_shown_with_what_they_found() -> None:
    """Of one result, and never of a search that was made there or of a later round."""
    asked = [call("look_up", call_id=key, key=key) for key in ("host", "port")]
    found = [tool("host", "It is down."), tool("port", "The port is 8443.")]
    messages = [human("Look."), ai("", *asked), *found, ai("The host has port 8443.")]

    part = shown_excerpt(messages, 1, {"host"})

    assert excerpted(messages, part.begin, part.end).splitlines() == [
        'assistant calls look_up {"key": "host"}',
        'assistant calls look_up {"key": "port"}',
        "tool look_up: It is down.",
    ]


def test_large_results_share_what_is_left() -> None:
    """The words and the calls of a turn with megabytes of results keep passages of their own."""
    log = "".join(f"Line {number} of the log is fine. " for number in range(20_000))
    said = [human("Which port?"), ai("", call("look_up", key="port")), tool("1", log)]
    messages = [*said, ai("It is 8443."), human("Thanks.")]

    found = passages(messages)

    assert len(found) <= 1_023
    assert [one.text.strip() for one in found if one.message != 2] == [
        "Which port?",
        'look_up {"key": "port"}',
        "It is 8443.",
        "Thanks.",
    ]
    assert max(len(one.text) for one in found) < 2 * len(log) / 1_000
    assert excerpt(messages, len(found) - 3) is not None
