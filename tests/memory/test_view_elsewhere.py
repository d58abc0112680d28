"""Other sessions of a user: what a view sees of them, and what it never sees."""

from dataclasses import replace

import pytest

from ebbtide.memory.names import qualified, session_name
from ebbtide.memory.turn import ANONYMOUS, Session
from tests.memory.conversations import LONG_ENOUGH, Conversation, call
from tests.memory.earlier import FIX, LOG, conclude, earlier
from tests.memory.turns import elsewhere

AUTH = "t1/auth-bug"


def test_a_concluded_effort_is_seen_by_its_qualified_id(talk: Conversation) -> None:
    """The effort comes with that id, and with its log as the other session has it."""
    before = earlier(talk)
    view = talk.work.view
    effort = view.effort(AUTH, ())

    assert effort is not None
    assert (effort.id, effort.status, effort.summary, effort.turn) == (AUTH, "concluded", FIX, 3)
    assert view.efforts_named([AUTH], ()) == (effort,)
    assert view.log_turns(AUTH) == (2, 3)
    assert view.log(AUTH) == before.work.view.past.turns([2, 3])
    assert view.compression(AUTH) is None


def test_this_session_is_named_too(talk: Conversation) -> None:
    """An id that names the running session itself is the effort as this session knows it."""
    talk.effort("css", LONG_ENOUGH)
    talk.ask("And now?")
    view = talk.work.view

    assert view.effort("thread/css", talk.state.events) == view.effort("css", talk.state.events)
    assert view.of_session("thread") is view
    assert talk.work.find("thread/CSS").id == "css"
    assert talk.call("reopen_effort", effort_id="thread/css")["status"] == "reopened"
    assert talk.work.find("thread/css").status == "open"


def test_what_is_open_elsewhere_is_not_seen(talk: Conversation) -> None:
    """An effort is seen as long as it is concluded: before, and reopened, it is not there."""
    before = earlier(talk)
    before.turn("Next.", call("open_effort", name="css"))
    view = talk.work.view
    assert view.effort("t1/css", ()) is None

    before.turn("Once more.", call("reopen_effort", effort_id="auth-bug"))

    assert view.effort(AUTH, ()) is None
    assert (view.log_turns(AUTH), view.log(AUTH), view.turns_of(AUTH, [2])) == ((), (), ())


@pytest.mark.parametrize("user", ["bob", "Ada", ANONYMOUS])
def test_another_user_sees_nothing(talk: Conversation, user: str) -> None:
    """A session of the same thread name belongs to its own user, and nobody else's is found."""
    earlier(talk)
    other = talk.beside("t2", user)
    other.ask("What do you know?")
    view = other.work.view

    assert view.of_session("t1") is None
    assert view.effort(AUTH, ()) is None
    assert elsewhere(view.archive, view.session, "401 interceptor", 5) == ()
    assert "error" in other.call("expand_effort", effort_id=AUTH)
    assert "error" in other.call("read_log", turns=1, session="t1")


def test_the_newest_branch_counts(talk: Conversation) -> None:
    """What was concluded on a branch that is not the newest is not there; its past is."""
    before = earlier(talk)
    after_auth, after_auth_space = before.tip, before.state
    conclude(before, "css", "The grid is fixed.")
    assert talk.work.view.effort("t1/css", ()) is not None

    fork = replace(before, tip=after_auth, state=after_auth_space, day=22)
    fork.turn("Something else entirely.")
    view = talk.work.view

    assert view.effort("t1/css", ()) is None
    assert view.effort(AUTH, ()) is not None
    assert view.log(AUTH) == before.work.view.past.turns([2, 3])


def test_only_turns_of_the_effort_are_shown_after_a_fork(talk: Conversation) -> None:
    """Turns that the newest branch has under the same numbers are not taken for the effort's."""
    before = talk.beside("t1")
    before.turn("Go.", call("open_effort", name="auth-bug"))
    opened = replace(before, day=22)
    before.turn(*LOG[:1])
    before.turn(LONG_ENOUGH, call("close_effort"))
    assert [one.number for one in talk.work.view.turns_of(AUTH, [1, 2, 3])] == [1, 2, 3]

    opened.turn("Done at once. " + LONG_ENOUGH, call("close_effort"))
    opened.turn("A secret that belongs to nothing.")

    assert [one.number for one in talk.work.view.turns_of(AUTH, [1, 2, 3])] == [1, 2]


@pytest.mark.parametrize("thread", ["Büro 2/a", "x" * 300, "", ".."])
def test_a_session_of_any_name_is_found(talk: Conversation, thread: str) -> None:
    """Odd names are quoted, long ones hashed and looked for among the user's sessions."""
    earlier(talk, thread)
    session = Session("ada", thread)
    view = talk.work.view
    effort = view.effort(qualified(session, "auth-bug"), ())

    assert effort is not None
    assert effort.id == qualified(session, "auth-bug")
    assert talk.work.find(effort.id) == effort
    assert talk.archive.sessions("ada", session_name(session)) == (session,)
    assert talk.archive.sessions("bob", session_name(session)) == ()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name",
    [
        *("", "/", "a/", "/b", "../../etc/passwd", "t1/../x", "t2/auth-bug", "T1/auth-bug"),
        *("x" * 93, "x/" * 5_000, "y" * 10_000, f"{'y' * 10_000}/b", f"t1/{'y' * 10_000}"),
        *(f"{'y' * 93}/b", "%/%", "thread/b"),
    ],
)
def test_a_name_of_nothing_is_not_there(talk: Conversation, name: str) -> None:
    """Whatever the model writes, it finds nothing or is told what is wrong, in a short sentence."""
    earlier(talk)
    talk.ask("Show it.")
    result = talk.call("expand_effort", effort_id=name)

    assert talk.work.view.effort(name, ()) is None
    assert len(result["error"]) < 500
    assert "error" in talk.call("read_log", turns=1, session=name or "-")


def test_a_session_that_is_gone_is_not_there(talk: Conversation) -> None:
    """A session that was deleted meanwhile is as if it had never been."""
    before = earlier(talk)
    talk.ask("Hello.")
    talk.surface(AUTH)
    talk.call("expand_effort", effort_id=AUTH)
    assert talk.archive.delete_session(before.session).sessions

    assert talk.work.view.effort(AUTH, ()) is None
    assert talk.work.known([AUTH]) == ()
    assert all(FIX not in str(message) for message in talk.context.messages)
    assert "error" in talk.call("expand_effort", effort_id=AUTH)
    assert before.session not in talk.archive.sessions("ada")
