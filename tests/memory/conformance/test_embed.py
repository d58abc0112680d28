"""Search by meaning: what has a vector, what is found by it, and what is not."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.archive.query import Found
from ebbtide.memory.archive.vectors import MOST
from ebbtide.memory.errors import EmbeddingError
from ebbtide.memory.search.embeddings import Embedder
from ebbtide.memory.turn import Session, StoredTurn, Tip
from tests.doubles import Concepts
from tests.memory.turns import (
    SESSION,
    START,
    answer,
    best_of_each,
    commit_all,
    concluded,
    human,
    opened,
    turn,
)

SYNONYMS = ("login signin", "bug problem", "cat kitten", "grey ashen")
FLOOR = 0.3

pytestmark = pytest.mark.parametrize("archive", ["sqlite", "postgresql", "numpy"], indirect=True)


class Fails(Concepts):
    """Embeddings that answer the probe, and then fail for once."""

    asked = 0

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector for each text, but not the second time."""
        self.asked += 1
        self.error = TimeoutError("too slow") if self.asked == 2 else None
        return super().embed_documents(texts)


def embedded(archive: Archive, model: Concepts | None = None, limit: int = 1_000) -> int:
    """Compute the missing vectors of the session, and return of how many turns."""
    return archive.embed(SESSION, Embedder(model or Concepts(*SYNONYMS)), limit)


def found(
    archive: Archive,
    tip: Tip,
    query: str,
    model: Concepts | None = None,
    session: Session = SESSION,
) -> tuple[Found, ...]:
    """Return what a query finds by words and by meaning."""
    meaning = Embedder(model or Concepts(*SYNONYMS)).meaning(query, FLOOR)
    return best_of_each(archive.load(session, tip), query, 5, meaning)


def names(finds: Sequence[Found]) -> list[str | None]:
    """Return the efforts that were found, None for an ambient turn."""
    return [one.effort for one in finds]


def short(number: int, text: str, *efforts: str) -> StoredTurn:
    """Return a turn that says only this."""
    return StoredTurn(
        number, (human(text), answer("Yes.")), f"2026-01-01T00:00:{number:02}Z", efforts
    )


def populate(archive: Archive) -> Tip:
    """Write an effort about a login, an ambient turn about a cat, and one about a train."""
    events = [opened("login-bug", goal=""), concluded("login-bug", "Renewed the token.")]
    first = StoredTurn(
        1, (human("login bug"), answer("")), "2026-01-01", ("login-bug",), tuple(events)
    )
    return commit_all(archive, [first, short(2, "grey cat"), short(3, "train to Rome")])


def test_synonyms_are_found(archive: Archive) -> None:
    """What means the same is found without a shared word, an effort and a turn of no effort."""
    tip = populate(archive)
    embedded(archive)
    (effort,) = found(archive, tip, "signin problem")
    (ambient,) = found(archive, tip, "ashen kitten")

    assert (effort.effort, effort.turn, effort.said) == ("login-bug", 1, frozenset())
    assert (ambient.effort, ambient.turn) == (None, 2)
    assert effort.score > 0
    assert ambient.score > 0


def test_a_heading_is_found(archive: Archive) -> None:
    """An effort is found by what its summary means, although no turn of it says so."""
    event = concluded("pets", "kitten kitten kitten")
    tip = commit_all(archive, [turn(1, "Done with it.", ["pets"], [event])])
    embedded(archive)

    assert names(found(archive, tip, "cat")) == ["pets"]


def test_the_newest_heading_counts(archive: Archive) -> None:
    """Neither what an effort was about before, nor what it is about on another branch."""
    events = [concluded("pets", summary) for summary in ("kitten kitten kitten", "train train")]
    tips = [archive.commit(SESSION, START, turn(1, "a", ["pets"], events[:1])).tip]
    tips.append(archive.commit(SESSION, tips[0], turn(2, "b", ["pets"], events[1:])).tip)
    tips.append(archive.commit(SESSION, START, turn(1, "c", ["pets"], events[1:])).tip)
    embedded(archive)

    assert [names(found(archive, tip, "cat")) for tip in tips] == [["pets"], [], []]


def test_without_meaning_or_vectors_words_alone_count(archive: Archive) -> None:
    """A search without a meaning, or of turns without vectors, finds what words find."""
    tip = populate(archive)
    before = best_of_each(archive.load(SESSION, tip), "login cat", 5)
    assert found(archive, tip, "login cat") == before

    embedded(archive, limit=1)
    assert names(found(archive, tip, "train")) == [None]
    assert names(found(archive, tip, "login bug")) == ["login-bug"]
    assert found(archive, tip, "signin problem") == ()

    embedded(archive)
    assert best_of_each(archive.load(SESSION, tip), "login cat", 5) == before
    assert best_of_each(archive.load(SESSION, tip), "signin", 5) == ()


def test_what_is_near_to_nothing_is_not_found(archive: Archive) -> None:
    """A query that shares no word, and whose cosines are below the floor, finds nothing."""
    tip = populate(archive)
    embedded(archive)

    assert found(archive, tip, "capital of France") == ()


@pytest.mark.parametrize("query", ["", "?!", "continue", "go on"])
def test_a_query_without_content_finds_nothing(archive: Archive, query: str) -> None:
    """Stop words are not looked for by their meaning either."""
    tip = commit_all(archive, [turn(1, query or "x")])
    embedded(archive)
    meaning = Embedder(Concepts()).meaning("question x", FLOOR)

    assert best_of_each(archive.load(SESSION, tip), query, 5, meaning) == ()


def test_meaning_decides_between_equal_words(archive: Archive) -> None:
    """Of two turns that share as many words with the query the one that means the same leads."""
    tip = commit_all(
        archive, [short(1, "lamp ashen kitten", "a"), short(2, "lamp iron rails", "b")]
    )
    embedded(archive)

    assert names(found(archive, tip, "lamp grey cat")) == ["a", "b"]


def test_each_turn_is_embedded_once(archive: Archive) -> None:
    """A second round finds nothing to do, and a new turn is all that the next one computes."""
    tip, model = populate(archive), Concepts()
    counts = [embedded(archive, model), embedded(archive, model)]
    archive.commit(SESSION, tip, short(4, "new"))
    counts.append(embedded(archive, model))

    assert counts == [3, 0, 1]
    assert sum("cat" in text for text in model.documents) == 1


def test_the_newest_come_first(archive: Archive) -> None:
    """An old session catches up from its end, so many turns at a time."""
    tip, model = populate(archive), Concepts(*SYNONYMS)

    assert [embedded(archive, model, limit=1) for _ in range(4)] == [1, 1, 1, 0]
    assert [text[:5] for text in model.documents if not text.startswith("The quick")] == [
        *("train", "Yes.", "grey ", "Yes.", "login", "login"),
    ]
    assert names(found(archive, tip, "ashen kitten")) == [None]


def test_a_session_that_does_not_exist(archive: Archive) -> None:
    """Where nothing was committed nothing is embedded, and no session begins."""
    assert embedded(archive) == 0
    assert archive.sessions("ann") == ()


def test_another_model_that_fails_changes_nothing(archive: Archive) -> None:
    """The vectors of the model before stay until another one has answered."""
    tip, other = populate(archive), Fails(*SYNONYMS, seed=1)
    embedded(archive)

    with pytest.raises(EmbeddingError, match="TimeoutError"):
        embedded(archive, other)

    assert [one.turn for one in found(archive, tip, "ashen kitten")] == [2]
    assert embedded(archive, other) == 3
    assert [one.turn for one in found(archive, tip, "ashen kitten", other)] == [2]


def test_a_failing_model_changes_nothing(archive: Archive) -> None:
    """The error is raised, what was there stays, and the next round catches up."""
    tip, model = populate(archive), Concepts(*SYNONYMS)
    embedded(archive, limit=1)
    model.error = TimeoutError("too slow")
    with pytest.raises(EmbeddingError, match="TimeoutError"):
        embedded(archive, model)
    model.error = None

    assert embedded(archive, model) == 2
    assert names(found(archive, tip, "signin problem")) == ["login-bug"]


@pytest.mark.parametrize("other", [Concepts(*SYNONYMS, seed=1), Concepts(*SYNONYMS, size=300)])
def test_vectors_of_another_model_are_thrown_away(archive: Archive, other: Concepts) -> None:
    """Two models are never mixed: the other one is not compared with, and replaces all vectors."""
    tip = populate(archive)
    embedded(archive)

    assert found(archive, tip, "signin problem", other) == ()
    assert embedded(archive, other) == 3
    assert names(found(archive, tip, "signin problem", other)) == ["login-bug"]
    assert found(archive, tip, "signin problem") == ()


@pytest.mark.parametrize("number", [0.0, float("nan")])
def test_a_vector_that_is_none_is_not_computed_again(archive: Archive, number: float) -> None:
    """What a model can make nothing of is found by its words, and not asked for again."""
    model = Concepts(size=8)
    embedder = Embedder(model)
    assert embedder.size
    tip = populate(archive)
    model.bend = lambda rows: [[number] * 8 for _ in rows]

    assert [archive.embed(SESSION, embedder, 9) for _ in range(2)] == [3, 0]
    assert names(found(archive, tip, "train", Concepts(size=8))) == [None]


def test_odd_turns_are_embedded(archive: Archive) -> None:
    """Turns without a word, very long ones and odd characters get their vectors."""
    said = ["", "x" * 100_000, "\x00\ud800 x", "cat"]
    tip = commit_all(archive, [short(at, text) for at, text in enumerate(said, 1)])

    assert embedded(archive) == 4
    assert [one.turn for one in found(archive, tip, "kitten")] == [4]


def test_a_branch_does_not_find_its_siblings(archive: Archive) -> None:
    """After a fork each side finds by meaning what it sees itself, common past included."""
    first = commit_all(archive, [short(1, "cat", "past")])
    left = archive.commit(SESSION, first, short(2, "cat bug", "left")).tip
    right = archive.commit(SESSION, first, short(2, "cat login", "right")).tip
    embedded(archive)

    assert set(names(found(archive, left, "kitten"))) == {"past", "left"}
    assert set(names(found(archive, right, "kitten"))) == {"past", "right"}
    assert names(found(archive, first, "kitten")) == ["past"]


def test_the_nearest_of_another_branch_hide_none_of_this_one(archive: Archive) -> None:
    """A turn is found by its meaning though more nearer ones are on a branch that was left."""
    embedder = Embedder(Concepts(*SYNONYMS))
    tip = archive.commit(SESSION, START, short(1, "The cat is away."), embedder).tip
    archive.commit(SESSION, tip, short(2, "\n\n".join(["cat " * 200] * (MOST + 10))), embedder)
    tip = archive.commit(SESSION, tip, short(2, "Nothing."), embedder).tip

    assert [one.turn for one in found(archive, tip, "kitten")] == [1]


def test_older_turns_that_get_vectors_after_a_search_are_found(archive: Archive) -> None:
    """A turn whose vector is added last is found, although newer ones were read before it."""
    embedder = Embedder(Concepts(*SYNONYMS))
    tip = archive.commit(SESSION, START, short(1, "cat")).tip
    tip = archive.commit(SESSION, tip, short(2, "train to Rome"), embedder).tip
    before = found(archive, tip, "kitten")
    embedded(archive)

    assert before == ()
    assert [one.turn for one in found(archive, tip, "kitten")] == [1]


def test_an_erased_turn_is_not_found_by_what_it_meant(archive: Archive) -> None:
    """Nor by vectors that were read before it was erased."""
    tip = populate(archive)
    embedded(archive)
    before = found(archive, tip, "kitten")
    archive.erase(SESSION, tip, 2)

    assert [one.turn for one in before] == [2]
    assert found(archive, tip, "kitten") == ()


def test_what_an_erasure_rewrote_is_embedded_again(archive: Archive) -> None:
    """A summary that was written again is found by its meaning, though all had vectors before."""
    begun, done = [opened("a", goal="")], [concluded("a", "It is about a kitten.")]
    tip = commit_all(archive, [turn(1, "kitten", ["a"], begun), turn(2, "so", ["a"], done)])
    assert (embedded(archive), embedded(archive)) == (2, 0)

    archive.erase(SESSION, tip, 1)
    assert embedded(archive) == 2

    (effort,) = archive.load(SESSION, tip).efforts(1).efforts
    archive.resummarised(SESSION, tip, replace(effort, summary="The login was mended."))
    assert embedded(archive) == 1
    assert names(found(archive, tip, "signin")) == ["a"]
