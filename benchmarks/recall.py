"""Is it still there? What search finds of the evidence for questions, with no model.

python benchmarks/recall.py --data locomo.json --out results
python benchmarks/recall.py --data locomo.json --out results --embeddings minilm
python benchmarks/recall.py --talk talk.jsonl --questions talk.questions.jsonl --out results

A cell is the share of a question's evidence that is found, the mean over all questions, in percent.
What is packed are the excerpts that a search would answer with, up to the first that does not fit;
evidence counts if all of it is among them.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from locomo import Conversation, Question, Replay, load, replayed
from long_talk import Sought, by_full_text, committed, questions, read
from report import write

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
_FEW, _MANY = 5, 10
_ALL = 1_000
_LITTLE, _MUCH = 1_000, 4_000


@dataclass(frozen=True, slots=True)
class Asked:
    """An archived conversation that can be asked, and its turns as text."""

    archive: DiskArchive
    owner: Owner
    tip: Tip
    logs: dict[int, str] = field(default_factory=dict)

    def found(self, text: str, embedder: Embedder | None = None) -> tuple[Found, ...]:
        """Return the passages that a question finds, best first."""
        meaning = embedder.meaning(text, Settings().semantic_floor) if embedder else None
        return self.archive.search_passages(self.owner, self.tip, text, _ALL, meaning)

    def hint(self, text: str) -> str | None:
        """Return the effort that a message would be given a hint at."""
        best = pointed_at(self.archive.pointing(self.owner, self.tip, text))
        return best if isinstance(best, str) else None

    def log(self, turn: int) -> str:
        """Return a turn as text."""
        if turn not in self.logs:
            (record,) = self.archive.turns(self.owner, self.tip, [turn])
            self.logs[turn] = rendered(record.messages)
        return self.logs[turn]

    def shown(self, found: Iterable[Found]) -> Iterator[tuple[int, int, int]]:
        """Yield what is shown of passages: turn, begin and end, nothing twice."""
        known: set[tuple[int, int]] = set()
        for one in found:
            (record,) = self.archive.turns(self.owner, self.tip, [one.turn])
            part = None if one.passage is None else excerpt(record.messages, one.passage)
            if part and (one.turn, part.end) not in known:
                known.add((one.turn, part.end))
                yield one.turn, part.begin, part.end

    def packed(self, parts: Iterable[tuple[int, int, int]], budget: int) -> list[tuple[int, str]]:
        """Return the texts that fit, with their turns, up to the first that does not."""
        return _fitting(((turn, self.log(turn)[begin:end]) for turn, begin, end in parts), budget)


def judged(
    asked: Asked, replay: Replay, question: Question, embedder: Embedder | None
) -> dict[str, float]:
    """Return the share of the evidence that is found, by how it is looked for."""
    found = asked.found(question.text, embedder)
    efforts = list(dict.fromkeys(one.effort for one in found if one.effort))
    turns = list(dict.fromkeys(one.turn for one in found if one.passage is not None))
    sessions = {replay.efforts[one] for one in question.evidence}
    wanted = {replay.turns[one] for one in question.evidence}
    sought = [(replay.turns[one], replay.said[one]) for one in question.evidence]
    kept = asked.packed(asked.shown(found), _MUCH)
    return {
        "R@5": _share(sessions, efforts[:_FEW]),
        "all@5": float(sessions <= {*efforts[:_FEW]}),
        "all@10": float(sessions <= {*efforts[:_MANY]}),
        "turn R@10": _share(wanted, turns[:_MANY]),
        **{
            f"{budget:,} tokens": _there(sought, _fitting(kept, budget))
            for budget in (_LITTLE, _MUCH)
        },
    }


def talked(
    asked: Asked, lines: Sequence[Any], sought: Sequence[Sought]
) -> list[dict[str, str | float]]:
    """Return a row for each way to look for the evidence in a talk."""
    ways: dict[str, Callable[[str], Iterable[tuple[int, str]]]] = {
        "passages": lambda text: asked.packed(asked.shown(asked.found(text)), _MUCH),
        "whole turns": lambda text: (
            (turn, asked.log(turn)) for turn in dict.fromkeys(one.turn for one in asked.found(text))
        ),
        "FTS5, all": lambda text: by_full_text(lines, ("user", "assistant"), text),
        "FTS5, users": lambda text: by_full_text(lines, ("user",), text),
    }
    rows: list[dict[str, str | float]] = []
    for name, way in ways.items():
        kept = [(one.evidence, _fitting(way(one.text), _MUCH)) for one in sought]
        cells = {
            f"{budget:,} tokens": _percent(
                _there(evidence, _fitting(texts, budget)) for evidence, texts in kept
            )
            for budget in (_LITTLE, _MUCH)
        }
        rows.append({"unit": name, **cells})
    return rows


def hinted(
    asked: Sequence[Asked], replays: Sequence[Replay], talks: Sequence[Conversation]
) -> dict[str, float]:
    """Return how often a hint is right, and how often a message about something else has one."""
    right = [
        one.hint(question.text) in {replay.efforts[evidence] for evidence in question.evidence}
        for one, replay, talk in zip(asked, replays, talks, strict=True)
        for question in talk.questions
    ]
    false = [
        one.hint(question.text) is not None
        for one in asked
        for other, talk in zip(asked, talks, strict=True)
        if other is not one
        for question in talk.questions
    ]
    return {"hints, right": _percent(right), "hints, false": _percent(false)}


def main() -> None:
    """Replay the conversations, once an utterance to a turn and once two, and ask."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--talk", type=Path, nargs="*", default=[])
    parser.add_argument("--questions", type=Path, nargs="*", default=[])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--embeddings", choices=["minilm"])
    options = parser.parse_args()
    for talk, asked in zip(options.talk, options.questions, strict=True):
        rows = _rows(read(talk), questions(asked))
        write(options.out, f"recall_{talk.stem}", "Is it still there? A long talk", rows)
    if options.data:
        talks, embedder = load(options.data), choose_embedder(options.embeddings)
        rows = [_row(talks, size, embedder) for size in (1, 2)]
        name = f"recall_{options.embeddings}" if options.embeddings else "recall"
        write(options.out, name, "Is it still there?", rows)


def _rows(lines: Sequence[Any], sought: Sequence[Sought]) -> list[dict[str, str | float]]:
    with TemporaryDirectory() as folder, DiskArchive(folder, durable=False) as archive:
        owner = Owner("talk", "t")
        return talked(Asked(archive, owner, committed(archive, owner, lines)), lines, sought)


def _row(
    talks: Sequence[Conversation], size: int, embedder: Embedder | None
) -> dict[str, str | float]:
    with TemporaryDirectory() as folder, DiskArchive(folder, durable=False) as archive:
        asked, replays = [], []
        for talk in talks:
            replay = replayed(archive, talk, size)
            if embedder:
                archive.embed(replay.owner, embedder, replay.tip.turn)
            asked.append(Asked(archive, replay.owner, replay.tip))
            replays.append(replay)
            print(f"{talk.id}: {replay.tip.turn} turns replayed", flush=True)
        found = [
            judged(one, replay, question, embedder)
            for one, replay, talk in zip(asked, replays, talks, strict=True)
            for question in talk.questions
        ]
        print(f"{len(found)} questions asked", flush=True)
        cells = {name: _percent(one[name] for one in found) for name in found[0]}
        return {"utterances to a turn": str(size), **cells, **hinted(asked, replays, talks)}


def _fitting(texts: Iterable[tuple[int, str]], budget: int) -> list[tuple[int, str]]:
    """Return the texts that fit, up to the first that does not."""
    kept: list[tuple[int, str]] = []
    for turn, text in texts:
        budget -= count(text) + _MESSAGE_TOKENS
        if budget < 0:
            break
        kept.append((turn, text))
    return kept


def _there(sought: Sequence[tuple[int, str]], packed: Sequence[tuple[int, str]]) -> float:
    """Return the share of texts that stand in what was packed of their turns, maybe in parts."""
    there = [_says(text, [said for at, said in packed if at == turn]) for turn, text in sought]
    return sum(there) / len(there)


def _says(text: str, packed: Sequence[str]) -> bool:
    """Tell whether a text stands in one of these, or the passages of it one each."""
    parts = [text[begin:end].strip() for begin, end in spans(text)]
    return any(text in said for said in packed) or all(
        any(part in said for said in packed) for part in parts
    )


def _share(wanted: set[str] | set[int], found: Iterable[str | int]) -> float:
    return len(wanted.intersection(found)) / len(wanted)


def _percent(values: Iterable[float]) -> float:
    listed = list(values)
    return round(100 * sum(listed) / len(listed), 2)


if __name__ == "__main__":
    main()
