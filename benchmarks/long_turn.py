"""One request and eighty rounds of tools: what each model call contains, and the cost.

    python benchmarks/long_turn.py --out results

The request asks for six pieces of work and names four constraints. Each piece of work reads files
(50 to 30,000 tokens), edits some (arguments up to 3,000 tokens) and runs checks. One result of each
contains a fact. Every agent makes the same calls to the same tools. Ebbtide has a budget, and in
the rows that say so it opens and closes an effort for each piece of work.

- newest result, last three: calls that contain these results completely, as far as a result is not
  larger than a quarter of the room.
- breaks: calls that do not start with all of the previous call.
- cost: as in `context_cost`, with summaries.
- facts: those in the last request, or that a search, `read_log` or a file of the agent returns.
"""

import json
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from itertools import pairwise
from math import log
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from context_cost import Ledger
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    SummarizationMiddleware,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, ToolCall
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from report import argument_parser, write
from talks import WORDS, TalkingModel, Turn

from ebbtide import DiskArchive, Settings, commands, create_memory_agent, transcript
from ebbtide.memory.tokens import count

TASKS = ("ledger", "gateway", "sidebar", "importer", "thumbnails", "backup")
CONSTRAINTS = (
    "Never touch the production database.",
    "Keep Python 3.11 working.",
    "No new dependency.",
    "Leave the public interface as it is.",
)
REQUEST = f"Mend the defects of {', '.join(TASKS)}. " + " ".join(CONSTRAINTS)
FACT_AT = 6
"""The round of a piece of work in which a fact is planted."""

RESULT, EDIT, SPREAD = (50, 30_000, 300), (30, 3_000, 200), 1.3
"""Least, most and median words of results and of arguments, and the spread of their logarithms.
"""

ROUNDS_OF_A_TASK = 13
QUARTER = 4  # one in how many tokens of the room a new result may have whole
ROUNDS, BUDGETS = 80, (8_000, 16_000)
OURS = "ebbtide"
FIXED = 1_300
"""Tokens of our instructions and tool schemas, and of those of the agent."""
CONFIG: Any = {"configurable": {"thread_id": "long"}, "recursion_limit": 1_000}
PROMPT = "You are a careful programmer."

_RESULTS: dict[str, str] = {}


@tool
def view_source(path: str) -> str:
    """Read a file."""
    return _RESULTS[path]


@tool
def change_source(path: str, content: str) -> str:
    """Write a file."""
    return f"{path}: {len(content)} characters written"


@tool
def run_checks(path: str) -> str:
    """Run the tests of a file."""
    return _RESULTS[path]


TOOLS = [view_source, change_source, run_checks]
Call = tuple[str, dict[str, Any]]


@dataclass(slots=True)
class Work:
    """The calls of a long turn, and the facts planted in their results."""

    calls: list[Call] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)

    def turn(self) -> Turn:
        """Return the turn that the model plays."""
        calls = [
            ToolCall(name=name, args=args, id=f"call-{at}")
            for at, (name, args) in enumerate(self.calls)
        ]
        return Turn(REQUEST, tuple(calls), "All six are mended.")


def work(rounds: int, *, efforts: bool) -> Work:
    """Return the calls of so many rounds, with an effort for each piece of work or without any."""
    chance, made = random.Random(41), Work()
    for number in range(rounds):
        task = TASKS[min(number // ROUNDS_OF_A_TASK, len(TASKS) - 1)]
        within = number - TASKS.index(task) * ROUNDS_OF_A_TASK
        if efforts and within == 0:
            goal = {"name": task, "goal": f"Mend the defect of the {task}."}
            made.calls.append(("open_effort", goal))
        made.calls.append(_call(made, chance, task, within))
        last = within == ROUNDS_OF_A_TASK - 1 and task != TASKS[-1]
        if efforts and (last or number == rounds - 1):
            made.calls.append(("close_effort", {}))
    return made


def _call(made: Work, chance: random.Random, task: str, number: int) -> Call:
    path = f"src/{task}/part_{number}.py"
    if number % 3 == 1:
        return "change_source", {"path": path, "content": _text(chance, _size(chance, *EDIT))}
    words = _text(chance, _size(chance, *RESULT)).split()
    if number == FACT_AT:
        fact = f"The {task} limit is {chance.randint(10_000, 99_999)} at most."
        made.facts[f"{task} limit"] = fact
        words.insert(len(words) // 2, fact)
    name = "view_source" if number % 3 == 0 else "run_checks"
    _RESULTS[path] = " ".join(words)
    return name, {"path": path}


def _size(chance: random.Random, least: int, most: int, median: int) -> int:
    return int(min(most, max(least, chance.lognormvariate(log(median), SPREAD))))


def _text(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(WORDS, k=words))


@dataclass(slots=True)
class Watch:
    """What the calls of a turn were sent."""

    ledger: Ledger
    sent: list[Sequence[str]] = field(default_factory=list)

    def take(
        self,
        messages: Sequence[BaseMessage],
        tools: Sequence[Mapping[str, Any]],
        summary: bool,  # noqa: FBT001 (the model says it)
    ) -> None:
        """Add a request."""
        self.ledger.take(messages, tools, summary)
        if not summary:
            self.sent.append([_sent(message) for message in messages])


def _sent(message: BaseMessage) -> str:
    return json.dumps([message.type, message.text, getattr(message, "tool_calls", None)])


def figures(watch: Watch, calls: Sequence[Call], quarter: int) -> dict[str, Any]:
    """Return what the requests had of the turn, and what they cost; `calls` are those made."""
    results = [_RESULTS.get(str(args.get("path"))) for _, args in calls]
    newest, last_three = list[bool](), list[bool]()
    for number, sent in enumerate(watch.sent):
        whole = " ".join(sent)
        due = [
            result is None or count(result) > quarter or result in whole
            for result in results[max(0, number - 3) : number]
        ]
        if number and results[number - 1] is not None and count(results[number - 1]) <= quarter:
            newest.append(due[-1])
        last_three.append(all(due))
    asked = [call for turn in watch.ledger.turns for call in turn]
    main_calls = [call for call in asked if not call.summary]
    return {
        "calls": len(main_calls),
        "request whole": sum(REQUEST in " ".join(sent) for sent in watch.sent),
        "newest result": f"{sum(newest)} of {len(newest)}",
        "last three": f"{sum(last_three)} of {len(last_three)}",
        "breaks": sum([*now[: len(old)]] != [*old] for old, now in pairwise(watch.sent)),
        "largest call": max(call.tokens for call in main_calls),
        "cost": round(sum(call.cost for call in asked)),
        "of that summaries": round(sum(call.cost for call in asked if call.summary)),
    }


Maker = Callable[[BaseChatModel, Path], Any]


def langchain(model: BaseChatModel, *middleware: Any) -> Any:
    """Return LangChain's agent with these layers."""
    saver = InMemorySaver()
    return create_agent(
        model, TOOLS, system_prompt=PROMPT, checkpointer=saver, middleware=middleware
    )


def deep(model: BaseChatModel, _folder: Path) -> Any:
    """Return a deep agent with its defaults."""
    create = import_module("deepagents").create_deep_agent
    return create(model, TOOLS, system_prompt=PROMPT, checkpointer=InMemorySaver())


def ours(budget: int) -> Maker:
    """Return the maker of our agent with a budget."""

    def make(model: BaseChatModel, folder: Path) -> Any:
        return create_memory_agent(
            model,
            tools=TOOLS,
            archive=DiskArchive(folder, durable=False),
            checkpointer=InMemorySaver(),
            settings=Settings(context_budget=budget),
            system_prompt=PROMPT,
        )

    return make


def peers(budget: int) -> dict[str, Maker]:
    """Return the makers of the other agents; those with a trigger begin to cut at the budget."""
    return {
        "create_agent": lambda model, _: langchain(model),
        "SummarizationMiddleware": lambda model, _: langchain(
            model, SummarizationMiddleware(model, trigger=("tokens", budget))
        ),
        "ContextEditingMiddleware": lambda model, _: langchain(
            model, ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=budget)])
        ),
        "deepagents": deep,
    }


def measured(name: str, maker: Maker, rounds: int, budget: int, *, efforts: bool) -> dict[str, Any]:
    """Let an agent do the work, and return its row."""
    made, watch = work(rounds, efforts=efforts), Watch(Ledger())
    model = TalkingModel(take=watch.take)
    row: dict[str, Any] = {"agent": name, "efforts": "closed" if efforts else "", "budget": budget}
    with TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
        try:
            agent = maker(model, Path(folder))
        except ModuleNotFoundError as missing:
            return {**row, "agent": f"{name}: no {missing.name}"}
        turn = made.turn()
        watch.ledger.begin(turn.question)
        model.begin(turn)
        state = agent.invoke({"messages": [("user", REQUEST)]}, CONFIG, durability="exit")
        memory = {"open_effort", "close_effort"}
        calls = [one for one in made.calls if name.startswith(OURS) or one[0] not in memory]
        row |= figures(watch, calls, (budget - FIXED) // QUARTER)
        at_hand = " ".join(watch.sent[-1]) + json.dumps(state.get("files", {}), default=str)
        if name.startswith(OURS):
            found = [commands.search(agent, CONFIG, asked) for asked in made.facts]
            at_hand += json.dumps([asdict(page) for page in found])
            at_hand += " ".join(message.text for message in transcript(agent, CONFIG)[0])
    return {
        **row,
        "facts": f"{sum(f in at_hand for f in made.facts.values())} of {len(made.facts)}",
    }


def rows(rounds: int, budgets: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield the rows of all agents."""
    for budget in budgets:
        for efforts in (False, True):
            yield measured(OURS, ours(budget), rounds, budget, efforts=efforts)
        for name, maker in peers(budget).items():
            yield measured(name, maker, rounds, budget, efforts=False)


def main() -> None:
    """Let each agent that is installed do the work at each budget."""
    parser = argument_parser(__doc__, rounds=ROUNDS)
    parser.add_argument("--budgets", nargs="+", type=int, default=BUDGETS)
    options = parser.parse_args()
    made = []
    for row in rows(options.rounds, options.budgets):
        print(row, flush=True)
        made.append(row)
    write(options.out, "long_turn", "A long turn", made)


if __name__ == "__main__":
    main()
