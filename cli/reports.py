"""`ebbtide sessions` and `ebbtide stats`: what is stored, what it did, and what it cost."""

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ..memory.archive.protocol import Archive
from ..memory.errors import ArchiveFormatError, SessionNotFoundError
from ..memory.metrics import Report, report
from ..memory.record import Owner, Tip
from ..memory.view import every_turn
from .home import AnySession, ConfigFile, Root, User, configured, session_label
from .printable import in_line
from .screen import fitted

_ROWS = 20
"""Turns that are listed: a screenful."""

_SHARES = frozenset({"false_decay_rate", "expansion_overhead", "savings_vs_full_history"})
"""The metrics that are shown in percent."""


def sessions(root: Root = None, user: User = None, config: ConfigFile = None) -> None:
    """List the sessions of a user."""
    home = configured(root, user, config).home
    listed = Table(Column("Thread"), *_figures("Turns", "Efforts"), Column("Last activity"))
    with home.archive() as archive:
        for owner in archive.sessions(home.user):
            listed.add_row(*(Text(in_line(cell)) for cell in _cells(archive, owner)))
    console = Console(highlight=False)
    shown = fitted(listed, console) if listed.row_count else Text(f"{home.none}.")
    console.print(shown, soft_wrap=not listed.row_count)


def stats(
    session: AnySession = None, root: Root = None, user: User = None, config: ConfigFile = None
) -> None:
    """Show what the memory of a session did, and what its context cost."""
    home = configured(root, user, config).home
    console = Console(highlight=False)
    with home.archive() as archive:
        owners = [owner for owner in archive.sessions(home.user) if session in {None, owner.thread}]
        if session is not None and not owners:
            raise SessionNotFoundError(session)
        for owner in owners:
            figures = report(every_turn(archive, owner, archive.newest(owner) or Tip()))
            for table in (metrics(owner.thread, figures), series(figures)):
                console.print(fitted(table, console))


def metrics(thread: str, figures: Report) -> Table:
    """Return a row for each metric of a thread."""
    table = Table(Column("Metric"), *_figures("Value"), title=Text(in_line(thread)))
    for name in Report.__dataclass_fields__:
        if name != "turns":
            value = getattr(figures, name)
            written = percent(value) if name in _SHARES else _written(value)
            table.add_row(name.replace("_", " "), written)
    return table


def series(figures: Report) -> Table:
    """Return a row for each of the newest turns that have one."""
    table = Table(
        *_figures("Turn", "Context", "Expanded", "Always\nexpanded", "Full\nhistory", "Saved")
    )
    for turn in figures.turns[-_ROWS:]:
        sent, expanded = turn.total, turn.tiers.get("expanded", 0)
        values = (sent, expanded, turn.always_expanded, turn.full_history)
        table.add_row(str(turn.turn), *map(_written, values), percent(turn.savings))
    return table


def percent(share: float | None) -> str:
    """Write a share in percent, and nothing as a dash.

    >>> percent(0.333), percent(-24.5), percent(None)
    ('33%', '-2,450%', '-')
    """
    return "-" if share is None else f"{share:,.0%}"


def _written(value: float | None) -> str:
    """Write a count with its thousands, a ratio with two digits, and nothing as a dash."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def _figures(*headers: str) -> list[Column]:
    """Return columns of figures, none of which is ever cut."""
    return [Column(header, no_wrap=True) for header in headers]


def _cells(archive: Archive, owner: Owner) -> tuple[str, str, str, str]:
    """Return the cells of a session, as its newest branch shows it."""
    name = session_label(owner)
    try:
        tip = archive.newest(owner)
    except ArchiveFormatError:
        return name, "unknown", "unknown", "see ebbtide archive verify"
    if tip is None:
        return name, "0", "0", "never"
    last = archive.turns(owner, tip, [tip.turn])
    at = last[0].at[:16].replace("T", " ") + " UTC" if last else "unknown"
    return name, f"{tip.turn:,}", f"{archive.efforts(owner, tip, 0).total:,}", at
