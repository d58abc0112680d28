"""The README says what is so: its programs, pictures, tables, figures and names."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ebbtide import DiskArchive, create_memory_agent
from ebbtide.cli.main import app
from ebbtide.graph.offline_model import OfflineModel
from ebbtide.graph.settings_table import settings_table
from tests.examples.running import ROOT, Run, once, run

README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")

PROGRAMS = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", README, re.DOTALL)
"""Each block of Python, with the block of text right after it, which is what it prints."""

RESULTS = re.findall(r"^\| .+ \| (`.+`) \| `(.+)` \|$", README, re.MULTILINE)
"""Each row of results: the figures, in backticks, and the command that prints them."""

RESULTS_FOLDER = ROOT / "benchmarks" / "results"
TREE = re.findall(r"^(sessions/\w+\.\w+)", README, re.MULTILINE)
LINKS = sorted(set(re.findall(r"\]\(([^)#]+)\)", README)))
TARGETS = sorted(set(re.findall(r"^make (\w+)|`make (\w+)`", README, re.MULTILINE)))
COMMANDS = sorted(set(re.findall(r"(?:^|`)ebbtide ((?:[a-z]+ ?)+)(?:$|`)", README, re.MULTILINE)))


def look_up(word: str) -> str:
    """Look a word up."""
    return word


def printed(command: str, folder: Path, shared: Path) -> str:
    """Return what a command of the README prints: an example, or `ebbtide`.

    Of a benchmark, which takes long, it is the table that it wrote when it was last run.
    """
    program, *rest = command.split()
    if program == "ebbtide":
        return run(["-m", "ebbtide.cli.main", *rest], folder).printed
    if rest[0].startswith("benchmarks/"):
        return (RESULTS_FOLDER / Path(rest[0]).with_suffix(".md").name).read_text(encoding="utf-8")
    return once(ROOT / rest[0], shared).printed


def figures(command: str) -> list[str]:
    """Return the figures that stand beside a command."""
    cells = [cell for cell, beside in RESULTS if beside == command]
    return [figure for cell in cells for figure in re.findall(r"`([^`]+)`", cell)]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run the blocks of Python one after the other, as one program."""
    folder = tmp_path_factory.mktemp("readme")
    return run(["-c", "\n".join(block for block, _ in PROGRAMS)], folder)


def test_the_programs_print_what_is_said(program: Run) -> None:
    """The README's programs run with no key and print the blocks that follow them."""
    said = "".join(printed for _, printed in PROGRAMS)

    assert program.code == 0
    assert program.printed == said


def test_the_first_program_is_short() -> None:
    """The first program has at most ten lines, blank ones aside."""
    lines = [line for line in PROGRAMS[0][0].splitlines() if line]

    assert len(lines) <= 10


@pytest.mark.parametrize("path", TREE)
def test_files_lie_where_they_are_said_to(program: Run, path: str) -> None:
    """The files of the archive lie where the README says, after its programs ran."""
    assert (program.folder / path).is_file()


def test_the_picture_is_the_graph(tmp_path: Path) -> None:
    """The picture is the one that an agent with a tool draws of itself, without styles."""
    agent = create_memory_agent(OfflineModel(), archive=DiskArchive(tmp_path), tools=[look_up])
    drawn = agent.get_graph().draw_mermaid(with_styles=False)

    assert f"```mermaid\n{drawn.strip()}\n```" in README


def test_the_settings_are_those_of_the_class() -> None:
    """The table of settings is the generated one."""
    table = settings_table()

    assert f"\n\n{table}\n\n" in README


@pytest.mark.parametrize("command", sorted({command for _, command in RESULTS}))
def test_figures_are_printed_by_their_command(tmp_path: Path, shared: Path, command: str) -> None:
    """Every figure of the results is printed by the command beside it."""
    said = printed(command, tmp_path, shared)

    assert [figure for figure in figures(command) if figure not in said] == []


@pytest.mark.parametrize("path", sorted(RESULTS_FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_results_of_benchmarks_fit_together(path: Path) -> None:
    """A table that is kept has each row and the command of the JSON beside it, and a plot."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    shown = path.with_suffix(".md").read_text(encoding="utf-8")

    assert f"`{kept['command']}`" in shown
    named = [next(iter(row.values())) for row in kept["rows"]]
    assert [name for name in named if f"| {name} |" not in shown] == []
    assert path.with_suffix(".png").stat().st_size > 0


@pytest.mark.parametrize("link", LINKS)
def test_files_that_are_named_exist(link: str) -> None:
    """Every file that the README links to exists."""
    assert (ROOT / link).is_file()


@pytest.mark.parametrize("target", ["".join(pair) for pair in TARGETS])
def test_targets_that_are_named_exist(target: str) -> None:
    """Every target of make that the README names is in the Makefile."""
    assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_that_are_named_exist(command: str) -> None:
    """Every command that the README names answers with its help."""
    result = CliRunner().invoke(app, [*command.split(), "--help"])

    assert result.exit_code == 0


def test_the_patterns_find_something() -> None:
    """The README names something of every kind, so that no test above is empty."""
    found = [PROGRAMS, RESULTS, TREE, LINKS, TARGETS, COMMANDS]

    assert all(found)
