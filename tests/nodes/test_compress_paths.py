"""Compressing on every path: asynchronous, streamed, resumed, of an effort that is not active."""

import re
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState

from ebbtide import DiskArchive, commands, create_memory_agent, testing
from ebbtide.memory.compressions import Compression, ExtractionEntry
from ebbtide.memory.turn import Session
from ebbtide.nodes.turn.state import unpacked
from tests.agents import THREAD, Talk, inside, talk, unnumbered
from tests.doubles import Concepts, ScriptedModel, call
from tests.graph.living import CountingArchive
from tests.graph.long_effort import (
    FILLER,
    GOAL,
    SMALL,
    agent,
    compressing,
    entries,
    quoted,
    quoting,
    stored,
    talked,
)

RULE = "Orders must never be deleted."
DOWN = {"background": lambda _: ValueError("no answer")}
LOST = {"extraction": lambda _: ValueError("no answer")}


class Full(DiskArchive):
    """An archive that has no room for a compression."""

    def commit_compression(
        self, session: Session, entry: ExtractionEntry, made: Compression | None
    ) -> Compression | None:
        """Fail."""
        raise OSError(f"No space left for {session}, {entry}, {made}")


def words(turn: int) -> str:
    """Return what is said in a turn."""
    return f"{RULE if turn == 2 else ''} {FILLER}{turn}"


def told(root: Path) -> list[Any]:
    """Return the log of extractions without times and ids of turns."""
    return [
        {
            **one,
            "at": "",
            "id": "",
            "told": {**one["told"], "calls": [c["what"] for c in one["told"]["calls"]]},
        }
        for one in entries(root)
    ]


@pytest.mark.thorough
@pytest.mark.parametrize("broken", [{}, DOWN, pytest.param(LOST, marks=pytest.mark.soak)])
async def test_the_asynchronous_path_does_the_same(tmp_path: Path, broken: Any) -> None:
    """Same compression, same state, same log, whatever fails."""
    options = {"extraction": quoting(RULE, kind="constraint"), **broken}
    sync = compressing(tmp_path / "sync", **options)
    other = compressing(tmp_path / "async", **options)
    said = [words(turn) for turn in range(2, 10)]
    states = [sync.say(one) for one in said]
    found = [await other.agent.ainvoke({"messages": [("user", one)]}, THREAD) for one in said]

    shared = ["turn", "plan", "banners", "context_report", "number"]
    assert [[unpacked(one).get(key) for key in shared] for one in found] == [
        [unpacked(one).get(key) for key in shared] for one in states
    ]
    assert told(tmp_path / "sync") == told(tmp_path / "async") != []
    assert [m.text for m in sync.last] == [m.text for m in other.last]


async def custom_events(chat: Talk, way: str, turn: int) -> list[Any]:
    """Go through a turn by the "sync" or the "async" way, and return its `custom` events."""
    message: Any = {"messages": words(turn)}
    if way == "sync":
        return [*chat.agent.stream(message, THREAD, stream_mode="custom")]
    return [one async for one in chat.agent.astream(message, THREAD, stream_mode="custom")]


@pytest.mark.thorough
@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize(
    ("broken", "ended"),
    [({}, "done"), ({"extraction": quoting(RULE), **DOWN}, "done"), (DOWN, "failed")],
)
async def test_the_stream_tells_when_it_begins_and_ends(
    tmp_path: Path, way: str, broken: Any, ended: str
) -> None:
    """Events of the `custom` stream name the effort, and say what became of the compression."""
    chat = compressing(tmp_path, **{"extraction": quoting(*[RULE] * (not broken)), **broken})
    events = [one for turn in range(2, 10) for one in await custom_events(chat, way, turn)]

    passes = [one["compression"] for one in events if "compression" in one]
    begun, done = {"effort": "shop", "status": "started"}, {"effort": "shop", "status": ended}
    assert passes == [begun, done] * (len(passes) // 2) != []
    compressed = [one for one in events if "Compressed" in one.get("banner", "")]
    assert len(compressed) == (len(passes) // 2 if ended == "done" else 0)


@pytest.mark.thorough
@pytest.mark.usefixtures("entry")
def test_a_graph_that_hands_over_messages_alone_shows_it(tmp_path: Path) -> None:
    """Each prompt is the one of the agent alone, and each compression is told once."""
    prompts, told = [], []
    for root in ("alone", "inside"):
        first = iter([call("open_effort", name="shop", goal=GOAL)])
        saver = InMemorySaver() if root == "alone" else None
        chat = agent(
            tmp_path / root,
            lambda _, first=first: next(first, "Seen."),
            extraction=quoting(RULE),
            checkpointer=saver,
        )
        outer: Any = chat.agent if saver else inside(chat, MessagesState)
        for turn in range(1, 10):
            for one in outer.stream(
                {"messages": words(turn)}, THREAD, stream_mode="custom", subgraphs=True
            ):
                told += [(root, one[1]["banner"])] if "banner" in one[1] else []
        prompts.append([unnumbered(sent.text) for sent in chat.model.sent])

    assert prompts[0] == prompts[1]
    alone = [one for root, one in told if root == "alone"]
    assert alone == [one for root, one in told if root == "inside"]
    assert "Compressed" in alone[-1]


def test_the_stream_tells_that_the_archive_failed(tmp_path: Path) -> None:
    """A compression that cannot be kept has ended as well."""
    chat = compressing(tmp_path, extraction=quoting(RULE), archive=Full(tmp_path, durable=False))
    given: list[Any] = [{"messages": words(turn)} for turn in range(2, 10)]

    told = [
        one["compression"]["status"]
        for each in given
        for one in chat.agent.stream(each, THREAD, stream_mode="custom")
        if "compression" in one
    ]

    assert told == ["started", "failed"] * (len(told) // 2) != []


@pytest.mark.thorough
@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize("broken", [{}, pytest.param(DOWN, marks=pytest.mark.soak), LOST | DOWN])
def test_the_metrics_say_what_was_asked_for(tmp_path: Path, broken: Any) -> None:
    """Each question of a pass counts from the next turn on, also of one that failed."""
    chat = compressing(tmp_path, **{"extraction": quoting(RULE), **broken})
    for turn in range(2, 13):
        chat.say(words(turn))
    chat.say("Thank you.")

    asked = Counter(call["what"] for entry in entries(tmp_path) for call in entry["told"]["calls"])
    costs = {cost.purpose: cost.calls for cost in commands.stats(chat.agent, THREAD).costs}

    assert asked["extraction"] > 1
    assert {what: costs.get(what, 0) for what in asked} == asked


def test_the_log_says_what_each_call_cost(tmp_path: Path) -> None:
    """Model, seconds and the tokens that the model reports stand there for each call of a pass."""
    models = {
        "extraction_model": testing.ScriptedModel(),
        "compression_model": testing.ScriptedModel(),
    }
    chat = compressing(tmp_path, **models)
    talked(chat, 9, {2: RULE})

    calls = entries(tmp_path)[0]["told"]["calls"]
    assert [one["what"] for one in calls] == ["extraction", "background"]
    assert all(one["read"] > one["written"] > 0 for one in calls)
    assert {one["model"] for one in calls} == {"ScriptedModel"}
    assert all(one["seconds"] >= 0 for one in calls)


async def streamed(chat: Talk, way: str, turn: int) -> list[Any]:
    """Return the message chunks of a turn, with what is said of each."""
    message = {"messages": [("user", words(turn))]}
    if way == "sync":
        return [*chat.agent.stream(message, THREAD, stream_mode="messages")]
    return [one async for one in chat.agent.astream(message, THREAD, stream_mode="messages")]


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_no_token_of_a_pass_is_in_the_users_stream(tmp_path: Path, way: str) -> None:
    """What quotes and summarises is no part of the stream of messages (complaint 10)."""
    chat = compressing(tmp_path, extraction=quoting(RULE, kind="constraint"))
    chunks = [chunk for turn in range(2, 10) for chunk in await streamed(chat, way, turn)]

    assert len(entries(tmp_path)) >= 1
    assert {said["langgraph_node"] for _, said in chunks} == {"call_model"}
    spoken = "".join(c.text for c, _ in chunks if isinstance(c, AIMessageChunk))
    assert spoken == "Seen." * 8


def test_a_pass_is_two_calls_that_read_the_new_turns_only(tmp_path: Path) -> None:
    """The background goes on from the old one, of which the next call is told."""
    extracting = ScriptedModel(structured=quoting(RULE, kind="constraint"))
    describing = ScriptedModel(answers=[f"Background {number}." for number in range(1, 20)])
    models = {"extraction_model": extracting, "compression_model": describing}
    chat = compressing(tmp_path, **models)

    talked(chat, 17, {2: RULE})

    passes = entries(tmp_path)
    assert len(passes) == len(extracting.asked) == len(describing.sent) > 2
    compressed = [turn for one in passes for turn in one["turns"]]
    assert compressed == [*range(1, compressed[-1] + 1)]
    for sent in (extracting.asked, describing.sent):
        logs = [one.messages[-1].text for one in sent]
        read = [int(turn) for log in logs for turn in re.findall(r"(?m)^\[turn (\d+)\]$", log)]
        assert read == compressed
        assert RULE in logs[1].split("<log")[0]
        assert all(f"Goal: {GOAL}" in log for log in logs)
    assert "Background 1." in describing.sent[1].text


def test_a_turn_by_hand_compresses_nothing(tmp_path: Path) -> None:
    """No model is asked where the user calls the tools, also if an effort is due."""
    chat = compressing(tmp_path, extraction=quoting(), **DOWN)
    talked(chat, 10, {2: RULE})
    tried = len(entries(tmp_path))

    commands.open_effort(chat.agent, THREAD, "other")

    assert len(entries(tmp_path)) == tried > 1


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Talk, list[Any]]:
    """Talk with an agent that never compresses; return it with its states."""
    off = SMALL.model_copy(update={"compression": "off"})
    chat = compressing(tmp_path_factory.mktemp("off"), settings=off)
    return chat, talked(chat, 24)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "down",
    [
        DOWN,
        pytest.param({**DOWN, **LOST}, marks=pytest.mark.soak),
        pytest.param({"background": lambda _: ""}, marks=pytest.mark.soak),
    ],
)
def test_a_pass_without_anything_leaves_state_and_context_as_they_were(
    tmp_path: Path, quiet: tuple[Talk, list[Any]], down: Any
) -> None:
    """Context and state are those of an agent that never compresses, but for what a pass cost.

    It is tried again after 1, 2, 4 and 8 turns, and told once.
    """
    chat = compressing(tmp_path / "failing", **{"extraction": quoting(), **down})
    silent, expected = quiet

    found = talked(chat, 24)

    contexts = [
        [[m.text for m in sent.messages] for sent in one.model.sent] for one in (chat, silent)
    ]
    left = {"messages", "known", "archive", "tip", "nonce", "due", "events", "banners"}
    states: list[list[dict[str, Any]]] = [
        [{k: v for k, v in unpacked(s).items() if k not in left} for s in one]
        for one in (found, expected)
    ]
    for state in chain.from_iterable(states):  # how many events came before the plan
        state["plan"] = {k: v for k, v in state["plan"].items() if k != "events"}
    assert [one["turn"] for one in entries(tmp_path / "failing")] == [8, 9, 11, 15, 23]
    told = [banner for state in found for banner in state["memory"]["banners"]]
    assert ["Could not compress" in banner for banner in told] == [True]
    assert contexts[0] == contexts[1]
    assert states[0] == states[1]
    assert (
        max(state["memory"]["context_report"]["total"] for state in found) <= SMALL.context_budget
    )


@pytest.mark.parametrize(
    ("answer", "quotes", "background"),
    [
        ({"new": [{"quote": RULE}], "background": "They worked."}, [RULE], "They worked."),
        ({"new": [], "background": "They worked."}, [], "They worked."),
    ],
)
def test_one_model_is_asked_once(
    tmp_path: Path, answer: Any, quotes: list[str], background: str
) -> None:
    """The agent's model gives quotes and background together."""
    model = ScriptedModel(answers=lambda _: "Seen.", structured=lambda _: answer)
    saver, archive = InMemorySaver(), DiskArchive(tmp_path, durable=False)
    agent = create_memory_agent(model, archive=archive, checkpointer=saver, settings=SMALL)
    opening = talk(tmp_path, [call("open_effort", name="shop"), "Opened."], checkpointer=saver)
    opening.say("Let's move the shop.")
    chat = Talk(agent, model, archive)

    *_, state = talked(chat, 9, {2: RULE})

    assert [one["what"] for one in entries(tmp_path)[0]["told"]["calls"]] == ["extraction"]
    made = stored(chat, state)
    assert made is not None
    assert [item.quote for item in made.current] == quotes
    assert made.background == background
    assert not [sent for sent in model.sent if "write the background" in sent.text]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "answer",
    ["no JSON", {"new": [{"quote": RULE}]}, {"new": [{"quote": RULE}], "background": ["They"]}],
)
def test_one_model_that_fails_is_asked_for_the_background_alone(
    tmp_path: Path, answer: Any
) -> None:
    """Where rules choose the quotes, and where it gives quotes alone, nothing is lost."""
    model = ScriptedModel(answers=lambda _: "They worked.", structured=lambda _: answer)
    chat = compressing(tmp_path, extraction_model=model, compression_model=model)

    *_, state = talked(chat, 9, {2: RULE})

    made = stored(chat, state)
    assert made is not None
    assert made.method == ("protected-core" if answer == "no JSON" else "salience")
    assert made.background == "They worked."


@pytest.mark.thorough
def test_embeddings_compare_what_is_quoted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where they are passed they are used, and each quote is embedded once."""
    embeddings, other = Concepts(), "Refunds take 14 days."
    extraction = quoting(RULE, other)
    chat = compressing(tmp_path, extraction=extraction, embeddings=embeddings)

    talked(chat, 17, {2: RULE, 9: other})

    assert [embeddings.documents.count(quote) for quote in (RULE, other)] == [1, 1]
    assert "no embeddings given" not in caplog.text


@pytest.mark.thorough
def test_passes_that_fail_cost_no_more_the_longer_they_do(tmp_path: Path) -> None:
    """Invariant 6: the records that a turn reads, and what a model is asked, stay as many."""
    archive = CountingArchive(tmp_path, durable=False)
    extracting = ScriptedModel(structured=quoting(RULE))
    chat = compressing(tmp_path, archive=archive, **DOWN, extraction_model=extracting)
    read, asked = [0], [0]

    for turn in range(2, 60):
        chat.say(words(turn))
        read.append(archive.asked)
        asked.append(sum(len(sent.text) for sent in extracting.asked))

    assert read[58] - read[54] <= 1.02 * (read[54] - read[50])
    assert asked[58] - asked[54] <= 1.02 * (asked[54] - asked[50])


@pytest.mark.thorough
def test_two_efforts_over_their_shares_take_turns(tmp_path: Path) -> None:
    """A turn compresses one of them, the active one first; the next turn the other."""
    opening = [call("open_effort", name="other"), "Opened."]
    chat = compressing(tmp_path, [*["Seen."] * 5, *opening, *["Seen."] * 10])
    off = {"compression": "off"}
    before = [chat.say(words(turn), context=off) for turn in range(2, 15)][-1]

    first, second, third = (chat.say("Go on.") for _ in range(3))

    assert (before["memory"]["active_effort"], quoted(before)) == ("other", {})
    assert (quoted(first), quoted(second)) == ({"other": 14}, {"other": 14, "shop": 15})
    assert quoted(third) == quoted(second)
    passes = [(one["effort"], one["turn"]) for one in entries(tmp_path)]
    assert passes == [("other", 14), ("shop", 15)]
    left_out = third["memory"]["context_report"]["left_out"]
    assert left_out["compressed"]["other"].startswith("7-")
    assert left_out["compressed"]["shop"].startswith("1-")
