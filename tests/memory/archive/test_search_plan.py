"""A search reads the turns of the efforts that it ranks, however many others a session has."""

from pathlib import Path
from typing import Any

from sqlalchemy import event

from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.record import Owner, Tip
from tests.memory.turns import turn

OWNER = Owner("ann", "long")


def test_search_reads_no_whole_run(tmp_path: Path) -> None:
    """SQLite looks up each turn by its number; it went through all of a session's."""
    tip, asked = Tip(), list[tuple[str, Any]]()
    with SqlArchive(tmp_path, durable=False) as archive:
        for number in range(1, 4):
            tip = archive.commit(OWNER, tip, turn(number, "The port.", [f"work-{number}"])).tip
        event.listen(
            archive.database._engine,
            "before_cursor_execute",
            lambda *sent: asked.append((sent[2], sent[3])),
        )
        found = archive.at(OWNER, tip).search("Which port?", 5)
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
