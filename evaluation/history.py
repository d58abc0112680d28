"""The two plain strategies, that others are measured against: everything, or only the end."""

from collections.abc import Sequence

from .strategy import Context, Heedless, Means, as_messages, recent, remembered
from .template import TemplateTurn


class FullHistory(Heedless):
    """Sends all that was said; nothing is lost, and nothing is saved."""

    name = "full-history"

    def __init__(self, _means: Means) -> None:
        """Need nothing."""

    @remembered
    def compress(self, turns: Sequence[TemplateTurn]) -> Context:
        """Return everything."""
        return Context(as_messages(turns))


class RollingWindow(Heedless):
    """Sends the last exchanges and forgets the others."""

    name = "rolling-window"

    def __init__(self, _means: Means) -> None:
        """Need nothing."""

    @remembered
    def compress(self, turns: Sequence[TemplateTurn]) -> Context:
        """Return the last exchanges."""
        return Context(as_messages(recent(turns)))
