"""One open effort that is talked about for long, with models that quote and summarise."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage

from ebbtide import DiskArchive, Settings
from ebbtide.memory.archive.export import read
from ebbtide.memory.compressions import Compression
from ebbtide.memory.turn import Session
from tests.agents import Talk, talk, tip_in
from tests.doubles import ScriptedModel, call
from tests.graph.planted import CONSTRAINTS, DECISIONS, REVISED

FILLER = "We looked at the shop for a while, and talked about this and that without a result. " * 24
SMALL = Settings(context_budget=5_600)
KEPT = re.compile(r"^(\d+)\. (.+)$", re.MULTILINE)
GOAL = "Bring the shop to the new platform"


def extracting(messages: list[BaseMessage]) -> dict[str, Any]:
    """Quote every planted statement that stands in the log, as a model does that misses nothing."""
    said = messages[-1].text.split("<log", 1)[1]
    kinds = {**dict.fromkeys(CONSTRAINTS, "constraint"), **dict.fromkeys(DECISIONS, "decision")}
    numbers = [version for versions in REVISED for version in versions]
    known = {**kinds, **dict.fromkeys(numbers, "fact")}
    kept = [*KEPT.findall(messages[-1].text.split("<log", 1)[0])]
    items = [
        {"quote": one, "kind": kind, "turn": 0, "replaces": older(one, kept)}
        for one, kind in known.items()
        if one in said
    ]
    return {"new": items}


def older(one: str, kept: Sequence[tuple[str, str]]) -> list[int]:
    """Return the numbers of kept quotes that a statement is a later version of."""
    versions = next((some for some in REVISED if one in some), ())
    stale = versions[: versions.index(one)] if versions else ()
    return [int(number) for number, quote in kept if quote in stale]


def agent(root: Path, answers: Any = None, **options: Any) -> Talk:
    """Return an agent whose other models quote and summarise."""
    extraction = options.pop("extraction", extracting)
    background = options.pop("background", lambda _: "They worked on the shop.")
    models = {
        "extraction_model": ScriptedModel(answers=["no JSON"] * 900, structured=extraction),
        "compression_model": ScriptedModel(answers=background),
    }
    options = {"settings": SMALL, **models, **options}
    return talk(root, answers or (lambda _: "Seen."), **options)


def compressing(root: Path, answers: Any = None, **options: Any) -> Talk:
    """Return such an agent with an open effort."""
    chat = agent(root, answers, **options)
    opening = call("open_effort", name="shop", goal=GOAL)
    same = {"archive": chat.archive, "checkpointer": chat.agent.checkpointer}
    first = talk(root, [opening, "Opened."], **same)
    first.say("Let's move the shop.")
    return chat


def shown(chat: Talk) -> str:
    """Return all text of the last context."""
    return "\n".join(message.text for message in chat.last)


def entries(root: Path) -> list[dict[str, Any]]:
    """Return the log of extractions."""
    with DiskArchive(root) as archive:
        return [dict(entry) for entry in read(archive, Session("", "t")).extractions]


def quoted(state: dict[str, Any]) -> dict[str, int]:
    """Return the compressed efforts of a state, each with the turn of its last compression."""
    found: dict[str, int] = state["bookkeeping"]["plan"].get("quotes", {})
    return found


def stored(chat: Talk, state: dict[str, Any]) -> Compression | None:
    """Return what stands for the older turns of the effort, as a state sees it."""
    tip = tip_in(state)
    return chat.archive.load(Session("", "t"), tip).compression("shop")


def talked(chat: Talk, turns: int, said: dict[int, str] | None = None) -> list[dict[str, Any]]:
    """Go through turns, each with a filler and what is planted in it, and return the states."""
    planted = said or {}
    return [chat.say(f"{planted.get(turn, '')} {FILLER}{turn}") for turn in range(2, turns + 1)]


def quoting(*quotes: str, kind: str = "fact") -> Any:
    """Return what a model answers that always gives these quotes."""
    return lambda _: {"new": [{"quote": quote, "kind": kind, "turn": 2} for quote in quotes]}


def passed(root: Path, said: str = "", turns: int = 9, **options: Any) -> tuple[Talk, Any]:
    """Talk until the effort was compressed, `said` in the second turn; return the log entry."""
    chat = compressing(root, **options)
    talked(chat, turns, {2: said})
    return chat, entries(root)[0]
