"""Chat models as applications configure them: `bind`, `with_config`, `configurable_fields`."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import ConfigurableField
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import DiskArchive
from tests.agents import ENTRIES
from tests.openai_server import Say
from tests.provider_server import ProviderServer, provided

CONFIG: Any = {"configurable": {"thread_id": "t", "model": "gpt-5-mini"}}


class Tags(BaseCallbackHandler):
    """Notes the tags of each call of a model."""

    def __init__(self) -> None:
        """Begin with none."""
        self.seen: set[str] = set()

    def on_chat_model_start(self, *_: Any, tags: Any = None, **__: Any) -> None:
        """Note them."""
        self.seen.update(tags or ())


def asked(root: Path, entry: str, model: Any, server: ProviderServer, **config: Any) -> Any:
    """Ask one question, and return the request that the provider got."""
    archive, saver = DiskArchive(root, durable=False), InMemorySaver()
    agent = ENTRIES[entry](model, archive=archive, checkpointer=saver)
    chosen: Any = {**CONFIG, **config}
    agent.invoke({"messages": "Who are you?"}, chosen)
    return server.bodies[-1]


@pytest.mark.parametrize("entry", ENTRIES)
def test_what_was_bound_is_sent(tmp_path: Path, entry: str) -> None:
    """Complaint row 35: arguments of `bind` and tags of `with_config` stay."""
    tags = Tags()
    with provided(Say("Hello.")) as server:
        bound: Any = server.model("openai").bind(parallel_tool_calls=False, stop=["END"])
        model = bound.with_config(tags=["billing"])
        body = asked(tmp_path, entry, model, server, callbacks=[tags])

    assert body["parallel_tool_calls"] is False
    assert body["stop"] == ["END"]
    assert "open_effort" in str(body["tools"])
    assert "billing" in tags.seen


@pytest.mark.parametrize("entry", ENTRIES)
def test_run_chooses_a_configurable_model(tmp_path: Path, entry: str) -> None:
    """The run's config says which model a configurable one is."""
    with provided(Say("Hello.")) as server:
        field = ConfigurableField(id="model")
        model = server.model("openai").configurable_fields(model_name=field)
        body = asked(tmp_path, entry, model, server)

    assert body["model"] == "gpt-5-mini"


@pytest.mark.parametrize("entry", ENTRIES)
def test_model_with_fallbacks_takes_the_tools(tmp_path: Path, entry: str) -> None:
    """`with_fallbacks` works as it does in `create_agent`."""
    with provided(Say("Hello.")) as server:
        broken = server.model("anthropic").model_copy(update={"max_retries": 0})
        model = broken.with_fallbacks([server.model("openai")])
        body = asked(tmp_path, entry, model, server)

    assert "open_effort" in str(body["tools"])
