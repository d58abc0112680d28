"""The background: what is asked for, from the old one and the new turns."""

from collections.abc import Sequence
from typing import Any

import pytest

from ebbtide.memory.efforts import Effort
from ebbtide.memory.errors import AnswerError
from ebbtide.memory.questions import Question
from ebbtide.memory.salience.extract import MOST_PARTS, Asking, Previous, background
from ebbtide.memory.turn import StoredTurn
from tests.constants import constants
from tests.memory.asking import answered
from tests.memory.conversations import FENCES, human, tool

EFFORT = Effort("auth-bug", "open", goal="Log in again")
OLD = Previous("It began well.", ("Port 8443.",), ("Port 8080.",))
TURNS = [StoredTurn(4, (human("Open the port."),), "")]


def asked(
    turns: Sequence[StoredTurn], answers: Sequence[str], old: Previous = OLD, **chosen: Any
) -> tuple[list[Question], str | None]:
    """Return what is asked about turns, and the background if the answers were enough."""
    with constants(**chosen):
        return answered(background(EFFORT, turns, old, Asking(16_000, FENCES)), answers)


def test_the_request_holds_the_old_background_and_the_quotes() -> None:
    """Old background, quotes, what is gone and log are data; the instructions stay the same."""
    (request,), made = asked(TURNS, ["The port is open."])

    assert f"with the key {FENCES.key}." in request.instructions
    assert ">\nIt began well.\n</background " in request.log
    assert "already:\n<quoted" in request.log
    assert ">\n- Port 8443.\n</quoted " in request.log
    assert ">\n- Port 8080.\n</quoted " in request.log.split("Replaced or done:")[1]
    assert ">\n[turn 4]\nuser: Open the port.\n</log " in request.log
    assert made == "The port is open."


def test_a_huge_log_is_described_in_bounded_parts() -> None:
    """Of too many parts, previews of all messages are read, the newest parts if need be."""
    huge = [StoredTurn(1, (human("word " * 40_000),), "")]
    many = [StoredTurn(n, (human(f"{n} " * 400),), "") for n in range(1, 101)]

    requests, made = asked(huge, ["Short."], LOG_TOKENS=500)
    newest, _ = asked(many, ["So far."] * 50, LOG_TOKENS=500)

    assert (len(requests), made) == (1, "Short.")
    assert "tokens left out" in requests[0].log
    assert len(newest) == MOST_PARTS
    assert "[turn 100]" in newest[-1].log


def test_a_long_log_is_described_part_by_part() -> None:
    """Each part goes on from the answer before; the last answer is the background."""
    turns = [StoredTurn(n, (human("word " * 400),), "") for n in (1, 2)]

    requests, made = asked(turns, ["First.", "Both."], LOG_TOKENS=500)

    assert [">\nFirst.\n</background " in request.log for request in requests] == [False, True]
    assert made == "Both."


def test_what_is_shown_in_short_is_cut_between_words() -> None:
    """No half of a word stands beside what was left out of an output."""
    rows = " ".join(f"identifier-{n:05}" for n in range(4_000))

    (request,), _ = asked([StoredTurn(4, (human("Look."), tool("1", rows, "query")), "")], [])

    shown = request.log.split("[turn 4]")[1]
    assert {len(one) for one in shown.split() if one.startswith("identifier-")} == {16}
    assert "\n  identifier-" in shown.split("left out")[1]


def test_a_long_background_is_cut_at_a_sentence_end() -> None:
    """Of an answer over the limit the whole sentences within it are kept."""
    _, made = asked(TURNS, [f"{'one ' * 30}end. {'two ' * 30}end."], BACKGROUND=50)

    assert made == f"{'one ' * 30}end."


def test_nothing_is_asked_about_an_empty_log() -> None:
    """Without turns the old background stays, and no call is made."""
    assert asked([], []) == ([], "It began well.")


def test_an_empty_answer_is_an_error() -> None:
    """A background without words is refused, so that an old one is never lost for it."""
    with pytest.raises(AnswerError, match="empty"):
        asked(TURNS, [" \n"])
