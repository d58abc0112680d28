"""Constants of the rules made small, so that a test needs little to reach them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest

RULES = {
    "ANCHOR_TOKENS": ("memory.state_block", "nodes.call_model", "graph.commands.change"),
    "BACKGROUND": ("memory.salience.extract",),
    "EMBEDDED_TURNS": ("nodes.persist",),
    "KEYWORD_TURNS": ("memory.keywords",),
    "LOG_TOKENS": ("memory.questions", "memory.salience.extract"),
    "MOST_KEYWORDS": ("memory.tools.summary",),
    "MOST_OPEN": ("memory.tools.lifecycle",),
    "MOST_SUMMARIES": ("memory.efforts",),
    "STATUS_LISTED": ("memory.tools.effort_status",),
}
"""The modules that read each constant."""


def change(patch: pytest.MonkeyPatch, **chosen: Any) -> dict[str, Any]:
    """Give the constants among `chosen` these values, and return what is left: settings."""
    for name in RULES.keys() & chosen.keys():
        for module in RULES[name]:
            patch.setattr(import_module(f"ebbtide.{module}"), name, chosen[name])
    return {name: value for name, value in chosen.items() if name not in RULES}


@contextmanager
def constants(**chosen: Any) -> Iterator[Mapping[str, Any]]:
    """Give constants other values for as long as the context lasts."""
    with pytest.MonkeyPatch.context() as patch:
        yield change(patch, **chosen)
