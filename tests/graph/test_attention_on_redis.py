"""Attention on a Redis server that comes and goes while sessions run."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide import commands, erase
from ebbtide.memory.redis_attention import RedisAttention
from tests.agents import Talk, talk
from tests.graph.journeys import after
from tests.graph.test_attention import ENOUGH, MEMORY, SAID, concluding, monday, session, surfaced
from tests.redis_server import RedisServer, serving_redis


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """Return a server that runs."""
    with serving_redis() as running:
        yield running


def test_the_next_session_begins_with_it(tmp_path: Path, server: RedisServer) -> None:
    """What was concluded on monday is surfaced on tuesday, through Redis."""
    here = monday(tmp_path, "Hi.", attention=RedisAttention(server.client()))

    turn = after(here, "Hello.", session("tuesday"))

    assert MEMORY in surfaced(turn)
    assert not (tmp_path / ".ebbtide").exists()


def test_a_server_that_stops_in_the_middle(
    tmp_path: Path, server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The turn without it works with a warning; once it is back, it is told what it missed."""
    answers = [*concluding(), "Yes.", "Hi."]
    here = talk(tmp_path, answers, attention=RedisAttention(server.client()))
    here.say(SAID, session("monday"))
    server.kill()
    with caplog.at_level(logging.WARNING, "ebbtide.attention"):
        concluded = here.say(ENOUGH, session("monday"))
    server.start()

    back = here.say("Thanks.", session("monday"))

    assert [*concluded["memory"]["summaries"]] == ["keys"]
    assert (
        concluded["memory"]["position"]["attended"],
        back["memory"]["position"]["attended"],
    ) == (1, 3)
    assert "attention is told later of session 'monday'" in caplog.text
    assert MEMORY in surfaced(after(here, "Hello.", session("tuesday")))


def test_a_session_that_begins_without_the_server(tmp_path: Path, server: RedisServer) -> None:
    """Nothing is surfaced, the user is answered, and the memories can still be searched."""
    here = monday(tmp_path, "Good morning.", attention=RedisAttention(server.client()))
    server.kill()

    turn = after(here, "Hello.", session("tuesday"))
    server.start()

    assert turn.state["messages"][-1].text == "Good morning."
    assert not surfaced(turn)
    assert commands.search(here.agent, session("tuesday"), "gate key")["results"][0]["id"] == MEMORY


def test_an_expired_cache_loses_nothing(tmp_path: Path, server: RedisServer) -> None:
    """Without the sorted set, as a day later, the next session begins with the same."""
    here: Talk = monday(tmp_path, "Hi.", attention=RedisAttention(server.client()))

    gone = server.client().delete("ebbtide:ann:attention")

    assert gone == 1
    assert MEMORY in surfaced(after(here, "Hello.", session("tuesday")))


def test_what_could_not_be_erased_is_said(tmp_path: Path, server: RedisServer) -> None:
    """Without the server keywords of the turn stay there; erasing again reaches them."""
    said_after = {"summary": "It was said at length.", "keywords": []}
    here = monday(tmp_path, then=said_after, attention=RedisAttention(server.client()))
    server.kill()
    first = erase(here.agent, session("monday"), 1)
    server.start()
    kept = redis_text(server)

    again = erase(here.agent, session("monday"), 1)

    assert any("keywords in the attention of the user" in one for one in first.not_erased)
    assert not any("keywords" in one for one in again.not_erased)
    assert "clock" in kept
    assert "clock" not in redis_text(server)


def redis_text(server: RedisServer) -> str:
    """Return all keys of a server with the fields of the hashes, as one text."""
    client = server.client(decode_responses=True)
    keys = [str(key) for key in client.scan_iter()]
    return repr([(key, client.hgetall(key)) for key in keys if client.type(key) == "hash"] + keys)
