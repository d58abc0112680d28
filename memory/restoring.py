"""The state of a thread as the events of its archived turns left it."""

from collections.abc import Iterable
from dataclasses import replace

from .record import Record
from .transitions import applied
from .workspace import Workspace

EMPTY = Workspace(turn=0, active=None, open={}, expanded={}, summaries={})


def replay(records: Iterable[Record]) -> Workspace:
    """Return the workspace after these records, oldest first, without events and banners."""
    space = EMPTY
    for record in records:
        space = replace(space, turn=record.turn)
        if space.active is not None:
            space = space.activated(space.active)
        for event in record.events:
            space = applied(space, event)
    return replace(space, events=(), banners=())
