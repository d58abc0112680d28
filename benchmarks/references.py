"""Which references to an effort are recognised, and how many summaries stay in the context.

    python benchmarks/references.py --data locomo10.json --conversations 0-4 --out results

LoCoMo: a question refers to the sessions that have its evidence, and makes an unrelated pair with
each of the other sessions. Then each conversation is replayed with an utterance and its answer as a
turn. A session is an effort, and all but the last are concluded at their end.

Dialogues, which need no `--data`: made-up dialogues in `data`, each with two to five efforts that
are opened, worked on and concluded one after the other. Then the first effort is expanded, and
turns of other work follow, some of which refer to an effort, as their authors labelled them. There
are three kinds: `work` about software, `long` mails and minutes of a hundred words in which one
sentence refers to an effort, and `terse` talk while coding. Those about software are replayed once
more as one session of 27 efforts. The rule was chosen on the half called
development. The half called check was kept for the end.

    python benchmarks/references.py --pasted benchmarks/data/pasted/development.yaml --out results

Streams in which code is pasted: the efforts of a stream are concluded one after another, and turns
follow that refer to some of them or to none. No summary leaves the context while pairs are counted.

- true %: references that are recognised.
- false %: pairs of a turn and a concluded effort that it does not refer to, taken for a reference.
- expanded %: the same for the expanded effort, which is the only one with a long log.
- turns %: turns without a reference that are taken for a reference to any effort.
- AUC: how often a reference weighs more than an unrelated pair, ids aside.
- left: summaries in the context at the end, where they leave as they do by default.
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeAlias

import yaml
from locomo import Conversation, add_options, load, replayed
from made_up import exchange
from report import argument_parser, percent, write

from ebbtide import DiskArchive, Settings
from ebbtide.memory.archive.query import pointing
from ebbtide.memory.decay import collapsed, evicted
from ebbtide.memory.efforts import EMPTY, Effort, Efforts, happened
from ebbtide.memory.keywords import (
    KeywordCache,
    about,
    keywords_of,
    passages_of,
    referring,
    weighed,
)
from ebbtide.memory.references import MANY, recent, referenced, said_mostly, shares, statements
from ebbtide.memory.running_turn import Run, Turn
from ebbtide.memory.tokens import count
from ebbtide.memory.turn import Event, Session, StoredTurn, Tip
from ebbtide.memory.view import ArchiveView, fences_of, view_at

_UTTERANCES = 2
"""Utterances that make a turn: a question and its answer."""
_OVERLAP = 2
"""Shared words that the plain rule takes for a mention."""
_FEW_WORDS = 22
"""Words of a short summary, for the plain rule with few of them."""
_SHORTEST = 3
"""Letters of a word that the plain rule compares, at least."""
_FUNCTION_WORDS = frozenset(
    """
a an the and or but if of at by for with about to from in on is are was were be been has have had do
does did i you he she it we they what when where who which how why this that his her its their my
your would could should
""".split()  # noqa: SIM905 (reads as a list of words)
)
_DATA = Path(__file__).parent / "data"
_KINDS = ("work", "long", "terse")
_DEFAULT = Settings()
_ALL_STAY = Settings(summary_eviction_threshold=10_000)
_GOAL = {"rule": "goal", "true %": ">= 60", "false %": "<= 2", "AUC": ">= 0.91", "left": "<= 6"}
_DIALOGUE_GOAL = {"rule": "goal", "true %": ">= 60", "false %": "<= 2", "AUC": ">= 0.91"}
_STREAM_GOAL = {"rule": "goal", "true %": ">= 60", "false %": "<= 2", "left": "<= 6"}


class Match(NamedTuple):
    """The score of a text for each effort, and the efforts that the text mentions."""

    scores: Mapping[str, float]
    efforts: AbstractSet[str]


@dataclass(frozen=True, slots=True)
class Distinctive:
    """The rule of the memory. Its score leaves out that two keywords must be distinctive."""

    name: str = "distinctive keywords"
    cache: KeywordCache = field(default_factory=KeywordCache)

    def reader(self, work: Turn, efforts: Sequence[Effort]) -> Callable[[str], Match]:
        """Return a function that matches a text with these efforts."""
        keywords = keywords_of(work, efforts, self.cache)
        turns = recent(work, self.cache)

        def read(text: str) -> Match:
            text = referring(text, keywords)
            passages = passages_of(text)
            scores = dict.fromkeys(keywords, 0.0)
            for matches in weighed(passages, keywords, keywords, turns):
                scores |= {name: max(scores[name], one.share) for name, one in matches.items()}
            pointed = pointing(work.view.past, text)
            for name, share in shares(pointed).items():
                if name in scores:
                    scores[str(name)] += share.score / 10  # as a tenth it tells best
            many = len(keywords) >= MANY
            said = said_mostly(pointed, keywords, overlap=_OVERLAP) if many else ()
            return Match(scores, {*said, *about(passages, keywords, keywords, turns)})

        return read

    def next_state(self, work: Turn) -> Efforts:
        """Return the state after the references of the running turn."""
        return referenced(work, self.cache)


@dataclass(frozen=True, slots=True)
class Plain:
    """The plain rule: two shared words; of a summary all, or the `limit` most frequent ones."""

    name: str
    limit: int | None = None

    def reader(self, _work: Turn, efforts: Sequence[Effort]) -> Callable[[str], Match]:
        """Return a function that matches a text with these efforts."""
        counters = {effort.id: Counter(_words(effort.summary)) for effort in efforts}
        keywords = {
            name: frozenset(word for word, _ in words.most_common(self.limit))
            for name, words in counters.items()
        }

        def read(text: str) -> Match:
            spoken = {*_words(text)}
            scores = {name: float(len(spoken & words)) for name, words in keywords.items()}
            matches = (name for name, number in scores.items() if number >= _OVERLAP)
            return Match(scores, frozenset(matches))

        return read

    def next_state(self, work: Turn) -> Efforts:
        """Return the state after the references of the running turn."""
        read, state = self.reader(work, work.known([*work.efforts.summaries])), work.efforts
        for text in statements(work.view.running.messages):
            for name in sorted(read(text).efforts):
                state = happened(state, {"type": "referenced", "effort": name})
        return state


Rule: TypeAlias = Distinctive | Plain
"""A way to tell which efforts a text is about."""


class Judged(NamedTuple):
    """The scores of true mentions and of unrelated pairs, and how many of each were found."""

    true: list[float]
    false: list[float]
    hits: int
    errors: int


def judged(archive: DiskArchive, rule: Rule, talk: Conversation) -> Judged:
    """Match the questions of a stored conversation with its efforts."""
    replay = replayed(archive, talk, _UTTERANCES)
    view = view_at(archive, replay.session, replay.tip)
    read = rule.reader(_work(EMPTY, view), view.past.efforts(len(talk.sessions)).efforts)
    true, false, hits, errors = list[float](), list[float](), 0, 0
    for question in talk.questions:
        expected = {replay.places[utterance_id].effort for utterance_id in question.evidence}
        match = read(question.text)
        for name, score in match.scores.items():
            (true if name in expected else false).append(score)
        hits, errors = hits + len(match.efforts & expected), errors + len(match.efforts - expected)
    return Judged(true, false, hits, errors)


def remaining_summaries(archive: DiskArchive, rule: Rule, talk: Conversation) -> int:
    """Replay a conversation, and count the summaries that are in the context at its end."""
    *_, state = replay_states(archive, rule, Session("references", talk.id), session_turns(talk))
    return len(state.summaries)


def replay_states(
    archive: DiskArchive,
    rule: Rule,
    session: Session,
    turns: Iterable[StoredTurn],
    settings: Settings = _DEFAULT,
) -> Iterator[Efforts]:
    """Yield the state after each turn of a conversation."""
    tip, state = Tip(), EMPTY
    for turn in turns:
        state = replace(state, turn=turn.number, events=(), banners=())
        for event in turn.events:
            state = happened(state, event, line="")
        past = archive.load(session, tip)
        state = rule.next_state(_work(state, ArchiveView(archive, session, past, turn)))
        state = evicted(collapsed(state, settings), settings, state.turn)
        tip = archive.commit(session, tip, replace(turn, events=state.events)).tip
        yield state


def session_turns(talk: Conversation) -> Iterator[StoredTurn]:
    """Yield the turns of a conversation, with the events that open and conclude its sessions."""
    number = 0
    for session, utterances in enumerate(talk.sessions):
        name = f"session-{session:02}"
        for first in range(0, len(utterances), _UTTERANCES):
            ends = first + _UTTERANCES >= len(utterances) and session + 1 < len(talk.sessions)
            opened: list[Event] = [{"type": "opened", "effort": name}]
            closed = {"type": "concluded", "effort": name, "summary": talk.summaries[session]}
            events = [*([] if first else opened), *([closed] if ends else [])]
            number += 1
            texts = [text for _, text in utterances[first : first + _UTTERANCES]]
            yield exchange(number, texts, name, events)


class Pair(NamedTuple):
    """A turn and an effort in the context: whether the turn mentions it, and the rule says so.

    `score` is what the better of question and answer weighs.
    """

    turn: int
    expanded: bool
    mentioned: bool
    recognised: bool
    score: float


def pairs_of(
    archive: DiskArchive, rule: Rule, talk: Mapping[str, Any], settings: Settings = _DEFAULT
) -> list[Pair]:
    """Replay a dialogue; return each turn after its efforts, paired with each effort."""
    turns, pairs = tuple(dialogue_turns(talk)), list[Pair]()
    begin = len(turns) - len(talk["after"])
    before: Iterable[str] = ()
    session, tip = Session("references", talk["id"]), Tip()
    for number, state in enumerate(replay_states(archive, rule, session, turns, settings)):
        if number >= begin:
            recognised = {
                event["effort"] for event in state.events if event["type"] == "referenced"
            }
            mentions = talk["after"][number - begin]["mentions"]
            first = talk["efforts"][0]["id"]
            past = archive.load(session, tip)
            work = _work(state, ArchiveView(archive, session, past, turns[number]))
            read = rule.reader(work, work.known([*before]))
            scores = [read(said).scores for said in statements(turns[number].messages)]
            pairs += (
                Pair(
                    number,
                    name == first,
                    name in mentions,
                    name in recognised,
                    max(score.get(name, 0.0) for score in scores),
                )
                for name in before
            )
        before, tip = tuple(state.summaries), archive.load(session).tip or Tip()
    return pairs


def dialogue_turns(talk: Mapping[str, Any]) -> Iterator[StoredTurn]:
    """Yield the turns of a dialogue: its efforts, a look at the first one, what follows.

    A stream has no such look.

    An effort without a log has one turn, its goal and its summary.
    """
    entries = list[tuple[Sequence[str], str, list[Event]]]()
    for effort in talk["efforts"]:
        log = effort["log"] or [(effort["goal"], effort["summary"])]
        opening = {"effort": effort["id"], "goal": effort["goal"]}
        concluded = {**opening, "summary": effort["summary"], "keywords": effort["keywords"]}
        events = [list[Event]() for _ in log]
        events[0].append({"type": "opened", **opening})
        events[-1].append({"type": "concluded", **concluded})
        entries += (
            (texts, effort["id"], turn_events)
            for texts, turn_events in zip(log, events, strict=True)
        )
    first = talk["efforts"][0]["id"]
    look: Event = {"type": "expanded", "effort": first, "turns": [1]}
    if "name" not in talk:  # as streams have one
        entries.append(((f"Show me the log of {first}.", "Here it is."), "", [look]))
    entries += (((turn["user"], turn["assistant"]), "", []) for turn in talk["after"])
    for number, (texts, name, events) in enumerate(entries, start=1):
        yield exchange(number, texts, name, events)


def auc(true: Sequence[float], false: Sequence[float]) -> float:
    """Return how often a true mention scores higher than an unrelated pair; ties count half.

    >>> auc([2.0, 1.0], [1.0, 0.0])
    0.875
    """
    listed = sorted(false)
    below = sum((bisect_left(listed, score) + bisect_right(listed, score)) / 2 for score in true)
    return below / len(true) / len(false)


def main() -> None:
    """Measure the plain rule and the memory's."""
    parser = argument_parser(__doc__)
    add_options(parser)
    parser.add_argument("--dialogues", type=Path, default=_DATA, help="their folder")
    parser.add_argument("--pasted", type=Path, help="a file of streams, measured alone")
    options = parser.parse_args()
    frequent = f"two shared words of the summary's {_FEW_WORDS} most frequent"
    rules: list[Rule] = [Plain("two shared words of the summary"), Plain(frequent, _FEW_WORDS)]
    rules.append(Distinctive())
    if options.pasted:
        streams = yaml.safe_load(options.pasted.read_text("utf-8"))["streams"]
        stream_rows = [_stream_row(rule, streams) for rule in rules]
        write(options.out, "references_pasted", "Pasted code", [*stream_rows, _STREAM_GOAL])
        return
    rows = [row for kind in _KINDS for row in _dialogue_rows(rules, options.dialogues, kind)]
    rows += _crowded_rows(rules, options.dialogues)
    title = "References in dialogues"
    write(options.out, "references_dialogues", title, [*rows, _DIALOGUE_GOAL])
    if options.data:
        locomo_rows = [_row(rule, load(options.data, options.conversations)) for rule in rules]
        write(options.out, "references", "References", [*locomo_rows, _GOAL])


def _dialogue_rows(rules: Sequence[Rule], folder: Path, kind: str) -> Iterator[dict[str, Any]]:
    talks = [json.loads(path.read_bytes()) for path in sorted((folder / kind).glob("*.json"))]
    for half in sorted({talk["half"] for talk in talks}, reverse=True):
        for rule in rules:
            pairs = [_in_new_archive(pairs_of, rule, t) for t in talks if t["half"] == half]
            yield {"rule": rule.name, "dialogues": kind, "half": half, **_figures(pairs)}


def _crowded_rows(rules: Sequence[Rule], folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of the dialogues about software of each half as one session of many efforts.

    No summary leaves it, so that each turn is compared with all efforts.
    """
    talks = [json.loads(path.read_bytes()) for path in sorted((folder / "work").glob("*.json"))]
    for half in sorted({talk["half"] for talk in talks}, reverse=True):
        parts = [talk for talk in talks if talk["half"] == half]
        session = {key: [*chain(*(talk[key] for talk in parts))] for key in ("efforts", "after")}
        for rule in rules:
            pairs = _in_new_archive(pairs_of, rule, {"id": half, **session}, _ALL_STAY)
            row = {"rule": rule.name, "dialogues": "work, one session", "half": half}
            yield {**row, **_figures([pairs])}


def _stream_row(rule: Rule, streams: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    pairs, left = list[list[Pair]](), list[int]()
    for stream in streams:
        after = [{**turn, "mentions": turn["about"]} for turn in stream["after"]]
        talk = {**stream, "id": stream["name"], "after": after}
        pairs.append(_in_new_archive(pairs_of, rule, talk, _ALL_STAY))
        left.append(_in_new_archive(_left, rule, talk))
    figures = _figures(pairs)
    del figures["expanded %"]
    return {"rule": rule.name, **figures, "left": round(sum(left) / len(left), 1)}


def _left(archive: DiskArchive, rule: Rule, talk: Mapping[str, Any]) -> int:
    session = Session("references", talk["id"])
    *_, state = replay_states(archive, rule, session, dialogue_turns(talk))
    return len(state.summaries)


def _figures(pairs: Sequence[Sequence[Pair]]) -> dict[str, Any]:
    true = [pair.recognised for talk in pairs for pair in talk if pair.mentioned]
    false = [pair for talk in pairs for pair in talk if not pair.mentioned]
    unrelated_turns = chain.from_iterable(map(_recognised_turns, pairs))
    scores = [pair.score for talk in pairs for pair in talk if pair.mentioned]
    return {
        "true %": percent(true),
        "of": len(true),
        "false %": percent(pair.recognised for pair in false),
        "of pairs": len(false),
        "expanded %": percent(pair.recognised for pair in false if pair.expanded),
        "turns %": percent(unrelated_turns),
        "AUC": round(auc(scores, [pair.score for pair in false]), 3),
    }


def _recognised_turns(pairs: Sequence[Pair]) -> list[bool]:
    """Tell for each turn that mentions no effort whether the rule recognises one."""
    mentioning = {pair.turn for pair in pairs if pair.mentioned}
    recognised = {pair.turn for pair in pairs if pair.recognised}
    return [turn in recognised for turn in {pair.turn for pair in pairs} - mentioning]


def _row(rule: Rule, talks: Sequence[Conversation]) -> dict[str, Any]:
    results, counts = [], []
    for talk in talks:
        results.append(_in_new_archive(judged, rule, talk))
        counts.append(_in_new_archive(remaining_summaries, rule, talk))
        print(f"{rule.name}: {talk.id} replayed", flush=True)
    true = [score for result in results for score in result.true]
    false = [score for result in results for score in result.false]
    return {
        "rule": rule.name,
        "true %": round(100 * sum(result.hits for result in results) / len(true), 1),
        "false %": round(100 * sum(result.errors for result in results) / len(false), 1),
        "AUC": round(auc(true, false), 3),
        "worst AUC": round(min(auc(result.true, result.false) for result in results), 3),
        "left": round(sum(counts) / len(talks), 1),
        "of": round(sum(len(talk.sessions) - 1 for talk in talks) / len(talks), 1),
        "left, each": " ".join(map(str, counts)),
    }


def _in_new_archive(measure: Callable[..., Any], rule: Rule, talk: Any, *options: Any) -> Any:
    with TemporaryDirectory() as folder, DiskArchive(folder, durable=False) as archive:
        return measure(archive, rule, talk, *options)


def _work(state: Efforts, view: ArchiveView) -> Turn:
    run = Run(Settings(), count, fences_of(view.archive, view.session, count))
    return Turn(run, view, state, room=0, free=0)


def _words(text: str) -> list[str]:
    words = re.findall(r"\w+", text.lower())
    return [word for word in words if len(word) >= _SHORTEST and word not in _FUNCTION_WORDS]


if __name__ == "__main__":
    main()
