"""What a search reads, however many turns or other sessions there are."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import event

from ebbtide.memory.archive.search import find
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.turn import Session, Tip
from tests.memory.turns import concluded, opened, turn

SESSION = Session("ann", "long")


def test_search_reads_no_whole_run(tmp_path: Path) -> None:
    """SQLite looks up each turn by its number; it went through all of a session's."""
    tip, asked = Tip(), list[tuple[str, Any]]()
    with SqlArchive(tmp_path, durable=False) as archive:
        for number in range(1, 4):
            tip = archive.commit(SESSION, tip, turn(number, "The port.", [f"work-{number}"])).tip
        event.listen(
            archive.database._engine,
            "before_cursor_execute",
            lambda *sent: asked.append((sent[2], sent[3])),
        )
        found = find(archive.load(SESSION, tip), "Which port?", 5)
        with archive.database.reading() as connection:
            steps = [
                row.detail
                for sql, values in [*asked]
                if sql.startswith("SELECT")
                for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values)
            ]

    assert {hit.turn for hit in found} == {1, 2, 3}
    assert any("ebbtide_turns_turn" in step for step in steps)
    assert [step for step in steps if "ebbtide_turns_turn (run=?)" in step] == []


def test_other_sessions_are_read_together(tmp_path: Path) -> None:
    """It takes as many statements to search in many as in a few; it took two more for each."""
    counts = list[int]()
    with SqlArchive(tmp_path, durable=False) as archive:
        sent: list[Any] = []
        event.listen(
            archive.database._engine, "before_cursor_execute", lambda *args: sent.append(args[2])
        )
        for threads in (3, 9):
            for number in range(threads):
                events = (opened("port", goal="The port."), concluded("port", f"It is {number}."))
                done = replace(turn(1, "The port.", ["port"]), events=events)
                archive.commit(Session("ann", f"t{number}"), Tip(), done)
            sent.clear()
            assert len(archive.elsewhere(SESSION, "which port?", 9)) == threads
            counts.append(len(sent))

    assert counts[0] == counts[1]
