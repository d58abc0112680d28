"""Ebbtide's two ways to quote, as strategies."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ebbtide.evaluation.strategies import ProtectedCore, SelectiveSalience, recent
from ebbtide.evaluation.strategy_protocol import Context, StrategyInputs, as_messages, as_text
from ebbtide.evaluation.template import SHIPPED, Template, TemplateTurn, read_template, stands_in
from tests.doubles import ScriptedModel

QUOTED = "The limit of 25 requests a minute was set when we began."
INVENTED = "The moon is made of green cheese, and that is a constraint."
SUPPORT = read_template("long-support-case")


def items(*quotes: str) -> dict[str, Any]:
    """Return what a model extracts."""
    return {"new": [{"quote": quote, "kind": "fact"} for quote in quotes]}


def begun(made: type[ProtectedCore], template: Template, model: ScriptedModel) -> ProtectedCore:
    """Return a strategy that was told the goal of a template."""
    strategy = made(StrategyInputs(model, None, Path()))
    setup = template.initial_setup
    strategy.initialize(setup.original_goal, setup.hard_constraints)
    return strategy


def contexts(strategy: ProtectedCore, template: Template) -> list[Context]:
    """Return the context at each point."""
    return [strategy.compress(template.until(point.turn_id)) for point in template.points]


def end_of(turns: Sequence[TemplateTurn]) -> str:
    """Return the last exchanges as they are shown."""
    return as_text(as_messages(recent(turns)))


@pytest.mark.parametrize("name", SHIPPED)
def test_the_core_quotes_without_a_model(name: str) -> None:
    """Every quote of the core stands in a turn, the end stays as it is, and no model is asked."""
    template, model = read_template(name), ScriptedModel()
    compressed = contexts(begun(ProtectedCore, template, model), template)
    heard = [template.until(point.turn_id) for point in template.points]
    pairs = [*zip(compressed, heard, strict=True)]

    assert all(stands_in(quote, turns) for one, turns in pairs for quote in one.quotes or ())
    assert all(as_text(one.messages).endswith(end_of(turns)) for one, turns in pairs)
    assert model.sent + model.asked == []


def test_a_model_chooses() -> None:
    """What the model quotes stands in the context, what it makes up is dropped and counted."""
    model = ScriptedModel(structured=[items(QUOTED, INVENTED)], answers=["All is well."])
    context = begun(SelectiveSalience, SUPPORT, model).compress(SUPPORT.until(16))
    text = as_text(context.messages)

    assert context.quotes == (QUOTED,)
    assert [(one.quote, one.verdict) for one in context.chosen] == [
        (QUOTED, "verbatim"),
        (INVENTED, "fabricated"),
    ]
    assert context.fallbacks == 0
    assert QUOTED in text
    assert "background: All is well." in text
    assert INVENTED not in text


def test_rules_step_in() -> None:
    """If the extraction fails or quotes nothing real, the core is quoted and that is counted."""
    failing = ScriptedModel(structured=lambda _: OSError("gone"), answers=["All is well."])
    inventing = ScriptedModel(structured=[items(INVENTED)], answers=["All is well."])
    turns = SUPPORT.until(16)
    core = begun(ProtectedCore, SUPPORT, ScriptedModel()).compress(turns)
    models = (failing, inventing)
    outcomes = [begun(SelectiveSalience, SUPPORT, one).compress(turns) for one in models]

    assert [context.quotes for context in outcomes] == [core.quotes] * 2
    assert [context.fallbacks for context in outcomes] == [1, 1]
    assert [len(context.chosen) for context in outcomes] == [0, 1]


def test_without_a_background_the_quotes_stand() -> None:
    """If the background cannot be written, the quotes stand without one, as in the agent."""
    model = ScriptedModel(structured=[items(QUOTED)], answers=[OSError("gone")])
    strategy = begun(SelectiveSalience, SUPPORT, model)

    context = strategy.compress(SUPPORT.until(16))

    assert (context.quotes, context.fallbacks) == ((QUOTED,), 1)
    assert "background: " not in as_text(context.messages)
