"""`ebbtide chat`: turns as they happen, turns left in the middle, whose they are."""

import json
import os
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from threading import Event

import pytest

from ebbtide import DiskArchive
from ebbtide.cli.chat_commands import usages
from ebbtide.memory.turn import Session
from tests.cli.commands_run import chat
from tests.cli.terminal import Terminal, terminal
from tests.openai_server import Answer, Body, Fail, OpenAIServer, Say, serving
from tests.processes import begun, ended

SESSION = Session("", "default")
MODEL = ("chat", "--root", "kept", "--model", "openai:gpt-5-mini")
KEY = "sk-very-secret"
SLOW = Say("Let me think about it for a very long while.", pause=0.5)


def asked(*lines: str, url: str, fails: bool = False) -> str:
    """Talk to the model at a URL in a process of its own, the lines piped in; return its output.

    Its exit code says whether something failed.
    """
    ran = ended(
        ["-m", "ebbtide.cli.main", *MODEL],
        environment={**os.environ, "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": url},
        typed="".join(f"{line}\n" for line in lines),
    )
    assert ran.code == int(fails)
    return ran.printed + ran.failed


def at_terminal(server: OpenAIServer) -> AbstractContextManager[Terminal]:
    """Talk to the model of a server at a terminal."""
    return terminal(MODEL, {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.url})


def statuses(root: str) -> list[str]:
    """Return how each turn of the thread ended, oldest first."""
    with DiskArchive(root) as archive:
        past = archive.load(SESSION)
        return [turn.status for turn in past.turns(range(1, past.until + 1))]


def test_a_conversation_at_a_terminal() -> None:
    """An effort opens and concludes in view, and each turn ends with its tokens by part."""
    with terminal(["chat", "--model", "scripted", "--prices", "1,2"], {}) as person:
        person.converse(("Let's work on the auth bug.", "--- Started effort: auth-bug ---"))
        person.see("Opened auth-bug.")
        person.see(" of 16,000 tokens: ")
        person.see(", of these cached 0, written ")
        person.see(" in money")
        person.converse(("That's done.", "--- Concluded effort: auth-bug ---"))

        assert person.quit() == 0


def test_pipes_get_the_answers_alone() -> None:
    """Banners go to stderr, /help lists the commands, markup stands as it is; /quit ends it."""
    talk = ("Let's work on the auth bug.", "It says [bold red]stop[/] and \x1b[2J.", "That's done.")
    result = chat("/help", "", *talk, "/quit", "no")

    assert result.exit_code == 0, result.output
    assert all(f"{usage} " in result.stdout for usage in usages())
    assert "Noted: It says [bold red]stop[/] and ␛[2J." in result.stdout
    assert "--- Started effort: auth-bug ---\n" in result.stderr
    assert result.stdout.splitlines()[-1].startswith("Concluded auth-bug: ")
    assert "\x1b" not in result.output


def test_help_about_a_word() -> None:
    """The lines about it are shown alone; a word that no line has is told with what is meant."""
    result = chat("/help Undo", "/help serch", "/help xyzzy")

    names = [line.split()[0] for line in result.stdout.splitlines() if line.startswith("/")]
    assert names == ["/undo"]
    assert "no command is about 'serch'; did you mean '/search'?" in result.stderr
    assert "no command is about 'xyzzy'; /help lists all commands" in result.stderr


def answered(server: OpenAIServer, *arguments: str, typed: str = "") -> str:
    """Ask the model of a server for one answer, with a text on stdin; return what is printed."""
    environment = {**os.environ, "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.url}
    command = ["-m", "ebbtide.cli.main", *MODEL, *arguments]
    ran = ended(command, environment=environment, typed=typed)
    assert ran.code == 0, ran.failed
    return ran.printed


@pytest.mark.thorough
def test_a_message_is_answered_alone() -> None:
    """The model gets it with what is piped in and --system, and the thread goes on."""
    with serving(Say("8123."), Say("Aye.")) as server:
        first = answered(server, "Which port?", "--system", "Be brief.", typed="Port 8123.\n")
        second = json.loads(answered(server, "Sure?", "--json"))

    system, *_, question = server.requests[0].body["messages"]
    assert first == "8123.\n"
    assert "Be brief." in system["content"]
    assert question["content"] == "Which port?\n\nPort 8123."
    assert (second["answer"], second["turn"]) == ("Aye.", 2)
    assert second["context_report"]["budget"] == 16_000


@pytest.mark.thorough
def test_a_state_block_is_not_shown() -> None:
    """What the model keeps for itself is on no line, however its answer comes in."""
    said = "Understood.\n\n---STATE---\nGoal: ship 1.2\n---END STATE---"
    with serving(Say(said), Say("Fine.")) as server:
        page = asked("Let us ship.", "Go on.", "/quit", url=server.url)

    assert "Understood.\n" in page
    assert "STATE" not in page
    assert "Goal" not in page
    assert "Goal: ship 1.2" in str(server.requests[-1].body["messages"])


def test_the_next_chat_goes_on_from_the_archive() -> None:
    """Though the checkpoints are gone, and for its user alone."""
    chat("The port is 8123 on the staging host.", options=("--user", "ann"))
    shutil.rmtree("sessions/.ebbtide")

    result = chat("Which port is it on the staging host?", options=("--user", "ann"))
    other = chat("Which port is it?", options=("--user", "../bob"))

    assert "restored from the archive" in result.stderr
    assert 'You said: "The port is 8123 on the staging host."' in result.stdout
    assert "8123" not in other.stdout


@pytest.mark.thorough
def test_a_provider_error_is_one_line_and_enter_resumes_the_turn() -> None:
    """A refused call ends the turn in one line without the key; the turn can then be resumed."""
    with serving(Fail(401, message=f"no such key: {KEY}"), Say("Hello again.")) as server:
        page = asked("Hello", "", "/quit", url=server.url, fails=True)

    assert "no such key: ***" in page
    assert 'The turn is not finished: "Hello". An empty message resumes it' in page
    assert "Hello again." in page
    assert KEY not in page
    assert "Traceback" not in page
    assert statuses("kept") == ["done"]


def test_an_archive_that_fails_is_one_line_and_the_chat_goes_on() -> None:
    """A turn that cannot be stored is said to be unfinished; the next line is read."""
    chat("Hi!", "/quit")
    with closing(sqlite3.connect("sessions/ebbtide.sqlite")) as full:
        full.execute(
            "CREATE TRIGGER full BEFORE INSERT ON ebbtide_turns"
            " BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        )

    result = chat("Hello!", "/help")

    assert result.exit_code == 1, result.output
    assert "database or disk is full" in result.stderr
    assert 'The turn is not finished: "Hello!". An empty message resumes it' in result.stderr
    assert "/quit  " in result.stdout


@pytest.fixture
def background() -> Iterator[None]:
    """Let the tests themselves ignore Ctrl-C, as a job in the background does."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.thorough
@pytest.mark.usefixtures("background")
def test_ctrl_c_stops_the_turn_and_enter_resumes_it() -> None:
    """At a terminal Ctrl-C leads back to the prompt at once, and the turn can be resumed."""
    with serving(SLOW, Say("Here it is.")) as server, at_terminal(server) as person:
        person.converse(("What is it?", "Let "))
        person.send(signal.SIGINT)
        person.see('Stopped: "What is it?". Enter resumes it')
        person.converse(("", "Here it is."))

        assert person.quit() == 0
    assert statuses("kept") == ["done"]


def test_ctrl_c_ends_a_pipe() -> None:
    """The lines after the stopped turn are not run, and the exit code is that of Ctrl-C."""
    asked_once = Event()

    def answer(_: Body) -> Answer:
        asked_once.set()
        return SLOW

    Path("lines").write_text("One.\nTwo.\nThree.\n", "utf-8")
    with serving(by=answer) as server:
        environment = {**os.environ, "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.url}
        command = ["-m", "ebbtide.cli.main", *MODEL]
        process = begun(command, Path.cwd(), environment, ["lines", "printed", "failed"])
        assert asked_once.wait(30)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGINT)
        process.join(30)

    assert (process.exitcode, len(server.requests)) == (130, 1)


@pytest.mark.thorough
def test_a_killed_turn_is_offered_again_at_the_next_start() -> None:
    """After SIGKILL in the middle of a turn the next chat says so, and Enter resumes it."""
    with serving(SLOW, Say("Here it is.")) as server:
        with at_terminal(server) as person:
            person.converse(("What is it?", "Let "))
            person.send(signal.SIGKILL)
            person.process.join()

        with at_terminal(server) as person:
            person.see('The last turn was left unfinished: "What is it?"')
            person.converse(("", "Here it is."))
            person.see("> ")
            person.send(signal.SIGINT)

            assert person.quit() == 0
    assert statuses("kept") == ["done"]
