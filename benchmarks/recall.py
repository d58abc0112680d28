"""Recall: how much of the evidence for questions a search finds, with no model.

python benchmarks/recall.py --data locomo.json --out results
python benchmarks/recall.py --data locomo.json --out results --embeddings minilm
python benchmarks/recall.py --talk talk.jsonl --questions talk.questions.jsonl --out results

A cell is the share of a question's evidence that is found, the mean over all questions, in percent.
The packed texts are the excerpts that a search would return, up to the first that does not fit;
evidence counts if all of it is among them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from locomo import Conversation, Question, Replay, load, replayed
from long_talk import Evidenced, by_full_text, committed, questions, read
from report import argument_parser, write

from ebbtide import DiskArchive
from ebbtide.graph.agent import choose_embedder
from ebbtide.memory.archive.protocol import Found
from ebbtide.memory.context.notes import pointed_at
from ebbtide.memory.embeddings import Embedder
from ebbtide.memory.passages import excerpt, spans
from ebbtide.memory.record import Owner, Tip
from ebbtide.memory.settings import Settings
from ebbtide.memory.tokens import count
from ebbtide.memory.transcript import rendered

_MESSAGE_TOKENS = 4
"""Tokens around a message, as `memory.tokens` counts them."""
_FEW, _MANY = 5, 10
"""The ranks up to which a hit counts, as papers report them."""
_ALL = 1_000
"""Hits at most, so that every rank is seen."""
_LITTLE, _MUCH = 1_000, 4_000
"""Tokens into which the evidence must fit."""


@dataclass(frozen=True, slots=True)
class ArchivedTalk:
    """An archived conversation, and its turns as text."""

    archive: DiskArchive
    owner: Owner
    tip: Tip
    logs: dict[int, str] = field(default_factory=dict)

    def search(self, text: str, embedder: Embedder | None = None) -> tuple[Found, ...]:
        """Return the passages for a question, best first."""
        meaning = embedder.meaning(text, Settings().semantic_floor) if embedder else None
        return self.archive.search_passages(self.owner, self.tip, text, _ALL, meaning)

    def hint(self, text: str) -> str | None:
        """Return the effort that a hint for this message would name."""
        best = pointed_at(self.archive.pointing(self.owner, self.tip, text))
        return best if isinstance(best, str) else None

    def log(self, turn: int) -> str:
        """Return a turn as text."""
        if turn not in self.logs:
            (record,) = self.archive.turns(self.owner, self.tip, [turn])
            self.logs[turn] = rendered(record.messages)
        return self.logs[turn]

    def excerpts(self, passages: Iterable[Found]) -> Iterator[tuple[int, int, int]]:
        """Yield turn, begin and end of the excerpt of each passage, none twice."""
        places: set[tuple[int, int]] = set()
        for passage in passages:
            (record,) = self.archive.turns(self.owner, self.tip, [passage.turn])
            part = None if passage.passage is None else excerpt(record.messages, passage.passage)
            if part and (passage.turn, part.end) not in places:
                places.add((passage.turn, part.end))
                yield passage.turn, part.begin, part.end

    def packed(self, parts: Iterable[tuple[int, int, int]], budget: int) -> list[tuple[int, str]]:
        """Return the texts that fit, with their turns, up to the first that does not."""
        return _fitting(((turn, self.log(turn)[begin:end]) for turn, begin, end in parts), budget)


def judged(
    archived: ArchivedTalk, replay: Replay, question: Question, embedder: Embedder | None
) -> dict[str, float]:
    """Return the share of the evidence that a search finds, by measure."""
    passages = archived.search(question.text, embedder)
    efforts = list(dict.fromkeys(passage.effort for passage in passages if passage.effort))
    turns = list(dict.fromkeys(part.turn for part in passages if part.passage is not None))
    sessions = {replay.efforts[key] for key in question.evidence}
    turn_numbers = {replay.turns[key] for key in question.evidence}
    evidence = [(replay.turns[key], replay.texts[key]) for key in question.evidence]
    packed = archived.packed(archived.excerpts(passages), _MUCH)
    return {
        "R@5": _share(sessions, efforts[:_FEW]),
        "all@5": float(sessions <= {*efforts[:_FEW]}),
        "all@10": float(sessions <= {*efforts[:_MANY]}),
        "turn R@10": _share(turn_numbers, turns[:_MANY]),
        **{
            f"{budget:,} tokens": _share_packed(evidence, _fitting(packed, budget))
            for budget in (_LITTLE, _MUCH)
        },
    }


def talked(
    archived: ArchivedTalk, lines: Sequence[Any], talk_questions: Sequence[Evidenced]
) -> list[dict[str, str | float]]:
    """Return a row for each way to search a talk for the evidence."""
    ways: dict[str, Callable[[str], Iterable[tuple[int, str]]]] = {
        "passages": lambda text: archived.packed(archived.excerpts(archived.search(text)), _MUCH),
        "whole turns": lambda text: (
            (turn, archived.log(turn))
            for turn in dict.fromkeys(passage.turn for passage in archived.search(text))
        ),
        "FTS5, all": lambda text: by_full_text(lines, ("user", "assistant"), text),
        "FTS5, users": lambda text: by_full_text(lines, ("user",), text),
    }
    rows: list[dict[str, str | float]] = []
    for name, way in ways.items():
        packed = [
            (question.evidence, _fitting(way(question.text), _MUCH)) for question in talk_questions
        ]
        cells = {
            f"{budget:,} tokens": _percent(
                _share_packed(evidence, _fitting(texts, budget)) for evidence, texts in packed
            )
            for budget in (_LITTLE, _MUCH)
        }
        rows.append({"unit": name, **cells})
    return rows


def hinted(
    archives: Sequence[ArchivedTalk], replays: Sequence[Replay], talks: Sequence[Conversation]
) -> dict[str, float]:
    """Return how often a hint is right, and how often an unrelated message gets one."""
    right = [
        archived.hint(question.text) in {replay.efforts[evidence] for evidence in question.evidence}
        for archived, replay, talk in zip(archives, replays, talks, strict=True)
        for question in talk.questions
    ]
    wrong = [
        archived.hint(question.text) is not None
        for archived in archives
        for foreign, talk in zip(archives, talks, strict=True)
        if foreign is not archived
        for question in talk.questions
    ]
    return {"hints, right": _percent(right), "hints, false": _percent(wrong)}


def main() -> None:
    """Replay the conversations with one and with two utterances to a turn; search for evidence."""
    parser = argument_parser(__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--talk", type=Path, nargs="*", default=[])
    parser.add_argument("--questions", type=Path, nargs="*", default=[])
    parser.add_argument("--embeddings", choices=["minilm"])
    options = parser.parse_args()
    for talk, questions_file in zip(options.talk, options.questions, strict=True):
        rows = _rows(read(talk), questions(questions_file))
        write(options.out, f"recall_{talk.stem}", "Is it still there? A long talk", rows)
    if options.data:
        talks, embedder = load(options.data), choose_embedder(options.embeddings)
        rows = [_row(talks, size, embedder) for size in (1, 2)]
        name = f"recall_{options.embeddings}" if options.embeddings else "recall"
        write(options.out, name, "Is it still there?", rows)


def _rows(
    lines: Sequence[Any], talk_questions: Sequence[Evidenced]
) -> list[dict[str, str | float]]:
    with TemporaryDirectory() as folder, DiskArchive(folder, durable=False) as archive:
        owner = Owner("talk", "t")
        return talked(
            ArchivedTalk(archive, owner, committed(archive, owner, lines)), lines, talk_questions
        )


def _row(
    talks: Sequence[Conversation], size: int, embedder: Embedder | None
) -> dict[str, str | float]:
    with TemporaryDirectory() as folder, DiskArchive(folder, durable=False) as archive:
        archives, replays = [], []
        for talk in talks:
            replay = replayed(archive, talk, size)
            if embedder:
                archive.embed(replay.owner, embedder, replay.tip.turn)
            archives.append(ArchivedTalk(archive, replay.owner, replay.tip))
            replays.append(replay)
            print(f"{talk.id}: {replay.tip.turn} turns replayed", flush=True)
        scores = [
            judged(archived, replay, question, embedder)
            for archived, replay, talk in zip(archives, replays, talks, strict=True)
            for question in talk.questions
        ]
        print(f"{len(scores)} questions asked", flush=True)
        cells = {name: _percent(row[name] for row in scores) for name in scores[0]}
        return {"utterances to a turn": str(size), **cells, **hinted(archives, replays, talks)}


def _fitting(texts: Iterable[tuple[int, str]], budget: int) -> list[tuple[int, str]]:
    """Return the texts that fit, up to the first that does not."""
    fitting: list[tuple[int, str]] = []
    for turn, text in texts:
        budget -= count(text) + _MESSAGE_TOKENS
        if budget < 0:
            break
        fitting.append((turn, text))
    return fitting


def _share_packed(evidence: Sequence[tuple[int, str]], packed: Sequence[tuple[int, str]]) -> float:
    """Return the share of texts that stand in the packed texts of their turns, maybe in parts."""
    verdicts = [
        _is_packed(text, [passage for at, passage in packed if at == turn])
        for turn, text in evidence
    ]
    return sum(verdicts) / len(verdicts)


def _is_packed(text: str, packed: Sequence[str]) -> bool:
    """Tell whether one packed text contains a text, or several contain its passages."""
    parts = [text[begin:end].strip() for begin, end in spans(text)]
    return any(text in passage for passage in packed) or all(
        any(part in passage for passage in packed) for part in parts
    )


def _share(expected: set[str] | set[int], results: Iterable[str | int]) -> float:
    return len(expected.intersection(results)) / len(expected)


def _percent(values: Iterable[float]) -> float:
    listed = list(values)
    return round(100 * sum(listed) / len(listed), 2)


if __name__ == "__main__":
    main()
