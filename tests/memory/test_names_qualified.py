"""Qualified ids name a session and an effort, whatever the thread is called."""

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.names import parted, qualified, session_called, session_name, slug
from ebbtide.memory.turn import Session

threads = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=100)


@given(threads, threads)
def test_a_session_is_called_by_its_name(thread: str, namespace: str) -> None:
    """A name is known as one, whatever the thread and the namespace are."""
    name = session_name(Session("ann", thread, namespace))

    assert session_called(name) == name


@given(st.text("ab /\\?", max_size=100))
def test_a_session_is_called_by_its_thread(thread: str) -> None:
    """What is no name is a thread: it has a character that names quote, or is one as it is."""
    assert session_called(thread) == session_name(Session("ann", thread))


@given(st.lists(st.tuples(threads, threads), unique=True, min_size=2, max_size=2))
def test_two_sessions_never_share_a_name(sessions: list[tuple[str, str]]) -> None:
    """Different threads or namespaces have different names."""
    names = {session_name(Session("ann", *session)) for session in sessions}

    assert len(names) == 2


@given(threads)
def test_a_name_is_one_short_word(thread: str) -> None:
    """No name has spaces, slashes or line ends, nor is it long."""
    name = session_name(Session("ann", thread))

    assert not set(name) & set(" /\\\n\r\t\0")
    assert len(name) <= 93


def test_a_qualified_id_is_parted_at_its_last_slash() -> None:
    """Session and effort come back apart."""
    session = Session("ann", "a/b")

    assert parted(qualified(session, slug("Auth bug"))) == ("a%2Fb", "auth-bug")
