"""The day of the running turn, told before its messages where it is another one."""

from ..dates import local, shown
from ..record import Event
from ..running_turn import RunningTurn

_APART = 3 * 3600
"""Seconds between two turns of one day from which on the hour is told too."""


def dated(work: RunningTurn) -> list[Event]:
    """Return the event that tells the day before the running message; none if it is known.

    It is in the first turn, on another day than the turn before, and some hours after that one.
    """
    if not work.now:
        return []
    zone, tip = work.settings.timezone, work.view.tip.turn
    last = next((record.at for record in work.view.turns([tip] if tip else [])), "")
    is_later = False
    if last:
        before, now = local(last, zone), local(work.now, zone)
        is_later = before.date() == now.date()
        if is_later and (now - before).total_seconds() <= _APART:
            return []
    return [{"type": "dated", "day": shown(work.now, zone, hour=is_later)}]
