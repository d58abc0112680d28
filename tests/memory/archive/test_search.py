"""Searching: alike in SQLite and PostgreSQL, in any language and kind of vector, in few steps."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, make_url

from ebbtide.memory.archive.branches import Branches
from ebbtide.memory.archive.index import language_event
from ebbtide.memory.archive.search import find
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.dates import When
from ebbtide.memory.search.embeddings import Embedder
from ebbtide.memory.turn import Session, StoredTurn, Tip
from tests.databases import Database, Server
from tests.doubles import Concepts
from tests.memory.turns import SESSION, concluded, elsewhere, opened, turn

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
            for hit in find(Branches(archive.load(SESSIONS[0], tip)), query, 20, meaning)
        ]
        for query, meaning in zip(QUERIES, meanings, strict=True)
    ]


@pytest.mark.thorough
def test_by_words(both: tuple[SqlArchive, SqlArchive]) -> None:
    """Every query finds the same efforts and turns in the same order, also in other sessions."""
    disk, served = both

    found, there = ranked(disk, None), ranked(served, None)

    assert found == there
    assert sum(map(bool, found)) > len(QUERIES) // 2
    hits, served_hits = (
        [
            [
                (hit.effort, hit.turn, round(hit.score, 9))
                for hit in elsewhere(one, SESSIONS[0], query)
            ]
            for query in QUERIES
        ]
        for one in both
    )
    assert hits == served_hits


@pytest.mark.thorough
def test_by_meaning(both: tuple[SqlArchive, SqlArchive]) -> None:
    """With vectors the orders are the same too, to which the cosines of each database lead."""
    disk, served = both
    embedder = Embedder(Concepts(*SYNONYMS))

    found, there = ranked(disk, embedder, 4), ranked(served, embedder, 4)

    assert found == there
    assert found != ranked(disk, None, 4)


@pytest.mark.thorough
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


def test_search_reads_no_whole_run(tmp_path: Path) -> None:
    """SQLite looks up each turn by its number; it went through all of a session's."""
    tip, asked = Tip(), list[tuple[str, Any]]()
    with SqlArchive(tmp_path, durable=False) as archive:
        for number in range(1, 4):
            tip = archive.commit(SESSION, tip, turn(number, "The port.", [f"work-{number}"])).tip
        event.listen(
            archive.database._engine,
            "before_cursor_execute",
            lambda *sent: asked.append((sent[2], sent[3])),
        )
        found = find(Branches(archive.load(SESSION, tip)), "Which port?", 5)
        with archive.database.reading() as connection:
            steps = [
                row.detail
                for sql, values in [*asked]
                if sql.startswith("SELECT")
                for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values)
            ]

    assert {hit.turn for hit in found} == {1, 2, 3}
    assert any("ebbtide_turns_turn" in step for step in steps)
    assert [step for step in steps if "ebbtide_turns_turn (run=?)" in step] == []


def test_other_sessions_are_read_together(tmp_path: Path) -> None:
    """It takes as many statements to search in many as in a few; it took two more for each."""
    counts, asking = list[int](), Session("ann", "long")
    with SqlArchive(tmp_path, durable=False) as archive:
        sent: list[Any] = []
        event.listen(
            archive.database._engine, "before_cursor_execute", lambda *args: sent.append(args[2])
        )
        for threads in (3, 9):
            for number in range(threads):
                events = (opened("port", goal="The port."), concluded("port", f"It is {number}."))
                done = replace(turn(1, "The port.", ["port"]), events=events)
                archive.commit(Session("ann", f"t{number}"), Tip(), done)
            sent.clear()
            assert len(elsewhere(archive, asking, "which port?", 9)) == threads
            counts.append(len(sent))

    assert counts[0] >= counts[1]


def test_a_turn_is_found_by_the_language_that_was_set_for_it(archive: SqlArchive) -> None:
    """What was indexed in a language can be found and erased whatever is set now."""
    tip = Tip()
    for number, language in ((1, "finnish"), (2, "english")):
        events = language_event(language)
        tip = archive.commit(SESSION, tip, turn(number, "Taloissa asuu.", events=events)).tip

    def found(language: str) -> set[int]:
        when = When(language=language)
        return {
            hit.turn for hit in find(Branches(archive.load(SESSION, tip)), "taloista", 9, when=when)
        }

    before = found("finnish"), found("english")
    archive.erase(SESSION, tip, 1)

    assert before == ({1}, set())
    assert found("finnish") == set()


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
        found = find(
            Branches(archive.load(SESSION, tip)), "harbour", 5, embedder.meaning("harbour", 0.2)
        )
        with archive.database.reading() as connection:
            held = connection.exec_driver_sql(_KIND).scalar()

    assert (held, {hit.turn for hit in found}) == (kind, {1})
