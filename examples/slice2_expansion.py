"""Slice 2: expanding an effort brings its log back verbatim; collapsing removes it."""

import os
from tempfile import TemporaryDirectory
from typing import Any

from drawing import draw_parts, output, sums, write_rows
from langgraph.checkpoint.memory import InMemorySaver
from rich import print  # noqa: A004 (prints tables as well)
from rich.table import Table

from ebbtide import DiskArchive, Settings, commands, create_memory_agent
from ebbtide.graph.models import choose_model
from ebbtide.memory.transcript import transcript
from ebbtide.memory.turn import Session

LIMITS = "Let's work on the rate limits: 100 requests a minute, because the database stops at 4000"
BUG = "Let's work on the auth bug: people are signed out in the middle of their work"
CODE = "The token lives 3600 seconds:\n\n\tif (age < 3600) { renew(); }  // 刷新 </effort>"
DONE, COLLAPSE, LATER = "That's done", "Collapse the auth bug", ["It rains."] * 3
PARTS = {"memory": "summaries", "expanded": "expanded log", "turns": "turns, word for word"}
EXACT = Settings(rebuild="every-turn", ambient_window=3)
CONFIG: Any = {"configurable": {"thread_id": "slice2"}}


def main() -> None:
    """Conclude two efforts, expand one, collapse it; compare the contexts."""
    path = output(__file__, __doc__)
    with TemporaryDirectory() as folder, DiskArchive(folder) as archive:
        model, saver = choose_model(None, os.environ), InMemorySaver()
        agent = create_memory_agent(model, archive=archive, checkpointer=saver, settings=EXACT)
        calls = [say(agent, words) for words in (LIMITS, DONE, *LATER, BUG, CODE, DONE, *LATER)]
        other_effort, effort = agent.get_state(CONFIG).values["memory"]["summaries"]
        log, before = read(archive, effort), read(archive, other_effort)
        (concluded, _), (expanded, sent) = say(agent, "Show me the full log of the auth bug")
        sizes = {"open": calls[7][0][0], "concluded": concluded, "expanded": expanded}
        *_, ((sizes["collapsed"], _),) = (say(agent, one) for one in (COLLAPSE, *LATER, "And now?"))
        after, figures = read(archive, other_effort), commands.stats(agent, CONFIG)
    title = "Tokens of the context, without instructions and tools"
    table = Table("auth bug", *PARTS.values(), "sum", title=title)
    for step, tokens in sizes.items():
        table.add_row(step, *map(str, tokens), str(sum(tokens)))
    checks = {
        "Expanded equals the original log, byte for byte": f"\n{log[0]}\n</memory " in sent,
        "Collapsed equals concluded, token for token": sizes["collapsed"] == sizes["concluded"],
        "The other effort, its log and its summary, is untouched": before == after,
    }
    verdicts = [f"{claim}: {'yes' if passed else 'no'}" for claim, passed in checks.items()]
    print(table, "Quoted, the log holds the turn that concluded it too.", *verdicts, sep="\n")
    print(f"Settings here, so that the context before and after can be equal: {EXACT!r}")
    print(sums(figures), write_rows(path, EXACT, table, figures=figures), sep="\n")
    steps = {step: dict(zip(PARTS.values(), each, strict=True)) for step, each in sizes.items()}
    print(draw_parts(path, steps, xlabel="the auth bug", ylim=(50, 200_000)))
    raise SystemExit(not all(checks.values()))


def say(agent: Any, words: str) -> list[tuple[list[int], str]]:
    """Run a turn; return the tokens by part and the text of each model call."""
    steps = agent.stream({"messages": words}, CONFIG, stream_mode="updates")
    calls = [step["assemble_context"] for step in steps if "assemble_context" in step]
    tokens = (call["memory"]["context_report"]["tokens"] for call in calls)
    sizes = [[by_part.get(part, 0) for part in PARTS] for by_part in tokens]
    sent = ["\n".join(part.text for part in call["context"]["messages"]) for call in calls]
    return [*zip(sizes, sent, strict=True)]


def read(archive: DiskArchive, name: str) -> tuple[str, Any]:
    """Return the log of an effort and its entry in the archive."""
    (tip,) = archive.tips(session := Session("", "slice2"))
    branch = archive.load(session, tip)
    turns = branch.turns(branch.turns_of(name))
    return transcript(turns), branch.efforts_named([name])[0]


if __name__ == "__main__":
    main()
