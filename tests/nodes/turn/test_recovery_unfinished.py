"""What an earlier run left behind is committed, once, and after retries."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from ebbtide import DiskArchive
from ebbtide.memory.search.embeddings import Embedder
from ebbtide.memory.turn import Session, StoredTurn, Tip
from ebbtide.memory.view import view_at
from ebbtide.nodes.turn.arrivals import SplitInput, split_input
from ebbtide.nodes.turn.recovery import commit, commit_unfinished
from ebbtide.nodes.turn.updates import commit_update, tip_of
from tests.memory.turns import SESSION, START, commit_all, turn, visible

ASKED, SAID = HumanMessage("question 1", id="1"), AIMessage("about question 1", id="2")


class Failing(DiskArchive):
    """An archive whose next `failures` commits fail; it counts the attempts."""

    failures = 0
    attempts = 0

    def commit(
        self, session: Session, tip: Tip, turn: StoredTurn, embedder: Embedder | None = None
    ) -> StoredTurn:
        """Fail as a full disk does, or commit."""
        self.attempts += 1
        if self.attempts <= self.failures:
            raise OSError(28, "No space left on device")
        return super().commit(session, tip, turn, embedder)


@pytest.fixture
def archive(tmp_path: Path) -> Failing:
    """Return an archive that does not fail yet."""
    return Failing(tmp_path, durable=False)


def after(archive: DiskArchive, *turns: StoredTurn) -> dict[str, Any]:
    """Return the state after these groups."""
    tip = commit_all(archive, turns)
    (turn,) = archive.load(SESSION, tip).turns([tip.turn])
    return {"turn": tip.turn, **commit_update(turn, "2")}


def test_a_commit_that_fails_twice_is_made(archive: Failing) -> None:
    """Two failures are retried."""
    archive.failures = 2

    stored = commit(archive, SESSION, START, turn(1))

    assert visible(archive, stored.tip) == ["question 1"]


def test_a_commit_that_keeps_failing_raises(archive: Failing) -> None:
    """After three attempts the archive's own error is raised, and nothing is stored."""
    archive.failures = 3

    with pytest.raises(OSError, match="No space left"):
        commit(archive, SESSION, START, turn(1))
    assert archive.attempts == 3
    assert archive.newest(SESSION) is None


def test_nothing_left_behind_changes_nothing(archive: Failing) -> None:
    """A settled turn that stands in the state as it was archived is not committed again."""
    state: Any = after(archive, turn(1))

    state["messages"] = [ASKED, SAID, HumanMessage("more", id="3")]
    update = commit_unfinished(
        state, SESSION, split_input(state, view_at(archive, SESSION, tip_of(state))), archive
    )

    assert update == {key: state[key] for key in ("persisted", "tip", "archived", "events")}
    assert archive.attempts == 1


def test_an_unfinished_turn_is_committed(archive: Failing) -> None:
    """What a broken turn left is the next turn, aborted, and is said to be archived."""
    left = HumanMessage("lost?", id="3")
    state: Any = {**after(archive, turn(1)), "turn": 2}

    update = commit_unfinished(state, SESSION, SplitInput([], [left], [ASKED]), archive)

    tip = Tip(update["persisted"], update["tip"])
    assert visible(archive, tip) == ["question 1", "lost?"]
    assert archive.load(SESSION, tip).turns([2])[0].status == "aborted"
    assert update["archived"] == "3"


def test_an_edited_turn_begins_a_branch(archive: Failing) -> None:
    """The last turn with other words is committed beside the old one, which stays."""
    state: Any = after(archive, turn(1), turn(2))
    state |= {"asked": {"1": 2}}
    better = HumanMessage("better", id="1")
    state["messages"] = [better, AIMessage("about question 2", id="2"), HumanMessage("more")]

    update = commit_unfinished(
        state, SESSION, split_input(state, view_at(archive, SESSION, tip_of(state))), archive
    )

    tip = Tip(update["persisted"], update["tip"])
    assert visible(archive, tip) == ["question 1", "better"]
    assert visible(archive, Tip(2, state["tip"])) == ["question 1", "question 2"]
    assert len(archive.tips(SESSION)) == 2
