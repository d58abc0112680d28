"""Recall: how much of the evidence for a question a search finds, without a model.

    python benchmarks/recall.py --data locomo10.json --conversations 0-4 --out results
    python benchmarks/recall.py --data locomo10.json --out results --embeddings minilm
    python benchmarks/recall.py --talk talk.jsonl --questions talk.questions.jsonl --out results
    python benchmarks/recall.py --work benchmarks/data/work_sessions.yaml --out results
    python benchmarks/recall.py --asked asked.yaml --out results

A cell is the percentage of a question's evidence that is found, averaged over all questions.
Packed texts are the excerpts that a search would return, up to the first that does not fit.
Evidence counts only if all of it is in them.
As called is the tool `search_efforts` with the question alone, with the tokens of its result. Every
third question is asked of those other conversations in which nobody speaks whom it names: not weak
is how often that finds a result that is not marked as weak.

A line of a talk is a turn, `{"turn": 1, "at": …, "effort": "kitchen", "user": …, "assistant": …}`
with null for no effort, or the end of an effort, `{"effort": …, "concluded": 57, "summary": …}`. A
line of its questions is `{"question": …, "evidence": [{"turn": 12, "who": "user", "quote": …}]}`.
Sessions of work have calls of tools and their results as well, and a second phrasing of each
question, see the file.

Asked are talks of several threads of one user, written turn by turn in the order of time; each
question is asked of the tool in its thread. Beside it full-text search and plain BM25 over the
messages of all threads have as many tokens. Of what changed the newest value counts as evidence;
marked is how often it is said to be the newest, outdated how often older values are found alone.

    talks:
    - name: kitchen
      threads:
      - {name: spring, day: 2026-03-02, turns: [[text, answer], [text, answer, 2026-03-04]]}
      questions:
      - {kind: changed, asked_in: spring, question: …, evidence: [quote], outdated: [quote]}
"""

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from langchain_core.messages import AIMessage, ToolMessage
from locomo import Conversation, Question, Replay, add_options, load, replayed
from made_up import exchange
from report import argument_parser, percent, write

from ebbtide import DiskArchive, SqlArchive
from ebbtide.graph.agent import choose_embedder
from ebbtide.memory.archive.branches import Branches
from ebbtide.memory.archive.query import Found, pointing
from ebbtide.memory.archive.search import find
from ebbtide.memory.context.hints import pointed_at
from ebbtide.memory.efforts import Efforts, one_line
from ebbtide.memory.messages import compact
from ebbtide.memory.running_turn import Run, Turn
from ebbtide.memory.search.embeddings import Embedder
from ebbtide.memory.search.passages import excerpt, passage_spans
from ebbtide.memory.search.ranking import rarity, relevance
from ebbtide.memory.search.terms import query_terms, words
from ebbtide.memory.settings import Settings
from ebbtide.memory.tokens import count
from ebbtide.memory.tools.search_efforts import search_efforts
from ebbtide.memory.transcript import excerpted, rendered
from ebbtide.memory.turn import Session, Tip
from ebbtide.memory.view import fences_of, view_at

_MESSAGE_TOKENS = 4
"""Tokens around a message, as `memory.tokens` counts them."""
_FEW, _MANY = 5, 10
"""The ranks up to which a hit counts, as papers report them."""
_THIRD = 3
"""Of so many questions one is asked of the other conversations too."""
_ALL = 1_000
"""Hits at most, so that every rank is seen."""
_LITTLE, _MUCH = 1_000, 4_000
"""Tokens into which the evidence must fit."""


@dataclass(frozen=True, slots=True)
class ArchivedTalk:
    """An archived conversation, the model of its vectors, and its turns as text."""

    archive: SqlArchive
    session: Session
    tip: Tip
    embedder: Embedder | None = None
    logs: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the vectors that are missing."""
        if self.embedder:
            self.archive.embed(self.session, self.embedder, self.tip.turn)

    def search(self, text: str) -> tuple[Found, ...]:
        """Return the passages for a question, best first."""
        floor = Settings().semantic_floor
        meaning = self.embedder.meaning(text, floor) if self.embedder else None
        return find(Branches(self.archive.load(self.session, self.tip)), text, _ALL, meaning)

    def asked(self, text: str, also: Sequence[str] = ()) -> Mapping[str, Any]:
        """Return the result of the tool `search_efforts`, called with a question."""
        state = Efforts(self.tip.turn, None, {}, {}, {})
        view, budget = view_at(self.archive, self.session, self.tip), Settings().context_budget
        fences = fences_of(self.archive, self.session, count)
        run = Run(Settings(), count, fences, embedder=self.embedder)
        work = Turn(run, view, state, room=budget, free=budget)
        return dict(search_efforts(work, text, also=also)[1])

    def quotes(self, text: str, *also: str) -> list[tuple[int, str]]:
        """Return turn and text of the passages that the tool `search_efforts` gives."""
        results = self.asked(text, also=also)["results"]
        return [(one["turn"], one["text"]) for result in results for one in result["passages"]]

    def finds_clearly(self, text: str) -> bool:
        """Tell whether the tool gives a passage that is not weak."""
        results = self.asked(text)["results"]
        return any("weak" not in one for result in results for one in result["passages"])

    def hint(self, text: str) -> str | None:
        """Return the effort that a hint for this message would name."""
        best = pointed_at(pointing(self.archive.load(self.session, self.tip), text))
        return best if isinstance(best, str) else None

    def log(self, turn: int) -> str:
        """Return a turn as text."""
        if turn not in self.logs:
            (stored,) = self.archive.load(self.session, self.tip).turns([turn])
            self.logs[turn] = rendered(stored.messages)
        return self.logs[turn]

    def excerpts(self, passages: Iterable[Found]) -> Iterator[tuple[int, str]]:
        """Yield turn and text of the excerpt of each passage, none twice."""
        places: set[tuple[int, int]] = set()
        for passage in passages:
            (turn,) = self.archive.load(self.session, self.tip).turns([passage.turn])
            part = None if passage.passage is None else excerpt(turn.messages, passage.passage)
            if part and (passage.turn, part.end) not in places:
                places.add((passage.turn, part.end))
                yield passage.turn, excerpted(turn.messages, part.begin, part.end)


def read(path: Path) -> list[Any]:
    """Return the lines of a file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def committed(archive: DiskArchive, session: Session, lines: Sequence[Any]) -> Tip:
    """Commit a conversation; an effort is concluded in its last turn."""
    ends = [line for line in lines if "turn" not in line]
    tip = Tip()
    for line in (line for line in lines if "turn" in line):
        events = [
            {"type": "concluded", "effort": end["effort"], "summary": end["summary"]}
            for end in ends
            if end["concluded"] == line["turn"]
        ]
        texts, name = (line["user"], line["assistant"]), line["effort"] or ""
        turn = replace(exchange(line["turn"], texts, name, events), at=line["at"])
        turn = replace(turn, messages=_with_calls(turn.messages, line.get("calls", ())))
        tip = archive.commit(session, tip, turn).tip
    return tip


def work_of(path: Path) -> tuple[list[Any], list[Any]]:
    """Return the turns and questions of sessions of work, as those of a talk."""
    data = yaml.safe_load(path.read_text("utf-8"))
    lines: list[Any] = []
    for number, turn in enumerate(data["turns"], start=1):
        calls = turn.get("calls", ())
        line = {"turn": number, "at": f"2026-02-{number // 3 + 1:02}T09:00:00Z"}
        line |= {"effort": turn.get("effort"), "user": turn["user"], "assistant": turn["answer"]}
        line |= {"calls": calls, "results": "\n".join(result for *_, result in calls)}
        lines.append(line)
    numbers = {turn["name"]: number for number, turn in enumerate(data["turns"], start=1)}
    questions = [
        {"question": text, "evidence": [{"turn": numbers[name], "quote": quote}], "also": second}
        for text, name, quote, second in data["questions"]
    ]
    return lines, questions


def _with_calls(messages: Sequence[Any], calls: Sequence[Any]) -> tuple[Any, ...]:
    """Return the messages of a turn with calls and their results before its answer."""
    question, answer = messages
    between: list[Any] = []
    for number, (name, arguments, result) in enumerate(calls):
        call = {"name": name, "args": arguments, "id": f"call-{number}", "type": "tool_call"}
        between.append(AIMessage("", tool_calls=[call]))
        told = {"content": result, "name": name, "tool_call_id": call["id"]}
        between.append(ToolMessage(**told))
    return (question, *between, answer)


def _spoken(lines: Sequence[Any], roles: Sequence[str]) -> list[tuple[int, str]]:
    """Return turns and messages of these roles."""
    said = [line for line in lines if "turn" in line]
    return [(line["turn"], line[name]) for line in said for name in roles if line.get(name)]


def by_full_text(
    spoken: Sequence[tuple[int, str]], query: str, tokenizer: str = "porter"
) -> Iterator[tuple[int, str]]:
    """Yield turns and messages, ranked by SQLite's FTS5."""
    with sqlite3.connect(":memory:") as database:
        database.execute(
            f"CREATE VIRTUAL TABLE said USING fts5(turn UNINDEXED, text, tokenize={tokenizer})"
        )
        database.executemany("INSERT INTO said VALUES (?, ?)", spoken)
        terms = set(query_terms(query))
        matching = [word for word in words(query) if set(query_terms(word)) & terms]
        match = " OR ".join(f'"{word}"' for word in matching)
        sql = "SELECT turn, text FROM said WHERE said MATCH ? ORDER BY rank"
        yield from database.execute(sql, [match]) if match else ()


def judged(archived: ArchivedTalk, replay: Replay, question: Question) -> dict[str, float]:
    """Return the share of the evidence that a search finds, by measure."""
    passages = archived.search(question.text)
    efforts = list(dict.fromkeys(passage.effort for passage in passages if passage.effort))
    turns = list(dict.fromkeys(part.turn for part in passages if part.passage is not None))
    places = [replay.places[key] for key in question.evidence]
    sessions, turn_numbers = {place.effort for place in places}, {place.turn for place in places}
    evidence = [(place.turn, place.text) for place in places]
    packed = _fitting(archived.excerpts(passages), _MUCH)
    result = archived.asked(question.text)
    given = [
        (passage["turn"], passage["text"])
        for one in result["results"]
        for passage in one["passages"]
    ]
    return {
        "R@5": _share(sessions, efforts[:_FEW]),
        "all@5": float(sessions <= {*efforts[:_FEW]}),
        "all@10": float(sessions <= {*efforts[:_MANY]}),
        "turn R@10": _share(turn_numbers, turns[:_MANY]),
        **{
            f"{budget:,} tokens": _share_packed(evidence, _fitting(packed, budget))
            for budget in (_LITTLE, _MUCH)
        },
        "as called": _share_packed(evidence, given),
        "tokens": count(compact(result)) / 100,
    }


def talked(
    archived: ArchivedTalk, lines: Sequence[Any], questions: Sequence[Any]
) -> list[dict[str, str | float]]:
    """Return a row for each way to search a talk for the evidence."""
    evidence = [[(part["turn"], part["quote"]) for part in one["evidence"]] for one in questions]
    ways: dict[str, Callable[[str], Iterable[tuple[int, str]]]] = {
        "passages": lambda text: archived.excerpts(archived.search(text)),
        "whole turns": lambda text: (
            (turn, archived.log(turn))
            for turn in dict.fromkeys(passage.turn for passage in archived.search(text))
        ),
        "as called": archived.quotes,
        "FTS5, all": partial(by_full_text, _spoken(lines, ("user", "results", "assistant"))),
        "FTS5, users": partial(by_full_text, _spoken(lines, ("user",))),
    }
    if second := {one["question"]: one["also"] for one in questions if "also" in one}:
        ways["as called, two phrasings"] = lambda text: archived.quotes(text, second[text])
    rows: list[dict[str, str | float]] = []
    for name, way in ways.items():
        packed = [_fitting(way(question["question"]), _MUCH) for question in questions]
        row: dict[str, str | float] = {"unit": name}
        for budget in (_LITTLE, _MUCH):
            pairs = zip(evidence, packed, strict=True)
            shares = (_share_packed(quotes, _fitting(texts, budget)) for quotes, texts in pairs)
            row[f"{budget:,} tokens"] = percent(shares, 2)
        rows.append(row)
    return rows


def by_words(spoken: Sequence[tuple[int, str]], query: str) -> list[tuple[int, str]]:
    """Return turns and messages, ranked by plain BM25 over their lower-case words."""
    counts = [Counter(words(text.casefold())) for _, text in spoken]
    asked = {*words(query.casefold())}
    rare = {word: rarity(len(spoken), sum(word in one for one in counts)) for word in asked}
    says = [{word: float(one[word]) for word in asked & one.keys()} for one in counts]
    scores = relevance(says, rare, [float(one.total()) for one in counts])
    order = sorted(range(len(spoken)), key=lambda at: -scores[at])
    return [spoken[at] for at in order if scores[at] > 0]


def asked_rows(
    talks: Sequence[Any], embedder: Embedder | None = None
) -> list[dict[str, str | float]]:
    """Return a row for each kind of question about talks of several threads."""
    answers: list[dict[str, Any]] = []
    for number, talk in enumerate(talks, 1):
        with TemporaryDirectory() as folder, DiskArchive(folder, durable=False) as archive:
            answers += _asked(archive, talk, embedder)
        print(f"{number} of {len(talks)} talks asked", flush=True)
    rows: list[dict[str, str | float]] = []
    for kind in [*dict.fromkeys(answer["kind"] for answer in answers), "all"]:
        own = [answer for answer in answers if kind in {"all", answer["kind"]}]
        columns = [name for name in own[0] if name not in {"kind", "tokens"}]
        cells = {name: [one[name] for one in own if one[name] is not None] for name in columns}
        row: dict[str, str | float] = {"kind": kind, "questions": len(own)}
        row |= {name: percent(found, 2) if found else "" for name, found in cells.items()}
        rows.append(row | {"tokens": round(fmean(one["tokens"] for one in own))})
    return rows


def _asked(archive: DiskArchive, talk: Any, embedder: Embedder | None) -> list[dict[str, Any]]:
    """Write the threads of a talk, ask its questions, and return what each way finds of each."""
    written: list[tuple[str, str, Sequence[str]]] = []
    for thread in talk["threads"]:
        day = str(thread["day"])
        for user, assistant, *new in thread["turns"]:
            day = str(new[0]) if new else day
            written.append((day, thread["name"], (user, assistant)))
    tips: dict[str, Tip] = defaultdict(Tip)
    for day, name, texts in sorted(written, key=itemgetter(0)):
        turn = replace(exchange(tips[name].turn + 1, texts, ""), at=f"{day}T09:00:00.000Z")
        tips[name] = archive.commit(Session(talk["name"], name), tips[name], turn).tip
    # A quote stands in one turn alone, so that turns need no numbers here.
    spoken = [(0, text) for *_, texts in written for text in texts]
    threads = {
        name: ArchivedTalk(archive, Session(talk["name"], name), tip, embedder)
        for name, tip in tips.items()
    }
    results = [threads[one["asked_in"]].asked(one["question"]) for one in talk["questions"]]
    budget = round(fmean(count(compact(result)) for result in results))
    answers: list[dict[str, Any]] = []
    for question, result in zip(talk["questions"], results, strict=True):
        text, evidence = question["question"], [(0, quote) for quote in question["evidence"]]
        found = [passage for one in result["results"] for passage in one["passages"]]
        given = [(0, passage["text"]) for passage in found]
        marked = [(0, passage["text"]) for passage in found if "newest_with" in passage]
        outdated = [(0, quote) for quote in question.get("outdated", ())]
        share = _share_packed(evidence, given)
        ways = {
            "FTS5 porter": by_full_text(spoken, text),
            "FTS5 trigram": by_full_text(spoken, text, "trigram"),
            "BM25": by_words(spoken, text),
        }
        answers.append(
            {
                "kind": question["kind"],
                "as called": share,
                "weak": float(bool(found) and all("weak" in one for one in found)),
                **{
                    name: _share_packed(evidence, _fitting(way, budget))
                    for name, way in ways.items()
                },
                "marked": _share_packed(evidence, marked) if outdated else None,
                "outdated alone": (
                    float(not share and _share_packed(outdated, given) > 0) if outdated else None
                ),
                "tokens": count(compact(result)),
            }
        )
    return answers


def hinted(talks: Sequence[tuple[ArchivedTalk, Replay]]) -> dict[str, float | str]:
    """Return how often hints are right, and what messages about another conversation get."""
    right = [
        archived.hint(question.text) in {replay.places[key].effort for key in question.evidence}
        for archived, replay in talks
        for question in replay.talk.questions
    ]
    clear = [
        archived.finds_clearly(question.text)
        for archived, own in talks
        for foreign, replay in talks
        if foreign is not archived
        for question in replay.talk.questions[::_THIRD]
        if not any(name in question.text for name in own.talk.speakers)
    ]
    wrong = [
        archived.hint(question.text) is not None
        for archived, _ in talks
        for foreign, replay in talks
        if foreign is not archived
        for question in replay.talk.questions
    ]
    return {
        "not weak": percent(clear, 2) if clear else "",  # each question may name a speaker
        "hints, right": percent(right, 2),
        "hints, false": percent(wrong, 2),
    }


def main() -> None:
    """Replay the conversations with one and with two utterances to a turn; search for evidence."""
    parser = argument_parser(__doc__)
    add_options(parser)
    parser.add_argument("--talk", type=Path, nargs="*", default=[])
    parser.add_argument("--questions", type=Path, nargs="*", default=[])
    parser.add_argument("--work", type=Path)
    parser.add_argument("--asked", type=Path)
    parser.add_argument("--embeddings", choices=["minilm"])
    options = parser.parse_args()
    embedder = choose_embedder(options.embeddings)
    ending = f"_{options.embeddings}" if embedder else ""
    for talk, questions in zip(options.talk, options.questions, strict=True):
        rows = _rows(read(talk), read(questions), embedder)
        write(options.out, f"recall_{talk.stem}{ending}", "Is it still there? A long talk", rows)
    if options.work:
        rows = _rows(*work_of(options.work), embedder)
        write(options.out, f"recall_work{ending}", "Is it still there? Sessions of work", rows)
    if options.asked:
        rows = asked_rows(yaml.safe_load(options.asked.read_text("utf-8"))["talks"], embedder)
        name = f"recall_asked_{options.asked.stem}{ending}"
        write(options.out, name, "Is it still there? Threads of one user", rows)
    if options.data:
        talks = load(options.data, options.conversations)
        rows = [_row(talks, size, embedder) for size in (1, 2)]
        write(options.out, f"recall{ending}", "Is it still there?", rows)


def _rows(
    lines: Sequence[Any], questions: Sequence[Any], embedder: Embedder | None
) -> list[dict[str, str | float]]:
    with TemporaryDirectory() as folder, DiskArchive(folder, durable=False) as archive:
        session = Session("talk", "t")
        tip = committed(archive, session, lines)
        archived = ArchivedTalk(archive, session, tip, embedder)
        return talked(archived, lines, questions)


def _row(
    talks: Sequence[Conversation], size: int, embedder: Embedder | None
) -> dict[str, str | float]:
    with TemporaryDirectory() as folder, DiskArchive(folder, durable=False) as archive:
        archived_talks = []
        for talk in talks:
            replay = replayed(archive, talk, size)
            archived = ArchivedTalk(archive, replay.session, replay.tip, embedder)
            archived_talks.append((archived, replay))
            print(f"{talk.id}: {replay.tip.turn} turns replayed", flush=True)
        scores = [
            judged(archived, replay, question)
            for archived, replay in archived_talks
            for question in replay.talk.questions
        ]
        print(f"{len(scores)} questions asked", flush=True)
        cells = {name: percent((row[name] for row in scores), 2) for name in scores[0]}
        return {"utterances to a turn": str(size), **cells, **hinted(archived_talks)}


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
    """Tell whether one packed text contains a text, or several contain its passages.

    However the lines are set: a log indents those of a message after the first.
    """
    parts = [one_line(text[begin:end]) for begin, end in passage_spans(text)]
    words, shown = one_line(text), [one_line(passage) for passage in packed]
    return any(words in passage for passage in shown) or all(
        any(part in passage for passage in shown) for part in parts
    )


def _share(expected: set[str] | set[int], results: Iterable[str | int]) -> float:
    return len(expected.intersection(results)) / len(expected)


if __name__ == "__main__":
    main()
