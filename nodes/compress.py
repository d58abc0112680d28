"""Shorten an open effort that has outgrown its share of the context."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from langgraph.runtime import Runtime

from ..memory.compressions import Compression, ExtractionEntry
from ..memory.dates import stamp
from ..memory.errors import ArchiveError, SettingsError
from ..memory.questions import Asks
from ..memory.running_turn import RunningTurn
from ..memory.salience.compress import Compressed, Due, quote_tokens, to_do
from ..memory.salience.compress import compress as compress_effort
from ..memory.settings import Settings, resolve
from .ask import Models, QuestionCost, adrive, drive
from .turn.parts import AgentParts
from .turn.state import TurnState
from .turn.tracing import trace_metadata
from .turn.turn import load_turn
from .turn.updates import compression_update

_log = logging.getLogger("ebbtide.compression")


def compress(state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts) -> dict[str, Any]:
    """Compress at most one open effort; a failure changes nothing."""
    costs: list[QuestionCost] = []
    steps, models = _steps(state, runtime, parts, costs), _models(runtime, parts)
    return drive(steps, models, costs.append, about=trace_metadata(state))


async def acompress(
    state: TurnState, runtime: Runtime[Settings], *, parts: AgentParts
) -> dict[str, Any]:
    """Do what `compress` does, without blocking a thread while a model answers."""
    costs: list[QuestionCost] = []
    steps = _steps(state, runtime, parts, costs)
    models = await asyncio.to_thread(_models, runtime, parts)  # making one reads files
    return await adrive(steps, models, costs.append, about=trace_metadata(state))


def _models(runtime: Runtime[Settings], parts: AgentParts) -> Models:
    """Return the models of this run: the agent's, if one that the run names cannot be made."""
    try:
        return parts.models_of(resolve(runtime.context, parts.settings))
    except SettingsError as error:
        _log.warning("the agent's own models compress: %s", error)
        return parts.models


def _steps(
    state: TurnState, runtime: Runtime[Settings], parts: AgentParts, costs: Sequence[QuestionCost]
) -> Asks[dict[str, Any]]:
    """Compress the effort that is due, if there is one; `costs` collects the costs of this pass.

    The turn is committed by now, so an error of the archive is logged, and nothing changes.
    """
    update: dict[str, Any] = {}
    try:
        work = load_turn(state, runtime, parts)
        update = yield from _compressed(work, parts, costs, runtime.stream_writer)
        if update:
            runtime.stream_writer({"banner": update["banners"][-1]})
    except (OSError, ArchiveError) as error:
        _log.warning("nothing was compressed: %s: %s", type(error).__name__, error)
    if costs:  # known even if nothing came of the questions
        events = update.get("events", state.get("events", ()))
        update = {**update, "events": [*events, *(cost.as_event() for cost in costs)]}
    return {**update, "due": False}


def _compressed(
    work: RunningTurn, parts: AgentParts, costs: Sequence[QuestionCost], tell: Callable[[Any], None]
) -> Asks[dict[str, Any]]:
    """Show a compression that is stored already, or make the one that is due; stream its status."""
    with parts.archive.together():
        due = to_do(work)
        if isinstance(due, Compression):
            return compression_update(work, due, {})
    if due is None:
        return {}
    effort = {"effort": due.effort.id}
    tell({"compression": {**effort, "status": "started"}})
    try:
        step = yield from compress_effort(work, due, parts.similarity)
        with parts.archive.together():
            update = _stored(work, due, step, costs)
    except (OSError, ArchiveError):
        tell({"compression": {**effort, "status": "failed"}})
        raise
    tell({"compression": {**effort, "status": "done" if update else "failed"}})
    return update


def _stored(
    work: RunningTurn, due: Due, step: Compressed, costs: Sequence[QuestionCost]
) -> dict[str, Any]:
    """Store the compression and log its making; do neither if a turn that it read was erased."""
    effort, view = due.effort.id, work.view
    old = view.compression(effort)
    outdated = old is not None and old.stale and old != due.old
    if outdated or view.turns_of(effort, [turn.turn for turn in due.leaving]) != due.leaving:
        _log.warning("%r was not compressed: a turn was erased in the meantime", effort)
        return {}
    compression, tokens = step.made, {"before": due.live}
    if compression is not None:
        compression = view.archive.commit_compression(view.owner, view.tip, compression)
        tokens["after"] = due.kept + quote_tokens(work, compression)
    log = {**step.told, "calls": [cost.as_data() for cost in costs], "tokens": tokens}
    turns = tuple(record.turn for record in due.leaving)
    entry = ExtractionEntry(effort, view.tip.id, view.tip.turn, turns, stamp(), log)
    try:  # the compression is kept even if its log cannot be written
        view.archive.log_extraction(view.owner, entry)
    except (OSError, ArchiveError) as error:
        _log.warning("the extraction was not logged: %s: %s", type(error).__name__, error)
    if compression is None:
        _log.warning("%r was not compressed: %s", effort, step.told["failed"])
        return {}
    if "failed" in step.told:
        _log.warning("%r: the background stays as it was: %s", effort, step.told["failed"])
    if "fallback" in step.told:
        _log.warning("%r: only its core is quoted: %s", effort, step.told["fallback"])
    counts = {
        "fallback": "fallback" in step.told,
        "fabricated": sum(quote["verdict"] == "fabricated" for quote in step.told["quotes"]),
        "left_out": step.told.get("left_out", 0),
    }
    details = {name: value for name, value in counts.items() if value}
    shown = {**details, "tokens": tokens}
    return compression_update(work, compression, shown)
