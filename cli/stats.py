"""`ebbtide stats`: what the memory of a session did, and what its context cost."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..memory.errors import SessionNotFoundError
from ..memory.metrics import Report, TurnTokens, report
from ..memory.record import Tip
from ..memory.view import every_turn
from .home import Home
from .printable import in_line

_ROWS = 20
_SERIES = "turns"
_SHARES = frozenset({"false_decay_rate", "expansion_overhead", "savings_vs_full_history"})
"""The metrics that are shown in percent."""


def stats(home: Home, session: str | None) -> None:
    """Print the metrics of a user's sessions, or of one; raises `SessionNotFoundError`."""
    console = Console(highlight=False)
    with home.archive() as archive:
        owners = [one for one in archive.sessions(home.user) if session in {None, one.thread}]
        if session is not None and not owners:
            raise SessionNotFoundError(session)
        for owner in owners:
            found = report(every_turn(archive, owner, archive.newest(owner) or Tip()))
            console.print(metrics(owner.thread, found), series(found))


def metrics(thread: str, found: Report) -> Table:
    """Return a row for each metric of a thread."""
    table = Table("Metric", "Value", title=Text(in_line(thread)))
    for name in Report.__dataclass_fields__:
        if name != _SERIES:
            value = getattr(found, name)
            written = percent(value) if name in _SHARES else _written(value)
            table.add_row(name.replace("_", " "), written)
    return table


def series(found: Report) -> Table:
    """Return a row for each of the newest turns that have one."""
    table = Table("Turn", "Context", "Expanded", "Always expanded", "Full history", "Saved")
    for turn in found.turns[-_ROWS:]:
        table.add_row(*_row(turn))
    return table


def percent(share: float | None) -> str:
    """Write a share in percent, and nothing as a dash.

    >>> percent(0.333), percent(-24.5), percent(None)
    ('33%', '-2,450%', '-')
    """
    return "-" if share is None else f"{share:,.0%}"


def _row(turn: TurnTokens) -> tuple[str, ...]:
    expanded = turn.tiers.get("expanded", 0)
    values = (turn.total, expanded, turn.always_expanded, turn.full_history)
    return str(turn.turn), *map(_written, values), percent(turn.savings)


def _written(value: float | None) -> str:
    """Write a count with its thousands, a ratio with two digits, and nothing as a dash."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"
