"""The tier of concluded efforts: a line each, in the order in which they were concluded.

What was surfaced from earlier sessions stands before them in a message of its own. It is there from
the first turn on and only becomes less, while this session's own efforts are added at the end: so
concluding one changes nothing before it. What another session says of its effort may change while
this one runs: it is concluded anew there, reopened, erased. That is a cut like any other.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from functools import partial
from operator import attrgetter

from ..prompts.loader import text as prompt
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
    earlier = [effort for effort in efforts if is_qualified(effort.id)]
    own = [effort for effort in efforts if not is_qualified(effort.id)]
    return _tier(desk, [*earlier, *sorted(own, key=attrgetter("turn"))], hidden)


def _tier(desk: Desk, efforts: Sequence[Effort], hidden: Collection[str]) -> Tier:
    messages = _messages([effort for effort in efforts if effort.id not in hidden])
    missing = [effort.id for effort in efforts if effort.id in hidden]
    return Tier(
        "memory",
        messages,
        count_messages(messages, desk.count),
        cut=missing or None,
        left_out={"summaries": len(missing), "efforts": missing[-_LISTED:]} if missing else {},
        shrink=partial(_shrunk, desk, efforts, hidden),
    )


def _shrunk(desk: Desk, efforts: Sequence[Effort], hidden: Collection[str], target: int) -> Tier:
    """Leave out those that were not referenced for longest."""
    ids = [effort.id for effort in efforts if effort.id not in hidden]
    oldest = sorted(ids, key=lambda name: desk.space.summaries[name])
    steps = [{*hidden, *oldest[:gone]} for gone in range(len(oldest) + 1)]
    at = bisect_left(steps, -target, key=lambda gone: -_tier(desk, efforts, gone).tokens)
    return _tier(desk, efforts, steps[at])


def _messages(efforts: Sequence[Effort]) -> tuple[Message, ...]:
    earlier = [_line(effort) for effort in efforts if is_qualified(effort.id)]
    own = [_line(effort) for effort in efforts if not is_qualified(effort.id)]
    named = {"earlier_sessions": earlier, "memory": own}
    return tuple(
        note(prompt(name, quote=fenced("summaries", "\n".join(lines))))
        for name, lines in named.items()
        if lines
    )


def _line(effort: Effort) -> str:
    return f"- {effort.id}: {one_line(effort.summary)}"
