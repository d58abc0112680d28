"""Recalled text: stored as a reference, read back as it was."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage

from ebbtide.memory.messages import with_content
from ebbtide.memory.recalled import Recalled, recalled, restored, result_of, shortened, stored
from ebbtide.memory.search.terms import shared_terms
from ebbtide.memory.tools.toolbox import result_message
from tests.memory.conversations import Conversation, ai, call, human, tool, words_of

LOG = 'user: "q" \\ é 中 🙂\n\ttool: {"text":"x"}\x00\x85'
RANGE = {"turn": 2, "offset": 3, "end": 20}


def said(text: str) -> list[dict[str, str]]:
    """Return the entries of a turn in which the user says a text."""
    return [{"speaker": "user", "text": text}]


def quoting(*texts: str, offset: int = 0) -> BaseMessage:
    """Return the result of `read_log` that quotes texts of one turn each from an offset on."""
    parts = [{"turn": 2, "efforts": ["a"], "messages": said(text)} for text in texts]
    spans = [{"turn": 2, "offset": offset, "end": offset + len(text)} for text in texts]
    body = {"turns": parts, "next": None}
    return result_message(call("read_log", call_id="1"), body, {"recalled": spans})


def found(texts: Sequence[str], ranges: Sequence[Any]) -> BaseMessage:
    """Return the result of a search that quotes these texts, and says that it quotes ranges."""
    results = [{"id": "a", "passages": [{"turn": 2, "text": text}]} for text in texts]
    body = {"query": "q", "results": results}
    return result_message(call("search_efforts", call_id="1"), body, {"recalled": ranges})


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])), st.data())
def test_a_stored_result_is_restored_byte_for_byte(log: str, data: st.DataObject) -> None:
    """Whatever part of whatever text is quoted, it comes back exactly."""
    offset = data.draw(st.integers(0, len(log)))
    end = data.draw(st.integers(offset, len(log)))
    message = quoting(log[offset:end], log[offset:end], offset=offset)

    assert restored(stored(message), lambda one: said(log[one.offset : one.end])) == message


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
def test_a_stored_search_is_restored_byte_for_byte(logs: list[str]) -> None:
    """Each passage comes back from its own turn."""
    ranges = [{"turn": at, "offset": 0, "end": len(log)} for at, log in enumerate(logs)]
    message = found(logs, ranges)

    assert restored(stored(message), lambda one: logs[one.turn]) == message
    assert '"text":""' in stored(message).content


def test_a_search_that_is_cut_keeps_its_first_result_and_what_the_query_asks_for() -> None:
    """Of equal scores the first result stays; the others keep the sentence that was asked for."""
    port = (
        "user: Good morning.\nassistant: It rains. "
        + "I looked it up. " * 9
        + "The port is 8443 "
        + "there " * 30
    )
    first, last = "The port. " + "one " * 30, port.removeprefix("user: ") + "now."
    ranges = [{"turn": 2, "offset": 0, "end": len(text), "score": 1.0} for text in (first, last)]
    message = found([first, last], ranges)
    content = str(message.content).replace('"query":"q"', '"query":"Which port?"')
    message = with_content(message, content)

    cut = result_of(shortened(message, 60, lambda text: len(text) // 4, shared_terms))
    texts = [result["passages"][0]["text"] for result in cut["results"]]

    assert texts[0] == first
    assert texts[1].startswith("…\nassistant: The port is 8443 there")
    assert texts[1].endswith("…")


def test_a_search_that_is_cut_loses_its_summaries_first() -> None:
    """What was found has the room of summaries, which stand elsewhere or are read again."""
    found_text = "The port is 8443. " + "word " * 80
    ranges = [{"turn": 2, "offset": 0, "end": len(found_text), "score": 1.0}] * 2
    message = found([found_text] * 2, ranges)
    body = result_of(message)
    results = [{**one, "summary": "The proxy was mended. " * 20} for one in body["results"]]
    content = json.dumps({**body, "results": results})
    message = with_content(message, content)

    cut = result_of(shortened(message, 90, lambda text: len(text.split()), shared_terms))
    kept = [one["passages"][0]["text"] for one in cut["results"]]

    assert kept[0] == found_text
    assert len(kept[1]) > len(found_text) / 2
    assert all(one["summary"].endswith("…") for one in cut["results"])


def test_next_has_all_that_was_asked_for_behind_the_cut() -> None:
    """Turns that follow the one that is cut, and those that were not read, are not forgotten."""
    message = quoting("one " * 60, "two " * 60)
    body = dict(result_of(message)) | {"next": {"turns": "7-8"}}
    body["turns"][1]["turn"] = 5
    message.content = json.dumps(body)

    cut = result_of(shortened(message, 70, lambda text: len(text.split()), shared_terms))

    first = next(part["turn"] for part in cut["turns"] if "left_out" in part)
    assert cut["next"]["turns"] == {2: "2,5,7-8", 5: "5,7-8"}[first]


def test_the_stored_result_does_not_hold_the_text() -> None:
    """What the archive keeps of a quoting result is the range, not the text."""
    kept = stored(quoting(LOG))

    assert kept.content == ('{"turns":[{"turn":2,"efforts":["a"],"messages":[]}],"next":null}')
    assert recalled(kept) == (Recalled(2, 0, len(LOG)),)


@pytest.mark.parametrize(
    "message",
    [
        human(LOG),
        ai(LOG),
        tool("1", LOG),
        tool("1", LOG, "read_log"),
        tool("1", '{"error":"no"}', "read_log", status="error"),
        tool("1", LOG, artifact={"recalled": [RANGE]}),
        tool("1", LOG, artifact={"recalled": {"items": 3}}),
        tool("1", LOG, "read_log", artifact={"recalled": {"items": 3}}),
        tool("1", LOG, "read_log", artifact={"recalled": [1]}),
        tool("1", '{"text":""}', "read_log", artifact={"recalled": []}),
        tool("1", '{"text":""}', "read_log", artifact={"recalled": [RANGE]}),
        tool("1", '{"turns":[{"text":""}]}', "read_log", artifact={"recalled": [RANGE, RANGE]}),
        tool("1", '{"text":""}', "search_efforts", artifact={"recalled": [RANGE]}),
        tool("1", '{"results":5}', "search_efforts", artifact={"recalled": [RANGE]}),
        tool("1", '{"results":[5]}', "search_efforts", artifact={"recalled": [RANGE]}),
        tool("1", '{"":"x"}', "look_up", artifact={"recalled": [RANGE]}),
        tool("1", '{"text":"x"}', "look_up", artifact={"recalled": [RANGE]}),
        found([LOG], []),
        found([LOG], [RANGE, RANGE]),
        found([LOG], [{**RANGE, "end": "20"}]),
        found([LOG], [{**RANGE, "score": "high"}]),
        tool("1", '{"turns":5}', "read_log", artifact={"recalled": [RANGE]}),
        tool("1", '{"turns":[{"turn":2}]}', "read_log", artifact={"recalled": [RANGE]}),
        tool("1", LOG, "read_log", artifact="recalled"),
        human(LOG, name="read_log", artifact={"recalled": [RANGE]}),
    ],
)
def test_other_messages_are_kept_whole(message: BaseMessage) -> None:
    """No message but a result that quotes the log loses its text, whatever artifact it brings."""
    assert recalled(message) == ()
    assert stored(message) == message
    assert restored(message, lambda _one: "") == message


def test_what_was_read_comes_back_from_the_archive(talk: Conversation) -> None:
    """A committed turn that read a log is seen again as the model saw it."""
    talk.turn(LOG)
    talk.ask("What did I say?")
    talk.call("read_log", turns=1)
    seen = talk.messages
    turn = talk.answer()

    assert talk.work.view.messages(turn)[:-1] == seen
    assert turn.messages[:-1] == tuple(stored(message) for message in seen)


def test_reading_what_was_read_shows_a_reference(talk: Conversation) -> None:
    """A log that holds recalled text shows where it is, so that logs do not grow by reading."""
    talk.turn("The port is 8080.")
    talk.turn("Read it.", call("read_log", turns=1))
    talk.ask("And now read that.")
    (read,) = talk.call("read_log", turns=2)["turns"]

    assert "(recalled turn 1, characters 0-" in words_of(read)
    assert "8080" not in words_of(read)
