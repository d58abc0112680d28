"""The results as Markdown: scores, costs, and which targets are met."""

from collections.abc import Iterable, Iterator, Sequence

from .metrics import COSTS, SCORES, Metric
from .results import REPLAYED, Setup, TrialResult
from .strategies import NOTES
from .summary import Row, Spread

ABSENT = "–"
_FIRST = ("template", "strategy")


def page(setup: Setup, rows: Sequence[Row], trials: Sequence[TrialResult]) -> str:
    """Return the page that is written beside the results."""
    parts = [
        _title(setup),
        _described(setup),
        *_notes(rows),
        "## Scores",
        table(rows, SCORES),
        "## Targets",
        targets(rows),
        "## Cost",
        table(rows, COSTS),
        *_errors(trials),
    ]
    return "\n\n".join(parts) + "\n"


def table(rows: Sequence[Row], metrics: Sequence[Metric]) -> str:
    """Return a row for each strategy on a template: means, and the deviation over trials."""
    shown = [one for one in metrics if any(one.name in row.metrics for row in rows)]
    head = [*_FIRST, "trials", *(one.title for one in shown)]
    lines = ([*_named(row), str(row.trials), *_values(row, shown)] for row in rows)
    return _table(head, lines)


def targets(rows: Sequence[Row]) -> str:
    """Return for each row which targets it meets, with the value where it misses."""
    aimed = [one for one in SCORES if one.target]
    head = [*_FIRST, *(f"{one.title} {one.target}" for one in aimed)]
    return _table(head, ([*_named(row), *(_verdict(row, one) for one in aimed)] for row in rows))


def written(found: Spread | None, digits: int) -> str:
    """Return a value with its deviation, a dash for none.

    >>> written(Spread(mean=0.5, deviation=0.1, least=0.4, most=0.6, trials=3), 2)
    '0.50 ± 0.10'
    """
    if found is None:
        return ABSENT
    mean = f"{found.mean:,.{digits}f}"
    return mean if found.deviation is None else f"{mean} ± {found.deviation:,.{digits}f}"


def _title(setup: Setup) -> str:
    return f"# Evaluation{f' ({REPLAYED})' if setup.note else ''}"


def _described(setup: Setup) -> str:
    judge = setup.judge or "none, so what a judge scores is absent"
    said = [
        f"Ebbtide {setup.version}. Model: {setup.model}. Judge: {judge}.",
        f"Quotes are compared with the truth by {setup.likeness}, one to one.",
        "Values are means over trials ± their standard deviation; a dash is a score that there is",
        "no ground truth for. Tokens are those of what stands for the conversation, without an",
        "agent's instructions and tool schemas.",
    ]
    if setup.note:
        said.append("The answers were recorded before: nothing on this page was measured.")
    return "\n".join(said)


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what one has to know of the strategies that are shown."""
    said = [f"- {one} {NOTES[one]}" for one in _strategies(rows) if one in NOTES]
    if said:
        yield "\n".join(said)


def _strategies(rows: Sequence[Row]) -> list[str]:
    return sorted({row.strategy for row in rows})


def _errors(trials: Sequence[TrialResult]) -> Iterator[str]:
    said = [f"- {one.job.name}: {error}" for one in trials for error in one.errors]
    if said:
        yield "## Errors"
        yield "\n".join(said)


def _named(row: Row) -> tuple[str, str]:
    return row.template, row.strategy


def _values(row: Row, metrics: Sequence[Metric]) -> list[str]:
    return [written(row.metrics.get(one.name), one.digits) for one in metrics]


def _verdict(row: Row, metric: Metric) -> str:
    if metric.name not in row.targets:
        return ABSENT
    met = row.targets[metric.name]
    return "met" if met else f"missed ({row.metrics[metric.name].mean:.2f})"


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "\n".join(map(_line, [head, ["---"] * len(head), *lines]))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(' '.join(cell.replace('|', '/').split()) for cell in cells)} |"
