"""The memory tools on efforts of earlier sessions: what works, and what they say of the rest."""

from dataclasses import replace

import pytest

from ebbtide.memory.fences import NAME
from ebbtide.memory.messages import text
from ebbtide.memory.recalled import Recalled, recalled, stored
from ebbtide.memory.salience.extract import Extracted, split_log
from ebbtide.memory.salience.verify import verify
from tests.memory.conversations import LONG_ENOUGH, Conversation, call, words_of
from tests.memory.earlier import FIX, LOG, conclude, earlier

AUTH = "t1/auth-bug"


@pytest.fixture
def here(talk: Conversation) -> Conversation:
    """Return a session in its first turn, in which an effort of an earlier one was surfaced."""
    earlier(talk)
    talk.ask("Hello again.")
    talk.surface(AUTH)
    talk.plan = None
    return talk


def shown(talk: Conversation) -> str:
    """Return what the memory shows in the context, as one text."""
    return "\n".join(text(m) for m in talk.context.messages if m.name == NAME)


def test_it_is_expanded(here: Conversation) -> None:
    """Its log stands in the context, quoted under the qualified id."""
    result = here.call("expand_effort", effort_id="t1/Auth Bug")

    assert (result["status"], result["effort_id"], result["turns"]) == ("expanded", AUTH, "2-3")
    assert f'the stored log of the effort "{AUTH}", concluded, turns 2-3, ' in shown(here)
    assert all(said in shown(here) for said in LOG)
    assert "Minka" not in shown(here)


def test_a_turn_that_is_too_long_points_into_its_session(here: Conversation) -> None:
    """The call that reads on names the session, and it resolves."""
    here.beside("t2").effort("long", "word " * 9_000)
    here.call("expand_effort", effort_id="t2/long")
    (_, tail) = shown(here).split('read_log(turns="1", offset=')
    offset = int(tail.partition(",")[0])
    read = here.call("read_log", turns=1, offset=offset, session="t2")

    assert 'session="t2") reads on]' in tail
    assert (
        here.work.view.recall(recalled(here.messages[-1])[0]) == read["turns"][0]["messages"] != []
    )


def test_it_is_collapsed(here: Conversation) -> None:
    """The log leaves with the next rebuild, the summary stays; again it is an error."""
    here.set(rebuild="every-turn")
    here.call("expand_effort", effort_id=AUTH)
    here.answer()
    here.ask("Enough of it.")
    before = shown(here)
    result = here.call("collapse_effort", effort_id=AUTH)
    again = here.call("collapse_effort", effort_id=AUTH)
    here.answer()
    here.ask("And now?")

    assert result == {"status": "collapsed", "effort_id": AUTH}
    assert "not expanded" in again["error"]
    assert LOG[0] in before
    assert (FIX in shown(here), LOG[0] in shown(here)) == (True, False)


@pytest.mark.parametrize("tool", ["switch_effort", "reopen_effort", "close_effort"])
def test_it_is_not_worked_on(here: Conversation, tool: str) -> None:
    """An effort of an earlier session stays as it is; the error says what works instead."""
    before = here.state
    result = here.call(tool, effort_id=AUTH)

    assert result["error"].startswith(f"effort {AUTH!r} belongs to an earlier session")
    assert "expand_effort" in result["error"]
    assert "open_effort" in result["error"]
    assert here.state == before


@pytest.mark.parametrize("name", ["t1/auth-bugs", "t2/auth-bug", "auth-bug"])
def test_a_name_that_is_nearly_right_is_guessed(here: Conversation, name: str) -> None:
    """The error names the effort in the context that is like it, whatever session was named."""
    result = here.call("expand_effort", effort_id=name)

    assert result["error"].startswith(f"no effort {name!r}. Did you mean {AUTH!r}?")


def test_the_own_effort_of_that_name_is_another(here: Conversation) -> None:
    """The bare name is the effort of this session, the qualified one that of the other."""
    here.answer()
    conclude(here, "auth-bug", "Ours.")
    here.ask("Show both.")
    here.run(call("expand_effort", effort_id="auth-bug"), call("expand_effort", effort_id=AUTH))

    assert list(here.state.expanded) == ["auth-bug", AUTH]
    assert here.state.expanded["auth-bug"]["turns"] == [2, 3]
    assert 'the stored log of the effort "auth-bug"' in shown(here)
    assert f'the stored log of the effort "{AUTH}"' in shown(here)


def test_a_turn_of_an_earlier_session_is_read(here: Conversation) -> None:
    """The result names the session and the efforts there; the artifact pins the record."""
    result = here.call("read_log", turns=2, session="t1")
    (read,) = result["turns"]

    assert (result["session"], read["turn"], read["efforts"]) == ("t1", 2, [AUTH])
    assert words_of(read).startswith(LOG[0])
    there = replace(here.session, thread="t1")
    (turn,) = here.archive.load(there).turns([2])
    assert recalled(here.messages[-1]) == (Recalled(2, 0, len(words_of(read)), "t1", turn.id),)
    assert LOG[0] not in stored(here.messages[-1]).content


def test_without_a_session_it_is_this_one(here: Conversation) -> None:
    """No session, an empty one, null and this one's name are the same."""
    read = [here.call("read_log", turns=1, session=name) for name in ("", None, "thread")]
    said = [words_of(one["turns"][0]) for one in read]

    assert [one.startswith("Hello again.") for one in said] == [True] * 3
    assert recalled(here.messages[-1])[0].session == ""


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ({"turns": 4}, "turn 4 of session 't1' is not there; the turns are 1-3"),
        ({"turns": 0}, "turn 0 of session 't1' is not there; the turns are 1-3"),
        ({"turns": 2, "offset": 9_999}, "offset 9999 is outside turn 2: 0-"),
        ({"turns": 2, "session": "t2"}, "no earlier session 't2'; a session is the part before"),
        ({"turns": 2, "session": "t2\n"}, "no earlier session 't2\\n'; a session is the part"),
        ({"turns": 2, "session": AUTH}, f"no earlier session {AUTH!r}; a session is the part"),
    ],
)
def test_what_cannot_be_read_says_why(
    here: Conversation, args: dict[str, object], error: str
) -> None:
    """The error names the session and the turns that there are."""
    result = here.call("read_log", **{"session": "t1", **args})

    assert result["error"].startswith(error)


def test_an_erased_turn_says_so(here: Conversation) -> None:
    """What was erased there cannot be read here."""
    before = here.beside("t1")
    tip = here.archive.load(before.session).tip
    assert tip is not None
    here.archive.erase(before.session, tip, 2)

    assert here.call("read_log", turns=2, session="t1")["error"] == (
        "turn 2 of session 't1' was erased: its text cannot be read any more"
    )


def test_nothing_of_it_is_extracted(here: Conversation) -> None:
    """What a pass that compresses reads of an own effort holds no text of another session."""
    here.call("open_effort", name="mine")
    here.call("read_log", turns=2, session="t1")
    here.call("search_efforts", query="interceptor")
    here.answer(LONG_ENOUGH)
    log = here.work.view.log("mine")
    read = "".join(split_log(log, 1_000, here.count))

    assert LONG_ENOUGH in read
    assert (FIX in read, LOG[0] in read) == (False, False)
    assert [found.verdict for found in verify([Extracted(quote=FIX)], log)] == ["fabricated"]


@pytest.mark.parametrize("written", ["planning 2026/11", "planning%202026%2F11"])
def test_a_session_may_be_written_as_its_thread(here: Conversation, written: str) -> None:
    """An id that the model decoded names the same session."""
    earlier(here, "planning 2026/11", "move")
    expanded = here.call("expand_effort", effort_id=f"{written}/move")
    read = here.call("read_log", turns=1, session=written)

    assert expanded["effort_id"] == "planning%202026%2F11/move"
    assert "Minka" in words_of(read["turns"][0])
