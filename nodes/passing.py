"""One pass that compresses: what it asks which model, and what becomes of what it made."""

import logging
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, TypeAlias, cast

from langgraph.runtime import Runtime

from ..memory import banners
from ..memory.clock import stamp
from ..memory.compressing import Compressed, Reply, Request, advance, compress
from ..memory.context.rebuild import rebuilt
from ..memory.context.timeline import packed as packed_line
from ..memory.desk import Desk
from ..memory.due import Due, adoptable, due, standing, stored
from ..memory.errors import ArchiveError, SalienceError
from ..memory.extraction import ExtractionRequest
from ..memory.numbers import span
from ..memory.salience import Compression, ExtractionEntry
from ..memory.settings import Settings
from ..memory.transitions import happened
from .collaborators import Collaborators
from .extracting import Ask, background, extraction
from .session import desk_at_rest, packed, running, view_after
from .state import TurnState

_log = logging.getLogger("ebbtide.compression")

_KEYS = ("compressed", "events", "banners")


@dataclass(frozen=True, slots=True)
class Passed:
    """What a pass leaves: the update of the state, and the banner that tells of it."""

    update: dict[str, Any] = field(default_factory=dict)
    banner: str = ""


Passing: TypeAlias = Generator[Ask, Reply | SalienceError | None, Passed]
"""Yields what is to be asked, is sent the answers or why there is none."""


def passing(state: TurnState, runtime: Runtime[Settings], collaborators: Collaborators) -> Passing:
    """Compress the effort that is due, if one is, and keep what was made in the archive.

    The turn is committed by now, so whatever the archive raises is logged, and nothing changes. The
    context goes on as after any other turn if nothing was made.
    """
    try:
        desk = desk_at_rest(state, runtime, collaborators)
        passed = yield from _compressed(desk, collaborators)
        if passed.update:
            return passed
        with collaborators.archive.together():
            return Passed(view_after(desk, running(state)))
    except (OSError, ArchiveError) as error:
        _log.warning("nothing was compressed: %s: %s", type(error).__name__, error)
        return Passed()


def _compressed(desk: Desk, collaborators: Collaborators) -> Passing:
    with collaborators.archive.together():
        kept = stored(desk)
        made = adoptable(desk, kept)
        if made is not None:
            return _shown(desk, made, {})
        found = due(desk, kept)
    return (yield from _passed(desk, found, collaborators)) if found else Passed()


def taken(steps: Passing, reply: Reply | SalienceError | None) -> Ask | Passed:
    """Take the next step, with the reply to what was asked."""
    try:
        return steps.send(reply)
    except StopIteration as end:
        return cast("Passed", end.value)


def _passed(desk: Desk, found: Due, collaborators: Collaborators) -> Passing:
    calls: list[dict[str, Any]] = []
    steps = compress(desk, found, collaborators.alike)
    step = advance(steps, None)
    while not isinstance(step, Compressed):
        asked = _asked(step, desk.settings, collaborators)
        begun = monotonic()
        reply = yield asked
        calls.append(_call(asked, reply, monotonic() - begun))
        step = advance(steps, reply)
    return _kept(desk, found, step, calls)


def _asked(request: Request, settings: Settings, collaborators: Collaborators) -> Ask:
    if isinstance(request, ExtractionRequest):
        return extraction(collaborators.extraction_model, request, settings)
    return background(collaborators.compression_model, request, settings)


def _call(asked: Ask, reply: Reply | SalienceError | None, seconds: float) -> dict[str, Any]:
    """Return what the log says of a call."""
    model = asked.model
    name = getattr(model, "model_name", None) or getattr(model, "model", None)
    named = str(name or type(model).__name__)
    said = {"what": asked.what, "model": named, "seconds": round(seconds, 3)}
    return {**said, "failed": str(reply)} if isinstance(reply, SalienceError) else said


def _kept(desk: Desk, found: Due, step: Compressed, calls: Sequence[Mapping[str, Any]]) -> Passed:
    """Keep what was made, and log how."""
    made = step.made
    tokens = {"before": found.live}
    if made is not None:
        made = desk.view.archive.commit_compression(desk.view.owner, desk.view.tip, made)
        tokens["after"] = found.kept + standing(desk, made)
    _noted(desk, found, {**step.told, "calls": [*calls], "tokens": tokens})
    if made is None:
        _log.warning("%r was not compressed: %s", found.effort.id, step.told["failed"])
        return Passed()
    if "fallback" in step.told:
        _log.warning("%r: only its core is quoted: %s", found.effort.id, step.told["fallback"])
    return _shown(desk, made, {**_counted(step), "tokens": tokens})


def _counted(step: Compressed) -> dict[str, Any]:
    """Return what the event says of a fallback and of quotes that were made up, if it has any."""
    fallback = {"fallback": True} if "fallback" in step.told else {}
    fabricated = sum(quote["verdict"] == "fabricated" for quote in step.told["quotes"])
    return {**fallback, **({"fabricated": fabricated} if fabricated else {})}


def _noted(desk: Desk, found: Due, told: Mapping[str, Any]) -> None:
    """Log how a compression was made; what was made is kept, whatever becomes of the log."""
    tip = desk.view.tip
    entry = ExtractionEntry(
        effort=found.effort.id,
        branch=tip.branch,
        turn=tip.turn,
        turns=tuple(record.turn for record in found.leaving),
        at=stamp(),
        told=told,
    )
    try:
        desk.view.archive.log_extraction(desk.view.owner, entry)
    except (OSError, ArchiveError) as error:
        _log.warning("the extraction was not logged: %s: %s", type(error).__name__, error)


def _shown(desk: Desk, made: Compression, more: Mapping[str, Any]) -> Passed:
    event = {
        "type": "compressed",
        "effort": made.effort,
        "turn": made.turn,
        "through": made.through,
        "method": made.method,
        **more,
    }
    first = next(iter(desk.view.log_turns(made.effort)), made.through)
    banner = banners.compressed(made.effort, span(first, made.through))
    desk = desk.put(happened(desk.space, event, banner))
    update, line = packed(desk.space), rebuilt(desk, "compressed", desk.line)
    return Passed({key: update[key] for key in _KEYS} | {"view": packed_line(line)}, banner)
