"""Searching other sessions: what is answered, and that nothing of it is kept as a copy."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.memory.archive.query import turns_of
from ebbtide.memory.recalled import Recalled, recalled, stored
from ebbtide.memory.tools import search_results
from ebbtide.memory.tools.toolbox import result_message
from ebbtide.memory.view import view_at
from ebbtide.prompts.loader import render
from tests.draws import examples
from tests.memory.conversations import LONG_ENOUGH, SESSION, Conversation, call, conversation
from tests.memory.earlier import FIX, LOG, archived, conclude, earlier
from tests.memory.tools.test_search_efforts import events

AUTH = "t1/auth-bug"
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def results(talk: Conversation, query: str, **others: Any) -> list[dict[str, Any]]:
    """Return what a search of the running turn answers."""
    found: list[dict[str, Any]] = talk.call("search_efforts", query=query, **others)["results"]
    return found


def test_an_effort_elsewhere_is_found(talk: Conversation) -> None:
    """With its session, its summary on the day on which it was concluded, and what was said."""
    earlier(talk)
    talk.ask("What was that again?")
    first, *_ = results(talk, "axios interceptor")

    summary, *_ = first["passages"]
    assert list(first) == ["id", "session", "status", "passages"]
    assert (first["id"], first["session"], summary["turn"]) == (AUTH, "t1", 3)
    assert (len(summary["at"]), summary["text"]) == (10, FIX)
    assert AUTH in events(talk)[0]["efforts"]


def test_the_raw_text_of_others_is_searched(talk: Conversation) -> None:
    """What was only said in another session is found with its session, its turn and its day."""
    earlier(talk)
    talk.ask("What is my cat called?")

    (found,) = results(talk, "cat Minka")

    (passage,) = found["passages"]
    assert list(found) == ["session", "passages"]
    assert (found["session"], passage["turn"]) == ("t1", 1)
    assert "My cat is called Minka." in passage["text"]


def test_phrasings_find_one_effort_elsewhere_once(talk: Conversation) -> None:
    """What several phrasings find is one result, and each passage of it stands there once."""
    earlier(talk)
    talk.ask("What was that again?")

    ids = [one.get("id") for one in results(talk, "interceptor", also=["login"])]

    assert ids.count(AUTH) == 1


def test_a_search_that_is_used_counts(talk: Conversation) -> None:
    """An effort that was found and is named in the answer comes into the context."""
    earlier(talk)
    talk.turn("What was it?", call("search_efforts", query="axios"), answer="See auth-bug.")

    assert list(talk.state.summaries) == [AUTH]


def test_nothing_of_it_is_stored(talk: Conversation) -> None:
    """Neither summary nor log of another session stands in any record of this one."""
    before = earlier(talk)
    talk.ask("Hello.")
    talk.surface(AUTH)
    talk.run(
        call("search_efforts", query="axios interceptor"),
        call("read_log", turns=2, session="t1"),
        call("effort_status"),
        call("expand_effort", effort_id=AUTH),
        call("open_effort", name="css"),
        call("collapse_effort", effort_id=AUTH),
    )
    talk.look_up(LONG_ENOUGH.replace("401", "402"))
    talk.run(call("close_effort"))
    talk.answer()
    kept, there = archived(talk), archived(before)

    assert [piece in there for piece in ("auto-called", "fails with error 401")] == [True] * 2
    assert [piece in kept for piece in ("auto-called", "fails with error 401")] == [False] * 2


def test_it_stays_what_it_was(talk: Conversation) -> None:
    """Whatever the other session does later, and on whichever branch, the same record is read."""
    before = earlier(talk)
    first = before.tip
    talk.ask("What was it?")
    talk.run(call("search_efforts", query="interceptor"), call("read_log", turns=3, session="t1"))
    seen = talk.messages
    turn = talk.answer()
    before.turn("Once more.", call("reopen_effort", effort_id="auth-bug"))
    before.turn(LONG_ENOUGH, call("close_effort"))
    before.tip, before.day = first, 22
    before.turn("Another branch.")

    assert view_at(talk.archive, SESSION, talk.tip).messages(turn)[:-1] == seen


def test_what_is_erased_there_is_gone_here(talk: Conversation) -> None:
    """Results that quoted an erased turn are empty, summaries of it say that they are redacted."""
    before = earlier(talk)
    talk.ask("What was it?")
    talk.run(call("search_efforts", query="interceptor"), call("read_log", turns=3, session="t1"))
    turn = talk.answer()
    talk.archive.erase(before.session, before.tip, 3)
    found, read = [
        message.content for message in talk.work.view.messages(turn) if message.type == "tool"
    ]

    assert f'"text":"{render("erased_summary")}"' in found
    assert '"messages":[]' in read
    assert FIX not in found
    assert LOG[1] not in read


def test_an_erasure_during_a_search(talk: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was ranked before is not there any more, and the search goes on."""
    before = earlier(talk)
    talk.ask("What was it?")
    read = turns_of

    def erasing(*args: Any) -> Any:
        monkeypatch.setattr(search_results, "turns_of", read)
        talk.archive.erase(before.session, before.tip, 3)
        return read(*args)

    monkeypatch.setattr(search_results, "turns_of", erasing)

    assert LOG[1] not in str(results(talk, "interceptor"))


def test_who_lost_the_session_reads_nothing(talk: Conversation) -> None:
    """A reference to a session that is not there any more is empty."""
    tip = earlier(talk).tip
    gone = Recalled(2, 0, 9, "t9", tip.id)
    nobody = Recalled(2, 0, 9, "t9", tip.id, "auth-bug")
    unknown = [Recalled(2, 0, 9, "t1", "ab" * 16), Recalled(2, 0, 9, "t1", "no id")]
    no_such = Recalled(2, 0, 9, "t1", tip.id, "no-such")

    assert not any(talk.work.view.recall(one) for one in (gone, nobody, *unknown, no_such))


def test_a_reference_names_nobody_else(talk: Conversation) -> None:
    """The same reference in a session of another user reads nothing, or that user's own."""
    found = Recalled(3, 0, len(FIX), "t1", earlier(talk).tip.id, "auth-bug")

    assert talk.work.view.recall(found) == FIX
    assert talk.beside("t2", "bob").work.view.recall(found) == ""


@pytest.mark.thorough
@settings(max_examples=examples(12))
@given(TEXT, st.data())
def test_any_text_comes_back_byte_for_byte(said: str, data: st.DataObject) -> None:
    """Whatever a summary or a turn of another session says, a stored result is restored exactly."""
    with conversation() as talk:
        before = talk.beside("t1")
        before.turn(said, call("open_effort", name="a"), answer=said)
        before.turn(LONG_ENOUGH)
        conclude(before, "b", f"{said} interceptor")
        talk.ask("What was it?")
        talk.free = data.draw(st.sampled_from([1, 5, 1_000]))
        talk.run(
            call("search_efforts", query="interceptor"), call("read_log", turns=1, session="t1")
        )
        seen = talk.messages
        turn = talk.answer()

        assert talk.work.view.messages(turn)[:-1] == seen


@pytest.mark.parametrize(
    "where",
    [
        {"session": "t1"},
        {"session": "t1", "id": 3},
        {"session": "t1", "id": "ab" * 16, "user": "bob"},
    ],
)
def test_what_names_no_record_is_no_reference(where: dict[str, Any]) -> None:
    """Any other field, or half of a place, makes it something else, which is kept whole."""
    body = {"turn": 3, "text": "said"}
    artifact = {"recalled": [{"turn": 3, "offset": 0, "end": 4, **where}]}
    message = result_message(call("read_log", call_id="1"), {"turns": [body]}, artifact)

    assert recalled(message) == ()
    assert stored(message) == message
