"""The peers, driven with a scripted model: they compress when they are told to."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ebbtide.evaluation.harness import size
from ebbtide.evaluation.strategies import DeepAgents, LangMem, Middleware, StrategyError, select
from ebbtide.evaluation.strategy_protocol import StrategyInputs, as_messages, transcript
from ebbtide.evaluation.template import Template, read_template
from tests.doubles import ScriptedModel

PACKAGES = ("langmem", "deepagents")


def summary(_messages: object) -> str:
    """Return what a peer keeps of what it summarises."""
    return "They paint."


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # what peers import


def needs(package: str) -> pytest.MarkDecorator:
    """Skip a test if a peer is not installed."""
    missing = find_spec(package) is None
    return pytest.mark.skipif(missing, reason="pip install 'ebbtide[bench]'")


def points(made: Any, template: Template, folder: Path) -> list[Any]:
    """Return the context of a peer at each point of a template."""
    strategy = made(StrategyInputs(ScriptedModel(answers=summary), None, folder))
    strategy.initialize("Paint.", [])
    strategy.update_goal("Rest.", "It rains.", 1)
    return [strategy.compress(template.until(point.turn_id)) for point in template.points]


@pytest.mark.parametrize(
    "made",
    [
        Middleware,
        pytest.param(DeepAgents, marks=needs("deepagents")),
    ],
)
def test_a_summary_and_the_last_messages(tmp_path: Path, made: Any) -> None:
    """What is left is one summary and the last six messages, word for word, at every point."""
    template = read_template("long-support-case")
    contexts = points(made, template, tmp_path)
    ends = [as_messages(template.until(point.turn_id))[-6:] for point in template.points]

    assert [transcript(one.messages[-6:]) for one in contexts] == [transcript(end) for end in ends]
    assert [transcript(one.messages).count("They paint.") for one in contexts] == [1] * len(ends)
    assert [(len(one.messages), one.quotes) for one in contexts] == [(7, None)] * len(ends)


@needs("langmem")
def test_langmem_stays_within_its_tokens(tmp_path: Path) -> None:
    """The node summarises once there are more tokens than it was told, and keeps the end."""
    template = read_template("coding-session")
    contexts = points(LangMem, template, tmp_path)
    end = as_messages(template.turns)[-1:]

    assert transcript(contexts[-1].messages).endswith(transcript(end))
    assert all("They paint." in transcript(context.messages) for context in contexts)
    assert max(size(context.messages) for context in contexts) < 2_000


@pytest.mark.parametrize("name", PACKAGES)
def test_a_peer_that_is_not_installed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install is said before anything runs."""
    monkeypatch.setattr("ebbtide.evaluation.strategies.find_spec", lambda _: None)

    with pytest.raises(StrategyError, match=r"needs .+: pip install 'ebbtide\[bench\]'"):
        select([name])
