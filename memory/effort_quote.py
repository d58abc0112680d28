"""An expanded effort as the context quotes it."""

from collections.abc import Sequence

from ..prompts.loader import text as prompt
from .desk import Desk
from .efforts import Effort
from .numbers import ranges
from .qualified import parted
from .quotes import fenced
from .slices import fit
from .tokens import TokenCounter
from .transcript import Logged, rendered, transcript


def share(desk: Desk) -> int:
    """Return the part of the room that expanded efforts may fill, in tokens."""
    return int(desk.room * desk.settings.expanded_share)


def quote(effort: Effort, turns: Sequence[Logged], limit: int, count: TokenCounter) -> str:
    """Quote turns of an effort word for word; a single turn over `limit` tokens as its head."""
    log = transcript(turns)
    if len(turns) == 1 and count(log) > limit:
        log = _head(turns[0], limit, count, parted(effort.id)[0])
    shown = ranges([turn.turn for turn in turns])
    return fenced("effort", log, id=effort.id, status=effort.status, turns=shown)


def _head(turn: Logged, limit: int, count: TokenCounter, session: str) -> str:
    log = rendered(turn.messages)
    end = fit(log, limit, count)
    said = {"turn": turn.turn, "head": log[:end], "tokens": count(log[end:]), "offset": end}
    if session:
        return prompt("head_of_earlier_turn", session=session, **said)
    return prompt("head_of_turn", **said)
