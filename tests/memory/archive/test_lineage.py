"""What is cached of a branch from turn to turn."""

from ebbtide.memory.archive.lineage import Snapshot
from ebbtide.memory.record import Record


def test_answers_about_single_efforts_are_bounded() -> None:
    """Each turn copies them, so only the newest 500 stay in a session of thousands of efforts."""
    asked = {("effort_turns", (f"effort-{number}",)): (number,) for number in range(600)}
    snapshot = Snapshot((), 1, answers={("effort_count", ()): 600, **asked})

    after = snapshot.after(Record(2, "id", "", (), ""), 2, ())

    assert [*after.answers] == [("effort_count", ()), *[*asked][100:]]
