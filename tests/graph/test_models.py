"""Choosing the chat model: by name, by a key, or the scripted one."""

import pytest
from langchain_openai import ChatOpenAI

from ebbtide.graph.models import SCRIPTED, choose_model
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
