"""The size of the working context, shown: tokens by part as a line, and as a bar."""

from collections.abc import Mapping
from typing import Any

from rich.text import Text

STYLES: Mapping[str, str] = {
    "system": "grey50",
    "tools": "grey35",
    "memory": "green",
    "quotes": "blue",
    "turns": "cyan",
    "expanded": "magenta",
    "anchor": "yellow",
    "turn": "bright_white",
}
"""The parts of the context, and how each is shown."""


def spent(report: Mapping[str, Any], budget: int) -> Text:
    """Return one line: tokens in all against the budget, then by part, empty ones left out."""
    line = Text(f"context {report['total']:,} of {budget:,} tokens: ", style="dim")
    return line.append_text(by_part(report["tokens"]))


def by_part(tokens: Mapping[str, int]) -> Text:
    """Return the tokens of the parts that hold any, each in its colour."""
    held = [name for name in STYLES if tokens.get(name)]
    shown = [Text(f"{name} {tokens[name]:,}", style=STYLES[name]) for name in held]
    return Text(" · ", style="dim").join(shown)


def bar(tokens: Mapping[str, int], each: int) -> Text:
    """Return the parts side by side, a block for every `each` tokens.

    >>> bar({"memory": 70, "turns": 250, "turn": 10}, each=100).plain
    '█████'
    """
    blocks = ((-(-tokens[name] // each), STYLES[name]) for name in STYLES if tokens.get(name))
    return Text.assemble(*(("█" * many, style) for many, style in blocks))
