"""The size of the working context, shown: tokens by tier as a line, and as a bar."""

from collections.abc import Mapping
from typing import Any

from rich.text import Text

STYLES: Mapping[str, str] = {
    "system": "grey50",
    "tools": "grey35",
    "memory": "green",
    "expanded": "magenta",
    "open": "blue",
    "ambient": "yellow",
    "active": "cyan",
    "notes": "white",
    "turn": "bright_white",
}
"""The tiers in the order in which they are sent, and how each is shown."""

FIXED = ("system", "tools")
"""The tiers that are the same in every call."""


def spent(report: Mapping[str, Any], budget: int) -> Text:
    """Return one line: tokens in all against the budget, then by tier, empty ones left out."""
    line = Text(f"context {report['total']:,} of {budget:,} tokens: ", style="dim")
    return line.append_text(by_tier(report["tokens"]))


def by_tier(tokens: Mapping[str, int]) -> Text:
    """Return the tokens of the tiers that hold any, each in its colour."""
    held = [name for name in STYLES if tokens.get(name)]
    shown = [Text(f"{name} {tokens[name]:,}", style=STYLES[name]) for name in held]
    return Text(" · ", style="dim").join(shown)


def bar(tokens: Mapping[str, int], each: int) -> Text:
    """Return the tiers side by side, a block for every `each` tokens.

    >>> bar({"memory": 70, "active": 250, "turn": 10}, each=100).plain
    '█████'
    """
    blocks = ((-(-tokens[name] // each), STYLES[name]) for name in STYLES if tokens.get(name))
    return Text.assemble(*(("█" * many, style) for many, style in blocks))


def moving(tokens: Mapping[str, int]) -> int:
    """Return the tokens of the tiers that change: all but instructions and tools.

    >>> moving({"system": 400, "active": 250, "turn": 10})
    260
    """
    return sum(size for name, size in tokens.items() if name not in FIXED)
