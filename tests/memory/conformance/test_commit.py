"""Committing: what is stored is read back, once, whoever commits at once."""

import itertools
import sys
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import randbytes
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage, HumanMessage
from sqlalchemy import Connection, event

from ebbtide import SqlArchive
from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.attachments import data_of
from ebbtide.memory.serialised import stored_form, to_dict
from ebbtide.memory.turn import Part, Session, StoredTurn, Tip, commit_id
from tests.draws import examples
from tests.memory.archive.test_rows import JSON, MESSAGES
from tests.memory.turns import SESSION, START, answer, commit_all, human, opened, turn

THREADS = itertools.count()


def test_nothing_is_computed_while_others_wait(archive: SqlArchive) -> None:
    """Terms and compressed bytes are made before the transaction that writes them."""
    called = set[str]()

    def note(frame: FrameType, what: str, function: Any) -> None:
        if what == "c_call":
            called.add(function.__qualname__)
        elif ".memory." in (module := frame.f_globals.get("__name__", "")):
            called.add(module)

    def begin(connection: Connection) -> None:
        if "ebbtide_writes" in connection.get_execution_options():
            sys.setprofile(note)

    def end(_: Connection) -> None:
        sys.setprofile(None)

    file = {"type": "image", "base64": b64encode(randbytes(99_999)).decode(), "mime_type": "a/b"}
    block = {"Facts": "likes tea\nlikes green tea", "Rules": "Answer in Dutch."}
    rounds = Part("ab" * 8, "", (answer("One step.", tool_calls=[]),))
    pasted = StoredTurn(
        *(1, (human(" ".join(map(hex, range(9_999)))), *rounds.messages), "2026-01-01"),
        events=(opened("e"), {"type": "anchored", "anchor": block}),
        state={"memory": {"anchor": block}},
        nonce="ab" * 8,
        part=archive.add_part(SESSION, rounds),
    )
    tip = archive.commit(SESSION, START, turn(1)).tip

    hooks = (("begin", begin), ("commit", end), ("rollback", end))
    for name, hook in hooks:
        event.listen(archive.database._engine, name, hook)
    archive.attach(SESSION, data_of([[file]]))
    archive.add_part(SESSION, rounds)
    archive.commit(
        SESSION,
        tip,
        replace(pasted, messages=(*pasted.messages, HumanMessage([file]))),
    )
    for name, hook in hooks:
        event.remove(archive.database._engine, name, hook)

    assert "ebbtide.memory.archive.index" in called
    assert not [name for name in called if ".memory.search." in name or "compress" in name]
    assert archive.parts(SESSION, pasted.part) == (rounds,)
    assert len(archive.facts(SESSION.user)) == 3


@pytest.mark.parametrize("said", [(), (human("hi"),)])
def test_aborted_turn_says_so(archive: Archive, said: tuple[BaseMessage, ...]) -> None:
    """The status of a turn is read back, also of one without messages."""
    stored = archive.commit(SESSION, START, StoredTurn(1, said, "2026-01-01", status="aborted"))

    assert stored.status == "aborted"
    assert archive.load(SESSION, stored.tip).turns([1]) == (stored,)


def test_what_json_cannot_hold_becomes_a_marker(archive: Archive) -> None:
    """A value that JSON cannot hold is stored as a marker that names its type, once."""
    new = StoredTurn(1, (human("hi", artifact={"raw": object(), "kinds": {1}}),), "2026-01-01")
    stored = archive.commit(SESSION, START, new)

    assert to_dict(stored.messages[0])["data"]["artifact"] == {
        "raw": {"ebbtide_unserialisable": "builtins.object"},
        "kinds": [1],
    }
    assert archive.commit(SESSION, START, new) == stored
    assert archive.verify(SESSION) == ()


@given(
    messages=st.lists(MESSAGES, max_size=3).map(stored_form),
    events=st.lists(st.fixed_dictionaries({"x": JSON})),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(40))
def test_anything_is_kept(
    archive: Archive, messages: tuple[BaseMessage, ...], events: list[dict[str, Any]]
) -> None:
    """Messages and events of any content are read back equal, with an id that matches."""
    session = Session("ann", f"t{next(THREADS)}")
    new = StoredTurn(
        1, messages, "2026-01-01", events=tuple({**e, "type": "other"} for e in events)
    )
    stored = archive.commit(session, Tip(), new)

    found = archive.load(session, stored.tip).turns([1])[0]

    assert found.messages == messages
    assert found.id == commit_id("", "", [*map(to_dict, messages)])
    assert archive.verify(session) == ()


def test_same_turn_at_once_is_stored_once(archive: Archive) -> None:
    """Threads that commit the same turn get the same record."""
    before = commit_all(archive, [turn(1)])

    with ThreadPoolExecutor(8) as pool:
        turns = list(pool.map(lambda _: archive.commit(SESSION, before, turn(2)), range(16)))

    assert {stored.tip for stored in turns} == {turns[0].tip}
    assert len(archive.tips(SESSION)) == 1


def test_other_turns_at_once_get_branches(archive: Archive) -> None:
    """Threads that commit different turns after one tip get a branch each."""
    before = commit_all(archive, [turn(1)])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: archive.commit(SESSION, before, turn(2, f"way {n}")), range(12)))

    assert len(archive.tips(SESSION)) == 12
    assert [finding for finding in archive.verify(SESSION) if finding.fatal] == []
