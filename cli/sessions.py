"""`ebbtide sessions`: a table of what a user's archive holds."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..memory.archive.protocol import Archive
from ..memory.errors import ArchiveFormatError
from ..memory.record import Owner
from .home import Home
from .printable import in_line
from .session_names import none_of, shown


def table(home: Home) -> None:
    """Print a row for each session: thread, turns, efforts, last activity."""
    console = Console(highlight=False)
    listed = Table("Thread", "Turns", "Efforts", "Last activity")
    with home.archive() as archive:
        for owner in archive.sessions(home.user):
            listed.add_row(*(Text(in_line(cell)) for cell in _row(archive, owner)))
    console.print(listed if listed.row_count else Text(f"{none_of(home)}."))


def _row(archive: Archive, owner: Owner) -> tuple[str, str, str, str]:
    """Return the cells of a session, as its newest branch shows it."""
    name = shown(owner)
    try:
        tip = archive.newest(owner)
    except ArchiveFormatError:
        return name, "unknown", "unknown", "see ebbtide archive verify"
    if tip is None:
        return name, "0", "0", "never"
    last = archive.turns(owner, tip, [tip.turn])
    at = last[0].at[:16].replace("T", " ") + " UTC" if last else "unknown"
    return name, f"{tip.turn:,}", f"{archive.efforts(owner, tip, 0).total:,}", at
