"""How PostgreSQL holds vectors: by pgvector where a new database can have it, else as bytes."""

import pytest
from sqlalchemy import make_url

from ebbtide.memory.archive.search import find
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.search.embeddings import Embedder
from ebbtide.memory.turn import Tip
from tests.databases import Database
from tests.doubles import Concepts
from tests.memory.turns import SESSION, turn

_KIND = """
SELECT udt_name FROM information_schema.columns
WHERE table_name = 'ebbtide_vectors' AND column_name = 'vector'
"""
_GUEST = ("CREATE ROLE guest LOGIN", "GRANT ALL ON SCHEMA public TO guest")


@pytest.mark.parametrize(
    ("user", "extensions", "kind"),
    [("postgres", True, "vector"), ("postgres", False, "bytea"), ("guest", True, "bytea")],
)
def test_the_type_of_vectors(database: Database, user: str, *, extensions: bool, kind: str) -> None:
    """Who may not add pgvector, or does not want it, has a database without, and searches it."""
    if user == "guest":
        database.run(*_GUEST)
    embedder = Embedder(Concepts("harbour port"))
    with SqlArchive(make_url(database.url).set(username=user), extensions=extensions) as archive:
        tip = archive.commit(SESSION, Tip(), turn(1, "The port is closed."), embedder).tip
        found = find(archive.load(SESSION, tip), "harbour", 5, embedder.meaning("harbour", 0.2))
        with archive.database.reading() as connection:
            held = connection.exec_driver_sql(_KIND).scalar()

    assert (held, {hit.turn for hit in found}) == (kind, {1})
