"""The strategy by itself: its interface, its edge cases, and that it does what the agent does."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.messages import BaseMessage

from ebbtide.evaluation import SelectiveSalienceStrategy
from ebbtide.evaluation.strategies import SelectiveSalience
from ebbtide.evaluation.strategy_protocol import StrategyInputs
from ebbtide.evaluation.template import TemplateTurn, read_template
from ebbtide.memory.errors import SettingsError
from tests.doubles import Concepts, ScriptedModel
from tests.openai_server import Body, Fail, OpenAIServer, Say, Structured

GOAL = "Move the shop to the new platform."
RULE = "Orders must never be deleted."
CHOICE = "We chose PostgreSQL because the team knows it."
CHATTER = "It was a quiet day without a result."


def said(*words: str, role: str = "user") -> list[dict[str, Any]]:
    """Return a conversation in which each of these is said and answered."""
    pairs = [
        ({"role": role, "content": one}, {"role": "assistant", "content": "Noted."})
        for one in words
    ]
    return [message for pair in pairs for message in pair]


def strategy(
    *answers: Any, background: str = "They worked.", embeddings: Embeddings | None = None
) -> SelectiveSalienceStrategy:
    """Return a strategy whose model chooses these one after the other, then nothing."""
    left: Iterator[Any] = iter(answers)

    def extract(_: Sequence[BaseMessage]) -> Any:
        return next(left, {"new": []})

    made = SelectiveSalienceStrategy(
        ScriptedModel(answers=lambda _: "no JSON", structured=extract),
        ScriptedModel(answers=lambda _: background),
        embeddings=embeddings,
    )
    made.initialize(GOAL, ["No downtime"])
    return made


def quotes(*sentences: str, **more: Any) -> dict[str, Any]:
    """Return what a model answers that quotes these sentences."""
    new = [{"quote": one, "kind": "fact", "replaces": []} for one in sentences]
    return {"new": new, **more}


def test_four_parts() -> None:
    """The goal, the quotes, the background, and the messages from the trigger point on."""
    system = {"role": "system", "content": "You run a shop."}
    context = [system, *said(RULE, CHATTER, "And now?")]
    made = strategy(quotes(RULE))

    text = made.compress(context, 5)

    parts = [text.index(part) for part in ("SYSTEM", "SALIENT", "BACKGROUND", "RECENT")]
    assert parts == sorted(parts)
    assert text.index("You run a shop.") < text.index(GOAL) < text.index(RULE)
    assert text.endswith("RECENT\nuser: And now?\nassistant: Noted.")
    assert CHATTER not in text
    assert made.salience_set == [RULE]
    assert (made.original_goal, made.constraints) == (GOAL, ["No downtime"])
    assert made.state.salience_set == [RULE]


def test_no_model_before_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A strategy with the usual models is made without a key, which its first call needs."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    made = SelectiveSalienceStrategy(embeddings=None)
    made.initialize(GOAL, [])

    assert made.state.extraction_model == "gpt-4o"
    assert made.state.compression_model == "gpt-4o-mini"
    assert GOAL in made.compress([], 0)
    with pytest.raises(SettingsError, match="gpt-4o"):
        made.compress(said(RULE), 2)


@pytest.mark.usefixtures("impatient")
def test_names_of_models(server: OpenAIServer) -> None:
    """Names are enough, and a rate limit is waited for."""
    busy = iter([True])

    def answer(body: Body) -> Any:
        if next(busy, False):
            return Fail(429)
        if body.get("response_format") or body.get("tool_choice"):
            return Structured(quotes(RULE))
        return Say("They worked.")

    server.answers = answer
    made = SelectiveSalienceStrategy("gpt-4o", "gpt-4o-mini", embeddings=None)
    made.initialize(GOAL, [])
    made.compress(said(RULE), 2)

    assert made.salience_set == [RULE]
    assert made.fallbacks == 0
    assert [call.what for call in made.calls] == ["extraction", "background"]


def test_messages_are_read_once() -> None:
    """A second compression reads what is new; its quotes are added."""
    made = strategy(quotes(RULE), quotes(CHOICE))
    context = said(RULE, CHOICE)
    made.compress(context, 2)
    made.compress(context, 4)

    assert isinstance(made.extraction_model, ScriptedModel)
    assert RULE not in made.extraction_model.asked[1].text.split("<log")[1]
    assert made.salience_set == [RULE, CHOICE]


RULES = [f"The limit of queue {number} must be {number * 10}." for number in range(120)]
ASKED = "Could you fix the export, seeing that we lose the licence in May?"


@pytest.mark.parametrize(
    ("context", "chosen"),
    [(RULES, RULES), ([CHATTER], []), ([ASKED], ["we lose the licence in May"])],
    ids=["over fifty", "nothing salient", "implicit"],
)
def test_what_is_salient_is_quoted(context: list[str], chosen: list[str]) -> None:
    """However many quotes there are none is cut; none, or half a sentence, is a valid answer."""
    made = strategy(quotes(*chosen))
    text = made.compress(said(*context), 2 * len(context))

    assert (made.salience_set, made.fallbacks) == (chosen, 0)
    assert ("SALIENT\nnone\n" in text) == (not chosen)


def test_a_goal_that_changes() -> None:
    """The new goal is asked about; the first one and the reason are quoted."""
    made = strategy(quotes(RULE))
    made.update_goal("Close the shop.", "Nobody buys.")
    text = made.compress(said(RULE), 2)

    assert "Goal: Close the shop." in text
    assert made.original_goal == GOAL
    assert made.salience_set == [GOAL, "Nobody buys.", RULE]


@pytest.mark.parametrize(
    "bad", ["no JSON at all", {"new": 7}, quotes("The moon is made of cheese.")]
)
def test_a_useless_answer(bad: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Invalid JSON and invented quotes fall back to rules, which is logged and counted."""
    with caplog.at_level(logging.WARNING):
        made = strategy(*[bad] * 9)
        made.compress(said(RULE, CHATTER), 4)

    assert (made.salience_set, made.fallbacks) == ([RULE], 1)
    assert "only the core" in caplog.text


def test_a_background_that_fails() -> None:
    """The quotes stand, beside the background that was there."""
    texts = iter(["They worked."])
    made = SelectiveSalienceStrategy(
        ScriptedModel(
            answers=lambda _: "no JSON",
            structured=lambda messages: quotes(RULE if RULE in messages[-1].text else CHOICE),
        ),
        ScriptedModel(answers=lambda _: next(texts, "")),
        embeddings=None,
    )
    made.initialize(GOAL, [])
    context = said(RULE, CHOICE)
    made.compress(context, 2)
    text = made.compress(context, 4)

    assert "They worked." in text
    assert RULE in made.salience_set


def test_a_threshold_of_its_own() -> None:
    """`similarity_threshold` decides: what is as alike merges, the shorter stays."""
    short, long = "The warehouse packs on weekdays.", "On weekdays the warehouse packs parcels too."
    merging = strategy(quotes(short, long), embeddings=Concepts())
    merging.similarity_threshold = 0.3
    merging.compress(said(short, long), 4)
    apart = strategy(quotes(short, long), embeddings=Concepts())
    apart.similarity_threshold = 1.0
    apart.compress(said(short, long), 4)

    assert merging.salience_set == [short]
    assert apart.salience_set == [short, long]


def test_private_methods_of_the_first_description() -> None:
    """They are there for whoever subclasses."""
    made = strategy(quotes(RULE), embeddings=Concepts())
    twins = ["Answers must always be short.", "Answers must be short."]

    assert made._extract_salient_information(said(RULE)) == [RULE]
    assert made._compress_background(said(RULE), [RULE]) == "They worked."
    assert made._merge_salience(twins[:1], twins[1:]) == twins[1:]
    assert made._deduplicate_semantically(twins, 0.85) == twins[1:]
    assert made._fallback_extract_constraints(said(RULE, CHATTER)) == [RULE]
    assert made._token_count("one two") == 2
    assert RULE in made._build_context([RULE], "They worked.", said("Now?"))


def as_dicts(turns: Sequence[TemplateTurn]) -> list[Mapping[str, Any]]:
    """Return the turns of a template as messages of a chat API."""
    return [{"role": turn.role, "content": turn.content} for turn in turns]


def test_it_does_what_the_agents_strategy_does() -> None:
    """From the same turns and answers both make the same quotes, and ask the same questions."""
    template = read_template("test-edge-cases")
    turns = [turn.model_copy(update={"tool_call": None}) for turn in template.turns]
    number = {turn.turn_id: at for at, turn in enumerate(turns, start=1)}
    setup = template.initial_setup

    def extract(messages: Sequence[BaseMessage]) -> dict[str, Any]:
        lines = messages[-1].text.split("<log")[1].splitlines()
        told = [line.split(": ", 1)[1] for line in lines if line.startswith("user: ")]
        return quotes(*told)

    model = ScriptedModel(answers=lambda _: "They worked.", structured=extract)
    own = SelectiveSalienceStrategy(model, model, embeddings=None)
    own.initialize(setup.original_goal, setup.hard_constraints)
    agents = SelectiveSalience(StrategyInputs(model, None, Path()))
    agents.initialize(setup.original_goal, setup.hard_constraints)
    for point in template.points:
        until = [turn for turn in turns if turn.turn_id <= point.turn_id]
        agents.compress(until)
        own.compress(as_dicts(turns), number[point.turn_id])

    assert own.salience_set == [*(agents.context.quotes or ())]
