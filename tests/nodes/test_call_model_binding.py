"""The model with its tools, and how each provider is told to call none."""

from pathlib import Path
from typing import Any

import pytest

from tests.doubles import ScriptedModel, Sent
from tests.nodes.model_calls import a_call


def sent(root: Path, kind: str, *, last: bool) -> Sent:
    """Return what a model of this kind is sent."""
    model = ScriptedModel(answers=["ok"], kind=kind)
    a_call(root, {}, model=model, limit=9 if last else None).request[0].invoke("hi")
    return model.sent[0]


@pytest.mark.parametrize(
    ("kind", "choice"),
    [("openai-chat", "none"), ("scripted", "none"), ("anthropic-chat", {"type": "none"})],
)
def test_the_last_call_is_told_to_call_none(tmp_path: Path, kind: str, choice: Any) -> None:
    """The last call has the same tools, and "none" in the form of its provider."""
    found = sent(tmp_path, kind, last=True)

    assert found.tool_choice == choice
    assert found.tool_names == sent(tmp_path, kind, last=False).tool_names
