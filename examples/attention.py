"""Attention: a year of one user, and which concluded efforts are worth surfacing when."""

from datetime import UTC, datetime, timedelta
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any

from rich import print  # noqa: A004 (prints tables as well)
from rich.table import Table

from ebbtide import DiskArchive
from ebbtide.memory.attention.law import Attention, Memory

try:
    charts: Any = import_module("matplotlib.figure")
except ImportError:
    charts = None

USER, DAYS, MONTH, THRESHOLD, SUPPRESSED_ON = "ann", 365, 30, 40.0, 40
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
CONCLUDED = {"never-used": (60, 0), "used-weekly": (90, 3), "came-back": (80, 3)}
CONCLUDED |= {"suppressed": (95, 20), "late": (80, 300)}
"""Of each effort its importance and its day; below, how often it was expanded on which days."""
USED = {"used-weekly": dict.fromkeys(range(7, DAYS, 7), 1), "came-back": {58: 20}}


def main() -> None:
    """Live through the year day by day, and look at attention every evening."""
    held: dict[str, list[float | None]] = {name: [] for name in CONCLUDED}
    inside: list[set[str]] = []
    with TemporaryDirectory() as folder, DiskArchive(folder) as archive:
        attention = archive.attention(threshold=THRESHOLD)
        for day in range(DAYS):
            now = NEW_YEAR + timedelta(days=day)
            live(attention, day, now)
            inside.append({one.id for one in attention.top(USER, 10, now=now)})
            for name in CONCLUDED:
                found = attention.explain(USER, name, now=now)
                held[name].append(found.effective if found else None)
    table = Table("day", *CONCLUDED, title="Effective salience (in brackets: not in attention)")
    for day in range(0, DAYS, MONTH):
        table.add_row(
            str(day), *(shown(held[one][day], inside=one in inside[day]) for one in CONCLUDED)
        )
    print(table)
    for name in CONCLUDED:
        print(f"{name}: {sum(name in evening for evening in inside)} days in attention")
    if charts:
        figure = charts.Figure(figsize=(8, 4), layout="constrained")
        axes = figure.subplots()
        for name, line in held.items():
            (drawn,) = axes.plot(line, linestyle=":")
            within = [one if name in inside[day] else None for day, one in enumerate(line)]
            axes.plot(within, color=drawn.get_color(), label=name)
        axes.axhline(THRESHOLD, color="black", linestyle="--", label="threshold")
        axes.set(xlabel="day", ylabel="effective salience")
        axes.legend()
        figure.savefig("attention.png")
    print("Plot: attention.png" if charts else "For a plot, install matplotlib.")


def live(attention: Attention, day: int, now: datetime) -> None:
    """Conclude, use and suppress what the user does on a day."""
    for name, (importance, concluded) in CONCLUDED.items():
        if day == concluded:
            attention.add(USER, Memory(name, importance, now), now=now)
        for _ in range(USED.get(name, {}).get(day, 0)):
            attention.touch(USER, name, now=now)
    if day == SUPPRESSED_ON:
        attention.suppress(USER, "suppressed", now=now)


def shown(held: float | None, *, inside: bool) -> str:
    """Return what a memory holds, in brackets if it is not in attention."""
    return "" if held is None else f"{held:.1f}" if inside else f"({held:.1f})"


if __name__ == "__main__":
    main()
