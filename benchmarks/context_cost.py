"""What the model is sent: tokens of each call, how many the provider's cache has, what is over.

python benchmarks/context_cost.py --out results 1000

The extra `bench` has the peers; a row says which one is not installed.

The same conversation for each agent (see `scripted_talk`), the same model and checkpointer. A
request is counted as OpenAI bills it, tool schemas included, for everyone alike. *Cached* are the
tokens of a request that are a byte-identical prefix of the one before: tool schemas, messages, and
the text of the first message that differs. Calls that ask for a summary are counted, as not cached;
"worst call" and "over it" are about the others.
*Cost* is a tenth of the cached tokens and all others, per turn; "cost at turn N" is the mean of the
fifty turns before it. "Calls without the question" are those in which the user's own message of the
running turn is missing.
"""

import argparse
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage, message_to_dict
from langgraph.checkpoint.sqlite import SqliteSaver
from peers import AGENTS, Maker
from report import write
from rich.progress import track
from scripted_talk import TalkingModel, turns

from ebbtide.memory.tokens import REPLY_OVERHEAD, count, count_message, count_tools

CACHED = 0.1
"""What a cached token costs, of a token that is not."""

SPAN = 50
Part: TypeAlias = tuple[str, str]
"""The role and name of a message, and the rest of it."""

CONFIG: Any = {"configurable": {"thread_id": "cost"}, "recursion_limit": 100}


@dataclass(frozen=True, slots=True)
class Call:
    """One request: its tokens, how many of them are cached, whether it asks for a summary.

    `asks` tells whether the question of the running turn stands in it.
    """

    tokens: int
    cached: int
    summary: bool
    asks: bool

    @property
    def cost(self) -> float:
        """The tokens by what they cost."""
        return self.tokens - (1 - CACHED) * self.cached


@dataclass(slots=True)
class Ledger:
    """What was sent, turn by turn; `sizes` are the tokens of each message that ever was.

    `question` is what the user said in the running turn.
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
        """Enter a request."""
        schemas: Part = ("tools", json.dumps(list(tools)))
        self.sizes[schemas] = count_tools(tools)
        parts = [schemas, *map(self._part, messages)]
        cached = 0
        if not summary:
            cached, self.before = self._shared(parts), parts
        tokens = REPLY_OVERHEAD + sum(self.sizes[part] for part in parts)
        asks = any(self.question in text for _, text in parts)
        self.turns[-1].append(Call(tokens, cached, summary, asks))

    def begin(self, question: str) -> None:
        """Begin a turn."""
        self.question = question
        self.turns.append([])

    def _part(self, message: BaseMessage) -> Part:
        """Return what is sent of a message, and remember its size."""
        called = getattr(message, "tool_calls", None), getattr(message, "tool_call_id", None)
        said = message.content if isinstance(message.content, str) else json.dumps(message.content)
        part = (f"{message.type} {message.name}", f"{said}{json.dumps(called)}")
        if part not in self.sizes:
            self.sizes[part] = count_message(message_to_dict(message))
        return part

    def _shared(self, parts: Sequence[Part]) -> int:
        """Return the tokens that a request begins with as the one before did."""
        alike = _alike(parts, self.before)
        whole = sum(self.sizes[part] for part in parts[:alike])
        if not 0 < alike < min(len(parts), len(self.before)):
            return whole
        (head, text), (other_head, other) = parts[alike], self.before[alike]
        begun = count(text[: _alike(text, other)]) if head == other_head else 0
        return whole + min(begun, self.sizes[parts[alike]])


def held(maker: Maker, number: int, name: str) -> Ledger:
    """Hold the conversation with an agent, and return what it was sent."""
    ledger, model = Ledger(), TalkingModel()
    model.watched(ledger.take)
    with TemporaryDirectory() as folder, SqliteSaver.from_conn_string(f"{folder}/c.db") as saver:
        agent = maker(model, saver, Path(folder, "archive"))
        tools = {"look_up", *(["open_effort", "close_effort"] if "ebbtide" in name else [])}
        for turn in track([*turns(number)], description=name):
            ledger.begin(turn.question)
            model.begin(turn, sorted(tools))
            agent.invoke({"messages": [("user", turn.question)]}, CONFIG, durability="exit")
    return ledger


def row(name: str, ledger: Ledger, budget: int | None) -> dict[str, Any]:
    """Return an agent's row."""
    calls = [call for turn in ledger.turns for call in turn]
    sent, worst = sum(call.tokens for call in calls), _worst(calls, summary=False)
    return {
        "agent": name,
        "turns": len(ledger.turns),
        "tokens per call": round(sent / len(calls)),
        "cached %": round(100 * sum(call.cached for call in calls) / sent, 1),
        "cost per turn": _per_turn(ledger.turns),
        "cost at turn 500": _per_turn(ledger.turns[500 - SPAN : 500]),
        "cost at the end": _per_turn(ledger.turns[-SPAN:]),
        "worst call": worst,
        "told to keep": budget or "",
        "over it": "no bound" if budget is None else max(0, worst - budget),
        "worst summary call": _worst(calls, summary=True),
        "calls without the question": sum(not (call.asks or call.summary) for call in calls),
    }


def _alike(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return how many items two sequences begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _worst(calls: Sequence[Call], *, summary: bool) -> int:
    return max((call.tokens for call in calls if call.summary == summary), default=0)


def _per_turn(span: Sequence[Sequence[Call]]) -> int | str:
    cost = sum(call.cost for turn in span for call in turn)
    return round(cost / len(span)) if span else ""


def main() -> None:
    """Measure each agent that is installed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--agents", nargs="+", choices=[*AGENTS], default=[*AGENTS])
    parser.add_argument("turns", type=int)
    options = parser.parse_args()
    rows = []
    for name in options.agents:
        maker, budget = AGENTS[name]
        try:
            with warnings.catch_warnings(action="ignore"):  # what the peers warn of is theirs
                ledger = held(maker, options.turns, name)
            rows.append(row(name, ledger, budget))
        except ModuleNotFoundError as missing:
            rows.append({**dict.fromkeys(rows[0], ""), "agent": f"{name}: no {missing.name}"})
    write(options.out, "context_cost", "Tokens and the prompt cache", rows)


if __name__ == "__main__":
    main()
