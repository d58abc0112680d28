"""Vectors on disk: they come back with the index, and damage to them is noticed."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from ebbtide.memory.disk.archive import DiskArchive
from ebbtide.memory.disk.damage import IndexDamagedError
from ebbtide.memory.disk.packing import blob, vectors
from ebbtide.memory.disk.vectors import waiting
from ebbtide.memory.meaning import Embedder
from ebbtide.memory.record import Tip
from tests.doubles import Concepts
from tests.memory.turns import OWNER, commit_all, concluded, turn

DAMAGE = [
    "UPDATE vectors SET vector = x'00'",
    "UPDATE vectors SET vector = 'text'",
    "UPDATE vectors SET vector = 7",
    "UPDATE vectors SET vector = CAST(x'0000807f' || substr(vector, 5) AS BLOB)",
    "UPDATE vectors SET vector = CAST(x'0000c07f' || substr(vector, 5) AS BLOB)",
    "UPDATE vectors SET vector = x'00' WHERE record = 2",
    "UPDATE heading_vectors SET vector = x''",
    "UPDATE heading_vectors SET vector = 'text'",
    "UPDATE probe SET vector = x'00'",
    "UPDATE probe SET vector = 'text'",
    "DROP TABLE vectors",
    "DROP TABLE probe",
]


class Waits(Concepts):
    """Embeddings that let something happen before they answer for the first time."""

    before: Any = staticmethod(lambda: None)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector for each text, afterwards."""
        happens, self.before = self.before, lambda: None
        happens()
        return super().embed_documents(texts)


def found(archive: DiskArchive, tip: Tip, query: str = "kitten") -> list[int]:
    """Return the turns that a query finds by its meaning."""
    meaning = Embedder(Concepts("cat kitten")).meaning(query, 0.3)
    return [one.turn for one in archive.search(OWNER, tip, query, 5, meaning)]


def populate(archive: DiskArchive) -> Tip:
    """Write a turn about a cat, one about a train, and an effort."""
    groups = [turn(1, "cat cat"), turn(2, "train"), turn(3, "ship", ["a"], [concluded("a", "S.")])]
    return commit_all(archive, groups)


def embed(archive: DiskArchive, model: Concepts | None = None) -> int:
    """Compute the missing vectors, and return of how many turns."""
    return archive.embed(OWNER, Embedder(model or Concepts("cat kitten")), 9)


@contextmanager
def index(folder: Path) -> Iterator[sqlite3.Connection]:
    """Open the index beside the archive."""
    with closing(sqlite3.connect(folder / "index.sqlite", isolation_level=None)) as connection:
        yield connection


def rows(folder: Path, table: str) -> int:
    """Count the rows of a table."""
    with index(folder) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608


def test_an_index_that_is_deleted_gets_its_vectors_back(archive: DiskArchive, folder: Path) -> None:
    """Built anew it has no vectors, and finds by words until they are computed again."""
    tip = populate(archive)
    embed(archive)
    archive.close()
    (folder / "index.sqlite").unlink()

    assert found(archive, tip) == []
    assert embed(archive) == 3
    assert found(archive, tip) == [1]


@pytest.mark.parametrize("statement", DAMAGE)
def test_damaged_vectors(archive: DiskArchive, folder: Path, statement: str) -> None:
    """Whatever stands where a vector was, words still find, and the vectors are computed again."""
    tip = populate(archive)
    embed(archive)
    archive.close()
    with index(folder) as connection:
        connection.execute(statement)

    assert found(archive, tip, "train kitten")[-1:] == [2]
    assert embed(archive) == 3
    assert found(archive, tip) == [1]


def test_a_turn_is_embedded_while_another_is_committed(archive: DiskArchive) -> None:
    """No lock is held while the model works, and what came meanwhile waits for the next round."""
    tip, model = populate(archive), Waits("cat kitten")
    embedder = Embedder(model)
    embedder.probe()
    model.before = lambda: archive.commit(OWNER, tip, turn(4, "kitten"))

    assert [archive.embed(OWNER, embedder, 9) for _ in range(3)] == [3, 1, 0]


def test_two_that_embed_the_same_leave_one_vector(archive: DiskArchive, folder: Path) -> None:
    """Two processes may compute a vector twice; it is kept once."""
    populate(archive)
    model = Waits("cat kitten")
    embedder = Embedder(model)
    embedder.probe()
    with DiskArchive(folder.parents[1], durable=False) as other:
        model.before = lambda: embed(other)
        archive.embed(OWNER, embedder, 9)

    assert [rows(folder, table) for table in ("vectors", "heading_vectors")] == [3, 1]
    assert [rows(folder, table) for table in ("probe", "unembedded")] == [1, 0]


def test_vectors_of_a_model_that_was_replaced_meanwhile(archive: DiskArchive, folder: Path) -> None:
    """If another model began while this one worked, its vectors are not put among the others."""
    tip = populate(archive)
    model = Waits("cat kitten", seed=1)
    embedder = Embedder(model)
    embedder.probe()
    model.before = lambda: embed(archive)

    assert archive.embed(OWNER, embedder, 9) == 0
    assert found(archive, tip) == [1]
    assert rows(folder, "vectors") == 3


def test_a_record_that_is_another_by_now_gets_no_vector(archive: DiskArchive, folder: Path) -> None:
    """Where the index names another digest, the vector that was computed is not kept."""
    populate(archive)

    def replaced() -> None:
        with index(folder) as connection:
            connection.execute("UPDATE records SET digest = 'other' WHERE turn = 2")

    model = Waits()
    embedder = Embedder(model)
    embedder.probe()
    model.before = replaced

    assert archive.embed(OWNER, embedder, 9) == 2
    assert rows(folder, "unembedded") == 1


def test_a_turn_that_is_erased_meanwhile_gets_no_vector(archive: DiskArchive) -> None:
    """What was read before an erasure leaves no trace of it in the index."""
    tip = populate(archive)
    model = Waits("cat kitten")
    embedder = Embedder(model)
    embedder.probe()
    model.before = lambda: archive.erase(OWNER, tip, 1)
    archive.embed(OWNER, embedder, 9)
    archive.embed(OWNER, embedder, 9)

    assert found(archive, tip) == []


@pytest.mark.parametrize(
    ("most", "turns"), [(1, [3]), (3_000, [3]), (9_000, [3, 2]), (90_000, [3, 2, 1])]
)
def test_long_records_are_embedded_in_parts(
    archive: DiskArchive, folder: Path, most: int, turns: list[int]
) -> None:
    """A round reads a bounded number of bytes, and one record in any case."""
    commit_all(archive, [turn(at, "word " * 500) for at in (1, 2, 3)])
    probe = Embedder(Concepts()).probe()

    with index(folder) as connection:
        assert [place.turn for place in waiting(connection, probe, 9, most)] == turns


def test_many_threads(archive: DiskArchive, folder: Path) -> None:
    """Threads that embed and search at the same time do not disturb each other."""
    tip = populate(archive)
    results: list[int] = []
    threads = [Thread(target=lambda: results.append(embed(archive))) for _ in range(8)]
    threads += [Thread(target=lambda: results.append(len(found(archive, tip)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(results) == 16
    assert (rows(folder, "vectors"), found(archive, tip)) == (3, [1])


def test_a_stored_vector_is_hardly_changed() -> None:
    """Cosines of stored vectors are those of the vectors, to a few thousandths."""
    drawn = np.random.default_rng(1).normal(size=(50, 384))
    exact = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    kept = vectors([blob(row) for row in exact])

    assert np.abs(kept @ exact.T - exact @ exact.T).max() < 0.004
    assert not vectors([blob(np.zeros(4, np.float32))]).any()


@pytest.mark.parametrize("stored", [None, "text", 7, b"", b"12345"])
def test_what_is_no_vector_is_damage(stored: Any) -> None:
    """A value of another kind or length than was stored is damage."""
    with pytest.raises(IndexDamagedError):
        vectors([stored], 4)
