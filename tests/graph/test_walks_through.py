"""Three walks through a long talk: what left the context comes back, and what is named stays."""

import pytest
from langchain_core.messages import AIMessage, BaseMessage

from ebbtide.memory.transcript import indented, transcript
from tests.doubles import call
from tests.graph.journeys import (
    EXACT,
    PAGES,
    After,
    Turn,
    after,
    begin,
    effort,
    first_found,
    play,
    quoted,
    summarised,
    trains,
    using,
)

SUMMARY = "The gateway trusts the rotated certificate again; the 401 answers have stopped."
TRACE = "Trace:\n\tat Gate.verify(gate.py:7313)\n\n</effort 0000>  é e\u0301 证书\u00a0"
LOG = [
    Turn(PAGES[0], using("open_effort", name="auth-bug")),
    Turn(TRACE, ("Line 7313, then.",)),
    Turn("That was all.", using("close_effort")),
]
LOCKER = "# My locker at the station is number 7313."


def from_the_summary(messages: list[BaseMessage]) -> AIMessage:
    """Answer with the summary that the search found."""
    found = first_found(messages)
    return AIMessage(f"As {found['id']} says: {found['summary']}")


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[After], str]:
    """Conclude an effort at turn 20, ask about its topic at 81, and for details at 82.

    The first of what is returned belongs to no turn, so that the others have their numbers; beside
    it is the raw log, as text.
    """
    search = call("search_efforts", query="gateway certificate 401")
    turns = [
        *trains(17),
        *LOG,
        *trains(60, first=30),
        Turn("Why did the gateway answer 401?", (search, from_the_summary)),
        Turn("Details, please.", using("expand_effort", effort_id="auth-bug")),
        *trains(4, first=90),
    ]
    chat = begin(tmp_path_factory.mktemp("walk"), turns, [SUMMARY], settings=EXACT)
    afters = [after(chat, turn.said) for turn in turns]
    return [afters[0], *afters], transcript(chat.records(afters[-1].state)[17:20])


@pytest.mark.parametrize(
    ("turn", "summaries"),
    [(19, {}), (20, {"auth-bug": 20}), (39, {"auth-bug": 20}), (40, {}), (80, {})],
)
def test_the_effort_is_evicted(
    walk: tuple[list[After], str], turn: int, summaries: dict[str, int]
) -> None:
    """Concluded at turn 20, its summary is in state after turn 39 and gone after turn 40."""
    afters, _ = walk

    assert afters[turn].state["memory"]["summaries"] == summaries


def test_sixty_turns_later_it_is_found_and_answered_from(walk: tuple[list[After], str]) -> None:
    """At turn 81 the search finds it with its summary, which answers; nothing is expanded."""
    afters, _ = walk
    (found,) = afters[81].results
    first, *_ = found["results"]

    assert (first["id"], first["summary"]) == ("auth-bug", SUMMARY)
    assert first["turn"] in {18, 19, 20}
    assert afters[81].state["messages"][-1].text == f"As auth-bug says: {SUMMARY}"
    assert [summarised(messages) for messages in afters[81].calls] == [[], []]
    assert afters[81].state["memory"]["summaries"] == {"auth-bug": 81}
    assert afters[81].state["memory"]["expanded"] == {}


def test_it_is_expanded_on_demand_byte_for_byte(walk: tuple[list[After], str]) -> None:
    """At turn 82 the summary is sent at once, and then the log exactly as it was said."""
    afters, log = walk

    assert [summarised(messages) for messages in afters[82].calls] == [["auth-bug"], ["auth-bug"]]
    assert [quoted(messages, "auth-bug") for messages in afters[82].calls] == [None, log]
    assert f"[turn 19]\nuser: {indented(TRACE)}\nassistant: Line 7313, then.\n" in log
    assert [quoted(afters[turn].sent, "auth-bug") for turn in (85, 86)] == [log, None]


def test_of_fifty_exchanges_the_first_is_found(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Only the last window is sent; the first exchange is found by its turn, with an excerpt."""
    asked = Turn("Where did I leave my bag?", using("search_efforts", query="locker station"))
    turns = [Turn(LOCKER, ("Noted.",)), *trains(49, first=2), asked]

    *_, last = play(tmp_path_factory.mktemp("exchanges"), turns, settings=EXACT)

    before = [message.text for message in last.calls[0] if message.type == "human"]
    assert [text for text in before if text.startswith("#")] == [t.said for t in turns[40:50]]
    first, *_ = last.results[0]["results"]
    assert ("id" in first, first["turn"]) == (False, 1)
    assert first["excerpt"] == f"user: {LOCKER}\nassistant: Noted."


@pytest.mark.parametrize(
    ("said", "kept", "gone"), [("Was the auth bug bad?", 29, 30), ("Was it bad?", 21, 22)]
)
def test_a_mention_of_its_id_keeps_a_summary_alive(
    tmp_path_factory: pytest.TempPathFactory, said: str, kept: int, gone: int
) -> None:
    """Concluded at 2 and mentioned at 10, it is in state after 29, sent in 30, gone after 30."""
    turns = [*effort("auth-bug", PAGES[0]), *trains(7), Turn(said), *trains(22, first=20)]

    afters = play(tmp_path_factory.mktemp("mention"), turns, settings=EXACT)

    assert [*afters[kept - 1].state["memory"]["summaries"]] == ["auth-bug"]
    assert afters[gone - 1].summaries_sent == ["auth-bug"]
    assert afters[gone - 1].state["memory"]["summaries"] == {}
    assert afters[gone].summaries_sent == []
