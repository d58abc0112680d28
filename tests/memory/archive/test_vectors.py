"""The tables of vectors, which are made when the first turn is embedded."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sqlalchemy import event, text

from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.archive.vectors import MOST
from ebbtide.memory.record import Owner, Tip
from ebbtide.memory.search.embeddings import Embedder
from tests.databases import Database
from tests.doubles import Concepts
from tests.memory.archive.conftest import Make
from tests.memory.turns import OWNER, commit_all, turn

SYNONYMS = "harbour port"
_RANDOM = """
INSERT INTO ebbtide_vectors (id, session, model, vector)
SELECT (SELECT max(id) FROM ebbtide_vectors) + nth, 1, :model, array_to_vector(
    ARRAY(SELECT random() - 0.5 + 0 * nth FROM generate_series(1, 64)), 64, false
)
FROM generate_series(1, :number) AS nth
"""


def test_tables_of_vectors_are_made_once(database: Database) -> None:
    """Who embeds first at the same time as others finds the tables, made by one of them."""
    with SqlArchive(database.url) as first:
        commit_all(first, [turn(1), turn(2)])

    def embedded(_: int) -> int:
        with SqlArchive(database.url) as archive:
            return archive.embed(OWNER, Embedder(Concepts()), 1)

    with ThreadPoolExecutor(8) as pool:
        assert {*pool.map(embedded, range(8))} <= {0, 1}


def test_nearest_of_another_branch_hide_none_of_this_one(make: Make) -> None:
    """A turn is found by its meaning though more nearer ones are on a branch that was left."""
    embedder = Embedder(Concepts(SYNONYMS))
    archive = make()
    tip = archive.commit(OWNER, Tip(), turn(1, "The port is closed."), embedder).tip
    nearer = "\n\n".join(["port " * 200] * (MOST + 10))
    archive.commit(OWNER, tip, turn(2, nearer), embedder)
    tip = archive.commit(OWNER, tip, turn(2, "Nothing."), embedder).tip

    found = archive.at(OWNER, tip).search("harbour", 5, embedder.meaning("harbour", 0.2))

    assert {hit.turn for hit in found} == {1}


def test_postgresql_reads_few_vectors(database: Database) -> None:
    """An index has the signs of the vectors of each session, and names those that are read."""
    embedder, asked = Embedder(Concepts(SYNONYMS, size=64)), list[tuple[str, Any]]()
    other = Owner("bob", "other")
    with SqlArchive(database.url) as archive:
        for owner in (OWNER, other):
            tip = archive.commit(owner, Tip(), turn(1, "The port is closed."), embedder).tip
        _fill(archive, embedder.name, 5_000)
        event.listen(
            archive.database._engine,
            "before_cursor_execute",
            lambda *sent: asked.append((sent[2], sent[3])),
        )
        meaning = embedder.meaning("harbour", 0.2)
        found = [archive.at(owner, tip).search("harbour", 5, meaning) for owner in (OWNER, other)]
        with archive.database.reading() as connection:
            plan = "\n".join(
                row[0]
                for sql, values in [*asked]
                if "<~>" in sql and "ebbtide_vectors" in sql
                for row in connection.exec_driver_sql(f"EXPLAIN ANALYZE {sql}", values)
            )

    assert {hit.turn for hit in found[1]} == {1}
    assert "Index Only Scan using ebbtide_vectors_session" in plan
    assert "Seq Scan" not in plan


def _fill(archive: SqlArchive, model: str, number: int) -> None:
    """Give the first session random vectors of passages that no turn has."""
    with archive.database.writing() as connection:
        connection.execute(text(_RANDOM), {"model": model, "number": number})
