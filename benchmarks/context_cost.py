"""The cost of requests: tokens of each call, cached tokens, tokens over the budget.

    python benchmarks/context_cost.py --out results --jobs 2

Each agent runs the same three conversations (see `talks`) with the same model and checkpointer. All
requests are counted as OpenAI bills them, with tool schemas.

- cached %: the part of a request that equals the start of the previous one byte for byte (tool
  schemas, messages, and the start of the first message that differs), as far as a provider caches
  it.
- cost per turn: cached tokens count as a tenth, everything else in full. Calls for summaries,
  compressions and quotes are included and count as not cached. Answers are left out, since they
  cost the same for everyone.
- calls per turn: of the model, those for summaries, compressions and quotes included.
- tokens per call, worst call, over: without calls for summaries, compressions and quotes.
- calls without the question: calls that do not have the user's message of the current turn.

An agent that is not installed (extra `bench`) gets a row that says so.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from peers import DELTA, PEERS, Maker, ours
from report import argument_parser, write
from talks import TALKS, TalkingModel

from ebbtide.memory.tokens import REPLY_OVERHEAD, count, count_message, count_tools

CACHED = 0.1
"""The price of a cached token as a share of an uncached one, for OpenAI's GPT-5 models."""

LEAST_PREFIX, STEP = 1_024, 128
"""The least tokens of a cached prefix, and the steps in which it grows.

As OpenAI's guide says (https://platform.openai.com/docs/guides/prompt-caching).
"""

BUDGETS = (4_000, 5_000, 16_000, 64_000)
"""Near the floor, a little above it, the default, and one that holds much of a talk."""
OURS = "ebbtide"
Part: TypeAlias = tuple[str, str]
"""The role and name of a message, and the rest of it."""

CONFIG: Any = {"configurable": {"thread_id": "cost"}, "recursion_limit": 100}


@dataclass(frozen=True, slots=True)
class Call:
    """One request: tokens, cached tokens, whether it asks for a summary or quotes.

    `asks` tells whether it has the question of the running turn.
    """

    tokens: int
    cached: int
    summary: bool
    asks: bool

    @property
    def cost(self) -> float:
        """The cost, in uncached tokens."""
        return self.tokens - (1 - CACHED) * self.cached


@dataclass(slots=True)
class Ledger:
    """The requests, turn by turn; `sizes` caches the tokens of each message.

    `question` is that of the running turn.
    """

    question: str = ""
    turns: list[list[Call]] = field(default_factory=list)
    before: list[Part] = field(default_factory=list)
    sizes: dict[Part, int] = field(default_factory=dict)

    def take(
        self,
        messages: Sequence[BaseMessage],
        tools: Sequence[Mapping[str, Any]],
        summary: bool,  # noqa: FBT001 (the model says it)
    ) -> None:
        """Add a request."""
        schemas: Part = ("tools", json.dumps(list(tools)))
        self.sizes[schemas] = count_tools(tools)
        parts = [schemas, *map(self._part, messages)]
        cached = 0
        if not summary:
            cached, self.before = cached_prefix(self._shared(parts)), parts
        tokens = REPLY_OVERHEAD + sum(self.sizes[part] for part in parts)
        asks = any(self.question in text for _, text in reversed(parts))
        self.turns[-1].append(Call(tokens, cached, summary, asks))

    def begin(self, question: str) -> None:
        """Begin a turn."""
        self.question = question
        self.turns.append([])

    def _part(self, message: BaseMessage) -> Part:
        """Return the text of a message as it is sent, and cache its size."""
        call = getattr(message, "tool_calls", None), getattr(message, "tool_call_id", None)
        content = (
            message.content if isinstance(message.content, str) else json.dumps(message.content)
        )
        part = (f"{message.type} {message.name}", f"{content}{json.dumps(call)}")
        if part not in self.sizes:
            self.sizes[part] = count_message(message)
        return part

    def _shared(self, parts: Sequence[Part]) -> int:
        """Return the tokens of the prefix that a request shares with the one before."""
        length = _common_length(parts, self.before)
        tokens = sum(self.sizes[part] for part in parts[:length])
        if not 0 < length < min(len(parts), len(self.before)):
            return tokens
        (head, text), (other_head, other_text) = parts[length], self.before[length]
        beginning = count(text[: _common_length(text, other_text)]) if head == other_head else 0
        return tokens + min(beginning, self.sizes[parts[length]])


@dataclass(frozen=True, slots=True)
class Run:
    """A conversation to hold: its name and turns, the agent and its budget."""

    talk: str
    turns: int
    agent: str
    budget: int | None = None

    @property
    def maker(self) -> Maker:
        """The maker of the agent."""
        is_ours = self.agent.startswith(OURS)
        return ours(context_budget=self.budget) if is_ours else PEERS[self.agent][0]


def cached_prefix(prefix: int) -> int:
    """Return the tokens of a prefix that a provider caches."""
    return prefix // STEP * STEP if prefix >= LEAST_PREFIX else 0


def run_talk(run: Run) -> Ledger:
    """Hold a conversation, and return its requests."""
    ledger = Ledger()
    model = TalkingModel(take=ledger.take)
    with TemporaryDirectory() as folder, SqliteSaver.from_conn_string(f"{folder}/c.db") as saver:
        agent = run.maker(model, saver, Path(folder, "archive"))
        for turn in TALKS[run.talk][0](run.turns):
            ledger.begin(turn.question)
            model.begin(turn)
            agent.invoke({"messages": [("user", turn.question)]}, CONFIG, durability="exit")
    return ledger


def measured(run: Run) -> dict[str, Any]:
    """Hold a conversation, and return its row."""
    row = {"talk": run.talk, "agent": run.agent}
    try:
        with warnings.catch_warnings(action="ignore"):  # warnings of the peers
            row |= _figures(run_talk(run), run.budget)
    except ModuleNotFoundError as missing:
        return {**row, "agent": f"{run.agent}: no {missing.name}"}
    return row


def _figures(ledger: Ledger, budget: int | None) -> dict[str, Any]:
    calls = [call for turn in ledger.turns for call in turn]
    requests = [call for call in calls if not call.summary]
    sent, worst = sum(call.tokens for call in requests), max(call.tokens for call in requests)
    summary_cost = sum(call.cost for call in calls if call.summary)
    return {
        "budget": budget or "",
        "turns": len(ledger.turns),
        "calls per turn": round(len(calls) / len(ledger.turns), 2),
        "tokens per call": round(sent / len(requests)),
        "cached %": round(100 * sum(call.cached for call in requests) / sent, 1),
        "cost per turn": round(sum(call.cost for call in calls) / len(ledger.turns)),
        "of that summaries": round(summary_cost / len(ledger.turns)),
        "worst call": worst,
        "over": "no bound" if budget is None else max(0, worst - budget),
        "calls without the question": sum(not call.asks for call in requests),
    }


def _common_length(items: Sequence[Any], others: Sequence[Any]) -> int:
    """Return the length of the common beginning of two sequences."""
    pairs = enumerate(zip(items, others, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(items), len(others)))


def runs(options: argparse.Namespace) -> list[Run]:
    """Return the conversations to hold."""
    listed = []
    for talk in options.talks:
        turns = min(options.turns or TALKS[talk][1], TALKS[talk][1])
        if OURS in options.agents:
            listed += [Run(talk, turns, f"{OURS}, {size:,}", size) for size in options.budgets]
        peers = (name for name in options.agents if name != OURS)
        listed += [Run(talk, turns, name, PEERS[name][1]) for name in peers]
    return listed


def main() -> None:
    """Hold each conversation with each agent that is installed."""
    agents = [OURS, *(name for name in PEERS if name != DELTA)]
    parser = argument_parser(__doc__, jobs=1)
    parser.add_argument("--talks", nargs="+", choices=[*TALKS], default=[*TALKS])
    parser.add_argument("--agents", nargs="+", choices=agents, default=agents)
    parser.add_argument("--budgets", nargs="+", type=int, default=BUDGETS)
    parser.add_argument("--turns", type=int, help="hold only so many, for a quick look")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        futures = [pool.submit(measured, run) for run in runs(options)]
        for future in as_completed(futures):
            print(future.result(), file=sys.stderr)
    rows = [future.result() for future in futures]
    write(options.out, "context_cost", "Tokens and the prompt cache", rows)


if __name__ == "__main__":
    main()
