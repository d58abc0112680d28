"""Many turns and efforts: the context stays below one ceiling while the full history grows."""

import pytest
from langchain_core.messages import AIMessage, BaseMessage

from ebbtide import Settings
from ebbtide.memory.transcript import transcript
from tests.agents import THREAD
from tests.doubles import call
from tests.graph.journeys import CEILING, Turn, after, begin, first_found, quoted, using
from tests.graph.living import CountingArchive, Life

SETTINGS = Settings(ambient_window=10, rebuild="every-turn")
MACHINES = "lathe press boiler crane drill grinder kiln loom mixer oven pump robot saw turbine weld"
TROUBLES = (
    "noise smoke rust leak crack dust heat frost vibration sparks odour drift stutter jam flicker"
)
AGAIN = " It stands in the hall until a part of the right size arrives by rail." * 9
EFFORT_TURNS = 4
TURNS = EFFORT_TURNS + 1
"""Turns that each effort makes, the ambient one after it included."""


def topic(number: int) -> str:
    """Return what an effort is about: two words, each of which many efforts share."""
    machines, troubles = MACHINES.split(), TROUBLES.split()
    return f"{troubles[number // len(machines)]} of the {machines[number % len(machines)]}"


def turns_of(number: int) -> list[Turn]:
    """Return the turns of one effort; every fifth effort names the one before."""
    again = f"Was machine-{number - 1:03} like that?" if number % 5 == 0 else "Anything else?"
    return [
        Turn(
            f"There is {topic(number)}." + AGAIN,
            using("open_effort", name=f"machine-{number:03}"),
        ),
        Turn(f"Somebody heard of it on day {number}." + AGAIN),
        Turn(again + AGAIN),
        Turn("It is mended.", using("close_effort")),
        Turn(f"# How far is it to town {number:03}?"),
    ]


def searching(messages: list[BaseMessage]) -> AIMessage:
    """Search for what the user asks."""
    return call("search_efforts", query=messages[-1].text)


def expanding(messages: list[BaseMessage]) -> AIMessage:
    """Expand what the search found."""
    return call("expand_effort", effort_id=first_found(messages)["id"])


@pytest.fixture(scope="module", params=[pytest.param(200, marks=pytest.mark.soak)])
def life(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Life:
    """Live through five turns for each effort; a question for each may follow."""
    efforts, root = request.param, tmp_path_factory.mktemp("life")
    turns = [turn for number in range(efforts) for turn in turns_of(number)]
    questions = [Turn("", (searching, expanding, "Done."))] * efforts
    pages = [f"There was {topic(number)}, mended on day {number}." for number in range(efforts)]
    archive = CountingArchive(root, durable=False)
    chat = begin(root, [*turns, *questions], pages, archive=archive, settings=SETTINGS)
    begun = Life(chat, efforts)
    begun.live(turns)
    return begun


def test_the_context_stays_below_one_ceiling(life: Life) -> None:
    """However many turns there are, no context reaches the ceiling of the bounded proof run."""
    largest = max(life.totals)

    assert len(life.totals) == TURNS * life.efforts
    assert largest < CEILING


def test_the_full_history_grows(life: Life) -> None:
    """What was said has more than a hundred tokens per turn: 100,000 after 1,000 turns."""
    full = [turn.last_full_history for turn in life.report.turns]

    assert full == sorted(full)
    assert full[-1] > 100 * TURNS * life.efforts


def test_most_summaries_leave(life: Life) -> None:
    """Of all efforts only those of the last twenty turns are in the context, and those named."""
    assert len(life.state["memory"]["summaries"]) <= 20 / TURNS + 2
    assert life.report.evictions >= len(life.evicted) > 0.8 * life.efforts


def test_a_late_turn_costs_what_an_early_one_did(life: Life) -> None:
    """The last fifty turns have the tokens, state bytes and records read of turns 51 to 100."""
    for series in life.costs:
        early, late = series[50:100], series[-50:]
        assert sum(late) <= 1.02 * sum(early)
        assert max(late) <= 1.02 * max(early)


def test_every_message_is_in_the_archive(life: Life) -> None:
    """Each user message is there once, in order, byte for byte."""
    turns = [turn for number in range(life.efforts) for turn in turns_of(number)]

    assert life.chat.said(life.state) == [turn.said for turn in turns]


def test_every_evicted_effort_is_found_and_comes_back(life: Life) -> None:
    """A search for its topic finds it first, and its log is expanded word for word."""
    chat, end = life.chat, life.chat.agent.get_state(THREAD)
    turns = chat.turns(life.state)

    for number in life.evicted:
        name, first = f"machine-{number:03}", TURNS * number
        found = after(chat, f"What became of the {topic(number)}?", end.config)
        log = transcript(turns[first : first + EFFORT_TURNS])
        assert found.results[0]["results"][0]["id"] == name
        assert quoted(found.sent, name) == log
        assert all(turn.said in log for turn in turns_of(number)[:EFFORT_TURNS])
