"""Commands: what people can look at and change by hand.

Page 03, "Commands"; page 01, "The archive"; the source is std_slop, "Commands".
"""

from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import CommandError, SessionNotFoundError, commands, restore
from tests.acceptance.stage import AUTH, EXACT, ambient, ambient_in, log_in, stage
from tests.agents import THREAD
from tests.doubles import call
from tests.processes import ended

BLOCK = "Yes.\n---STATE---\nGoal: {}\n---END STATE---"


def test_show_is_what_is_sent(tmp_path: Path) -> None:
    """03, `/context show`: exactly what the next call would send."""
    here = stage(tmp_path)
    here.work(AUTH)
    here.chat(3)

    shown = commands.show_context(here.talk.agent, here.config, "What next?")
    said = here.say("What next?")

    pairs = [[(m.type, m.text) for m in part] for part in (shown.messages, said.sent.messages)]
    assert pairs[0] == pairs[1]


def test_show_has_parts_and_tokens(tmp_path: Path) -> None:
    """03, `/context show`: part by part, with token counts and turns."""
    here = stage(tmp_path)
    here.chat(2)

    shown = commands.show_context(here.talk.agent, here.config)

    assert {part.name for part in shown.parts} >= {"system", "turns"}
    assert {part.turn for part in shown.parts if part.name == "turns"} == {1, 2}
    assert all(part.tokens > 0 for part in shown.parts)


@pytest.mark.parametrize(("window", "sent"), [(3, 3), (0, 14)])
def test_window(tmp_path: Path, window: int, sent: int) -> None:
    """03, `/context window N`: it is kept in state, and 0 means all."""
    here = stage(tmp_path, settings=EXACT)
    here.chat(14)

    commands.set_window(here.talk.agent, here.config, window)

    assert ambient_in(here.chat(1, first=15)[0].sent) == sent
    assert ambient_in(here.chat(1, first=16)[0].sent) in {sent, sent + 1}


def test_window_of_one(tmp_path: Path) -> None:
    """02, Ambient window: `/context window 1` shows one."""
    here = stage(tmp_path)
    here.chat(9)

    commands.set_window(here.talk.agent, here.config, 1)

    assert ambient_in(here.chat(1, first=10)[0].sent) == 1


def test_rebuild_takes_the_newest_block(tmp_path: Path) -> None:
    """03, `/context rebuild`: the newest complete block in the visible history."""
    here = stage(tmp_path)
    here.say("Go.", BLOCK.format("first"))
    here.say("On.", BLOCK.format("second"))

    rebuilt = commands.rebuild_anchor(here.talk.agent, here.config)

    assert (rebuilt.anchor, rebuilt.source) == ({"Goal": "second"}, "block")


def test_rebuild_without_a_block(tmp_path: Path) -> None:
    """03, `/context rebuild`: if there is none, the old anchor stays, and the command says so."""
    here = stage(tmp_path)
    here.chat(1)

    assert commands.rebuild_anchor(here.talk.agent, here.config).source == "none"


def test_rebuild_by_the_model(tmp_path: Path) -> None:
    """03, `/context rebuild --model`: a model call over the window."""
    here = stage(tmp_path)
    here.chat(2)
    here.talk.model.answers = [*["Noted."] * 2, BLOCK.format("go by train")]

    rebuilt = commands.rebuild_anchor(here.talk.agent, here.config, model=True)

    assert (rebuilt.anchor, rebuilt.source) == ({"Goal": "go by train"}, "model")
    assert here.values["memory"]["anchor"] == {"Goal": "go by train"}


def test_messages(tmp_path: Path) -> None:
    """03, `/messages`: the turns of this branch with number, effort, time and first words."""
    here = stage(tmp_path)
    here.chat(1)
    here.say(AUTH.log, call("open_effort", name="auth-bug"), "Opened.")

    page = commands.messages(here.talk.agent, here.config)

    assert [line.turn for line in page.lines] == [2, 1]
    assert [line.efforts for line in page.lines] == [("auth-bug",), ()]
    assert page.lines[0].said.startswith("The trace ends in gate.py")
    assert page.lines[1].said == ambient(1)
    assert all(line.at for line in page.lines)


def test_efforts_by_hand(tmp_path: Path) -> None:
    """03: the tools by hand do what the tools do; no model answers."""
    here = stage(tmp_path, settings=EXACT)
    agent, config = here.talk.agent, here.config
    here.chat(1)
    done = [commands.open_effort(agent, config, "auth bug", "sign-in works")]
    here.say(AUTH.log)
    done += [
        commands.close_effort(agent, config),
        commands.expand_effort(agent, config, "auth-bug"),
        commands.collapse_effort(agent, config, "auth-bug"),
        commands.reopen_effort(agent, config, "auth-bug"),
        commands.switch_effort(agent, config),
        commands.switch_effort(agent, config, "auth-bug"),
    ]

    status = ["opened", "concluded", "expanded", "collapsed", "reopened", "paused", "switched"]
    assert [one.result["status"] for one in done] == status
    assert here.values["memory"]["active_effort"] == "auth-bug"
    assert len(here.talk.model.sent) == 2


def test_expanding_by_hand_is_sent(tmp_path: Path) -> None:
    """03: what a person expands, the model sees in the next call."""
    here = stage(tmp_path, settings=EXACT)
    here.work(AUTH)
    here.chat(4)

    commands.expand_effort(here.talk.agent, here.config, "auth-bug")

    assert log_in(here.chat(1)[0].first, AUTH) == 1


def test_command_that_fails_changes_nothing(tmp_path: Path) -> None:
    """Invariant 8: the tool's error is raised, and the state is as it was."""
    here = stage(tmp_path)
    here.chat(1)
    before = here.talk.agent.get_state(THREAD)

    with pytest.raises(CommandError, match="nope"):
        commands.close_effort(here.talk.agent, here.config, "nope")

    assert here.talk.agent.get_state(THREAD) == before


def test_undo(tmp_path: Path) -> None:
    """03, `/undo`: go back one turn; a fork, nothing is lost."""
    here = stage(tmp_path)
    here.chat(2)
    old = here.talk.agent.get_state(THREAD).config

    undone = commands.undo(here.talk.agent, here.config).turn
    here.say("Other.")

    assert undone == 1
    assert here.asked() == [ambient(1), "Other."]
    assert here.asked(old) == [ambient(1), ambient(2)]


def test_restore(tmp_path: Path) -> None:
    """01, State follows the messages: `restore` rebuilds the state from the newest branch."""
    here = stage(tmp_path)
    here.work(AUTH)
    here.use("expand_effort", effort_id="auth-bug")
    lost = stage(tmp_path, archive=here.talk.archive, checkpointer=InMemorySaver())

    restore(lost.talk.agent, THREAD)

    kept = ("turn", "active_effort", "open_efforts", "expanded", "summaries")
    before, after = here.values["memory"], lost.values["memory"]
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert lost.say("Hm.").memory["turn"] == 5


@pytest.mark.parametrize("look", [commands.messages, commands.efforts, commands.stats, restore])
def test_unknown_thread(tmp_path: Path, look: Any) -> None:
    """01, The archive: what is not there, or another's, is not found."""
    here = stage(tmp_path)

    with pytest.raises(SessionNotFoundError):
        look(here.talk.agent, THREAD)


async def test_commands_have_an_async_form(tmp_path: Path) -> None:
    """06, Sync and async: each command has its `a…` form."""
    here = stage(tmp_path)
    here.chat(2)

    page = await commands.amessages(here.talk.agent, here.config)

    assert [line.turn for line in page.lines] == [2, 1]


def shell(root: Path, *arguments: str) -> tuple[int | None, str]:
    """Run a command of the terminal; return its exit code and what it printed."""
    done = ended(["-m", "ebbtide.cli.main", *arguments], root)
    return done.code, done.printed + done.failed


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an archive of one session, in which an effort was concluded."""
    root = tmp_path_factory.mktemp("stored")
    here = stage(root)
    here.work(AUTH)
    here.chat(2)
    here.talk.archive.close()
    return root


def test_verify_in_the_terminal(stored: Path) -> None:
    """01, The archive: `ebbtide archive verify`."""
    code, printed = shell(stored, "archive", "verify", "--root", str(stored))

    assert code == 0
    assert "intact" in printed


def test_export_in_the_terminal(stored: Path) -> None:
    """01, The archive: `ebbtide archive export` writes a session as people read it."""
    target = stored / "exported"

    code, _ = shell(stored, "archive", "export", "t", str(target), "--root", str(stored))

    assert code == 0
    assert ambient(1) in (target / "raw.jsonl").read_text()
    assert AUTH.log in (target / "efforts" / "auth-bug.jsonl").read_text()
    assert AUTH.summary.split(":")[0] in (target / "manifest.yaml").read_text()


def test_manifest_has_one_entry_for_each_effort(stored: Path) -> None:
    """01, The archive: `manifest.yaml` in block form, with one entry per effort."""
    target = stored / "exported-manifest"

    shell(stored, "archive", "export", "t", str(target), "--root", str(stored))

    assert (target / "manifest.yaml").read_text().count("auth-bug") == 1


def test_export_as_markdown(stored: Path) -> None:
    """01, The archive: one Markdown transcript."""
    target = stored / "page.md"

    code, _ = shell(
        stored, "archive", "export", "t", str(target), "--format", "markdown", "--root", str(stored)
    )

    assert code == 0
    assert AUTH.log in target.read_text()


def test_export_as_html(stored: Path) -> None:
    """06, The inspector: one session as one self-contained file."""
    target = stored / "page.html"

    code, printed = shell(
        stored, "archive", "export", "t", str(target), "--format", "html", "--root", str(stored)
    )

    assert code == 0, printed
    assert AUTH.log in target.read_text()


def test_inspect_is_a_command(tmp_path: Path) -> None:
    """06, The inspector: `ebbtide inspect` opens a page."""
    code, printed = shell(tmp_path, "inspect", "--help")

    assert code == 0, printed


def test_copy_in_the_terminal(stored: Path, tmp_path: Path) -> None:
    """01, The archive: `ebbtide archive copy FROM TO`, and again it finds all there."""
    copied = tmp_path / "copied"

    first, _ = shell(tmp_path, "archive", "copy", str(stored), str(copied))
    second, _ = shell(tmp_path, "archive", "copy", str(stored), str(copied))
    _, printed = shell(tmp_path, "archive", "verify", "--root", str(copied))

    assert (first, second) == (0, 0)
    assert "5 turns, intact" in printed
