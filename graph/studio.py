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

# Without it two first requests would each build an agent, with an archive of its own.
_building = threading.Lock()


async def make_graph(_config: RunnableConfig) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the agent for a server: the same one for every run, with one archive.

    The model comes from EBBTIDE_MODEL, else it is OpenAI's if its key is set, else the offline one;
    attention is cached on Redis if EBBTIDE_REDIS_URL names a server; settings and the archive's
    place come from `ebbtide.yaml` and the environment. Raises `SettingsError` if the settings, and
    what the provider raises if the model, cannot be.
    """

    def build_once() -> CompiledStateGraph[Any, Any, Any, Any]:
        with _building:  # however many runs ask at the same time
            return _built()

    return await asyncio.to_thread(build_once)  # it reads files, which would hold the event loop


@cache
def _built() -> CompiledStateGraph[Any, Any, Any, Any]:
    config = load({}, environment=os.environ)
    # A server keeps its checkpoints where it was started, so the archive lies there too.
    archive = SqlArchive(config.root if "root" in config.given else "sessions")
    return create_memory_agent(
        choose_model(config.model, os.environ),
        archive=archive,
        settings=config.settings,
        attention=redis_attention(archive, config.settings, os.environ),
    )
