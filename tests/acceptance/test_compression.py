"""A long open effort: what is quoted word for word, and what is summarised.

Page 04, "How" and "Failure"; the source is strategy-h.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

import ebbtide.evaluation
from ebbtide import Settings, commands
from tests.acceptance.stage import Said, Stage, recalled, stage
from tests.doubles import Concepts, ScriptedModel, call
from tests.memory.conversations import words_of

SMALL = Settings(context_budget=5_600)
FILLER = "We looked at the shop for a while, and talked about this and that without a result. " * 24
GOAL = "Bring the shop to the new platform"
RULE = "Orders must never be deleted."
PORT = "The gateway listens on port 8443."
BACKGROUND = "They worked on the shop."

Extraction = Callable[[Sequence[BaseMessage]], dict[str, Any]]


def quoting(*quotes: str, kind: str = "fact", **more: Any) -> Extraction:
    """Return how a model answers that quotes each of these sentences where it first reads it."""
    left = [*quotes]

    def extract(messages: Sequence[BaseMessage]) -> dict[str, Any]:
        found = [quote for quote in left if quote in messages[-1].text]
        left[:] = [quote for quote in left if quote not in found]
        return {"new": [{"quote": one, "kind": kind, "turn": 2, **more} for one in found]}

    return extract


def giving(*quotes: str) -> Extraction:
    """Return how a model answers that gives these sentences, wherever they are from."""
    return lambda _: {"new": [{"quote": one, "kind": "fact", "turn": 2} for one in quotes]}


def begun(root: Path, extraction: Any, **options: Any) -> Stage:
    """Open an effort; what reads its log answers by a rule."""
    options.setdefault("settings", SMALL)
    options.setdefault("compression_model", ScriptedModel(answers=lambda _: BACKGROUND))
    model = ScriptedModel(answers=lambda _: "no JSON", structured=extraction)
    here = stage(root, extraction_model=model, **options)
    opening = call("open_effort", name="shop", goal=GOAL, constraints=["No downtime"])
    here.say("Let's move the shop.", opening, "Opened.")
    return here


def talked(here: Stage, *said: str, turns: int = 8) -> Said:
    """Go on for so many turns, each of them long; the first ones say something besides."""
    words = [*said, *[""] * (turns - len(said))]
    return [here.say(f"{one} {FILLER}{number}") for number, one in enumerate(words)][-1]


@pytest.fixture(scope="module")
def compressed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Stage, Said]:
    """Talk until an effort was compressed whose second turn says a rule."""
    here = begun(tmp_path_factory.mktemp("compressed"), quoting(RULE, kind="constraint"))
    return here, talked(here, RULE)


def test_quote_stands_word_for_word(compressed: tuple[Stage, Said]) -> None:
    """04, How, 5: a salient item is quoted though its turn has left."""
    _, last = compressed

    assert RULE in recalled(last.sent)
    assert f"{RULE} {FILLER}" not in last.sent.text


def test_background_stands_beside(compressed: tuple[Stage, Said]) -> None:
    """04, How, 4 and 5: the rest is a background."""
    _, last = compressed

    assert BACKGROUND in recalled(last.sent)


def test_last_turns_stay(compressed: tuple[Stage, Said]) -> None:
    """04, How: the last three turns are never compressed."""
    _, last = compressed

    assert [f"{FILLER}{number}" in last.sent.text for number in (4, 5, 6, 7)] == [True] * 4


def test_goal_and_constraints_stay(compressed: tuple[Stage, Said]) -> None:
    """04: goal and constraints always stay."""
    _, last = compressed

    assert GOAL in recalled(last.sent)
    assert "No downtime" in recalled(last.sent)


def test_raw_log_keeps_everything(compressed: tuple[Stage, Said]) -> None:
    """04, Why: the log keeps everything."""
    here, _ = compressed

    (read,) = here.use("read_log", turns="2").results

    assert RULE in words_of(read["turns"][0])
    assert f"{RULE} {FILLER}0" in here.asked()


def test_compression_is_told_and_counted(compressed: tuple[Stage, Said]) -> None:
    """02, Metrics: what was compressed is counted."""
    here, _ = compressed

    found = commands.stats(here.talk.agent, here.config)

    assert found.compressions > 0
    assert found.fabricated == 0


@pytest.mark.parametrize(
    ("said", "quote", "shown"),
    [
        (PORT, PORT, PORT),
        (PORT, "The gateway  listens\non port 8443.", PORT),
        (PORT, "the gateway listens on the port 8443", "The gateway listens on port 8443"),
    ],
)
def test_near_miss_is_put_right(tmp_path: Path, said: str, quote: str, shown: str) -> None:
    """04, How, 2: white space is folded; a near miss becomes the source's own words."""
    here = begun(tmp_path, giving(quote))

    assert shown in recalled(talked(here, said).sent)


def test_fabricated_quote_is_dropped(tmp_path: Path) -> None:
    """04, How, 2: what is not in the source is dropped and counted."""
    here = begun(tmp_path, giving(PORT, "The customer wants a refund of 900 euros."))

    last = talked(here, PORT)

    assert "refund" not in last.sent.text
    assert PORT in recalled(last.sent)
    assert commands.stats(here.talk.agent, here.config).fabricated > 0


def test_confirmed_quote_is_not_fabricated(tmp_path: Path) -> None:
    """04, How, 2: a quote of what is kept already counts as confirmed."""
    here = begun(tmp_path, giving(RULE))
    talked(here, RULE, turns=12)

    found = commands.stats(here.talk.agent, here.config)

    assert found.compressions > 1
    assert (found.fabricated, found.fallbacks) == (0, 0)


def test_number_is_never_merged_away(tmp_path: Path) -> None:
    """04, How, 3: items that differ in a number are never merged, however alike they are."""
    pair = ("The queue of the shop holds 40 orders.", "The queue of the shop holds 90 orders.")
    here = begun(tmp_path, quoting(*pair), embeddings=Concepts("40 90"))

    last = talked(here, *pair)

    assert [one in recalled(last.sent) for one in pair] == [True, True]


def test_paraphrases_are_merged(tmp_path: Path) -> None:
    """04, How, 3: of two that say the same the shorter one stays."""
    short = "The warehouse team packs parcels on weekday mornings."
    long = "On weekday mornings the warehouse team packs all parcels."
    here = begun(tmp_path, quoting(short, long), embeddings=Concepts())

    last = talked(here, long, short)

    assert short in recalled(last.sent)
    assert long not in recalled(last.sent)


def test_what_is_replaced_leaves(tmp_path: Path) -> None:
    """04, How, 3: what a new quote revises leaves the context."""
    old, new = PORT, "From now on the gateway listens on port 9000."

    first, then = quoting(old), quoting(new, replaces=[1])

    def revising(messages: Sequence[BaseMessage]) -> dict[str, Any]:
        return {"new": [*first(messages)["new"], *then(messages)["new"]]}

    here = begun(tmp_path, revising)
    talked(here, old)

    last = talked(here, new)

    assert new in recalled(last.sent)
    assert old not in recalled(last.sent)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("broken", [ConnectionError("gone"), "no JSON at all"])
def test_protected_core(tmp_path: Path, broken: Any) -> None:
    """04, Failure: what errs or is useless falls back to goal, constraints and key decisions."""

    def failing(_: Sequence[BaseMessage]) -> Any:
        return broken

    here = begun(tmp_path, failing)

    last = talked(here, f"Hard rule: {RULE}", "We decided to use PostgreSQL because of its locks.")

    assert GOAL in recalled(last.sent)
    assert RULE in recalled(last.sent)
    assert "PostgreSQL" in recalled(last.sent)
    assert commands.stats(here.talk.agent, here.config).fallbacks > 0


@pytest.mark.usefixtures("impatient")
def test_background_that_fails(tmp_path: Path) -> None:
    """04, Failure: the quotes stand with the background that was there before."""
    broken = ScriptedModel(answers=lambda _: ConnectionError("gone"))
    here = begun(tmp_path, quoting(RULE, kind="constraint"), compression_model=broken)

    last = talked(here, RULE)

    assert RULE in recalled(last.sent)
    assert commands.stats(here.talk.agent, here.config).compressions > 0


@pytest.mark.parametrize("late", ["extraction", "background"])
def test_pass_that_takes_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    """04, Failure: rules stand in for late quotes; a late background leaves the quotes standing."""
    monkeypatch.setattr("ebbtide.nodes.compress.SECONDS", 1.0)

    def slow(_: Sequence[BaseMessage]) -> str:
        sleep(2)
        return BACKGROUND

    model = ScriptedModel(answers=slow)
    extraction = slow if late == "extraction" else quoting(RULE, kind="constraint")
    here = begun(tmp_path, extraction, compression_model=model)

    last = talked(here, RULE)

    found = commands.stats(here.talk.agent, here.config)
    assert RULE in recalled(last.sent)
    assert (found.compressions > 0, found.fallbacks > 0) == (True, late == "extraction")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("how", ["off", "protected-core"])
def test_without_a_model(tmp_path: Path, how: str) -> None:
    """04, Failure: `off` and `protected-core` never call a model."""

    def asked(_: Sequence[BaseMessage]) -> Any:
        raise LookupError("a model was asked")

    settings = Settings.model_validate({"context_budget": 5_600, "compression": how})
    models = {"compression_model": ScriptedModel(answers=asked)}

    here = begun(tmp_path, asked, settings=settings, **models)
    last = talked(here, f"Hard rule: {RULE}")

    assert last.memory["context_report"]["total"] <= 5_600
    assert (RULE in recalled(last.sent)) is (how == "protected-core")


@pytest.mark.usefixtures("entry")
def test_pass_before_the_answer(tmp_path: Path) -> None:
    """04, How: the turn that compresses is sent the quotes, and nothing runs after its answer."""
    here = begun(tmp_path, quoting(RULE, kind="constraint"))
    here.talk.model.answers = lambda _: "Seen."
    told, chunks = list[str](), list[Any]()
    for number in range(12):
        said = {"messages": f"{RULE if number == 0 else ''} {FILLER}{number}"}
        chunks = [*here.talk.agent.stream(said, here.config, stream_mode=["custom", "updates"])]
        told = [next(iter(one)) for mode, one in chunks if mode == "custom" or "compress" in one]
        if told:
            break

    memory = here.talk.agent.get_state(here.config).values["memory"]
    assert told[0] == "compression"
    assert RULE in recalled(here.talk.model.sent[-1])
    assert f"{RULE} {FILLER}0" not in here.talk.model.sent[-1].text
    assert memory["context_report"]["left_out"]["compressed"]["shop"].startswith("1-")
    ends = {"persist"} if "persist" in here.talk.agent.nodes else {"EbbtideMiddleware.after_agent"}
    assert chunks[-1][1].keys() == ends


def test_share_of_the_room(compressed: tuple[Stage, Said]) -> None:
    """03, The plan: one open effort has at most half of the room before a pass is due."""
    here, last = compressed
    said = here.say("And now?")

    parts = said.memory["context_report"]["tokens"]
    room = 5_600 - parts["system"] - parts["tools"]

    assert parts["turns"] <= room / 2 + 700
    assert last.memory["context_report"]["total"] <= 5_600


def test_compression_follows_forks(tmp_path: Path) -> None:
    """04: results follow forks; a branch from before the pass has none of it."""
    here = begun(tmp_path, quoting(RULE, kind="constraint"))
    talked(here, RULE)

    forked = here.say("Other.", config=here.after(3))

    assert f"{RULE} {FILLER}0" in forked.sent.text
    assert BACKGROUND not in recalled(forked.sent)


def test_compression_survives_closing_and_reopening(tmp_path: Path) -> None:
    """04: results survive closing and reopening."""
    here = begun(tmp_path, quoting(RULE, kind="constraint"))
    talked(here, RULE)
    here.use("close_effort")
    here.chat(1)
    here.use("reopen_effort", effort_id="shop")

    assert RULE in recalled(talked(here, turns=2).sent)


@pytest.mark.parametrize(("names", "budget"), [(["shop"], 4_000), (["shop", "print"], 5_600)])
def test_what_leaves_is_named(tmp_path: Path, names: list[str], budget: int) -> None:
    """04, What leaves is named: block, banner and metric say one number for each effort's rules."""
    rules = [f"The limit of queue {n} must be {n * 10} orders a minute." for n in range(60)]
    settings = Settings(context_budget=budget)
    here = begun(tmp_path, quoting(*rules, kind="constraint"), settings=settings)
    groups, turns = [" ".join(rules[at : at + 10]) for at in range(0, 60, 10)], list[Said]()
    for number, name in enumerate(names):
        if number:
            here.use("open_effort", name=name, goal=GOAL)
        own = groups[number :: len(names)]
        turns += [talked(here, one, turns=1) for one in (*own, *[""] * 8)]

    gone = [rule for rule in rules if rule not in turns[-1].sent.text]
    said = re.sub("|".join(rules), "", recalled(turns[-1].sent))
    numbers = [*map(int, re.findall(r"(\d+) older quotes", said))]
    assert len(numbers) == len(re.findall(r"of the effort \"\w+\", compressed", said)) == len(names)
    banners = "\n".join(line for one in turns for line in one.memory["banners"])
    told = dict(re.findall(r"Out of view of effort: (\w+) \((\d+) older quotes", banners))
    assert sorted(numbers) == sorted(map(int, told.values()))
    assert sum(numbers) == len(gone)
    assert commands.stats(here.talk.agent, here.config).quotes_left_out == len(gone)

    for name in names:
        here.use("close_effort", effort_id=name)
    assert commands.stats(here.talk.agent, here.config).quotes_left_out == 0


@pytest.mark.parametrize(
    "name",
    [
        "SelectiveSalienceStrategy",
        "SelectiveSalienceState",
        "MetricsCollector",
        "measure_salience_accuracy",
    ],
)
def test_interface_of_the_seed(name: str) -> None:
    """04, Evaluation; 00, Public API: the seed's own names."""
    assert hasattr(ebbtide.evaluation, name)
