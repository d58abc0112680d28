"""Shorten an open effort that has outgrown its share of the context, before the first call."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

from langgraph.runtime import Runtime

from ..memory.banners import banner_of
from ..memory.compressions import ExtractionEntry
from ..memory.dates import stamp
from ..memory.efforts import happened
from ..memory.errors import ArchiveError, SettingsError
from ..memory.names import span
from ..memory.questions import Asks
from ..memory.running_turn import Turn
from ..memory.salience.compress import SECONDS, Compressed, Due, failed, outgrown, quote_tokens
from ..memory.salience.compress import compress as compress_effort
from ..memory.settings import Settings, resolve
from ..memory.view import view_at
from .ask import Models, QuestionCost, adrive, drive
from .turn.parts import AgentParts
from .turn.state import TurnState
from .turn.tracing import trace_metadata
from .turn.turn import hold, running_turn
from .turn.updates import streamed_update, with_costs

_log = logging.getLogger("ebbtide.compression")


def compress(state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts) -> dict[str, Any]:
    """Compress at most one open effort; if that fails or takes too long, the turn goes on."""
    costs: list[QuestionCost] = []
    models, about = _models(runtime, parts), trace_metadata(state)
    steps = _steps(state, runtime, parts, models, costs)
    return drive(steps, models, costs.append, about=about, seconds=SECONDS)


async def acompress(
    state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts
) -> dict[str, Any]:
    """Do what `compress` does, without blocking a thread while a model answers."""
    costs: list[QuestionCost] = []
    models = await asyncio.to_thread(_models, runtime, parts)  # making one reads files
    steps, about = _steps(state, runtime, parts, models, costs), trace_metadata(state)
    return await adrive(steps, models, costs.append, about=about, seconds=SECONDS)


def _models(runtime: Runtime[Settings], parts: AgentParts) -> Models:
    """Return the models of this run: the agent's, if one that the run names cannot be made."""
    try:
        return parts.models_of(resolve(runtime.context, parts.settings))
    except SettingsError as error:
        _log.warning("the agent's own models compress: %s", error)
        return parts.models


def _steps(
    state: TurnState,
    runtime: Runtime[Settings],
    parts: AgentParts,
    models: Models,
    costs: Sequence[QuestionCost],
) -> Asks[dict[str, Any]]:
    """Compress the effort that is due; `costs` collects the costs of this pass.

    A run that was resumed here finds what it stored before, and then none is due.
    """
    work = running_turn(state, runtime, parts)
    due = outgrown(work)
    if due is None:
        return {"due": False}
    effort, tell = due.effort.id, runtime.stream_writer
    tell({"compression": {"effort": effort, "status": "started"}})
    try:
        at_once = models["extraction"] is models["background"]
        step = yield from compress_effort(work, due, parts.similarity, at_once=at_once)
        after, status = _stored(work, due, step, costs), "done"
    except (OSError, ArchiveError) as error:
        reason = f"{type(error).__name__}: {error}"
        _log.warning("%r was not compressed: %s", effort, reason)
        after, status = failed(work, effort, reason), "failed"
    hold(replace(work, read_at=-inf), parts)  # the next node reads what was stored
    tell({"compression": {"effort": effort, "status": status}})
    update = streamed_update(work.efforts, with_costs(after, costs).efforts, runtime)
    return {**update, "due": False}


def _stored(work: Turn, due: Due, step: Compressed, costs: Sequence[QuestionCost]) -> Turn:
    """Store the compression with the log of its making; return the turn after it.

    Raises `ArchiveError` if nothing was made, or if a turn that the pass read was erased.
    """
    effort, view = due.effort.id, view_at(work.view.archive, work.view.session, work.view.tip)
    old, numbers = view.compression(effort), [turn.number for turn in due.leaving]
    outdated = old is not None and old.stale and old != due.old
    if outdated or view.turns_of(effort, numbers) != due.leaving:
        raise ArchiveError("a turn was erased in the meantime")
    tokens = {"before": due.live}
    if step.made is not None:
        tokens["after"] = due.kept + quote_tokens(work, step.made)
    log = {**step.told, "calls": [cost.as_data() for cost in costs], "tokens": tokens}
    entry = ExtractionEntry(effort, view.tip.id, view.tip.turn, tuple(numbers), stamp(), log)
    made = view.archive.commit_compression(view.session, entry, step.made)
    if made is None:
        raise ArchiveError(step.told["failed"])
    tokens["after"] = due.kept + quote_tokens(work, made)
    if "failed" in step.told:
        _log.warning("%r: the background stays as it was: %s", effort, step.told["failed"])
    if "fallback" in step.told:
        _log.warning("%r: only its core is quoted: %s", effort, step.told["fallback"])
    counts = {
        "fallback": "fallback" in step.told,
        "fabricated": sum(quote["verdict"] == "fabricated" for quote in step.told["quotes"]),
    }
    event = {"type": "compressed", "effort": effort, "turn": made.turn, "through": made.through}
    event |= {"method": made.method, "tokens": tokens}
    event |= {name: value for name, value in counts.items() if value}
    turns = span(next(iter(view.log_turns(effort)), made.through), made.through)
    line = banner_of("shortened", effort=effort, turns=turns)
    return work.put(happened(work.efforts, event, line))
