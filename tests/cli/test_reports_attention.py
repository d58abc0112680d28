"""Attention at the terminal: `ebbtide attention`, and `/attention` in the chat."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands_run import run, talked
from tests.redis_server import RedisServer, serving_redis

MEMORY = "monday/gate"
LINES = ("Let's work on the gate.", "The key of the gate hangs behind the clock.", "That's done.")


@pytest.fixture
def redis(monkeypatch: pytest.MonkeyPatch) -> Iterator[RedisServer]:
    """Return a server that the environment names."""
    with serving_redis() as server:
        monkeypatch.setenv("EBBTIDE_REDIS_URL", f"unix://{server.socket}")
        yield server


def chat(*lines: str, thread: str = "monday") -> str:
    """Have a chat of Ann, and return what was shown."""
    return talked(*lines, thread=thread, user="ann")


def attention(*words: str) -> str:
    """Return what `ebbtide attention` prints of Ann."""
    return run("attention", *words, "--user", "ann").stdout


def test_a_memory_is_listed_suppressed_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one chat concludes the next begins with, unless it is suppressed; no id is broken."""
    chat(*LINES)
    monkeypatch.setenv("COLUMNS", "40")

    listed, data = attention("list"), json.loads(attention("list", "--json"))
    explained = attention("explain", MEMORY)
    shown = chat("Hello", thread="tuesday")
    attention("suppress", MEMORY)
    suppressed, meanwhile = attention("list"), chat("Hello", thread="wednesday")
    attention("unsuppress", MEMORY)
    again = chat("Hello", thread="thursday")
    forgotten = attention("forget", MEMORY)

    assert MEMORY in listed.split()
    assert [memory["id"] for memory in data] == [MEMORY]
    assert explained.startswith(f"{MEMORY}\n")
    assert f"From earlier sessions: {MEMORY}" in shown
    assert "suppressed" in suppressed
    assert "earlier sessions" not in meanwhile
    assert f"From earlier sessions: {MEMORY}" in again
    assert forgotten.startswith(f"{MEMORY}\n")
    assert attention("list") == "nothing is in attention\n"
    assert "monday" in run("sessions", "--user", "ann").stdout


@pytest.mark.parametrize("verb", ["explain", "forget"])
def test_an_unknown_memory_is_an_error(verb: str) -> None:
    """A near id is offered, and the exit code says that nothing was done."""
    chat(*LINES)

    result = run("attention", verb, "monday/gates", "--user", "ann")

    assert result.exit_code == 1
    assert f"no memory 'monday/gates': did you mean '{MEMORY}'?" in result.stderr


def test_without_a_user_there_is_no_attention() -> None:
    """Who names no user is told to, with an exit code."""
    result = run("attention", "list")

    assert result.exit_code == 1
    assert "the run has no user" in result.stderr


def test_on_redis(redis: RedisServer) -> None:
    """With EBBTIDE_REDIS_URL attention is there; when the server is gone, the table answers."""
    chat(*LINES)
    listed, keys = attention("list"), redis.client().keys("ebbtide:ann:*")
    redis.kill()

    output = chat(*LINES, thread="tuesday")

    assert MEMORY in listed
    assert keys
    assert not Path("sessions/.ebbtide/attention.sqlite").exists()
    assert "Concluded gate" in output
    assert MEMORY in attention("list")
    redis.start()


def test_a_url_that_is_none_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the variable and not its value, which may hold a password."""
    monkeypatch.setenv("EBBTIDE_REDIS_URL", "localhost:secret")

    result = run("attention", "list", "--user", "ann")

    assert "EBBTIDE_REDIS_URL is not a URL" in result.stderr
    assert "secret" not in result.output
