"""Qualified ids name a session and an effort, whatever the thread is called."""

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.names import owner_called, parted, qualified, session_name, slug
from ebbtide.memory.record import Owner

threads = st.text(st.characters(exclude_categories=["Cs"]), max_size=100)


@given(threads, threads)
def test_a_short_name_tells_its_session(thread: str, namespace: str) -> None:
    """A name that is not hashed gives back thread and namespace."""
    owner = Owner("ann", thread, namespace)

    name = session_name(owner)

    assert owner_called(name, "ann") == (owner if "~" not in name[80:] else None)


@given(st.lists(st.tuples(threads, threads), unique=True, min_size=2, max_size=2))
def test_two_sessions_never_share_a_name(sessions: list[tuple[str, str]]) -> None:
    """Different threads or namespaces have different names."""
    names = {session_name(Owner("ann", *session)) for session in sessions}

    assert len(names) == 2


@given(threads)
def test_a_name_is_one_short_word(thread: str) -> None:
    """No name has spaces, slashes or line ends, nor is it long."""
    name = session_name(Owner("ann", thread))

    assert not set(name) & set(" /\\\n\r\t\0")
    assert len(name) <= 93


def test_a_long_thread_is_hashed() -> None:
    """What is too long keeps its beginning; only the list of sessions tells whose it is."""
    owner = Owner("ann", "t" * 10_000)

    assert session_name(owner).startswith("t" * 80 + "~")
    assert owner_called(session_name(owner), "ann") is None


def test_a_qualified_id_is_parted_at_its_last_slash() -> None:
    """Session and effort come back apart."""
    owner = Owner("ann", "a/b")

    assert parted(qualified(owner, slug("Auth bug"))) == ("a%2Fb", "auth-bug")
