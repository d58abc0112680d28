"""The README and docs/ say what is so: their programs, links, figures and names."""

import re
from collections.abc import Callable
from functools import cache
from inspect import signature
from pathlib import Path
from typing import TypeAlias

import pytest
from langgraph.graph.state import CompiledStateGraph
from typer.testing import CliRunner

from ebbtide import commands, create_memory_agent
from ebbtide.cli.chat_commands import COMMANDS
from ebbtide.cli.main import app
from ebbtide.cli.reports import settings_table
from tests.examples.running import DEMO, Run, once, run
from tests.pages import (
    PAGES,
    README,
    RESULTS_FOLDER,
    Block,
    anchors,
    blocks,
    links,
    named,
    results,
    run_page,
    text,
)
from tests.processes import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
BLOCKS = blocks()
RESULTS = [result for page in PAGES for result in results(page)]
LINKS = sorted({(page, link) for page in [*PAGES, "CHANGELOG.md"] for link in links(page)})
NAMED = sorted({one for page in PAGES for one in named(page)})

FOLDERS = ("benchmarks", "cli", "evaluation", "examples", "graph", "memory", "nodes", "prompts")
SOURCES = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]

Ran: TypeAlias = Callable[[str], tuple[Run, list[str]]]
"""Runs a page: what it did, and what each of its programs printed."""

WANTED = {
    *("architecture", "attention", "benchmarks", "commands", "compression", "concepts", "context"),
    *("embedding", "evaluation", "from-create-agent", "from-langmem", "limits", "numbers"),
    *("from-summarization-middleware", "search", "settings", "storage"),
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Return a function that runs the programs of a page, once."""
    return cache(lambda page: run_page(page, tmp_path_factory.mktemp("page")))


def printed(command: str, folder: Path, shared: Path) -> str:
    """Return what a command of a page prints: an example, or `ebbtide`.

    Of a benchmark, which takes long, it is the table that it wrote when it was last run.
    """
    program, *rest = command.split()
    if command == "ebbtide demo":
        return once(*DEMO, shared).printed
    if program == "ebbtide":
        return run(["-m", "ebbtide.cli.main", *rest], folder).printed
    if rest[0].startswith("benchmarks/"):
        kept = RESULTS_FOLDER.glob(f"{Path(rest[0]).stem}*.md")
        return "\n".join(path.read_text(encoding="utf-8") for path in kept)
    return once(Path(rest[0]).stem, [str(ROOT / rest[0])], shared).printed


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}-{block.number}")
def test_a_program_prints_what_is_said(ran: Ran, block: Block) -> None:
    """Each program runs with no key and prints the text that follows it, or nothing."""
    _, said = ran(block.page)

    assert len(said) > block.number + 1, "a program before it, or it itself, raised"
    assert said[block.number] == block.said


@pytest.mark.parametrize("command", sorted({command for command, _ in RESULTS}))
def test_figures_are_printed_by_their_command(tmp_path: Path, shared: Path, command: str) -> None:
    """Every figure in a table is printed by the command beside it."""
    said = printed(command, tmp_path, shared)

    assert [figure for one, figure in RESULTS if one == command and figure not in said] == []


@pytest.mark.parametrize(("page", "link"), LINKS)
def test_a_link_leads_somewhere(page: str, link: str) -> None:
    """Every link to a file or a heading of ours finds it."""
    path, _, heading = link.partition("#")
    target = (ROOT / page).parent / path if path else ROOT / page

    assert target.exists()
    assert not heading or heading in anchors(target.resolve().relative_to(ROOT).as_posix())


@pytest.mark.parametrize("name", sorted(WANTED))
def test_there_is_a_page_for_each_question(name: str) -> None:
    """Every page that a reader looks for is there, and the README leads to it."""
    page = f"docs/{name}.md"

    assert page in PAGES
    assert page in text(README) or any(f"({name}.md" in text(one) for one in PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_short_and_has_a_heading(page: str) -> None:
    """A page begins with its one heading of the first level and has at most 200 lines."""
    # That of the numbers, which is made and looked up, may be longer.
    lines = text(page).splitlines()
    outside = re.sub(r"^```.*?^```$", "", text(page), flags=re.DOTALL | re.MULTILINE)

    assert len(lines) <= {README: 150, "docs/numbers.md": 400}.get(page, 200)
    assert lines[0].startswith("# ")
    assert len(re.findall(r"^# ", outside, re.MULTILINE)) == 1


@pytest.mark.parametrize("name", [name for kind, name in NAMED if kind == "make"])
def test_a_target_that_a_reader_is_told_to_make_exists(name: str) -> None:
    """Targets of make are in the Makefile."""
    assert re.search(rf"^{name}:", MAKEFILE, re.MULTILINE)


@pytest.mark.parametrize("name", [name for kind, name in NAMED if kind == "script"])
def test_a_script_that_a_reader_is_told_to_run_exists(name: str) -> None:
    """Scripts are where the page says."""
    assert (ROOT / name).is_file()


@pytest.mark.parametrize("name", [name for kind, name in NAMED if kind == "ebbtide"])
def test_a_command_that_a_reader_is_told_to_run_exists(name: str) -> None:
    """Commands answer with their help."""
    assert CliRunner().invoke(app, [*name.split(), "--help"]).exit_code == 0


def test_files_lie_where_they_are_said_to(ran: Ran) -> None:
    """The files of the archive lie where docs/storage.md says, after its programs ran."""
    page = "docs/storage.md"
    tree = re.findall(r"^(sessions/\w+\.\w+)", text(page), re.MULTILINE)

    assert tree
    assert [path for path in tree if not (ran(page)[0].folder / path).is_file()] == []


def test_the_settings_are_those_of_the_class() -> None:
    """The table of settings is the generated one."""
    table = settings_table()

    assert f"\n\n{table}\n\n" in text("docs/settings.md") + "\n"


def test_every_command_is_on_its_page() -> None:
    """docs/commands.md has each command of the chat, and each function for programs."""
    functions = {name for name in commands.__all__ if name.islower()}
    asynchronous = {f"a{name}" for name in functions}
    said = text("docs/commands.md")

    assert [name for name in COMMANDS if f"`{name}" not in said] == []
    assert [name for name in functions - asynchronous if f"`{name}`" not in said] == []


def test_every_argument_of_an_agent_is_on_its_page() -> None:
    """docs/embedding.md has each argument that an agent is made of."""
    said = text("docs/embedding.md")

    assert [
        name for name in signature(create_memory_agent).parameters if f"`{name}" not in said
    ] == []


@pytest.mark.parametrize("page", [page for page in PAGES if "/from-" not in page])
def test_what_is_called_by_its_name_is_in_the_code(page: str) -> None:
    """Every name of several words in backticks, a setting above all, is ours or LangGraph's."""
    names = set(re.findall(r"`(?:\w+\.)*([a-z]+(?:_[a-z]+)+)\b", text(page)))
    code = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)

    assert sorted(names - {*re.findall(r"\w+", code), *dir(CompiledStateGraph)}) == []


def test_the_patterns_find_something() -> None:
    """The pages name something of every kind, so that no test above is empty."""
    found = [BLOCKS, RESULTS, LINKS, NAMED]

    assert all(found)
    assert {kind for kind, _ in NAMED} == {"ebbtide", "make", "script"}
