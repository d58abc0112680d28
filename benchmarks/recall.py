"""Is it still there? What search finds of the evidence for LoCoMo's questions, with no model.

python benchmarks/recall.py --data locomo.json --out results
python benchmarks/recall.py --data locomo.json --out results --embeddings minilm

A cell is the share of a question's evidence that is found, the mean over all questions, in percent.
"""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from locomo import Conversation, Question, Replay, load, replayed
from report import write

from ebbtide import DiskArchive
from ebbtide.graph.embeddings import choose_embedder
from ebbtide.memory.context.hints import CANDIDATES, clearly
from ebbtide.memory.meaning import Embedder, Meaning
from ebbtide.memory.settings import Settings
from ebbtide.memory.tokens import count

_MESSAGE_TOKENS = 4
_FEW, _MANY = 5, 10


@dataclass(frozen=True, slots=True)
class Asked:
    """A replayed conversation that can be asked, and its archive."""

    archive: DiskArchive
    replay: Replay

    def efforts(self, text: str, meaning: Meaning | None) -> list[str]:
        """Return the efforts that a question finds, best first."""
        found = self.archive.search(self.replay.owner, self.replay.tip, text, _MANY, meaning)
        return [one.effort for one in found if one.effort]

    def turns(self, text: str, meaning: Meaning | None) -> tuple[int, ...]:
        """Return the turns that a question finds, best first."""
        return self.archive.search_turns(self.replay.owner, self.replay.tip, text, meaning)

    def hint(self, text: str) -> str | None:
        """Return the effort that a message would be given a hint at."""
        owner, tip = self.replay.owner, self.replay.tip
        found = self.archive.search(owner, tip, text, CANDIDATES)
        best = clearly(text, found, self.archive.efforts(owner, tip, 0).total)
        return best.effort if best else None


def judged(asked: Asked, question: Question, embedder: Embedder | None) -> dict[str, float]:
    """Return the share of the evidence that is found, by how it is looked for."""
    replay = asked.replay
    meaning = embedder.meaning(question.text, Settings().semantic_floor) if embedder else None
    efforts, turns = asked.efforts(question.text, meaning), asked.turns(question.text, meaning)
    sessions = {replay.efforts[one] for one in question.evidence}
    wanted = {replay.turns[one] for one in question.evidence}
    return {
        "R@5": _share(sessions, efforts[:_FEW]),
        "all@5": float(sessions <= {*efforts[:_FEW]}),
        "all@10": float(sessions <= {*efforts}),
        "turn R@10": _share(wanted, turns[:_MANY]),
        "1,000 tokens": _share(wanted, _packed(replay, turns, 1_000)),
        "4,000 tokens": _share(wanted, _packed(replay, turns, 4_000)),
    }


def hinted(asked: Sequence[Asked], talks: Sequence[Conversation]) -> dict[str, float]:
    """Return how often a hint is right, and how often a message about something else has one."""
    own = [
        (one, question)
        for one, talk in zip(asked, talks, strict=True)
        for question in talk.questions
    ]
    right = [_right(one, question) for one, question in own]
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
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--embeddings", choices=["minilm"])
    options = parser.parse_args()
    talks, embedder = load(options.data), choose_embedder(options.embeddings)
    rows = [_row(talks, size, embedder) for size in (1, 2)]
    name = f"recall_{options.embeddings}" if options.embeddings else "recall"
    write(options.out, name, "Is it still there?", rows)


def _row(
    talks: Sequence[Conversation], size: int, embedder: Embedder | None
) -> dict[str, str | float]:
    with TemporaryDirectory() as folder, DiskArchive(folder, durable=False) as archive:
        asked = []
        for talk in talks:
            replay = replayed(archive, talk, size)
            if embedder:
                archive.embed(replay.owner, embedder, replay.tip.turn)
            asked.append(Asked(archive, replay))
            print(f"{talk.id}: {replay.tip.turn} turns replayed", flush=True)
        found = [
            judged(one, question, embedder)
            for one, talk in zip(asked, talks, strict=True)
            for question in talk.questions
        ]
        print(f"{len(found)} questions asked", flush=True)
        cells = {name: _percent(one[name] for one in found) for name in found[0]}
        return {"utterances to a turn": str(size), **cells, **hinted(asked, talks)}


def _right(asked: Asked, question: Question) -> bool:
    return asked.hint(question.text) in {asked.replay.efforts[one] for one in question.evidence}


def _packed(replay: Replay, turns: Iterable[int], budget: int) -> list[int]:
    """Return the turns that fit, verbatim, up to the first that does not."""
    shown: list[int] = []
    for turn in turns:
        budget -= sum(count(text) + _MESSAGE_TOKENS for text in replay.texts[turn])
        if budget < 0:
            break
        shown.append(turn)
    return shown


def _share(wanted: set[str] | set[int], found: Iterable[str | int]) -> float:
    return len(wanted.intersection(found)) / len(wanted)


def _percent(values: Iterable[float]) -> float:
    listed = list(values)
    return round(100 * sum(listed) / len(listed), 2)


if __name__ == "__main__":
    main()
