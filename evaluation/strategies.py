"""The strategies by name, the two plain ones among them, and what each needs."""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TypeAlias

from .agent import BUDGET, EbbtideAgent
from .errors import StrategyError
from .peers import KEPT, LANGMEM_TOKENS, DeepAgents, LangMem, Middleware
from .quoting import ProtectedCore, SelectiveSalience
from .strategy import (
    RECENT,
    Context,
    Stateless,
    Strategy,
    StrategyInputs,
    as_messages,
    recent,
    remembered,
)
from .template import TemplateTurn


class FullHistory(Stateless):
    """Sends all that was said; nothing is lost, and nothing is saved."""

    name = "full-history"

    def __init__(self, _means: StrategyInputs) -> None:
        """Need nothing."""

    @remembered
    def compress(self, turns: Sequence[TemplateTurn]) -> Context:
        """Return everything."""
        return Context(as_messages(turns))


class RollingWindow(Stateless):
    """Sends the last exchanges and forgets the others."""

    name = "rolling-window"

    def __init__(self, _means: StrategyInputs) -> None:
        """Need nothing."""

    @remembered
    def compress(self, turns: Sequence[TemplateTurn]) -> Context:
        """Return the last exchanges."""
        return Context(as_messages(recent(turns)))


Maker: TypeAlias = Callable[[StrategyInputs], Strategy]
"""Makes a strategy for one trial."""

OURS: Mapping[str, Maker] = {
    FullHistory.name: FullHistory,
    RollingWindow.name: RollingWindow,
    ProtectedCore.name: ProtectedCore,
    SelectiveSalience.name: SelectiveSalience,
    EbbtideAgent.name: EbbtideAgent,
}
"""What is measured if no strategy is named."""

PEERS: Mapping[str, Maker] = {made.name: made for made in (Middleware, LangMem, DeepAgents)}
"""What is measured beside them if it is named."""

STRATEGIES: Mapping[str, Maker] = {**OURS, **PEERS}

NOTES: Mapping[str, str] = {
    RollingWindow.name: f"keeps the last {RECENT} exchanges.",
    ProtectedCore.name: f"quotes by rules, beside the last {RECENT} exchanges; asks no model.",
    SelectiveSalience.name: f"has a model quote, beside the last {RECENT} exchanges.",
    EbbtideAgent.name: (
        f"has a context of {BUDGET:,} tokens, and compresses in its own time; its quotes are "
        "compared with what was said in the turns that it has compressed."
    ),
    Middleware.name: f"is made to summarise at every point, and keeps {KEPT} messages.",
    LangMem.name: f"is told to stay within {LANGMEM_TOKENS:,} tokens, and leaves what has less.",
    DeepAgents.name: f"is made to summarise at every point, and keeps {KEPT} messages.",
}
"""What one has to know of a strategy to read its scores."""

_PACKAGES = {LangMem.name: "langmem", DeepAgents.name: "deepagents"}


def chosen(names: Sequence[str]) -> dict[str, Maker]:
    """Return strategies by name, ours without any; raises `StrategyError` if one cannot be."""
    for name in names:
        if name not in STRATEGIES:
            raise StrategyError.unknown(name, STRATEGIES)
        package = _PACKAGES.get(name)
        if package and find_spec(package) is None:
            raise StrategyError.missing(name, package)
    return {name: STRATEGIES[name] for name in names or OURS}
