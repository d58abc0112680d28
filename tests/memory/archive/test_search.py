"""One corpus in SQLite and in PostgreSQL: what is searched comes in the same order."""

import random
from collections.abc import Iterator

import pytest

from ebbtide.memory.archive.search import find
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.search.embeddings import Embedder
from ebbtide.memory.turn import Session, StoredTurn, Tip
from tests.databases import Server
from tests.doubles import Concepts
from tests.memory.turns import concluded, opened, turn

SESSIONS = (Session("ann", "one"), Session("ann", "two"), Session("bob", "one"))
SYNONYMS = ("zebra stripes", "harbour port", "lantern lamp", "gravel pebbles")
LATER = (
    "token login window 登录 Büro naïve kernel parser mirror violin copper saddle meadow "
    "thunder pencil orchard velvet anchor candle ribbon harvest tunnel"
)
WORDS = [*" ".join(SYNONYMS).split(), *LATER.split()]
QUERIES = [
    *WORDS[::4],
    *(f"{one} {two}" for one, two in zip(WORDS[1::4], WORDS[6::4], strict=False)),
]


def corpus(chance: random.Random) -> Iterator[StoredTurn]:
    """Yield turns of words, the first ones far more frequent, of efforts that open and conclude."""

    def said(count: int) -> str:
        return " ".join(WORDS[int(len(WORDS) * chance.random() ** 2)] for _ in range(count))

    for number in range(1, 61):
        name = f"work-{number // 6}"
        events = {0: [opened(name, goal=said(3))], 4: [concluded(name, said(6), keywords=["x"])]}
        efforts = [name] if number % 6 < 5 and number > 5 else []
        yield turn(number, said(12), efforts, events.get(number % 6, []) if efforts else [])


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory, postgres: Server
) -> Iterator[tuple[SqlArchive, SqlArchive]]:
    """Yield a SQLite archive and one in PostgreSQL, both with the corpus and its vectors."""
    folder, url = tmp_path_factory.mktemp("corpus"), postgres.database().url
    with SqlArchive(folder, durable=False) as disk, SqlArchive(url) as served:
        for archive in (disk, served):
            for seed, session in enumerate(SESSIONS):
                tip = Tip()
                for turn in corpus(random.Random(seed)):
                    tip = archive.commit(session, tip, turn).tip
                archive.embed(session, Embedder(Concepts(*SYNONYMS)), 1_000)
        yield disk, served


def ranked(archive: SqlArchive, embedder: Embedder | None, digits: int = 9) -> list[object]:
    """Return what each query finds in a session, in order, with scores to so many digits."""
    tip = archive.load(SESSIONS[0]).tip or Tip()
    meanings = [embedder.meaning(query, 0.2) if embedder else None for query in QUERIES]
    return [
        [
            (hit.effort, hit.turn, round(hit.score, digits), sorted(hit.said))
            for hit in find(archive.load(SESSIONS[0], tip), query, 20, meaning)
        ]
        for query, meaning in zip(QUERIES, meanings, strict=True)
    ]


def test_by_words(both: tuple[SqlArchive, SqlArchive]) -> None:
    """Every query finds the same efforts and turns in the same order, also in other sessions."""
    disk, served = both

    found, there = ranked(disk, None), ranked(served, None)

    assert found == there
    assert sum(map(bool, found)) > len(QUERIES) // 2
    hits, served_hits = (
        [archive.elsewhere(SESSIONS[0], query, 20) for query in QUERIES] for archive in both
    )
    assert hits == served_hits
    assert {hit.session for some in hits for hit in some} <= {SESSIONS[1]}


def test_by_meaning(both: tuple[SqlArchive, SqlArchive]) -> None:
    """With vectors the orders are the same too, to which the cosines of each database lead."""
    disk, served = both
    embedder = Embedder(Concepts(*SYNONYMS))

    found, there = ranked(disk, embedder, 4), ranked(served, embedder, 4)

    assert found == there
    assert found != ranked(disk, None, 4)


def test_by_meaning_where_the_model_has_no_answer(both: tuple[SqlArchive, SqlArchive]) -> None:
    """What a model answers with no numbers stands as little as what is far from the query."""
    model = Concepts(*SYNONYMS, seed=1)
    model.bend = lambda rows: [
        [float("nan")] * len(row) if at % 3 else row for at, row in enumerate(rows)
    ]
    both[0].embed(SESSIONS[0], Embedder(model), 1_000)
    both[1].embed(SESSIONS[0], Embedder(model), 1_000)

    found, there = (ranked(one, Embedder(Concepts(*SYNONYMS, seed=1)), 4) for one in both)

    assert found == there
