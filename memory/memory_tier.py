"""The tier of concluded efforts: a line each, in the order in which they were concluded.

What was surfaced from earlier sessions stands before them in a message of its own. It is there from
the first turn on and only becomes less, while this session's own efforts are added at the end: so
concluding one changes nothing before it. What another session says of its effort may change while
this one runs: it is concluded anew there, reopened, erased. That is a cut like any other.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping
from functools import partial
from operator import attrgetter

from ..prompts.loader import text as prompt
from .clock import day_of
from .desk import Desk
from .efforts import Effort
from .group_tiers import one_line
from .messages import Message
from .qualified import is_qualified
from .quotes import fenced
from .tiers import Tier
from .tokens import count_messages
from .wellformed import note

_LISTED = 20


def memory_tier(desk: Desk, hidden: Collection[str]) -> Tier:
    """Return the summaries in the context without those that were cut."""
    efforts = desk.known([*desk.space.summaries])
    earlier = {one.id: _of_day(desk, one) for one in efforts if is_qualified(one.id)}
    own = sorted((one for one in efforts if not is_qualified(one.id)), key=attrgetter("turn"))
    return _tier(desk, {**earlier, **{one.id: _line(one.id, one) for one in own}}, hidden)


def _tier(desk: Desk, lines: Mapping[str, str], hidden: Collection[str]) -> Tier:
    messages = _messages({name: line for name, line in lines.items() if name not in hidden})
    missing = [name for name in lines if name in hidden]
    return Tier(
        "memory",
        messages,
        count_messages(messages, desk.count),
        cut=missing or None,
        left_out={"summaries": len(missing), "efforts": missing[-_LISTED:]} if missing else {},
        shrink=partial(_shrunk, desk, lines, hidden),
    )


def _shrunk(desk: Desk, lines: Mapping[str, str], hidden: Collection[str], target: int) -> Tier:
    """Leave out those that were not referenced for longest."""
    ids = [name for name in lines if name not in hidden]
    oldest = sorted(ids, key=lambda name: desk.space.summaries[name])
    steps = [{*hidden, *oldest[:gone]} for gone in range(len(oldest) + 1)]
    at = bisect_left(steps, -target, key=lambda gone: -_tier(desk, lines, gone).tokens)
    return _tier(desk, lines, steps[at])


def _messages(lines: Mapping[str, str]) -> tuple[Message, ...]:
    earlier = [line for name, line in lines.items() if is_qualified(name)]
    own = [line for name, line in lines.items() if not is_qualified(name)]
    named = {"earlier_sessions": earlier, "memory": own}
    return tuple(
        note(prompt(name, quote=fenced("summaries", "\n".join(listed))))
        for name, listed in named.items()
        if listed
    )


def _of_day(desk: Desk, effort: Effort) -> str:
    """Return the line of an effort of another session, with the day on which it was concluded."""
    records = desk.view.turns_of(effort.id, [effort.turn])
    day = day_of(records[0].at) if records else ""
    return _line(f"{effort.id} ({day})" if day else effort.id, effort)


def _line(name: str, effort: Effort) -> str:
    return f"- {name}: {one_line(effort.summary)}"
