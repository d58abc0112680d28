"""Calls of the model, as tests of what they are and of what comes back need them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from langgraph.runtime import Runtime

from ebbtide import DiskArchive, Settings, build_memory_graph
from ebbtide.nodes.call_model import Call
from ebbtide.nodes.turn.state import TurnState
from tests.doubles import ScriptedModel


def a_call(
    root: Path,
    state: Mapping[str, Any],
    *,
    model: ScriptedModel | None = None,
    limit: int | None = None,
    **update: Any,
) -> Call:
    """Return a call of the model of an agent; `update` is what it changes in the state."""
    with DiskArchive(root, durable=False) as archive:
        parts = build_memory_graph(model or ScriptedModel(), archive=archive).parts
    update.setdefault("context_report", {"total": 9})
    settings = Settings()
    runtime = Runtime(context=settings)
    return Call(cast("TurnState", state), runtime, parts, settings, [], {}, limit, update)
