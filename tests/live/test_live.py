"""The journeys with a real model, which needs a key and costs money: `make live`."""

import os
from pathlib import Path

import pytest
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel

from tests.live.journeys import JOURNEYS, Journey, broken

HOW = "set OPENAI_API_KEY, or EBBTIDE_LIVE_MODEL (such as openai:gpt-5-mini) and its provider's key"


@pytest.fixture(scope="session")
def model() -> BaseChatModel:
    """Return the model that the environment names, before a test cleans the environment."""
    named = os.environ.get("EBBTIDE_LIVE_MODEL")
    if not named and not os.environ.get("OPENAI_API_KEY"):
        pytest.skip(HOW)
    return init_chat_model(named or "openai:gpt-5-mini")


@pytest.mark.live
@pytest.mark.parametrize("journey", JOURNEYS, ids=[journey.__name__ for journey in JOURNEYS])
def test_a_real_model_goes_the_way(model: BaseChatModel, tmp_path: Path, journey: Journey) -> None:
    """Everything that the journey claims holds."""
    claims = journey(model, tmp_path)

    assert broken(claims) == []
