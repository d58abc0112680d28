"""A conversation over a real archive, for tests, driven turn by turn as the nodes do it."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.archive.sql import DiskArchive
from ebbtide.memory.context.budget import fixed_parts
from ebbtide.memory.context.changes import after_tools, before_turn, end_turn
from ebbtide.memory.context.fit import WorkingContext, assemble
from ebbtide.memory.context.hints import hinted
from ebbtide.memory.context.plan import Plan
from ebbtide.memory.efforts import EMPTY, Efforts, happened
from ebbtide.memory.errors import AnswerError
from ebbtide.memory.fences import Fences
from ebbtide.memory.keywords import KeywordCache
from ebbtide.memory.questions import Question
from ebbtide.memory.recalled import stored
from ebbtide.memory.references import referenced
from ebbtide.memory.running_turn import LaidOut, Run, Turn, laid_out_cache
from ebbtide.memory.search.embeddings import Embedder
from ebbtide.memory.settings import Settings
from ebbtide.memory.tokens import REPLY_OVERHEAD, TokenCounter, count_message, count_tools
from ebbtide.memory.tools.summary import EffortSummary
from ebbtide.memory.tools.toolbox import run
from ebbtide.memory.turn import Session, StoredTurn, Tip, memberships
from ebbtide.memory.view import ArchiveView, fences_of
from tests.constants import change
from tests.memory.asking import step

Call: TypeAlias = Mapping[str, Any]

SESSION = Session("ada", "thread")
DONE = EffortSummary(summary="It works now.", keywords=["works"], importance=60)
LONG_ENOUGH = "The login fails with error 401 as soon as the refresh token has expired."
"""More text than a canned summary is given for."""


def count_words(text: str) -> int:
    """Count words, so that numbers can be checked by eye."""
    return len(text.split())


FENCES = Fences("404256753", count_words)


def unfenced(text: str) -> str:
    """Return a text of the memory without its fences."""
    return re.sub(r"\n?</memory \d{9}>|<memory \d{9}>", "", text)


def outside(text: str) -> str:
    """Return a text without what stands between the memory's fences."""
    return re.sub(r"(?s)<(\w+) (\d{9})>.*?</\1 \2>", "", text)


def words_of(turn: Mapping[str, Any]) -> str:
    """Return the words of a turn that was read, as offsets count them."""
    said = (one for one in turn["messages"] if not one["speaker"].endswith("'s state block"))
    return "\n".join(one["text"] for one in said)


def human(content: Any = "hello", **data: Any) -> HumanMessage:
    """Return a message of the user."""
    return HumanMessage(content, **data)


def ai(content: Any = "", *calls: Call, **data: Any) -> AIMessage:
    """Return a message of the assistant, with tool calls, valid and invalid ones, if there are."""
    asked: dict[str, list[Call]] = {}
    for one in calls:
        if isinstance(one["args"], dict) and one["name"] is not None:
            asked.setdefault("tool_calls", []).append(one)
        else:
            asked.setdefault("invalid_tool_calls", []).append({**one, "args": str(one["args"])})
    return AIMessage(content, **asked, **data)


def tool(call_id: str, content: str = "found", name: str = "look_up", **data: Any) -> ToolMessage:
    """Return the result of a tool call."""
    return ToolMessage(content, tool_call_id=call_id, name=name, **data)


def call(tool_name: str, /, *, call_id: str = "", **args: Any) -> dict[str, Any]:
    """Return a call of a tool."""
    return {"name": tool_name, "args": args, "id": call_id, "type": "tool_call"}


SYSTEM = "You remember."
SCHEMAS = [{"name": "look_up"}]


def identified(calls: Sequence[Call]) -> list[Call]:
    """Return the calls with an id each, where they have none."""
    return [{**asked, "id": asked["id"] or f"call-{at}"} for at, asked in enumerate(calls)]


@dataclass
class Conversation:
    """A thread: what the state and the archive hold of it, and what was asked of a summariser.

    `replies` are what the summariser answers, in order; then it answers `DONE`.
    """

    archive: Archive
    settings: Settings = field(default_factory=Settings)
    patch: pytest.MonkeyPatch = field(default_factory=pytest.MonkeyPatch)
    free: int = 1_000
    state: Efforts = EMPTY
    tip: Tip = field(default_factory=Tip)
    messages: tuple[BaseMessage, ...] = ()
    replies: list[EffortSummary | AnswerError] = field(default_factory=list)
    requests: list[Question] = field(default_factory=list)
    banners: list[str] = field(default_factory=list)
    plan: Plan | None = None
    keywords: KeywordCache = field(default_factory=KeywordCache)
    embedder: Embedder | None = None
    count: TokenCounter = count_words
    session: Session = SESSION
    day: int = 21
    related: Callable[[str], Sequence[str]] | None = None
    laid_out: LaidOut = field(default_factory=laid_out_cache)

    @property
    def work(self) -> Turn:
        """What tools work on in the running turn."""
        efforts = memberships(self.state.active, self.state.events)
        running = StoredTurn(self.state.turn, self.messages, at="", efforts=efforts)
        past = self.archive.load(self.session, self.tip)
        view = ArchiveView(self.archive, self.session, past, running)
        run = Run(
            self.settings,
            self.count,
            fences_of(self.archive, self.session, self.count),
            embedder=self.embedder,
            laid_out=self.laid_out,
        )
        return Turn(
            run,
            view,
            self.state,
            room=self.room,
            free=self.free,
            plan=self.plan,
            related=self.related,
        )

    @property
    def fixed(self) -> int:
        """The tokens of the system message and of the tool schemas, overheads included."""
        system = count_message(SystemMessage(SYSTEM), self.count)
        return REPLY_OVERHEAD + system + count_tools(SCHEMAS, self.count)

    @property
    def room(self) -> int:
        """What the budget leaves beside them."""
        return self.settings.context_budget - self.fixed

    @property
    def at(self) -> str:
        """The time of the running turn."""
        return f"2026-11-{self.day:02}T12:00:00.000Z"

    @property
    def context(self) -> WorkingContext:
        """The working context of this moment; the plan is kept as the node keeps it."""
        tools = count_tools(SCHEMAS, self.count)
        context = assemble(self.work, fixed_parts(SYSTEM, tools, self.count))
        self.plan = context.plan
        return context

    def set(self, **chosen: Any) -> None:
        """Change settings, and constants of the rules."""
        self.settings = self.settings.model_copy(update=change(self.patch, **chosen))

    def ask(self, *messages: BaseMessage | str) -> None:
        """Begin a turn with these messages of the user."""
        self.state = replace(self.state, turn=self.tip.turn + 1, banners=())
        if self.state.active is not None:
            self.state = self.state.activated(self.state.active)
        self.messages = tuple(human(m) if isinstance(m, str) else m for m in messages)
        work = before_turn(self.work, self.at)
        self.plan = work.plan
        events = (*work.efforts.events, *hinted(work))
        self.state = replace(work.efforts, events=events)

    def run(self, *calls: Call) -> list[dict[str, Any]]:
        """Let the assistant call memory tools in one message, and return what they answer."""
        asked = identified(calls)
        self.messages += (ai("", *asked),)
        steps = run(self.work, asked, frozenset({"look_up"}), self.banners.append)
        found = step(steps)
        while isinstance(found, Question):
            self.requests.append(found)
            found = step(steps, self.replies.pop(0) if self.replies else DONE)
        found = after_tools(found, self.state)
        self.state, self.plan = found.efforts, found.plan
        self.messages += found.results
        return [json.loads(str(result.content)) for result in found.results]

    def call(self, tool_name: str, /, **args: Any) -> dict[str, Any]:
        """Let the assistant call one memory tool, and return what it answers."""
        (result,) = self.run(call(tool_name, **args))
        return result

    def look_up(self, result: str, **args: Any) -> None:
        """Let the assistant call a tool of the application, which answers with this result."""
        call_id = f"look-up-{len(self.messages)}"
        self.messages += (ai("", call("look_up", call_id=call_id, **args)), tool(call_id, result))

    def answer(self, content: str = "Done.") -> StoredTurn:
        """End the turn with an answer, note what it mentions, let decay what faded, commit it."""
        self.messages += (ai(content),)
        ended = end_turn(self.work.put(referenced(self.work, self.keywords)))
        self.state, self.plan = ended.efforts, ended.plan
        new = StoredTurn(
            number=self.state.turn,
            messages=tuple(stored(message) for message in self.messages),
            at=self.at,
            efforts=memberships(self.state.active, self.state.events),
            events=self.state.events,
        )
        record = self.archive.commit(self.session, self.tip, new)
        self.tip, self.messages = record.tip, ()
        self.state = replace(self.state, events=())
        return record

    def turn(self, question: str, *calls: Call, answer: str = "Done.") -> list[dict[str, Any]]:
        """Go through a whole turn, and return what the memory tools answered in it."""
        self.ask(question)
        results = self.run(*calls) if calls else []
        self.answer(answer)
        return results

    def turns(self, questions: Iterable[str]) -> None:
        """Go through a turn for each of these questions."""
        for question in questions:
            self.turn(question)

    def effort(self, name: str, *questions: str, then: Sequence[Call] = ()) -> None:
        """Open an effort in the first of these turns, go on in the others, close it in the last."""
        *before, last = questions
        opening = [call("open_effort", name=name)]
        for question in before:
            self.turn(question, *opening)
            opening = []
        self.turn(last, *opening, call("close_effort"), *then)

    def follow(self, script: Sequence[Sequence[Call]]) -> None:
        """Go through turns that each make these calls in one message."""
        for calls in script:
            self.turn("Next, please, and take all the time that you need for it.", *calls)

    def beside(self, thread: str, user: str = SESSION.user) -> "Conversation":
        """Begin another session over the same archive, of the same user if no other is named."""
        session = Session(user, thread)
        return Conversation(
            self.archive, self.settings, self.patch, session=session, count=self.count
        )

    def surface(self, *ids: str) -> None:
        """Surface efforts of other sessions in the running turn."""
        event = {"type": "surfaced", "efforts": [*ids]}
        self.state = happened(self.state, event)


@contextmanager
def conversation(**chosen: Any) -> Iterator[Conversation]:
    """Begin a conversation with these settings over an archive of its own."""
    with (
        TemporaryDirectory() as folder,
        DiskArchive(folder, durable=False) as archive,
        pytest.MonkeyPatch.context() as patch,
    ):
        talk = Conversation(archive, patch=patch)
        talk.set(**chosen)
        yield talk
