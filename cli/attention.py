"""`ebbtide attention`: what is in a user's attention across sessions, and why."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ..graph.commands.on_attention import explained, forgetting, listed, suppressing, unsuppressing
from ..memory.attention.law import Attention, Explanation
from .home import ConfigFile, Root, User, configured
from .printable import in_line
from .screen import fitted

app = typer.Typer(
    help="See what is in a user's attention, and why.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

MemoryId: TypeAlias = Annotated[str, typer.Argument(help="Id of a memory: <session>/<effort>.")]


@app.command("list")
def attended(root: Root = None, user: User = None, config: ConfigFile = None) -> None:
    """List what is in attention, most first, then what is suppressed."""
    console, found = Console(highlight=False), attention_table(listed(*_kept(root, user, config)))
    shown = fitted(found, console) if isinstance(found, Table) else found
    # Ids are there to be copied: what does not fit is left to the terminal to break.
    console.print(shown, soft_wrap=not isinstance(shown, Table))


@app.command()
def explain(
    memory_id: MemoryId, root: Root = None, user: User = None, config: ConfigFile = None
) -> None:
    """Say why a memory is in attention or not, and when it will fade."""
    _told(explained(*_kept(root, user, config), memory_id))


@app.command()
def suppress(
    memory_id: MemoryId, root: Root = None, user: User = None, config: ConfigFile = None
) -> None:
    """Take a memory out of attention; search still finds it."""
    _told(suppressing(*_kept(root, user, config), memory_id))


@app.command()
def unsuppress(
    memory_id: MemoryId, root: Root = None, user: User = None, config: ConfigFile = None
) -> None:
    """Undo a suppression."""
    _told(unsuppressing(*_kept(root, user, config), memory_id))


@app.command()
def forget(
    memory_id: MemoryId, root: Root = None, user: User = None, config: ConfigFile = None
) -> None:
    """Delete what attention keeps of a memory, such as one of a deleted session."""
    typer.echo(f"forgot {in_line(forgetting(*_kept(root, user, config), memory_id).id)}")


def attention_table(found: Iterable[Explanation]) -> Table | Text:
    """Return a row for each memory, or a line that there is none."""
    figures = [Column(name, no_wrap=True) for name in ("Holds", "Level", "Accesses", "Fades")]
    table = Table("Memory", *figures)
    for one in found:
        state = "suppressed" if one.suppressed else one.level
        cells = (one.id, f"{one.effective:.1f}", state, f"{one.accesses:,}", _fades(one))
        table.add_row(*(Text(in_line(cell)) for cell in cells))
    return table if table.row_count else Text("nothing is in attention", style="dim")


def explanation_page(one: Explanation) -> Iterable[str]:
    """Yield how a memory stands, line by line, with the law in figures."""
    yield in_line(one.id)
    yield f"holds {one.effective:.1f} of 100: {one.level}" + (", suppressed" * one.suppressed)
    yield f"base {one.base}, {one.days:.1f} days old, accessed {one.accesses:,} times"
    yield f"fades {_fades(one)}" if one.attended else "not in attention"


def _told(one: Explanation) -> None:
    typer.echo("\n".join(explanation_page(one)))


def _kept(root: str | None, user: str | None, config: Path | None) -> tuple[Attention, str]:
    setup = configured(root, user, config)
    return setup.attention(), setup.home.user


def _fades(one: Explanation) -> str:
    return "never" if one.fades is None else one.fades.date().isoformat()
