"""Rebuild the anchor of a thread."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from langchain_core.runnables import RunnableConfig

from ..memory.anchor import limited, newest
from ..memory.errors import CommandError
from ..memory.questions import Question
from ..memory.rebuilding import newest_block, quoted, visible
from ..memory.record import Record
from ..memory.summary import around, readable
from ..nodes.llm.structured import ask
from ..nodes.state import repacked
from ..prompts.loader import text as prompt
from .checkpoints import last_node
from .show_context import shown
from .threads import Agent, Thread, collaborators_of, on_a_thread, opened

Source: TypeAlias = Literal["block", "model", "none"]

_log = logging.getLogger("ebbtide.anchor")


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The anchor as it is now, and where it is from: "none" if nothing gave one, the old stays."""

    anchor: Mapping[str, str]
    source: Source


def rebuild_anchor(
    agent: Agent, config: RunnableConfig, *, model: bool = False, context: object = None
) -> Rebuilt:
    """Set the anchor to the newest complete block in the turns that the context shows.

    With `model` the model is asked for one first, about these turns; if it fails or answers
    without a block, the newest block is taken. The anchor is kept in the state and goes back with
    time travel; a thread that is rebuilt from the archive has the last one that a turn wrote.
    Raises `CommandError` if anchors are off, `TurnRunningError` if a turn is not finished.
    """
    collaborators_of(agent)
    thread = opened(agent, config, agent.get_state(config), context).at_rest()
    if thread.settings.anchor == "off":
        raise CommandError("anchors are off (setting anchor), so there is none to rebuild")
    records = thread.view.turns(visible(shown(thread, config, None, context).parts))
    answer = ""
    if model and records:
        try:
            answer = ask(thread.collaborators.model, _question(thread, records))
        except Exception as error:  # noqa: BLE001 (any provider's: the old anchor must stay)
            _log.warning("the model gave no anchor: %s", error)
    update, rebuilt = _rebuilt(thread, records, answer)
    if update:
        agent.update_state(config, update, as_node=last_node(agent))
    return rebuilt


arebuild_anchor = on_a_thread(rebuild_anchor)


def _question(thread: Thread, records: tuple[Record, ...]) -> Question:
    settings, count = thread.settings, thread.collaborators.count
    told = prompt("rebuild_anchor", limit=settings.anchor_max_tokens)
    log = quoted(records, readable(settings, around(told, quoted((), 0, count), count)), count)
    return Question("anchor", told, log)


def _rebuilt(
    thread: Thread, records: tuple[Record, ...], answer: str
) -> tuple[dict[str, Any], Rebuilt]:
    """Return the update of the state, empty if nothing gave an anchor, and what to say of it."""
    said = newest(answer)
    fields = said or newest_block(records)
    if fields is None:
        return {}, Rebuilt(thread.state.get("anchor", {}), "none")
    limit, count = thread.settings.anchor_max_tokens, thread.collaborators.count
    anchor = limited(fields, limit, count)
    return repacked({"anchor": anchor, "view": None}), Rebuilt(anchor, "model" if said else "block")
