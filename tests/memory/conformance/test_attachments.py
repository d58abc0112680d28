"""Large files: each stored once for its user, for as long as a turn refers to it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from sqlalchemy import delete

from ebbtide.memory.archive.attachments import of_running
from ebbtide.memory.archive.copy import copy
from ebbtide.memory.archive.export import export_folder
from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.archive.schema import attachments
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.attachments import complete, references
from ebbtide.memory.turn import Session, StoredTurn, Tip
from ebbtide.testing.in_memory import InMemoryArchive
from tests.memory.turns import SESSION, commit_all, turn

DATA = "JVBERi0xLjQK" * 10_000
OTHER = replace(SESSION, thread="t2")


def sending(number: int, data: str = DATA) -> StoredTurn:
    """Return a turn that sends a PDF."""
    block = {"type": "file", "base64": data, "mime_type": "application/pdf"}
    asked = HumanMessage([{"type": "text", "text": "Read it."}, block])
    return replace(turn(number), messages=(asked, turn(number).messages[1]), nonce=f"{number:02}")


def stored(archive: Archive, data: str = DATA) -> list[str]:
    """Return the digests under which a file is stored, which a turn elsewhere tells."""
    (digest,) = references([_content(sending(1, data))])
    return [*archive.attachments(SESSION, [digest])]


def _content(turn: StoredTurn) -> Any:
    probe = InMemoryArchive().commit(SESSION, Tip(), turn)
    return probe.messages[0].content


def test_file_is_stored_once_and_comes_back_whole(archive: Archive) -> None:
    """Two turns and two threads refer to it; other users do not see it."""
    turns = [archive.commit(SESSION, Tip(), sending(1)), archive.commit(OTHER, Tip(), sending(1))]
    turns.append(archive.commit(SESSION, turns[0].tip, sending(2)))

    contents = [turn.messages[0].content for turn in turns]
    digests = [*references(contents)]
    texts = archive.attachments(SESSION, digests)

    whole = sending(1).messages[0].content
    assert len(digests) == 1
    assert [complete(content, texts) for content in contents] == [whole] * 3
    assert len(str(contents[0])) < 1_000
    assert archive.attachments(Session("bob", "t1"), digests) == {}
    assert [found for found in archive.verify(SESSION) if found.fatal] == []


def test_retry_is_the_same_turn(archive: Archive) -> None:
    """With the data or with the reference, which the state has after the turn began."""
    first = archive.commit(SESSION, Tip(), sending(1))

    again = archive.commit(SESSION, Tip(), replace(sending(1), messages=first.messages))

    assert again == first


def test_file_goes_with_the_last_turn_that_refers_to_it(archive: Archive) -> None:
    """Erasing the first of two leaves it, erasing the other one removes it."""
    tip = commit_all(archive, [sending(1), sending(2), sending(3, DATA[4:])])

    archive.erase(SESSION, tip, 1)
    left = stored(archive)
    archive.erase(SESSION, tip, 2)

    assert (len(left), stored(archive), len(stored(archive, DATA[4:]))) == (1, [], 1)


@pytest.mark.parametrize("of_user", [False, True])
def test_file_goes_with_its_session_and_user(archive: Archive, *, of_user: bool) -> None:
    """Unless another session refers to it."""
    commit_all(archive, [sending(1)])
    archive.commit(OTHER, Tip(), sending(1))

    archive.delete_session(SESSION)
    left = stored(archive)
    if of_user:
        archive.delete_user(SESSION.user)
    else:
        archive.delete_session(OTHER)

    assert (len(left), stored(archive)) == (1, [])


def test_file_of_a_turn_that_never_ended_is_listed(archive: Archive) -> None:
    """It is stored before its turn, `verify` names it, and it goes with the session."""
    (digest,) = references([_content(sending(1))])
    archive.attach(SESSION, {digest: DATA})
    tip = commit_all(archive, [turn(1), turn(2)])

    found = [(one.where, one.what, one.fatal) for one in archive.verify(SESSION)]
    archive.erase(SESSION, tip, 1)

    assert found == [(f"attachment {digest[:12]}", "no turn refers to it", False)]
    assert stored(archive) == []


def test_file_goes_with_its_turn_in_a_copied_thread(archive: SqlArchive) -> None:
    """The running turn that stored it is committed: no session refers to it but by its turns."""
    (digest,) = references([_content(sending(1))])
    archive.attach(SESSION, {digest: DATA})
    tip = commit_all(archive, [sending(1)])
    with archive.database.reading() as connection:
        running = of_running(connection, SESSION.user)
    copied = archive.commit(OTHER, tip, turn(2)).tip

    archive.erase(OTHER, copied, 1)

    assert (running, stored(archive)) == ([], [])


def test_missing_file_is_damage(archive: Archive) -> None:
    """`verify` finds a file that was there, and a text stands for it."""
    database: Any = archive
    turn = archive.commit(SESSION, Tip(), sending(1))
    with database.database.writing() as connection:
        connection.execute(delete(attachments))

    findings = archive.verify(SESSION)

    assert [found.fatal for found in findings] == [True]
    assert "is missing" in findings[0].what
    blocks = complete(turn.messages[0].content, {})
    assert [block["type"] for block in blocks] == ["text", "text"]


@pytest.mark.parametrize("size", [0, len(DATA), -1, "3", True])
@pytest.mark.parametrize("digest", ["", "9f", "9f" * 32])
def test_forged_reference_is_no_damage(archive: Archive, digest: str, size: Any) -> None:
    """What a client makes up is stored as it came, and refers to nothing."""
    forged = {"type": "file", "base64": {"ebbtide_attachment": digest, "size": size}}
    asked = HumanMessage([forged])

    stored = archive.commit(SESSION, Tip(), replace(turn(1), messages=(asked,)))

    assert stored.messages == (asked,)
    assert archive.verify(SESSION) == ()


def test_forged_size_brings_nothing_back(archive: Archive) -> None:
    """A file that counts less than it has is not sent."""
    content: Any = archive.commit(SESSION, Tip(), sending(1)).messages[0].content
    texts = archive.attachments(SESSION, [*references([content])])
    content[1]["base64"]["size"] = 3

    assert complete(content, texts)[1]["type"] == "text"


def test_export_writes_files_and_copies_have_them(archive: Archive, tmp_path: Path) -> None:
    """As files with the bytes that were sent; in another archive as they were."""
    commit_all(archive, [sending(1)])
    other: Any = InMemoryArchive()
    source: Any = archive

    export_folder(source, SESSION, tmp_path / "out")
    copy(source, other)

    (file,) = (tmp_path / "out" / "attachments").iterdir()
    assert (file.suffix, file.read_bytes()) == (".pdf", b"%PDF-1.4\n" * 10_000)
    assert len(stored(other)) == 1
