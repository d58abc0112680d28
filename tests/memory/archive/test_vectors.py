"""The tables of vectors, which are made when the first turn is embedded."""

from concurrent.futures import ThreadPoolExecutor

from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.search.embeddings import Embedder
from tests.databases import Database
from tests.doubles import Concepts
from tests.memory.turns import OWNER, commit_all, turn


def test_tables_of_vectors_are_made_once(database: Database) -> None:
    """Who embeds first at the same time as others finds the tables, made by one of them."""
    with SqlArchive(database.url) as first:
        commit_all(first, [turn(1), turn(2)])

    def embedded(_: int) -> int:
        with SqlArchive(database.url) as archive:
            return archive.embed(OWNER, Embedder(Concepts()), 1)

    with ThreadPoolExecutor(8) as pool:
        assert {*pool.map(embedded, range(8))} <= {0, 1}
