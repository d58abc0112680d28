"""Attention: which memories of a user are in attention on each day of a year."""

from datetime import UTC, datetime, timedelta
from tempfile import TemporaryDirectory
from typing import Any

from drawing import MISSING, begin, mark, output, save, write_rows
from rich import print  # noqa: A004 (prints tables as well)
from rich.table import Table

from ebbtide import DiskArchive, Settings
from ebbtide.memory.attention.law import Attention, Memory

USER, DAYS, MONTH, THRESHOLD, SUPPRESSED_ON = "ann", 365, 30, 40.0, 40
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
CONCLUDED = {"never-used": (60, 0), "used-weekly": (90, 3), "came-back": (80, 3)}
CONCLUDED |= {"suppressed": (95, 20), "late": (80, 300)}
"""The importance of each effort, and the day of its end; below, expansions by day."""
MARKERS = "os^Dv"
USED = {"used-weekly": dict.fromkeys(range(7, DAYS, 7), 1), "came-back": {58: 20}}


def main() -> None:
    """Simulate the year day by day, and read attention each evening."""
    path = output(__file__, __doc__)
    levels: dict[str, list[Any]] = {name: [] for name in CONCLUDED}
    attended: list[set[str]] = []
    with TemporaryDirectory() as folder, DiskArchive(folder) as archive:
        attention = archive.attention(threshold=THRESHOLD)
        for day in range(DAYS):
            now = NEW_YEAR + timedelta(days=day)
            live(attention, day, now)
            attended.append({memory.id for memory in attention.top(USER, 10, now=now)})
            for name in CONCLUDED:
                memory = attention.explain(USER, name, now=now)
                levels[name].append(memory.effective if memory else None)
    table = Table("day", *CONCLUDED, title="Effective salience (in brackets: not in attention)")
    for day in range(0, DAYS, MONTH):
        shown = (cell(levels[name][day], inside=name in attended[day]) for name in CONCLUDED)
        table.add_row(str(day), *shown)
    print(table, write_rows(path, Settings(), table), sep="\n")
    for name in CONCLUDED:
        print(f"{name}: {sum(name in evening for evening in attended)} days in attention")
    draw(path, levels, attended)


def draw(path: Any, levels: dict[str, list[Any]], attended: list[set[str]]) -> None:
    """Draw the strength of each memory, solid while it is in attention."""
    if not (axes := begin("day", "effective salience (0-100)")):
        print(MISSING)
        return
    for (name, line), marker in zip(levels.items(), MARKERS, strict=True):
        (outline,) = axes.plot(line, linestyle=":")
        inside = [value if name in attended[day] else None for day, value in enumerate(line)]
        axes.plot(inside, label=name, color=outline.get_color(), marker=marker, markevery=15)
    axes.axhline(THRESHOLD, color="black", linestyle="--", label="threshold")
    mark(axes, {SUPPRESSED_ON: "suppressed ", 58: " came back"})
    axes.set_ylim(0, 103)
    print(save(axes, path, legend={"loc": "upper center"}))


def live(attention: Attention, day: int, now: datetime) -> None:
    """Conclude, expand and suppress the efforts of a day."""
    for name, (importance, last_day) in CONCLUDED.items():
        if day == last_day:
            attention.add(USER, Memory(name, importance, now), now=now)
        for _ in range(USED.get(name, {}).get(day, 0)):
            attention.touch(USER, name, now=now)
    if day == SUPPRESSED_ON:
        attention.suppress(USER, "suppressed", now=now)


def cell(level: float | None, *, inside: bool) -> str:
    """Return the strength of a memory, in brackets if it is not in attention."""
    return "" if level is None else f"{level:.1f}" if inside else f"({level:.1f})"


if __name__ == "__main__":
    main()
