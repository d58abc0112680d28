"""When an open effort has outgrown its share, and how far it is then compressed."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import log2

import numpy as np

from ..context.budget import high_water, low_water
from ..context.excerpts import quote
from ..context.layout import whole_tokens
from ..efforts import Effort
from ..record import Record
from ..running_turn import RunningTurn
from ..salience import Compression
from ..tokens import count_message
from .extract import MOST_QUOTED, readable_at_once

_SHARES = ((12, 14, 16), (0.6, 0.5, 0.3))
"""By the binary logarithm of the budget, the share of the room that a live effort may have.

By simulation small passes at small budgets cost more than they save.
"""

LOW = 0.35
"""What an effort is compressed to, a fraction of its share; found by simulation."""

_LEAST = 1.0
"""What leaves at least, a fraction of the share, so that a pass is worth its calls.

On *long* of `benchmarks/context_cost.py`, 250 turns, 0.3, 0.65 and 1.0 cost 3,291, 3,157 and 3,071
tokens a turn with a budget of 4,000, and 2,691, 2,612 and 2,658 with 16,000.
"""

_LEAST_HIDDEN = 0.75
"""The same where turns that nothing stands for had to leave the context.

On *long* with a budget of 4,000, 600 turns, 0.6, 0.75 and 0.9 cost 2,863, 2,792 and 2,732 a turn.
"""

_LEAST_PRESSING = 0.65
"""The same where they would have to leave in the next turn.

There 0.5, 0.6 and 0.65 cost 2,856, 2,834 and 2,832 a turn.
"""

_LEAST_PARKED = 0.3
"""The same of an effort that is not active and had to leave: only quotes would keep it in view.

On *day* of the same benchmark with a budget of 4,000, 0.3, 0.5 and 0.75 cost 1,768, 1,692 and 1,655
tokens a turn: in conversations read by hand parked work was out of view for 20 calls with 0.75.
"""

RECENT_TURNS = 3
"""Newest turns of an effort that are not compressed, since they are still talked about.

Of one that is not active and had to leave those are the last turns of the conversation.
"""

_QUOTED_SHARE = 0.5
"""What the salient items of an effort may have of what it is compressed to, a fraction."""

_LOOKED_AT = 3
"""Shares of an effort that one pass looks at: more than it ever has, unless passes fail."""

_LAST = 3
"""Turns by whose mean the size of the next one is guessed."""

_CHUNK = 50
"""Turns that are read at once; a pass seldom looks at more."""


@dataclass(frozen=True, slots=True)
class Due:
    """An effort to be compressed: the turns that leave, and what stands for older ones.

    `live` is what it has in the context now, `kept` what its newest turns have, both in tokens.
    Where passes have failed for long, only the oldest turns are looked at, and counted.
    """

    effort: Effort
    old: Compression | None
    leaving: tuple[Record, ...]
    live: int
    kept: int

    @property
    def through(self) -> int:
        """The newest turn that the compression will stand for."""
        return self.leaving[-1].turn if self.leaving else self.old.through if self.old else 0


def adoptable(work: RunningTurn) -> Compression | None:
    """Return a stored compression that the state does not name yet, None if none.

    The run was cut off after it was stored, or the state was rebuilt from the archive.
    """
    named = work.state.compressed
    stored = filter(None, map(work.view.compression, work.state.open))
    return next((made for made in stored if made.turn > named.get(made.effort, 0)), None)


def to_do(work: RunningTurn) -> Compression | Due | None:
    """Return the compression that is to be taken up, else what is to be compressed now."""
    return adoptable(work) or due(work)


def due(work: RunningTurn) -> Due | None:
    """Return the open effort to be compressed now, the active one first; None if there is none."""
    if work.settings.compression == "off" or not work.state.open:
        return None
    active, tip = work.state.active, work.view.tip.turn
    last = work.view.turns(range(max(1, tip - _LAST + 1), tip + 1))
    # The next turn is taken to be as large as the last ones.
    coming = sum(whole_tokens(work, record) for record in last) // max(1, len(last))
    others = [name for name in reversed([*work.state.open]) if name != active]
    names = [active, *others] if active else others
    dues = (_due(work, effort, coming) for effort in work.known(names))
    return next(filter(None, dues), None)


def item_limit(work: RunningTurn) -> int:
    """Return how many tokens the salient items of one effort may have."""
    return min(MOST_QUOTED, int(_QUOTED_SHARE * LOW * share_of(work)))


def share_of(work: RunningTurn) -> float:
    """Return how many tokens the active effort may have; another one may have half of it."""
    return float(np.interp(log2(work.settings.context_budget), *_SHARES)) * work.room


def leaving(sizes: Sequence[int], recent: int, low: float, least: float) -> int:
    """Return how many of the oldest turns leave, given the sizes of turns in tokens, oldest first.

    As many as it takes until the others have `low` tokens, the newest `recent` never; none, if
    those that may leave have less than `least` tokens, or than half of what the newest have, so
    that a pass is worth its calls.

    >>> leaving([300, 300, 300, 300, 300], recent=2, low=700, least=300)
    3
    >>> leaving([100, 100, 900], recent=1, low=700, least=300)
    0
    """
    most = max(0, len(sizes) - recent)
    if sum(sizes[:most]) < max(least, sum(sizes[most:]) / 2):
        return 0
    return next((gone for gone in range(most) if sum(sizes[gone:]) <= low), most)


def standing(work: RunningTurn, made: Compression | None) -> int:
    """Return the tokens of what stands for compressed turns, 0 if nothing does."""
    shown = quote(made, 1, work.count) if made else None
    return count_message(shown, work.count) if shown else 0


def _due(work: RunningTurn, effort: Effort, coming: int) -> Due | None:
    """Return what of an effort is to be compressed; `coming` are the tokens of the next turn."""
    log, old = work.view.log_turns(effort.id), work.view.compression(effort.id)
    stands, active = standing(work, old), effort.id == work.state.active
    share = share_of(work) if active else share_of(work) / 2
    turns = log[bisect_right(log, old.through) if old else 0 :]
    records, sizes = _oldest(work, turns, _LOOKED_AT * share)
    live, gone, unread = stands + sum(sizes), 0, len(turns) - len(records)
    hidden = pressing = False
    if work.line is not None:
        hidden = any(turn < work.line.first for turn in turns[:1])
        # The next turn would make a cut that takes turns of this effort.
        cut = work.used + coming > high_water(work.room, work.line.size)
        cut_to = low_water(work.room, work.settings.context_budget)
        pressing = not hidden and cut and live + coming > cut_to
    if live > share or hidden or pressing:
        low = 0 if unread or hidden or pressing else LOW * share - max(stands, item_limit(work))
        least, recent = _LEAST_PRESSING if pressing else _LEAST, RECENT_TURNS
        if hidden:
            least = _LEAST_HIDDEN if active else _LEAST_PARKED
        if hidden and not active:
            recent = sum(turn > work.view.tip.turn - RECENT_TURNS for turn in turns)
        gone = leaving(sizes, max(0, recent - unread), low, least * share)
        # No more than a pass can read, but one turn in any case.
        limit = readable_at_once(work.settings.context_budget)
        fitting = sum(total <= limit for total in accumulate(sizes[:gone]))
        gone = max(fitting, min(1, gone))
    if not gone and not (old and old.stale):
        return None
    return Due(effort, old, records[:gone], live, sum(sizes[gone:]))


def _oldest(
    work: RunningTurn, turns: Sequence[int], enough: float
) -> tuple[tuple[Record, ...], list[int]]:
    """Return the oldest of these turns, with their sizes, until they have enough tokens."""
    records: tuple[Record, ...] = ()
    sizes: list[int] = []
    for first in range(0, len(turns), _CHUNK):
        if sum(sizes) > enough:
            break
        part = work.view.turns(turns[first : first + _CHUNK])
        records, sizes = (*records, *part), [*sizes, *(whole_tokens(work, turn) for turn in part)]
    return records, sizes
