"""Ebbtide's two ways to quote, as strategies."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ebbtide.evaluation.strategies import ProtectedCore, SelectiveSalience, groups, recent
from ebbtide.evaluation.strategy_protocol import Context, StrategyInputs, as_messages, transcript
from ebbtide.evaluation.template import SHIPPED, Template, TemplateTurn, read_template, stands_in
from ebbtide.memory.efforts import one_line
from ebbtide.memory.search.embeddings import Embedder
from tests.doubles import Concepts, ScriptedModel
from tests.evaluation.conversations import NEWER as NEWER_PORT
from tests.evaluation.conversations import PORT, shed

RULE = "Whatever you do, do not cancel or change any order that a customer has already paid."
QUOTED = "The limit of 25 requests a minute was set when we began."
NEWER = "The platform team has raised your limit to 40 requests a minute as of 11:20 today."
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
    return transcript(as_messages(recent(turns)))


def test_without_embeddings_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The results say how quotes are compared, so a trial need not."""
    contexts(begun(ProtectedCore, SUPPORT, ScriptedModel()), SUPPORT)

    assert caplog.messages == []


@pytest.mark.parametrize("name", SHIPPED)
def test_the_core_quotes_without_a_model(name: str) -> None:
    """Every quote of the core stands in a turn, the end stays as it is, and no model is asked."""
    template, model = read_template(name), ScriptedModel()
    compressed = contexts(begun(ProtectedCore, template, model), template)
    heard = [template.until(point.turn_id) for point in template.points]
    pairs = [*zip(compressed, heard, strict=True)]

    assert all(stands_in(quote, turns) for one, turns in pairs for quote in one.quotes or ())
    assert all(transcript(one.messages).endswith(end_of(turns)) for one, turns in pairs)
    assert model.sent + model.asked == []


def test_goal_and_constraints_are_shown() -> None:
    """The context begins with the goal and the constraints that the strategy was told."""
    strategy = begun(ProtectedCore, SUPPORT, ScriptedModel())
    first = strategy.compress(SUPPORT.until(16)).messages[0].text

    assert SUPPORT.initial_setup.original_goal in first
    assert RULE in first


def test_a_new_goal_is_shown() -> None:
    """After a change the context says the new goal."""
    template = shed()
    strategy = begun(ProtectedCore, template, ScriptedModel())
    strategy.compress(template.until(8))
    strategy.update_goal("Paint the fence.", "The shed is gone.", 17)
    context = strategy.compress(template.turns)

    assert "Goal: Paint the fence." in context.messages[0].text


def test_the_reason_of_a_new_goal_is_that_of_its_turn() -> None:
    """A reason that was said twice is quoted from the turn that changed the goal."""
    words = ["Hello.", "The shed is gone.", "You must be quick.", "The shed is gone."]
    said = ({"turn_id": at, "role": "user", "content": one} for at, one in enumerate(words, 1))
    strategy = ProtectedCore(StrategyInputs(ScriptedModel(), None, Path()))
    strategy.initialize("Paint the shed.", [])
    strategy.update_goal("Paint the fence.", "The shed is gone.", 2)

    context = strategy.compress([TemplateTurn.model_validate(one) for one in said])

    assert context.quotes == ("The shed is gone.", "You must be quick.")


def test_what_is_recent_is_not_quoted_beside_itself() -> None:
    """Quotes of the recent exchanges count as quotes and stand in the context once."""
    strategy = begun(ProtectedCore, SUPPORT, ScriptedModel())
    context = strategy.compress(SUPPORT.until(16))
    text = one_line(transcript(context.messages[1:]))
    late = [one for one in context.quotes or () if stands_in(one, recent(SUPPORT.until(16)))]

    assert RULE in (context.quotes or ())
    assert all(text.count(one_line(quote)) == 1 for quote in late)


def test_a_model_chooses() -> None:
    """What the model quotes stands in the context, what it makes up is dropped and counted."""
    model = ScriptedModel(structured=[items(QUOTED, INVENTED)], answers=["All is well."])
    context = begun(SelectiveSalience, SUPPORT, model).compress(SUPPORT.until(16))
    text = transcript(context.messages)

    assert context.quotes == (QUOTED,)
    assert [(one.quote, one.verdict) for one in context.chosen] == [
        (QUOTED, "verbatim"),
        (INVENTED, "fabricated"),
    ]
    assert context.fallbacks == 0
    assert QUOTED in text
    assert "background: All is well." in text
    assert INVENTED not in text


def test_only_new_turns_are_read() -> None:
    """At the second point the model reads what was said since the first, and keeps its quotes."""
    structured = [items(QUOTED), items(NEWER)]
    model = ScriptedModel(structured=structured, answers=["All is well."] * 2)
    strategy = begun(SelectiveSalience, SUPPORT, model)
    strategy.compress(SUPPORT.until(16))
    context = strategy.compress(SUPPORT.until(30))
    log = model.asked[1].text

    assert context.quotes == (QUOTED, NEWER)
    assert "How long does it take for 412 of them?" in log
    assert "Can you raise it yourself?" not in log


def test_a_newer_number_supersedes_an_older_one() -> None:
    """A quote takes the place of the older one that it says it revises."""
    template = shed()
    revising = {"new": [{"quote": NEWER_PORT, "kind": "fact", "replaces": [1]}]}
    model = ScriptedModel(structured=[items(PORT), revising], answers=["All is well."])
    first, second = contexts(begun(SelectiveSalience, template, model), template)

    assert (first.quotes, second.quotes) == ((PORT,), (NEWER_PORT,))


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
    assert "background: " not in transcript(context.messages)


def test_embeddings_are_used_if_there_are_any() -> None:
    """With an embedding model what is quoted is compared by meaning."""
    model = Concepts()
    strategy = ProtectedCore(StrategyInputs(ScriptedModel(), Embedder(model), Path()))
    strategy.initialize("Paint.", [])
    strategy.compress(SUPPORT.turns)

    assert model.documents


def test_exchanges_are_groups() -> None:
    """An exchange is a group with the number of its first turn, also if it begins in the middle."""
    turns = shed().turns

    assert [group.turn for group in groups(turns)] == [5, 11, 17]
    assert [len(group.messages) for group in groups(turns)] == [4, 2, 2]
    assert [group.turn for group in groups(turns[1:])] == [8, 11, 17]
    assert groups(()) == ()


def test_the_calls_of_each_point_are_told() -> None:
    """What one point asked is not told again at the next; the core asks nothing."""
    model = ScriptedModel(structured=lambda _: items(QUOTED), answers=lambda _: "All is well.")
    compressed = contexts(begun(SelectiveSalience, SUPPORT, model), SUPPORT)
    core = contexts(begun(ProtectedCore, SUPPORT, model), SUPPORT)

    asked = [call.what for context in compressed for call in context.calls]
    assert asked.count("extraction") == len(model.asked) >= len(SUPPORT.points)
    assert asked.count("background") == len(model.sent)
    assert [context.calls for context in core] == [()] * len(core)
