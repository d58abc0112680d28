"""After an erasure a search for bytes finds nothing of it, wherever an agent keeps something."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from ebbtide import adelete_user, aerase, delete_session, delete_user, erase
from tests.databases import Server
from tests.faults.places import Place
from tests.graph.erase.scene import (
    ANN,
    ASKED,
    NEW,
    OF_TURN_2,
    ONE,
    TEXTS,
    THREE,
    TOLD,
    agent_at,
    left,
    of_its_own,
    opened,
    play,
    say,
    session,
    standing,
)
from tests.redis_server import RedisServer

THIRD = (THREE, TOLD)
"""What goes with turn 3, whose effort has a summary."""

GONE: Mapping[str, tuple[Callable[[Any], Any], tuple[str, ...]]] = {
    "turn": (lambda agent: erase(agent, ANN, 2), OF_TURN_2),
    "first turn": (lambda agent: erase(agent, ANN, 1), (ONE,)),
    "edited turn": (lambda agent: erase(agent, ANN, 2), (*OF_TURN_2, NEW)),
    "copy": (lambda agent: erase(agent, ANN, 3), THIRD),
    "session": (lambda agent: delete_session(agent, ANN), (*TEXTS, NEW)),
    "user": (lambda agent: delete_user(agent, "ann"), (*TEXTS, NEW)),
}
"""What is erased, by its name: how, and the texts that go with it."""

EDITED = {"edited turn", "copy", "user"}
WHERE = [
    "graph",
    *(pytest.param(where, marks=pytest.mark.thorough) for where in ("middleware", "mixed")),
    pytest.param("parent", marks=pytest.mark.thorough),
]


def check(place: Place, what: str, where: str, report: Any, own: Any) -> None:
    """Look for all texts after an erasure, and go on with the thread."""
    texts, gone = {*TEXTS, NEW} if what in EDITED else {*TEXTS}, {*GONE[what][1]}
    assert left(place, gone) == []
    assert standing(place, texts) == texts - gone
    with opened(place, where) as (chat, agent):
        if what not in {"session", "user"}:
            assert of_its_own(agent) == own
        say(agent, "Well?")
        (tip, *older) = reversed(chat.archive.tips(session(where)))
        turns = chat.archive.load(session(where), tip).turns(range(1, 9))
        assert [one for one in chat.archive.verify(session(where)) if one.fatal] == []
    if what in {"session", "user"}:
        assert ([one.number for one in turns], older) == ([1], [])
        return
    number = 5 + (what in EDITED)
    assert ([one.number for one in turns], len(older)) == ([*range(1, number + 1)], what in EDITED)
    erased = [one.number for one in turns if one.status == "erased"]
    assert erased == [report.turn]
    assert left(place, gone) == []


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, bool], Place]:
    """Return what gives a copy of the scene on files."""
    known: dict[tuple[str, bool], Place] = {}

    def copied(where: str, edited: bool) -> Place:
        if (where, edited) not in known:
            known[where, edited] = Place(tmp_path_factory.mktemp("scene") / "place").begun()
            play(known[where, edited], where, edited=edited)
        return known[where, edited].copy()

    return copied


@pytest.mark.parametrize("what", GONE)
@pytest.mark.parametrize("where", WHERE)
def test_nothing_is_left(played: Any, what: str, where: str) -> None:
    """Of the turn with its edited forms and copies, or of all; the rest is there and goes on."""
    place = played(where, what in EDITED)
    texts = {*TEXTS, NEW} if what in EDITED else {*TEXTS}
    assert standing(place, texts) == texts

    with opened(place, where) as (_, agent):
        own = of_its_own(agent)
        report = GONE[what][0](agent)

    check(place, what, where, report, own)


@pytest.mark.thorough
@pytest.mark.parametrize("what", ["edited turn", "user"])
@pytest.mark.parametrize("kind", ["postgresql", "redis"])
def test_nothing_is_left_in_a_server(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, what: str
) -> None:
    """No row of PostgreSQL and no key of Redis has it; what the database keeps is said."""
    if kind == "redis":
        redis: RedisServer = request.getfixturevalue("redis_server")
        place = Place(tmp_path / "place", socket=redis.socket).begun()
    else:
        server: Server = request.getfixturevalue("postgres")
        place = Place(tmp_path / "place", server.database().uri).begun()
    play(place, edited=True)
    assert left(place, TEXTS) != []
    assert kind != "redis" or place.cached

    with opened(place) as (_, agent):
        report = GONE[what][0](agent)

    assert any("`VACUUM FULL`" in one for one in report.not_erased) == (kind == "postgresql")
    check(place, what, "graph", report, (None, 0))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("what", ["edited turn", "user"])
async def test_nothing_is_left_asynchronously(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, what: str
) -> None:
    """So it is with the asynchronous forms, and with an asynchronous checkpointer."""
    uri = request.getfixturevalue("postgres").database().uri if kind == "postgresql" else ""
    place = Place(tmp_path / "place", uri).begun()
    play(place, edited=True)
    path = str(place.root / "checkpoints.sqlite")
    made: Any = AsyncPostgresSaver if uri else AsyncSqliteSaver

    async with made.from_conn_string(uri or path) as saver:
        with place.archive() as archive:
            agent = agent_at(place, "graph", saver, archive).agent
            user = what == "user"
            report = await (adelete_user(agent, "ann") if user else aerase(agent, ANN, 2))

    check(place, what, "graph", report, (None, 0))


def test_nothing_is_left_in_memory(tmp_path: Path) -> None:
    """Checkpoints in memory are replaced by one without the text."""
    place, saver, said = Place(tmp_path / "place").begun(), InMemorySaver(), (ONE, ASKED, THREE)
    with opened(place, saver=saver) as (_, agent):
        for words in said:
            say(agent, words)

        erase(agent, ANN, 2)

    held = repr((saver.storage, saver.blobs, saver.writes))
    assert [one in held for one in said] == [True, False, True]
    assert len([*saver.list(ANN)]) == 1


@pytest.mark.parametrize("edited", ["", "first turn", "turn"])
@pytest.mark.parametrize("where", ["t", "copy"])
def test_nothing_is_left_in_a_copied_thread(tmp_path: Path, where: str, edited: str) -> None:
    """It is one turn, also where the copy has edited it, or has begun anew with an edit."""
    place = Place(tmp_path / "place").begun()
    copy: Any = {"configurable": {**ANN["configurable"], "thread_id": "copy"}}
    play(place)
    with opened(place) as (chat, agent):
        agent.update_state(copy, agent.get_state(ANN).values, as_node="persist")
        say(agent, "In the copy.", copy)
        asked = {"first turn": ONE, "turn": ASKED}.get(edited)
        for message in agent.get_state(copy).values["messages"]:
            if asked and message.type == "human" and asked in message.text:
                update = [message.model_copy(update={"content": NEW})]
                agent.update_state(copy, {"messages": update})
                say(agent, "And then?", copy)
        config = copy if where == "copy" else ANN

        report = erase(agent, config, 2)

        gone = (*OF_TURN_2, NEW) if edited == "turn" else OF_TURN_2
        assert left(place, gone) == []
        assert len(report.not_erased) == 2  # the names of efforts
        for one in (ANN, copy):
            say(agent, "On.", one)
        told = [chat.said(agent.get_state(one).values) for one in (ANN, copy)]
        assert [words[-1] for words in told] == ["On."] * 2
        assert "In the copy." in told[1]
        assert [f for f in chat.archive.verify(session("graph")) if f.fatal] == []
    assert left(place, gone) == []
