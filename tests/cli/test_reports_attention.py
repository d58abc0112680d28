"""Attention at the terminal: `ebbtide attention`, and `/attention` in the chat."""

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

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


def chat(*lines: str, thread: str = "monday", user: str = "ann") -> str:
    """Have a chat of one user, and return what was shown."""
    return talked(*lines, thread=thread, user=user)


def test_what_one_chat_concludes_the_next_begins_with() -> None:
    """A new thread of the same user says what comes from earlier ones."""
    chat(*LINES)

    assert f"From earlier sessions: {MEMORY}" in chat("Hello", thread="tuesday")


def test_a_listed_id_can_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """However narrow the screen is, no id is broken, and the other commands take it."""
    thread = str(uuid4())
    chat(*LINES, thread=thread)
    monkeypatch.setenv("COLUMNS", "40")

    listed = run("attention", "list", "--user", "ann").stdout
    memory_id = next(word.strip(",") for word in listed.split() if "/" in word)

    assert memory_id == f"{thread}/gate"
    forgotten = run("attention", "forget", memory_id, "--user", "ann").stdout
    assert forgotten == f"forgot {memory_id}\n"


def test_a_memory_is_explained() -> None:
    """Its text, base, age, accesses, what it holds and when it fades are said."""
    chat(*LINES)

    said = run("attention", "explain", MEMORY, "--user", "ann").stdout

    assert said.splitlines()[:4] == [
        MEMORY,
        "Let's work on the gate.",
        "holds 50.0 of 100: medium",
        "base 50, 0.0 days old, accessed 0 times",
    ]
    assert said.splitlines()[4].startswith("fades 2")


def test_the_list_shows_what_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each memory has the beginning of its text, as JSON all of it."""
    chat(LINES[0], f"The code of the gate is 4711{' in the hall' * 20}.", LINES[2])
    monkeypatch.setenv("COLUMNS", "200")

    listed = run("attention", "list", "--user", "ann").stdout
    (memory,) = json.loads(run("attention", "list", "--user", "ann", "--json").stdout)

    assert "Let's work on the gate. The code of the gate is 4711" in " ".join(listed.split())
    assert "…" in listed
    assert memory["text"].endswith("in the hall.")


def test_suppressed_and_back() -> None:
    """A suppressed memory is listed as such, and not surfaced until it is unsuppressed."""
    chat(*LINES)

    suppressed = run("attention", "suppress", MEMORY, "--user", "ann").stdout
    listed = run("attention", "list", "--user", "ann").stdout
    meanwhile = chat("Hello", thread="tuesday")
    run("attention", "unsuppress", MEMORY, "--user", "ann")

    assert "suppressed" in suppressed
    assert "suppressed" in listed
    assert "earlier sessions" not in meanwhile
    assert f"From earlier sessions: {MEMORY}" in chat("Hello", thread="wednesday")


def test_a_memory_is_forgotten() -> None:
    """Nothing is kept of it any more; its session is not touched."""
    chat(*LINES)

    said = run("attention", "forget", MEMORY, "--user", "ann").stdout

    assert said == f"forgot {MEMORY}\n"
    assert run("attention", "list", "--user", "ann").stdout == "nothing is in attention\n"
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


def test_in_the_chat() -> None:
    """`/attention` lists, explains, suppresses and unsuppresses."""
    chat(*LINES)

    verbs = (f"/attention {verb} {MEMORY}" for verb in ("explain", "suppress", "unsuppress"))
    output = chat("/attention", *verbs, thread="tuesday")

    assert output.count(MEMORY) == 4
    assert output.count("suppressed") == 1


def test_on_redis(redis: RedisServer) -> None:
    """With EBBTIDE_REDIS_URL attention is on that server, and no file is made for it."""
    chat(*LINES)

    listed = run("attention", "list", "--user", "ann").stdout

    assert MEMORY in listed
    assert redis.client().keys("ebbtide:ann:*")
    assert not Path("sessions/.ebbtide/attention.sqlite").exists()


def test_without_the_server_the_chat_goes_on(redis: RedisServer) -> None:
    """When the server is gone, the table answers the chat and `attention`."""
    redis.kill()

    output = chat(*LINES)
    listed = run("attention", "list", "--user", "ann")
    redis.start()

    assert "Concluded gate" in output
    assert listed.exit_code == 0
    assert MEMORY in listed.stdout


def test_a_url_that_is_none_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the variable and not its value, which may hold a password."""
    monkeypatch.setenv("EBBTIDE_REDIS_URL", "localhost:secret")

    result = run("attention", "list", "--user", "ann")

    assert "EBBTIDE_REDIS_URL is not a URL" in result.stderr
    assert "secret" not in result.output
