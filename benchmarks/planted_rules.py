"""Rules of a long effort: how many are visible, and how many are named as left out.

    python benchmarks/planted_rules.py --out benchmarks/results

A user states 60 rules in 300 turns of one effort, one in every fifth turn. A scripted model quotes
each rule that it reads. After every turn, each rule stated so far must be in the last call
verbatim, or counted as left out by the block of quotes, or in a turn that left before a pass read
it and that the list of missing turns contains ("waiting": the maximum of all turns). "neither" is
the maximum of rules that were none of these; the other counts are from the last turn.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from report import argument_parser, write

from ebbtide import DiskArchive, Settings, commands, create_memory_agent
from ebbtide.testing import ScriptedModel

_BUDGETS = (4_000, 8_000, 16_000)
_TURNS, _RULES = 300, 60
_THREAD: Any = {"configurable": {"thread_id": "planted"}}
_RULE = re.compile(r"The limit of queue \d+ must be \d+ orders a minute\.")
_NAMED = re.compile(r"(\d+) older quotes are out of view")
_COMPRESSED = re.compile(r'[Tt]urns? (?:\d+-)?(\d+) of the effort "shop", compressed')
_LEFT = re.compile(r"out of view and stored: turns? (?:[\d,-]*?)(\d+)\.")
_OPENING = {
    "name": "open_effort",
    "args": {"name": "shop", "goal": "Move the shop", "constraints": ["No downtime"]},
    "id": "open",
}


def rule(number: int) -> str:
    """Return a rule; no two are alike in their numbers."""
    return f"The limit of queue {number} must be {10 * number + 500} orders a minute."


def quoted(messages: list[BaseMessage]) -> dict[str, Any]:
    """Quote each rule in the log, as a model does that misses none."""
    log = messages[-1].text.split("<log", 1)[1]
    return {"new": [{"quote": one, "kind": "constraint"} for one in _RULE.findall(log)]}


def held(budget: int, turns: int, rules: int) -> dict[str, Any]:
    """Hold the conversation with a budget, and return what became of its rules."""
    every, said, totals = turns // rules, dict[str, int](), list[int]()
    waiting = neither = 0
    sent: list[list[BaseMessage]] = []

    def answer(messages: list[BaseMessage]) -> Any:
        sent.append(messages)
        return "Noted. " + "We go on with the next part of the work. " * 6

    extracting, writing = (ScriptedModel([by] * 2_000) for by in (quoted, lambda _: "They worked."))
    with TemporaryDirectory() as folder, DiskArchive(Path(folder), durable=False) as archive:
        agent = create_memory_agent(
            ScriptedModel([lambda _: _OPENING, *[answer] * 2_000]),
            extraction_model=extracting,
            compression_model=writing,
            archive=archive,
            checkpointer=InMemorySaver(),
            settings=Settings(context_budget=budget),
        )
        agent.invoke({"messages": "Let's move the shop."}, _THREAD)
        for turn in range(1, turns + 1):
            words = f"Step {turn}: " + "we looked at the shop and talked about this and that. " * 12
            if turn % every == 0 and len(said) < rules:
                said[rule(len(said))] = turn + 1  # the first turn opened the effort
                words = f"{[*said][-1]} {words}"
            state = agent.invoke({"messages": words}, _THREAD)
            totals.append(state["memory"]["context_report"]["total"])
            text = "\n".join(message.text for message in sent[-1])
            seen = sum(one in text for one in said)
            named = sum(int(number) for number in _NAMED.findall(text))
            through, left = (
                max(map(int, p.findall(text)), default=0) for p in (_COMPRESSED, _LEFT)
            )
            unread = sum(through < at <= left and one not in text for one, at in said.items())
            waiting = max(waiting, unread)
            neither = max(neither, len(said) - seen - named - unread)
        stats = commands.stats(agent, _THREAD)
    return {
        "budget": budget,
        "rules": len(said),
        "in view": seen,
        "named as out of view": named,
        "waiting": waiting,
        "neither": neither,
        "worst call": max(totals),
        "compressions": stats.compressions,
    }


def rows(budgets: list[int], turns: int, rules: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each budget."""
    for budget in budgets:
        yield held(budget, turns, rules)
        print(f"{budget:,} tokens: done", flush=True)


def main() -> None:
    """Hold the conversation with each budget."""
    parser = argument_parser(__doc__)
    parser.add_argument("--budgets", type=int, nargs="+", default=[*_BUDGETS])
    parser.add_argument("--turns", type=int, default=_TURNS)
    parser.add_argument("--rules", type=int, default=_RULES)
    options = parser.parse_args()
    found = [*rows(options.budgets, options.turns, options.rules)]
    write(options.out, "planted_rules", "Planted rules", found)


if __name__ == "__main__":
    main()
