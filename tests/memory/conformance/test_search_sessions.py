"""Search in the other sessions of a user: which efforts are found, in which order."""

from collections.abc import Sequence

import pytest

from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.archive.query import Found
from ebbtide.memory.turn import ANONYMOUS, Event, Session, StoredTurn, Tip
from tests.memory.turns import SESSION, START, concluded, effort_in, elsewhere, human, opened

OTHER = Session("ann", "t2")
SUMMARY = "Fixed 401 errors: refresh tokens never auto-called. Added axios interceptor."


def work(archive: Archive, session: Session, name: str, summary: str, day: int = 1) -> Tip:
    """Begin a session, open an effort and conclude it on a day of January; return the tip."""
    tip = change(archive, session, START, opened(name, goal=""), day)
    return change(archive, session, tip, concluded(name, summary), day)


def change(archive: Archive, session: Session, tip: Tip, event: Event, day: int = 9) -> Tip:
    """Commit one more turn, with an event, and return the tip."""
    at = f"2026-01-{day:02}T00:00:00Z"
    said = (human(f"turn {tip.turn + 1} of {at}"),)
    new = StoredTurn(tip.turn + 1, said, at, (event["effort"],), (event,))
    return archive.commit(session, tip, new).tip


def found(archive: Archive, query: str, session: Session = SESSION) -> list[str]:
    """Return the efforts that a query finds, each behind its thread."""
    results = elsewhere(archive, session, query)
    return [f"{thread(one)}/{one.effort}" for one in results if one.effort]


def thread(one: Found) -> str:
    """Return the thread of a result."""
    return one.branch.session.thread if one.branch else ""


def only(results: Sequence[Found]) -> Found:
    """Return the one result."""
    (one,) = results
    return one


def test_what_was_said_on_an_old_branch_is_not_found(archive: Archive) -> None:
    """Of a session that was forked its newest branch is searched."""
    first = archive.commit(OTHER, START, StoredTurn(1, (human("Hello."),), "2026-01-01")).tip
    archive.commit(OTHER, first, StoredTurn(2, (human("My cat is Minka."),), "2026-01-02"))
    archive.commit(OTHER, first, StoredTurn(2, (human("My dog is Rex."),), "2026-01-03"))

    assert elsewhere(archive, SESSION, "Minka", 5) == ()
    assert len(elsewhere(archive, SESSION, "Rex", 5)) == 1


def test_the_session_itself_is_left_out(archive: Archive) -> None:
    """What the asking session concluded is found by its own search."""
    work(archive, SESSION, "auth-bug", SUMMARY)
    work(archive, Session("ann", "t1", "child"), "auth-child", SUMMARY)

    assert found(archive, "axios") == ["t1/auth-child"]


def test_what_is_open_is_not_found(archive: Archive) -> None:
    """An effort that is open, or open again, is no memory; concluded once more it is one."""
    change(archive, Session("ann", "t3"), START, opened("open-cat"))
    tip = work(archive, OTHER, "pet", "The cat is grey.")
    tip = change(archive, OTHER, tip, {"type": "reopened", "effort": "pet", "summary": "A cat."})
    assert found(archive, "cat") == []

    change(archive, OTHER, tip, concluded("pet", "The cat is black."))

    assert found(archive, "black cat") == ["t2/pet"]
    assert found(archive, "grey") == []


def test_the_newest_branch_counts(archive: Archive) -> None:
    """What was concluded on another branch than the one committed to last is not found."""
    first = change(archive, OTHER, START, opened("pet"), 1)
    change(archive, OTHER, first, concluded("pet", "The cat is grey."), 2)
    assert found(archive, "cat") == ["t2/pet"]

    fork = change(archive, OTHER, first, concluded("pet", "The dog is old."), 3)

    assert (found(archive, "cat"), found(archive, "dog")) == ([], ["t2/pet"])
    assert only(elsewhere(archive, SESSION, "dog", 5)).turn == fork.turn


def test_a_branch_has_what_its_past_concluded(archive: Archive) -> None:
    """What was concluded before the newest branch began is found, with the tip of that turn."""
    past = work(archive, OTHER, "pet", "The cat is grey.")
    change(archive, OTHER, past, opened("left"), 2)
    change(archive, OTHER, past, opened("right"), 3)

    assert only(elsewhere(archive, SESSION, "cat", 5)).turn == past.turn


def test_stale_efforts_hide_nothing(archive: Archive) -> None:
    """However many sessions reopened what matches better, what is concluded is found."""
    for number in range(10, 40):
        session = Session("ann", f"t{number}")
        tip = work(archive, session, "cat-tree", "The cat climbs its tree.")
        reopened = {"type": "reopened", "effort": "cat-tree", "summary": ""}
        change(archive, session, tip, reopened)
    work(archive, OTHER, "pet", "The cat is grey.")

    assert found(archive, "cat tree") == ["t2/pet"]


def test_an_anonymous_owner_finds_nothing(archive: Archive) -> None:
    """Sessions without a user know nothing of one another."""
    work(archive, Session(ANONYMOUS, "t2"), "auth-bug", SUMMARY)

    assert found(archive, "axios", Session(ANONYMOUS, "t1")) == []


@pytest.mark.parametrize(
    "user",
    ["Ann", "default", "../ann", "%61nn", "\ud800"],
)
def test_another_user_finds_nothing(archive: Archive, user: str) -> None:
    """Each user finds what is their own, whatever they are called."""
    work(archive, OTHER, "auth-bug", SUMMARY)
    work(archive, Session(user, "t2"), "mine", "Mine uses axios as well.")

    assert found(archive, "axios", Session(user, "t1")) == ["t2/mine"]
    assert found(archive, "axios", Session(user, "t2")) == []
    assert found(archive, "axios") == ["t2/auth-bug"]


@pytest.mark.parametrize(
    "thread", ["", "..", "a/b", "A", "🌊", "x" * 1000, "\ud800", "index.sqlite"]
)
def test_sessions_of_any_name_are_found(archive: Archive, thread: str) -> None:
    """Whatever a session is called, what it concluded is found."""
    session = Session("ann", thread, thread)
    work(archive, session, "auth-bug", SUMMARY)

    (branch,) = {one.branch for one in elsewhere(archive, SESSION, "axios")}
    assert branch is not None
    assert branch.session == session


def test_what_is_erased_is_not_found(archive: Archive) -> None:
    """After an erasure the redacted summary counts, then the one that is written again."""
    tip = work(archive, OTHER, "pet", "The cat is grey.")
    assert found(archive, "cat") == ["t2/pet"]

    archive.erase(OTHER, tip, 1)
    assert found(archive, "cat") == []

    stale = effort_in(archive, OTHER, tip, "pet")
    assert stale is not None
    fresh = type(stale)("pet", "concluded", summary="A tabby.", turn=stale.turn)
    archive.resummarised(OTHER, tip, fresh)
    assert found(archive, "tabby") == ["t2/pet"]


def test_equals_have_an_order(archive: Archive) -> None:
    """What says the same is found in the order of its days and names, last first."""
    work(archive, Session("ann", "t4"), "auth-bug", SUMMARY)
    work(archive, Session("ann", "t6"), "auth-bug", SUMMARY)
    work(archive, Session("ann", "t3"), "auth-bug", SUMMARY, 2)
    work(archive, Session("ann", "t5"), "auth-bug", SUMMARY)

    assert found(archive, "interceptor") == [f"t{at}/auth-bug" for at in (3, 6, 5, 4)]


def test_what_says_too_little_of_a_query_is_not_found(archive: Archive) -> None:
    """A rare word is enough, whatever else the query says; words that nobody says are not."""
    work(archive, OTHER, "auth-bug", SUMMARY)

    assert found(archive, "the token") == ["t2/auth-bug"]
    assert found(archive, "a token for the carousel of the village fair") == ["t2/auth-bug"]
    assert found(archive, "the carousel of the village fair") == []
