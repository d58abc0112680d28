"""The slash commands of `ebbtide chat`."""

import json
import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Event

import pytest

from tests.cli.commands_run import chat
from tests.cli.terminal import terminal
from tests.cli.test_chat import asked, at_terminal, statuses
from tests.openai_server import Answer, Body, Fail, Say, Structured, serving
from tests.zipped import revealed

LONG = "word " * 100
OPENED = ("/open auth bug: sign-in works", "The refresh token expires after 3600 s.")


@dataclass
class Halting:
    """A model whose second summary does not come before it is released."""

    waiting: Event = field(default_factory=Event)
    released: Event = field(default_factory=Event)
    summaries: Iterator[int] = field(default_factory=lambda: count(1))

    def __call__(self, body: Body) -> Answer:
        """Answer a request."""
        if "response_format" not in body:
            return Say("Noted.")
        if next(self.summaries) == 2:
            self.waiting.set()
            self.released.wait(30)
        return Structured({"summary": "A code was set.", "keywords": [], "importance": 1})


@pytest.mark.thorough
def test_context_show_prints_what_the_server_receives() -> None:
    """Each message and each tool of the next request stands on the page, in order, unchanged."""
    reads = Say(calls=[("read_log", {"turns": "1"})])
    with serving(
        Say(f"Hello 你好.\n\tIndented.  {LONG}  "), reads, Say("Read."), Say("Yes.")
    ) as server:
        lines = ("Hello", "What was it?", "/context show And [bold]now[/]?", "And [bold]now[/]?")
        page = asked(*lines, "/quit", url=server.url)

    sent = server.requests[-1].body
    written = [text for one in sent["messages"] for text in (one["content"], *calls_of(one))]

    assert in_order([f"\n{text}\n" for text in filter(None, written)], page, "== system")
    assert all(f"\n{json.dumps(tool, ensure_ascii=False)}\n" in page for tool in sent["tools"])
    assert all(f"== turns, turn {turn}: " in page for turn in (1, 2))


def in_order(texts: Sequence[str], page: str, start: str) -> bool:
    """Tell whether texts stand on a page after its start, none before the one before it."""
    place = page.find(start)
    for text in texts:
        place = page.find(text, place) if place >= 0 else place
    return place >= 0


def files_with(word: bytes, folder: str) -> list[Path]:
    """Return the files in a folder that hold a word, packed or not."""
    files = [path for path in Path(folder).rglob("*") if path.is_file()]
    return [path for path in files if word in revealed(path.read_bytes())]


def calls_of(message: dict[str, object]) -> list[str]:
    """Return the calls of a message as the page shows them."""
    calls: list[str] = []
    for call in message.get("tool_calls") or ():  # type: ignore[attr-defined]  # a dict at run time
        function = call["function"]
        calls.append(f"{call['id']} {function['name']} {function['arguments']}")
    return calls


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/stat", "/stat is no command here; did you mean '/stats'? /help lists them."),
        ("/message 3", "write /message remove TURN [--yes]; did you mean '/messages'?"),
        ("/contxt show", "/contxt is no command here; did you mean '/context'?"),
        ("/etc/hosts is broken", "/etc/hosts is no command here; /help lists them."),
        (
            "/context",
            "write /context rebuild [--model] | /context show [MESSAGE] | ",
        ),
        ("/context window 10001", "ambient_window: Input should be less than or equal to 10000"),
        ("/messages two", "write /messages [PAGE] (page: Input should be a valid integer"),
        ("/messages 9", "there is no page 9: the pages are 1-1"),
        ("/expand nope x 3-5", "no effort 'nope-x'"),
        ("/search the", "The query holds only words that say nothing of a topic."),
        ("/message 1", "write /message remove TURN"),
        ("/message remove 9", "turn 9 not found on this branch: its turns are 1-1"),
        ("/undo 3", "/undo takes no argument, got '3'\n"),
        ("/attention explan", "got 'explan'; did you mean '/attention explain'?"),
    ],
)
def test_what_is_wrong_is_said(line: str, said: str) -> None:
    """Each mistake is named in one line, and nothing is sent."""
    result = chat("Hello!", line)

    assert said in result.output


def test_looking_back() -> None:
    """Turns, results and figures are shown, and text of others is not obeyed.

    A line with a space before its slash is sent as a message.
    """
    lines = ("/messages", "The [red]port[/] is 8123.", *OPENED, " /etc/hosts is broken")
    result = chat(*lines, "/messages", "/search port", "/stats")

    assert "Nothing was said on this thread yet." in result.stderr
    assert "Noted: /etc/hosts is broken" in result.stdout
    assert "    1  " in result.stdout
    assert " UTC  -  The [red]port[/] is 8123.\npage 1 of 1\n" in result.stdout
    assert "/open" not in result.stdout
    assert re.search(
        r"turn 1, \d{4}-\d\d-\d\d, outside of efforts, user, assistant\n", result.stdout
    )
    assert "tokens sent in" in result.stdout


def test_undo() -> None:
    """An undone turn is not known any more, nor by the next chat, and is kept in the archive."""
    result = chat("The port is 8123.", "The port is 9000.", "/undo", "Which port is it?")
    options = ("--thread", "other")
    chat("The port is 8123.", "/undo", options=options)
    after = chat("/efforts", "/messages", "Which port is it?", options=options)

    assert "undone, back at turn 1; it stays in the archive" in result.stdout
    assert "8123" in result.stdout.splitlines()[-1]
    assert statuses("sessions") == ["done", "done"]
    assert "restored" not in after.stdout
    assert "8123" not in after.stdout
    assert "the archive has 1 turn of this thread; it stays in the archive ---" in after.stderr


@pytest.mark.thorough
def test_the_anchor_is_rebuilt() -> None:
    """From a block in view it is set and shown; without one the chat says that it is as it was."""
    block = "Hello.\n\n---STATE---\nGoal: greet [b]everyone[/b]\n---END STATE---"
    with serving(Say(block), Fail(400)) as server:
        lines = ("Hello", "/context rebuild", "/context rebuild --model", "/context rebuild x")
        page = asked(*lines, "/quit", url=server.url, fails=True)
    others = ("Hello!", "/context rebuild", "/context rebuild --model")
    bare = chat(*others, options=("--thread", "other"))

    told = "anchor rebuilt from the newest state block in view\nGoal: greet [b]everyone[/b]\n"
    assert page.count(told) == 2
    assert page.count(f"no state block from the model: {told}") == 1
    assert "write /context rebuild [--model] (model: " in page
    assert "no state block in view: the anchor is as it was" in bare.stdout
    assert "no state block from the model: no state block in view" in bare.stdout


def test_a_turn_is_erased_through_a_pipe() -> None:
    """With --yes alone: nobody reads the question, and the line behind it is a turn."""
    result = chat(
        *("The host is umbrella-17.", "Good evening to you.", "/message remove 1 --yes"),
        *("/message remove 1", "yes", "/messages"),
    )

    assert "turn 1 erased" in result.stdout
    assert "Erase turn 1 for good?" in result.stderr
    assert "If so, write /message remove 1 --yes" in result.stderr
    assert " -  Good evening to you." in result.stdout
    assert " -  yes" in result.stdout
    assert files_with(b"umbrella", "sessions") == []


def test_a_turn_is_erased_at_a_terminal() -> None:
    """After a yes, with what was typed: arrow up brings back what was typed since, alone."""
    with terminal(["chat", "--model", "scripted", "--root", "kept"], {}) as person:
        person.converse(
            ("The vault code is 4711.", "context 1,"),
            ("/message remove 1", "Type yes to go on."),
            ("y", "Nothing was changed."),
            ("/messages", " -  The vault code is 4711."),
            ("/message remove 1", "Type yes to go on."),
            ("yes", "turn 1 erased"),
            ("/efforts", "no efforts yet"),
            ("/undo", "turn 1 cannot be undone: the thread has no earlier checkpoint"),
        )
        person.press("\x1b[A" * 9)
        person.see("/efforts")
        person.type("")
        person.see("no efforts yet")
        assert "4711" not in person.shown

        assert person.quit() == 0
    assert files_with(b"4711", "kept") == []


@pytest.mark.thorough
def test_erasing_that_was_stopped_is_finished_by_erasing_again() -> None:
    """Ctrl-C while a summary is written again is no end of it, and the chat says what is."""
    model = Halting()
    with serving(by=model) as server, at_terminal(server) as person:
        person.converse(
            ("/open keys", "Started effort"),
            ("The code is umbrella-17, and the key lies under the mat.", "Noted."),
            ("The garden gate is open to all of us, day and night, as it ever was.", "Noted."),
            ("/close", "Concluded effort"),
            ("/message remove 1", "Type yes to go on."),
        )
        person.see("> ")
        person.type("yes")
        assert model.waiting.wait(30)
        person.send(signal.SIGINT)
        person.see("It may be done in part: /message remove 1 finishes it.")
        model.released.set()
        person.converse(("/message remove 1", "It says: erased before"), ("yes", "turn 1 erased"))

        assert person.quit() == 0
    assert files_with(b"umbrella", "kept") == []


def test_an_unfinished_turn_is_shown_and_in_the_way() -> None:
    """The context is that of the turn, commands are refused, and Enter still resumes."""
    with serving(Fail(400), Say("Here it is.")) as server:
        lines = ("What is it?", "/context show", "/open a", "/message remove 1", "", "/quit")
        page = asked(*lines, url=server.url, fails=True)

    assert "turn 1, what resuming it sends: " in page
    assert "turn 1 of thread 'default' is not finished: resume it first, then try again" in page
    assert 'A turn is not finished: "What is it?". An empty message resumes it' in page
    assert "turn 1 not found on this branch: it has no turns" in page
    assert "Here it is." in page
    assert statuses("kept") == ["done"]


def test_tab_completes_and_alt_enter_begins_a_line() -> None:
    """At a terminal names need not be typed in full, and a message may have several lines."""
    with terminal(["chat", "--model", "scripted"], {"PAGER": "cat"}) as person:
        person.converse(("/open late parcel", "--- Started effort: late-parcel ---"))
        person.see("> ")
        person.press("/eff\t")
        person.see("orts")  # alone, if "/eff" was shown before
        person.type("")
        person.see("late-parcel (open")
        person.see("> ")
        person.press("It was sent on\x1b\rMonday 17.\r")
        person.see(" of 16,000 tokens")
        person.see("> ")
        person.press("/close la\t")
        person.see("te-parcel")
        person.type("")
        person.see("--- Concluded effort: late-parcel ---")
        person.converse(("/expand late-parcel", "Expanded"), ("/context show", "Monday 17."))

        assert person.quit() == 0
