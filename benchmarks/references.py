"""Which mentions of an effort are recognised, and how many summaries stay in the context.

python benchmarks/references.py --data locomo.json --out results

A question mentions the sessions that hold its evidence; to the other sessions of its conversation
it is an unrelated message. Then each conversation is replayed, an utterance and its answer to a
turn: a session is an effort, which is concluded at its end but for the last one.
"""

import argparse
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from locomo import Conversation, group, load, replayed
from report import write

from ebbtide import DiskArchive, Settings
from ebbtide.memory.decay import decayed
from ebbtide.memory.desk import Desk
from ebbtide.memory.efforts import Effort
from ebbtide.memory.keywords import KeywordCache, keywords_of
from ebbtide.memory.overlap import Vocabulary, about, evidence, weights
from ebbtide.memory.record import Event, Group, Owner, Tip
from ebbtide.memory.references import referenced, statements
from ebbtide.memory.restoring import EMPTY
from ebbtide.memory.terms import content
from ebbtide.memory.tokens import count
from ebbtide.memory.transitions import happened
from ebbtide.memory.view import View, past
from ebbtide.memory.workspace import Workspace

_UTTERANCES = 2
_OVERLAP = 2
_FEW_WORDS = 22
_SHORTEST = 3
_FUNCTION_WORDS = frozenset(
    """
a an the and or but if of at by for with about to from in on is are was were be been has have had do
does did i you he she it we they what when where who which how why this that his her its their my
your would could should
""".split()  # noqa: SIM905 (reads as a list of words)
)
_GOAL = {
    "true %": "",
    "false %": "<= 5",
    "AUC": ">= 0.87",
    "worst AUC": "",
    "left": "<= 8",
    "of": "",
    "left, each": "",
}


class Rule(Protocol):
    """A way to tell which efforts a text is about."""

    @property
    def name(self) -> str:
        """What the rule is called."""

    def vocabulary(self, desk: Desk, efforts: Sequence[Effort]) -> Vocabulary:
        """Return the keywords of efforts."""

    def scores(self, said: str, vocabulary: Vocabulary) -> Mapping[str, float]:
        """Return how well a text matches each effort."""

    def found(self, said: str, vocabulary: Vocabulary) -> frozenset[str]:
        """Return the efforts that a text is about."""

    def noted(self, desk: Desk) -> Workspace:
        """Return the workspace after the references of the running turn."""


@dataclass(frozen=True, slots=True)
class Distinctive:
    """The rule of the memory. Its score leaves out that two keywords must be distinctive."""

    name: str = "distinctive keywords"
    settings: Settings = Settings()  # noqa: RUF009 (it is frozen)
    cache: KeywordCache = field(default_factory=KeywordCache)

    def vocabulary(self, desk: Desk, efforts: Sequence[Effort]) -> Vocabulary:
        """Return the keywords of efforts, from their summaries and their logs."""
        return {effort.id: keywords_of(desk, effort, self.cache) for effort in efforts}

    def scores(self, said: str, vocabulary: Vocabulary) -> Mapping[str, float]:
        """Return the weight of the shared keywords over the number of the text's terms."""
        spoken = set(content(said))
        found = evidence(weights(spoken, vocabulary), vocabulary)
        return {name: weight / max(1, len(spoken)) for name, weight in found.items()}

    def found(self, said: str, vocabulary: Vocabulary) -> frozenset[str]:
        """Return the efforts that a text is about."""
        return about(content(said), vocabulary, vocabulary, self.settings)

    def noted(self, desk: Desk) -> Workspace:
        """Return the workspace after the references of the running turn."""
        return referenced(desk, self.cache)


@dataclass(frozen=True, slots=True)
class Plain:
    """The plain rule: two shared words; of a summary all, or the `limit` most frequent ones."""

    name: str
    limit: int | None = None

    def vocabulary(self, _desk: Desk, efforts: Sequence[Effort]) -> Vocabulary:
        """Return the words of the efforts' summaries."""
        said = {effort.id: Counter(_words(effort.summary)) for effort in efforts}
        return {
            name: frozenset(word for word, _ in words.most_common(self.limit))
            for name, words in said.items()
        }

    def scores(self, said: str, vocabulary: Vocabulary) -> Mapping[str, float]:
        """Return how many words a text shares with each effort."""
        spoken = {*_words(said)}
        return {name: float(len(spoken & words)) for name, words in vocabulary.items()}

    def found(self, said: str, vocabulary: Vocabulary) -> frozenset[str]:
        """Return the efforts that a text is about."""
        shared = self.scores(said, vocabulary)
        return frozenset(name for name, number in shared.items() if number >= _OVERLAP)

    def noted(self, desk: Desk) -> Workspace:
        """Return the workspace after the references of the running turn."""
        vocabulary = self.vocabulary(desk, desk.known([*desk.space.summaries]))
        space = desk.space
        for said in statements(desk.view.running.messages):
            for name in sorted(self.found(said, vocabulary)):
                space = happened(space, {"type": "referenced", "effort": name})
        return space


@dataclass(frozen=True, slots=True)
class Judged:
    """The scores of true mentions and of unrelated messages, and how many of each were found."""

    true: tuple[float, ...]
    false: tuple[float, ...]
    hits: int
    errors: int


def judged(archive: DiskArchive, rule: Rule, talk: Conversation) -> Judged:
    """Ask the questions of a conversation once all of it is stored."""
    replay = replayed(archive, talk, _UTTERANCES)
    view = past(archive, replay.owner, replay.tip)
    vocabulary = rule.vocabulary(_desk(EMPTY, view), view.efforts(len(talk.sessions)).efforts)
    true, false, hits, errors = list[float](), list[float](), 0, 0
    for question in talk.questions:
        wanted = {replay.efforts[one] for one in question.evidence}
        for name, score in rule.scores(question.text, vocabulary).items():
            (true if name in wanted else false).append(score)
        found = rule.found(question.text, vocabulary)
        hits, errors = hits + len(found & wanted), errors + len(found - wanted)
    return Judged(tuple(true), tuple(false), hits, errors)


def left(archive: DiskArchive, rule: Rule, talk: Conversation) -> int:
    """Replay a conversation, and count the summaries that are in the context at its end."""
    owner, tip, space = Owner("references", f"{talk.id} {rule.name}"), Tip(), EMPTY
    for turn in turns(talk):
        space = replace(space, turn=turn.turn, events=(), banners=())
        for event in turn.events:
            space = happened(space, event)
        space = rule.noted(_desk(space, View(archive, owner, tip, turn)))
        space = decayed(space, Settings())
        tip = archive.commit(owner, tip, turn).tip
    return len(space.summaries)


def turns(talk: Conversation) -> Iterator[Group]:
    """Yield the turns of a conversation, with the events that open and conclude its sessions."""
    number = 0
    for session, said in enumerate(talk.sessions):
        name = f"session-{session:02}"
        for first in range(0, len(said), _UTTERANCES):
            ends = first + _UTTERANCES >= len(said) and session + 1 < len(talk.sessions)
            opened: list[Event] = [{"type": "opened", "effort": name}]
            closed = {"type": "concluded", "effort": name, "summary": talk.summaries[session]}
            events = [*([] if first else opened), *([closed] if ends else [])]
            number += 1
            yield group(number, said[first : first + _UTTERANCES], name, events)


def auc(true: Sequence[float], false: Sequence[float]) -> float:
    """Return how often a true mention scores higher than an unrelated message; ties count half.

    >>> auc([2.0, 1.0], [1.0, 0.0])
    0.875
    """
    listed = sorted(false)
    below = sum((bisect_left(listed, one) + bisect_right(listed, one)) / 2 for one in true)
    return below / len(true) / len(false)


def main() -> None:
    """Measure the plain rule and the memory's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    talks = load(options.data)
    few = f"two shared words of the summary's {_FEW_WORDS} most frequent"
    rules: list[Rule] = [Plain("two shared words of the summary"), Plain(few, _FEW_WORDS)]
    rows = [_row(rule, talks) for rule in [*rules, Distinctive()]]
    write(options.out, "references", "References", [*rows, {"rule": "goal", **_GOAL}])


def _row(rule: Rule, talks: Sequence[Conversation]) -> dict[str, Any]:
    asked, kept = [], []
    for talk in talks:
        asked.append(_apart(judged, rule, talk))
        kept.append(_apart(left, rule, talk))
        print(f"{rule.name}: {talk.id} replayed", flush=True)
    true = [score for one in asked for score in one.true]
    false = [score for one in asked for score in one.false]
    return {
        "rule": rule.name,
        "true %": round(100 * sum(one.hits for one in asked) / len(true), 1),
        "false %": round(100 * sum(one.errors for one in asked) / len(false), 1),
        "AUC": round(auc(true, false), 3),
        "worst AUC": round(min(auc(one.true, one.false) for one in asked), 3),
        "left": round(sum(kept) / len(talks), 1),
        "of": round(sum(len(talk.sessions) - 1 for talk in talks) / len(talks), 1),
        "left, each": " ".join(map(str, kept)),
    }


def _apart(measure: Callable[..., Any], rule: Rule, talk: Conversation) -> Any:
    with TemporaryDirectory() as folder, DiskArchive(folder, durable=False) as archive:
        return measure(archive, rule, talk)


def _desk(space: Workspace, view: View) -> Desk:
    return Desk(space, view, Settings(), count, room=0, free=0)


def _words(text: str) -> list[str]:
    found = re.findall(r"\w+", text.lower())
    return [word for word in found if len(word) >= _SHORTEST and word not in _FUNCTION_WORDS]


if __name__ == "__main__":
    main()
