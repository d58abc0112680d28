"""Choosing the chat model: by name, by a key, or the scripted one."""

from typing import Any

import pytest
from langchain_openai import ChatOpenAI

from ebbtide.graph.agent import create_memory_agent
from ebbtide.graph.build import MemoryGraph
from ebbtide.graph.models import SCRIPTED, choose_model
from ebbtide.memory.errors import SettingsError
from ebbtide.memory.settings import Settings
from ebbtide.nodes.turn.parts import AgentParts
from ebbtide.testing import ScriptedModel

WITHOUT_A_KEY: dict[str, str] = {}


def test_the_scripted_model_is_chosen_by_its_name(caplog: pytest.LogCaptureFixture) -> None:
    """Who asks for it gets it, whatever keys there are, and no warning."""
    model = choose_model(SCRIPTED, {"OPENAI_API_KEY": "x"})

    assert (type(model), caplog.messages) == (ScriptedModel, [])


def test_without_name_and_key_it_is_the_scripted_model(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nobody chose it, so a warning says what answers."""
    model = choose_model(None, WITHOUT_A_KEY)

    assert type(model) is ScriptedModel
    assert ["the scripted model answers by rules" in line for line in caplog.messages] == [True]


def test_without_a_name_a_key_chooses_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its small model is the default."""
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    model = choose_model(None, {"OPENAI_API_KEY": "x"})

    assert isinstance(model, ChatOpenAI)
    assert model.model_name == "gpt-5-mini"


def test_a_name_chooses_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is named is taken, without a key in the environment that chooses."""
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    model = choose_model("openai:gpt-5", WITHOUT_A_KEY)

    assert isinstance(model, ChatOpenAI)
    assert model.model_name == "gpt-5"


def parts(**options: Any) -> AgentParts:
    """Return what an agent works with."""
    agent = create_memory_agent(ScriptedModel(), **options)
    assert isinstance(agent.builder, MemoryGraph)
    return agent.builder.parts


def test_settings_name_the_two_models_of_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the agent or of one run; a model that was given as an argument wins."""
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    pair = Settings(extraction_model="openai:gpt-4o", compression_model="openai:gpt-4o-mini")
    given = ScriptedModel()

    one = Settings(extraction_model="openai:gpt-4o", compression_model="openai:gpt-4o")

    def names(made: AgentParts, settings: Settings) -> list[str]:
        models = made.models_of(settings)
        two = [models["extraction"], models["background"]]
        return [getattr(model, "model_name", "scripted") for model in two[: len({*map(id, two)})]]

    assert names(parts(settings=pair), pair) == ["gpt-4o", "gpt-4o-mini"]
    assert names(parts(), pair) == ["gpt-4o", "gpt-4o-mini"]
    assert names(parts(), one) == ["gpt-4o"]
    assert names(parts(), Settings()) == ["scripted"]
    assert names(parts(extraction_model=given), pair) == ["scripted", "gpt-4o-mini"]


def test_a_name_of_no_model_is_an_error_of_the_settings() -> None:
    """It is told when the agent is made, and not when the first effort has grown long."""
    with pytest.raises(SettingsError, match="extraction_model 'nobody:x' cannot be used"):
        parts(settings=Settings(extraction_model="nobody:x"))
