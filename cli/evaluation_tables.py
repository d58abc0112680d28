"""The results of an evaluation on the terminal: a table for each template."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.table import Column, Table
from rich.text import Text

from ..evaluation.metrics import COSTS, SCORES, Metric
from ..evaluation.results import Setup
from ..evaluation.summary import Row
from ..evaluation.tables import written
from .printable import in_line


def shown(setup: Setup, rows: Sequence[Row]) -> Iterator[Table]:
    """Yield a table for each template: a row for each metric, a column for each strategy."""
    for template, group in groupby(rows, key=lambda row: row.template):
        some = [*group]
        title = f"{template}{f' ({setup.note})' if setup.note else ''}"
        names = [in_line(row.strategy) for row in some]
        columns = [Column(name, justify="right", overflow="fold") for name in names]
        table = Table("Metric", *columns, title=Text(in_line(title)))
        for metric in (*SCORES, *COSTS):
            if any(metric.name in row.metrics for row in some):
                table.add_row(_named(metric, some[0]), *(_cell(row, metric) for row in some))
        yield table


def _named(metric: Metric, row: Row) -> str:
    """Return a metric's title, with its target if it is one for the template."""
    if metric.target is None or not metric.applies(row.turns):
        return metric.title
    return f"{metric.title} {metric.target.sign} {metric.target.value:.2f}"


def _cell(row: Row, metric: Metric) -> Text:
    """Return a value, and whether it meets its target."""
    value = written(row.metrics.get(metric.name), metric.digits)
    if metric.name not in row.targets:
        return Text(value)
    met = row.targets[metric.name]
    return Text(f"{value} {'met' if met else 'missed'}", "green" if met else "red")
