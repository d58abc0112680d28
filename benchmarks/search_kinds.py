"""Search as people ask it: by kinds of questions, beside SQLite's FTS5 over the same turns.

python benchmarks/search_kinds.py --out results
python benchmarks/search_kinds.py --out results --missed 20
python benchmarks/search_kinds.py --out results --embeddings minilm

The turns and questions are `data/search_kinds.yaml`: work and talk in a dozen languages, written
before the search was looked at. A question is answered if its turn is among the first five results
of the tool `search_efforts`, called with the question alone; with FTS5, among the five best turns
for any word of the question. `--missed` prints that many of the questions without an answer.

The unrelated questions have no answer. In their row the percents are those that get none, or only
weak ones; FTS5 knows no weak result.
"""

import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import yaml
from made_up import exchange
from recall import ArchivedTalk
from report import argument_parser, percent, write

from ebbtide import DiskArchive
from ebbtide.graph.agent import choose_embedder
from ebbtide.memory.search.embeddings import Embedder
from ebbtide.memory.turn import Session, Tip

_DATA = Path(__file__).parent / "data" / "search_kinds.yaml"
_FIVE = 5
"""The rank up to which an answer counts."""

Way: TypeAlias = Callable[[str], Sequence[tuple[int, bool]]]
"""Returns the turns for a question, best first, each with whether it is a weak result."""


def tool(archive: DiskArchive, session: Session, tip: Tip, embedder: Embedder | None) -> Way:
    """Return the search of the tool `search_efforts`."""
    talk = ArchivedTalk(archive, session, tip, embedder)

    def search(question: str) -> Sequence[tuple[int, bool]]:
        answer = talk.asked(question)
        return [
            (passage["turn"], bool(passage.get("weak")))
            for result in answer["results"][:_FIVE]
            for passage in result["passages"]
        ]

    return search


def full_text(texts: Iterable[str], tokenizer: str) -> Way:
    """Return FTS5's search for any word of a question, cut at spaces and at signs."""
    database = sqlite3.connect(":memory:")
    database.execute(f"CREATE VIRTUAL TABLE said USING fts5(text, tokenize={tokenizer})")
    database.executemany(
        "INSERT INTO said (rowid, text) VALUES (?, ?)", [*enumerate(texts, start=1)]
    )
    sql = "SELECT rowid FROM said WHERE said MATCH ? ORDER BY rank LIMIT ?"

    def search(question: str) -> Sequence[tuple[int, bool]]:
        words = {*question.split(), *re.findall(r"\w+", question)}
        match = " OR ".join('"' + word.replace('"', '""') + '"' for word in sorted(words))
        return [(turn, False) for (turn,) in database.execute(sql, (match, _FIVE))]

    return search


def answered(way: Way, questions: Sequence[tuple[str, int]]) -> list[bool]:
    """Return for each question whether a search finds its turn."""
    return [turn in {found for found, _ in way(text)} for text, turn in questions]


def main() -> None:
    """Ask all questions of each way to search, and write a row for each kind."""
    parser = argument_parser(__doc__, missed=0)
    parser.add_argument("--embeddings", choices=["minilm"])
    options = parser.parse_args()
    embedder = choose_embedder(options.embeddings)
    data: Mapping[str, Any] = yaml.safe_load(_DATA.read_text("utf-8"))
    numbers = {name: number for number, (name, *_) in enumerate(data["turns"], start=1)}
    kinds = {
        kind: [(text, numbers[name]) for text, name in questions]
        for kind, questions in data["kinds"].items()
    }
    with TemporaryDirectory() as folder, DiskArchive(folder, durable=False) as archive:
        session, tip = Session("kinds", "t"), Tip()
        for number, (_, *texts) in enumerate(data["turns"], start=1):
            tip = archive.commit(session, tip, exchange(number, texts, "")).tip
        texts = ["\n".join(said) for _, *said in data["turns"]]
        ways = {
            "Ebbtide": tool(archive, session, tip, embedder),
            "FTS5 unicode61": full_text(texts, "unicode61"),
            "FTS5 trigram": full_text(texts, "trigram"),
        }
        rows = _rows(ways, kinds, data["unrelated"])
        missed = [
            f"{kind}: {text!r}"
            for kind, questions in kinds.items()
            for (text, _), found in zip(
                questions, answered(ways["Ebbtide"], questions), strict=True
            )
            if not found
        ]
    print("\n".join(missed[: options.missed]))
    name = f"search_kinds_{options.embeddings}" if embedder else "search_kinds"
    write(options.out, name, "Search as people ask it: answered in the first five, %", rows)


def _rows(
    ways: Mapping[str, Way],
    kinds: Mapping[str, Sequence[tuple[str, int]]],
    unrelated: Sequence[str],
) -> list[dict[str, str | float]]:
    every = [question for questions in kinds.values() for question in questions]
    rows: list[dict[str, str | float]] = [
        {
            "kind": kind,
            "questions": len(questions),
            **{name: percent(answered(way, questions)) for name, way in ways.items()},
        }
        for kind, questions in [*kinds.items(), ("all", every)]
    ]
    quiet = {
        name: percent(all(weak for _, weak in way(text)) for text in unrelated)
        for name, way in ways.items()
    }
    return [*rows, {"kind": "unrelated, no answer", "questions": len(unrelated), **quiet}]


if __name__ == "__main__":
    main()
