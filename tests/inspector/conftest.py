"""Sessions to inspect, and a browser that looks at them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import create_memory_agent
from ebbtide.memory.archive.copy import copy
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.turn import ANONYMOUS, Session, StoredTurn, Tip
from ebbtide.testing import ScriptedModel
from tests.inspector.browser import Browser, browsing, limited

HOSTILE = (
    "<script>document.title='owned'</script>"
    "<img src=x onerror=\"document.title='owned'\"> \u202eevil"
)
"""What a page would obey if it took a text for markup."""

THREAD = 'a "quoted" / ~<b>thread</b>'

TALK = (
    "Let's work on the auth bug",
    f"The token expires after 3600 s. {HOSTILE}",
    "That's done",
    "What is new?",
    "Show me the log of the auth bug",
    "The weather is fine.",
)


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[SqlArchive]:
    """Open an empty archive."""
    with SqlArchive(tmp_path / "sessions") as archive:
        yield archive


@pytest.fixture(scope="session")
def talked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlArchive]:
    """Talk once for all tests: an effort is opened, concluded and expanded."""
    with SqlArchive(tmp_path_factory.mktemp("talked")) as archive:
        agent = create_memory_agent(ScriptedModel(), archive=archive, checkpointer=InMemorySaver())
        for words in TALK:
            agent.invoke({"messages": words}, {"configurable": {"thread_id": THREAD}})
        yield archive


@pytest.fixture
def session(archive: SqlArchive, talked: SqlArchive) -> Session:
    """Copy what was talked into the archive, and return the session."""
    copy(talked, archive)
    return Session(ANONYMOUS, THREAD)


@pytest.fixture
def long_session(archive: SqlArchive) -> Callable[[int], Session]:
    """Return a function that makes a session of so many turns, by the archive's own commits."""

    def made(turns: int) -> Session:
        session, tip = Session(ANONYMOUS, "long"), Tip()
        for number in range(1, turns + 1):
            tip = archive.commit(session, tip, _turn(number)).tip
        return session

    return made


def _turn(number: int) -> StoredTurn:
    tokens = {"system": 500, "tools": 650, "turns": 40 * (number % 50), "turn": 20}
    events = ({"type": "sent", "tokens": tokens, "total": sum(tokens.values()), "budget": 4_000},)
    human = HumanMessage(f"Question {number}", id=f"h{number}")
    answer = AIMessage(f"Answer {number}", id=f"a{number}")
    return StoredTurn(
        number, (human, answer), "2026-03-01T10:00:00+00:00", events=events, nonce=f"{number:032x}"
    )


@pytest.fixture
def in_time() -> Iterator[None]:
    """Fail a test that takes longer than five minutes: the longest makes 20,000 turns."""
    with limited(300):
        yield


@pytest.fixture(scope="module")  # Playwright keeps an event loop, which others would meet
def browser() -> Iterator[Browser]:
    """Start Chromium; without one the test is skipped."""
    with browsing() as browser:
        yield browser
