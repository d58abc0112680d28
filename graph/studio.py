"""The graph for LangGraph Studio and the server, which bring their own checkpointer."""

import asyncio
import os
import threading
from functools import cache
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph

from ..memory.archive.sql import SqlArchive
from .agent import create_memory_agent
from .config import load, redis_attention
from .models import choose_model

# `cache` does not lock: two first requests would each build an agent with its own archive.
_building = threading.Lock()


async def make_graph(_config: RunnableConfig) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the agent for a server: the same one for every run, with one archive.

    Model, settings and the archive's folder come from `ebbtide.yaml` and the environment; attention
    is cached on Redis if EBBTIDE_REDIS_URL is set. Raises `SettingsError` for invalid settings, and
    the provider's error if the model cannot be made.
    """

    def build_once() -> CompiledStateGraph[Any, Any, Any, Any]:
        with _building:
            return _built()

    return await asyncio.to_thread(build_once)  # reading files blocks the event loop


@cache
def _built() -> CompiledStateGraph[Any, Any, Any, Any]:
    config = load({})
    # A server keeps its checkpoints in its working directory, so the archive is there too.
    archive = SqlArchive(config.root if "root" in config.sources else "sessions")
    return create_memory_agent(
        choose_model(config.model, os.environ),
        archive=archive,
        settings=config.settings,
        attention=redis_attention(archive, config.settings, os.environ),
    )
