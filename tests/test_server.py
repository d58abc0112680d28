"""`langgraph dev` from the repository: it starts with no key, and answers through its own API."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

from ebbtide import DiskArchive
from ebbtide.memory.settings import Settings
from tests.conftest import SECRETS

CONFIG = Path(__file__).parents[1] / "langgraph.json"
QUIET = {
    "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    "LANGGRAPH_NO_VERSION_CHECK": "true",
    "LANGSMITH_TRACING": "false",
}
_TIMEOUT = 60.0


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_healthy(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait for the server to answer; raise with its log if it does not."""
    end = time.monotonic() + _TIMEOUT
    while time.monotonic() < end and server.poll() is None:
        try:
            if httpx.get(f"{url}/ok").is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError(f"the server did not start:\n{log.read_text('utf-8')}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the working directory of the server."""
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[SyncLangGraphClient]:
    """Start a server without keys, and return a client of it."""
    port, log = free_port(), folder / "server.log"
    url = f"http://127.0.0.1:{port}"
    kept = {name: value for name, value in os.environ.items() if name not in SECRETS}
    kept = {name: value for name, value in kept.items() if not name.startswith("EBBTIDE_")}
    options = ["--no-browser", "--no-reload", "--port", str(port), "--config", str(CONFIG)]
    with log.open("wb") as written:
        server = subprocess.Popen(
            [sys.executable, "-m", "langgraph_cli", "dev", *options],
            cwd=folder,
            env={**kept, **QUIET},
            stdout=written,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_until_healthy(url, server, log)
        with get_sync_client(url=url) as connected:
            yield connected
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def said(words: str) -> Mapping[str, Any]:
    """Return the input of a run: one user message."""
    return {"messages": [{"role": "user", "content": words}]}


def say(client: SyncLangGraphClient, thread: str, words: str, **options: Any) -> dict[str, Any]:
    """Run a turn on a thread and return the state."""
    found = client.runs.wait(thread, "ebbtide", input=said(words), **options)
    assert isinstance(found, dict)
    return found


def test_a_turn_is_answered_with_the_state_that_clients_read(client: SyncLangGraphClient) -> None:
    """A run opens an effort and returns answer, banners and the report of its context."""
    thread = client.threads.create()["thread_id"]

    found = say(client, thread, "Let's work on the auth bug: tokens live 3600 seconds.")

    assert found["messages"][-1]["content"] == "Opened auth-bug."
    assert found["memory"]["banners"] == ["--- Started effort: auth-bug ---"]
    assert (found["memory"]["turn"], found["memory"]["active_effort"]) == (1, "auth-bug")
    assert found["memory"]["context_report"]["total"] == sum(
        found["memory"]["context_report"]["tokens"].values()
    )
    assert "context" not in found


def test_a_thread_goes_on(client: SyncLangGraphClient) -> None:
    """The second turn knows what the first one said."""
    thread = client.threads.create()["thread_id"]
    say(client, thread, "The staging host listens on port 8123.")

    found = say(client, thread, "Which port does the staging host listen on?")

    assert "8123" in found["messages"][-1]["content"]
    assert found["memory"]["turn"] == 2


def test_banners_and_tokens_are_streamed(client: SyncLangGraphClient) -> None:
    """A stream carries the banner as it happens and the answer in pieces."""
    thread = client.threads.create()["thread_id"]
    asked = said("Let's work on the auth bug.")

    parts = [
        *client.runs.stream(thread, "ebbtide", input=asked, stream_mode=["custom", "messages"])
    ]

    assert {"banner": "--- Started effort: auth-bug ---"} in [part.data for part in parts]
    assert [part.event for part in parts].count("messages/partial") > 1


def test_settings_are_the_context_of_the_assistant(client: SyncLangGraphClient) -> None:
    """Studio sees every setting with its description."""
    assistant = client.assistants.search()[0]["assistant_id"]

    schema = client.assistants.get_schemas(assistant)["context_schema"]

    assert schema is not None
    assert set(schema["properties"]) == set(Settings.model_fields)
    assert schema["properties"]["context_budget"]["description"]


def test_a_run_may_have_settings_of_its_own(client: SyncLangGraphClient) -> None:
    """Context that a run brings is validated, and decides whose session it is."""
    thread = client.threads.create()["thread_id"]

    found = say(client, thread, "Hello!", context={"user_id": "ann", "ambient_window": 3})

    assert found["memory"]["position"]["session"] == {
        "user": "ann",
        "thread": thread,
        "namespace": "",
    }


def test_the_server_keeps_its_archive_where_it_was_started(
    client: SyncLangGraphClient, folder: Path
) -> None:
    """Sessions lie in the working directory, not in the repository."""
    thread = client.threads.create()["thread_id"]

    say(client, thread, "Hello!")

    with DiskArchive(folder / "sessions") as archive:
        assert [owner.thread for owner in archive.sessions("default")].count(thread) == 1
    assert (folder / ".langgraph_api").exists()


def test_a_user_is_known_in_the_next_thread(client: SyncLangGraphClient, folder: Path) -> None:
    """What ann concludes on one thread is surfaced on her next, from the store of the server."""
    ann = {"context": {"user_id": "ann"}}
    first, next_one, other = (client.threads.create()["thread_id"] for _ in range(3))
    for words in ("Let's work on the gate.", "The key hangs behind the clock, at the porter's."):
        say(client, first, words, **ann)
    say(client, first, "That's done.", **ann)

    found = say(client, next_one, "Hello!", **ann)
    nothing = say(client, other, "Hello!", context={"user_id": "bob"})

    assert [*found["memory"]["summaries"]] == [f"{first}/gate"]
    assert nothing["memory"]["summaries"] == {}
    assert not (folder / "sessions" / ".ebbtide").exists()


def test_errors_of_ours_are_told_to_a_client(client: SyncLangGraphClient) -> None:
    """Who asks for another user's thread reads why it is refused."""
    thread = client.threads.create()["thread_id"]
    say(client, thread, "Hello!", context={"user_id": "ann"})

    with pytest.raises(Exception, match=r"SessionNotFoundError: session .* not found: check the"):
        say(client, thread, "Hello!", context={"user_id": "bob"})
