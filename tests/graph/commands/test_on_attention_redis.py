"""Attention cached on a Redis server that comes and goes while sessions run."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ebbtide import DiskArchive, commands, delete_session, delete_user, erase
from ebbtide.memory.attention import redis as redis_attention
from ebbtide.memory.attention.redis import RedisAttention
from tests.agents import Talk
from tests.graph.journeys import after
from tests.nodes.turn.test_parts_attention import MEMORY, monday, session, surfaced
from tests.redis_server import RedisServer, serving_redis

FIRST, SECOND = session("tuesday"), session("wednesday")


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """Yield a server that runs."""
    with serving_redis() as running:
        yield running


@pytest.fixture
def chat(tmp_path: Path, server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Talk]:
    """Yield an agent that concluded an effort on monday, and asks a failed server at once again."""
    monkeypatch.setattr(redis_attention, "_REST", 0.0)
    archive = DiskArchive(tmp_path, durable=False)
    then = {"summary": "It was said at length.", "keywords": []}
    with server.client() as client:
        kept = RedisAttention(client, archive.attention())
        yield monday(tmp_path, "Hi.", "Hello.", then=then, archive=archive, attention=kept)


def text_in(server: RedisServer) -> str:
    """Return all keys of a server with the fields of the hashes, as one text."""
    with server.client(decode_responses=True) as client:
        keys = [str(key) for key in client.scan_iter()]
        hashes = [(key, client.hgetall(key)) for key in keys if client.type(key) == "hash"]
        return repr([*hashes, *keys])


def test_the_next_session_begins_with_it(chat: Talk) -> None:
    """What was concluded on monday is surfaced on tuesday."""
    assert MEMORY in surfaced(after(chat, "Hello.", FIRST))


def test_a_turn_is_told_to_the_cache(chat: Talk, server: RedisServer) -> None:
    """What was read before a turn is deleted when it changes something; else it stays."""
    commands.attention(chat.agent, FIRST)
    before = text_in(server)
    chat.say("Hello.", FIRST)
    between = text_in(server)
    commands.reopen_effort(chat.agent, session("monday"), "keys")

    after_it = text_in(server)
    assert ["clock" in one for one in (before, between, after_it)] == [True, True, False]


def test_a_server_that_is_gone(
    chat: Talk, server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The session begins as with it, one warning is logged, and nothing has to be caught up."""
    server.kill()
    with caplog.at_level(logging.WARNING, "ebbtide.attention"):
        turn = after(chat, "Hello.", FIRST)
    server.start()

    assert MEMORY in surfaced(turn)
    assert MEMORY in surfaced(after(chat, "Hello.", SECOND))
    assert len(caplog.messages) == 1


def test_what_happened_without_the_server(chat: Talk, server: RedisServer) -> None:
    """A memory that was suppressed meanwhile is not surfaced by what the server had before."""
    commands.attention(chat.agent, FIRST)
    server.kill()
    commands.suppress(chat.agent, FIRST, MEMORY)
    server.start()

    assert not surfaced(after(chat, "Hello.", FIRST))


def test_a_flushed_cache_loses_nothing(chat: Talk, server: RedisServer) -> None:
    """Without any key the next session begins with the same."""
    commands.attention(chat.agent, FIRST)
    with server.client() as client:
        client.flushall()

    assert MEMORY in surfaced(after(chat, "Hello.", FIRST))


def test_erasing_reaches_the_cache(chat: Talk, server: RedisServer) -> None:
    """No keyword of an erased turn is left in it."""
    commands.attention(chat.agent, FIRST)
    before = text_in(server)

    erase(chat.agent, session("monday"), 1)

    assert "clock" in before
    assert "clock" not in text_in(server)


def test_erasing_reaches_a_cache_that_was_away(chat: Talk, server: RedisServer) -> None:
    """What could not be deleted from it is when it is asked again."""
    commands.attention(chat.agent, FIRST)
    server.kill()
    erase(chat.agent, session("monday"), 1)
    server.start()
    before = text_in(server)

    chat.say("Hello.", FIRST)

    assert "clock" in before
    assert "clock" not in text_in(server)


@pytest.mark.parametrize(
    "destroy",
    [
        lambda agent: erase(agent, session("monday"), 1),
        lambda agent: delete_session(agent, session("monday")),
        lambda agent: delete_user(agent, "ann"),
    ],
)
def test_a_cache_that_was_away_is_named(chat: Talk, server: RedisServer, destroy: Any) -> None:
    """The report says that it was not reached, and may keep keywords for a day."""
    commands.attention(chat.agent, FIRST)
    server.kill()

    report = destroy(chat.agent)

    assert "attention of 'ann': its cache was not reached" in report.not_erased[-1]
