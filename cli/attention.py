"""`ebbtide attention`: what is in a user's attention across sessions, and why."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ..graph.commands.on_attention import UserAttention
from ..memory.attention.law import Explanation
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
    console = Console(highlight=False)
    memories = attention_table(_attention_of(root, user, config).listed())
    shown = fitted(memories, console) if isinstance(memories, Table) else memories
    # Ids are there to be copied: what does not fit is left to the terminal to break.
    console.print(shown, soft_wrap=not isinstance(shown, Table))


def _shown_after(function: Callable[[UserAttention, str], Explanation]) -> Callable[..., None]:
    """Return the command that does this with a memory, and shows how the memory stands then."""

    def command(
        memory_id: MemoryId, root: Root = None, user: User = None, config: ConfigFile = None
    ) -> None:
        memory = function(_attention_of(root, user, config), memory_id)
        typer.echo("\n".join(explanation_page(memory)))

    return command


_EXPLAIN = "Say why a memory is in attention or not, and when it will fade."
_SUPPRESS = "Take a memory out of attention; search still finds it."

app.command("explain", help=_EXPLAIN)(_shown_after(UserAttention.explain))
app.command("suppress", help=_SUPPRESS)(_shown_after(UserAttention.suppress))
app.command("unsuppress", help="Undo a suppression.")(_shown_after(UserAttention.unsuppress))


@app.command()
def forget(
    memory_id: MemoryId, root: Root = None, user: User = None, config: ConfigFile = None
) -> None:
    """Delete what attention keeps of a memory, such as one of a deleted session."""
    typer.echo(f"forgot {in_line(_attention_of(root, user, config).forget(memory_id).id)}")


def attention_table(memories: Iterable[Explanation]) -> Table | Text:
    """Return a row for each memory, or a line that there is none."""
    figures = [Column(name, no_wrap=True) for name in ("Holds", "Level", "Accesses", "Fades")]
    table = Table("Memory", *figures)
    for memory in memories:
        holds, accesses = f"{memory.effective:.1f}", f"{memory.accesses:,}"
        state = "suppressed" if memory.suppressed else memory.level
        cells = (memory.id, holds, state, accesses, _fades(memory))
        table.add_row(*(Text(in_line(cell)) for cell in cells))
    return table if table.row_count else Text("nothing is in attention", style="dim")


def explanation_page(memory: Explanation) -> Iterable[str]:
    """Yield how a memory stands, line by line, with the law in figures."""
    yield in_line(memory.id)
    suppressed = ", suppressed" if memory.suppressed else ""
    yield f"holds {memory.effective:.1f} of 100: {memory.level}{suppressed}"
    yield f"base {memory.base}, {memory.days:.1f} days old, accessed {memory.accesses:,} times"
    yield f"fades {_fades(memory)}" if memory.attended else "not in attention"


def _attention_of(root: str | None, user: str | None, config: Path | None) -> UserAttention:
    setup = configured(root, user, config)
    return UserAttention(setup.attention(), setup.home.user)


def _fades(memory: Explanation) -> str:
    return "never" if memory.fades is None else memory.fades.date().isoformat()
