"""A conversation with a fact in each turn, and agents that are watched while they hold it.

Every question has a fact of its own ("Shelf 3fa9c1d2 holds …"), so that it can be sought afterwards
in what is stored and in what the model gets. Every agent has the same model, whose window is 16,000
tokens: it refuses a larger request as a provider does, and counts requests in which a tool call
lacks its result, or a result its call.
"""

import json
import random
import sqlite3
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from archive_load import question_number
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from peers import Maker, deep, langchain, langmem, ours
from sqlalchemy import Engine, event
from talks import WORDS, TalkingModel, Turn

from ebbtide import DiskArchive, EbbtideMiddleware, Settings, commands
from ebbtide.memory.tokens import count_messages, count_tools

WINDOW, TRIGGER = 16_000, 12_000
"""Tokens of the model's window, and those from which on the peers that ask for it summarise."""

CONFIG: Any = {"configurable": {"thread_id": "faults"}, "recursion_limit": 1_000}
GRAPH, MIDDLEWARE = "ebbtide", "EbbtideMiddleware"
LARGE, LARGE_AT = 5_000_000, 3
"""Characters of a large result, and the turn that it is read in."""

EFFORT_TURNS, OPENED, CLOSED = 10, 2, 9
"""One effort in so many turns, and the turns of these that open and close it."""

CHINESE = """
服务 回答 之后 停止 因为 没有 人们 检查 请求 同时 到达 保持 旧的 数值 部分 失败 团队 改变
上周 测量 步骤 时间 比较 用户 看见 限制 重试 次数 写在 日志 发布 明天 早晨
""".split()  # noqa: SIM905 (reads as a list of words)
SIZES: Mapping[str, tuple[int, int, int]] = {
    "short": (30, 60, 60),
    "long": (40, 100, 200),
    "Chinese": (150, 300, 150),
    "large": (30, 60, 60),
    "results": (15, 20, 400),
}
"""Words of a question, of an answer and of each of two results, in each talk."""


def code(number: int) -> str:
    """Return what names the fact of a turn."""
    return f"{random.Random(f'code {number}').getrandbits(32):08x}"


def fact(number: int) -> str:
    """Return the fact of a turn."""
    return f"Shelf {code(number)} holds {_text(random.Random(number), WORDS, 5)}."


def read_shelf(topic: str, words: int, number: int = 0) -> str:
    """Read so many words about a topic, with the fact of a turn in the middle if it is named."""
    text = _text(random.Random(topic), CHINESE if "Chinese" in topic else WORDS, words)
    if not number:
        return text
    half = f"{text}.\n" * (LARGE // 2 // len(text))
    return f"{half}{fact(number)}\n{half}"


def turn(number: int, talk: str) -> Turn:
    """Return a turn of a talk: a question with a fact, two tools at once, the answer."""
    asked, answered, read = SIZES[talk]
    chance, words = random.Random(number), CHINESE if talk == "Chinese" else WORDS
    large = talk == "large" and number == LARGE_AT
    said = "What do we know?" if large else fact(number)
    calls: list[tuple[str, dict[str, Any]]] = []
    if number % EFFORT_TURNS == OPENED:
        calls.append(("open_effort", {"name": f"work-{number}", "goal": f"Do work {number}."}))
    reads = ({"topic": f"{talk} {number} {at}", "words": read} for at in "ab")
    calls += [("read_shelf", args) for args in reads]
    if large:
        calls[-1][1]["number"] = number
    if number % EFFORT_TURNS == CLOSED:
        calls.append(("close_effort", {}))
    made = (ToolCall(name=n, args=a, id=f"call_{number}_{at}") for at, (n, a) in enumerate(calls))
    question = f"Question {number}: {said} {_text(chance, words, asked)}?"
    return Turn(question, tuple(made), f"Answer {number}: {_text(chance, words, answered)}.")


def _text(chance: random.Random, words: Sequence[str], number: int) -> str:
    return " ".join(chance.choices(words, k=number))


@dataclass(slots=True)
class Watch:
    """What was sent: how much, whether in order, and the texts of the last request.

    `asked` is the number of the question, 0 while a turn is resumed.
    """

    asked: int = 0
    fails: bool = False
    largest: int = 0
    refused: int = 0
    blind: int = 0
    last: str = ""

    def take(self, messages: Sequence[BaseMessage], tools: Sequence[Any], summary: bool) -> None:  # noqa: FBT001 (see `talks.Take`)
        """Take a request; raise as a provider does if it is too large or, where asked, fails."""
        if summary and self.fails:
            raise RuntimeError("503: the model that summarises is overloaded")
        tokens = count_messages(messages) + count_tools(tools)
        self.largest = max(self.largest, tokens)
        self.refused += tokens > WINDOW or unpaired(messages) > 0
        if tokens > WINDOW:
            raise ContextOverflowError(f"{tokens} tokens, the window has {WINDOW}")
        if not summary:
            self.last = "\n".join(message.text for message in messages)
            numbers = {*map(question_number, messages)}
            self.blind += bool(self.asked) and self.asked not in numbers


def unpaired(messages: Iterable[BaseMessage]) -> int:
    """Count the calls that no result follows, and the results that no call comes before."""
    waiting, wrong = set[str | None](), 0
    for message in messages:
        if isinstance(message, ToolMessage):
            wrong += message.tool_call_id not in waiting
            waiting.discard(message.tool_call_id)
            continue
        wrong += len(waiting)
        waiting = {call["id"] for call in getattr(message, "tool_calls", ())}
    return wrong + len(waiting)


class Replayed(TalkingModel):
    """Answers the last question of a request from the talk, wherever it is resumed."""

    talk: str = "short"

    def answer(self, messages: Sequence[BaseMessage], tools: Collection[str]) -> AIMessage:
        """Return the calls of the turn, then its answer."""
        numbers = [*map(question_number, messages)]
        asked = max((at for at, number in enumerate(numbers) if number), default=None)
        if asked is None:
            return AIMessage("What was the question?")
        played = turn(numbers[asked], self.talk)
        calls = [call for call in played.calls if call["name"] in tools]
        if any(isinstance(message, ToolMessage) for message in messages[asked:]) or not calls:
            return AIMessage(played.answer)
        return AIMessage("", tool_calls=calls)


@dataclass(slots=True)
class Side:
    """An agent in its folder, and what its model was sent."""

    name: str
    agent: Any
    watch: Watch
    folder: Path

    def ask(self, number: int, talk: str, config: Any = CONFIG) -> None:
        """Ask the question of a turn."""
        self.watch.asked, self.watch.last = number, ""
        asked = {"messages": [("user", turn(number, talk).question)]}
        self.agent.invoke(asked, config, durability="sync")

    def resume(self) -> None:
        """Resume the turn that was broken off."""
        self.watch.asked = 0
        done = self.agent.invoke(None, CONFIG, durability="sync")
        self.watch.asked = max(map(question_number, done["messages"]))

    def messages(self) -> list[BaseMessage]:
        """Return the stored messages of the thread's branch."""
        if self.name in OURS:
            return commands.transcript(self.agent, CONFIG)[0]
        return list(self.agent.get_state(CONFIG).values.get("messages", ()))

    def stored(self) -> str:
        """Return all texts of the archive's branch; of all checkpoints if there is no archive."""
        if self.name in OURS:
            return "\n".join(message.text for message in self.messages())
        tables = {"checkpoints": "checkpoint", "writes": "value"}
        with sqlite3.connect(self.folder / "checkpoints") as connection:
            return "\n".join(
                bytes(blob).decode(errors="replace")
                for table, column in tables.items()
                for (blob,) in connection.execute(f"SELECT {column} FROM {table}")  # noqa: S608 (the names above)
                if blob
            )

    def reach(self, numbers: Iterable[int]) -> set[int]:
        """Return the turns whose fact the model was sent last, or gets with a tool."""
        files = json.dumps(self.agent.get_state(CONFIG).values.get("files", {}), default=str)
        return {
            one
            for one in numbers
            if fact(one) in self.watch.last
            or fact(one) in files
            or (self.name in OURS and fact(one) in self._found(code(one)))
        }

    def _found(self, query: str) -> str:
        return json.dumps(asdict(commands.search(self.agent, CONFIG, query)))


def _graph(archive: DiskArchive) -> Maker:
    return ours(archive, tools=TOOLS, context_budget=WINDOW)


def _middleware(archive: DiskArchive) -> Maker:
    memory = EbbtideMiddleware(archive=archive, settings=Settings(context_budget=WINDOW))
    return langchain(memory, tools=TOOLS)


TOOLS = [read_shelf]
OURS: Mapping[str, Callable[[DiskArchive], Maker]] = {GRAPH: _graph, MIDDLEWARE: _middleware}
PEERS: Mapping[str, Maker] = {
    "SummarizationMiddleware": langchain(summarise_at=TRIGGER, tools=TOOLS),
    "LangMem SummarizationNode": partial(langmem, tools=TOOLS, max_tokens=TRIGGER),
    "deepagents": partial(deep, tools=TOOLS),
}


@contextmanager
def opened(
    name: str, folder: Path, talk: str, count: Callable[[str], None] | None = None
) -> Iterator[Side]:
    """Open an agent with its checkpoints and its archive in a folder; `count` gets all statements.

    Raises `ModuleNotFoundError` if it is not installed.
    """
    watch, profile = Watch(), {"max_input_tokens": WINDOW}
    model = Replayed(take=watch.take, talk=talk, profile=profile)

    def connected(connection: sqlite3.Connection, _record: Any = None) -> None:
        connection.set_trace_callback(count)

    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings(action="ignore"))  # those of the peers
        event.listen(Engine, "connect", connected)
        stack.callback(event.remove, Engine, "connect", connected)
        saver = stack.enter_context(SqliteSaver.from_conn_string(str(folder / "checkpoints")))
        connected(saver.conn)
        saver.setup()
        if name in OURS:
            maker = OURS[name](stack.enter_context(DiskArchive(folder / "archive")))
        else:
            maker = PEERS[name]
        yield Side(name, maker(model, saver, folder), watch, folder)
