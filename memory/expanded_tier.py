"""The tier of expanded efforts: their logs, quoted, the least recently referenced cut first."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from ..prompts.loader import text as prompt
from .desk import Desk
from .effort_quote import quote, share
from .messages import Message
from .numbers import ranges
from .qualified import is_qualified
from .shortening import ladder
from .tiers import Tier
from .tokens import count_messages
from .wellformed import note

Cuts: TypeAlias = Mapping[str, Sequence[int]]
"""By effort, the first turn that is still shown and how long a single turn may be, in tokens."""


def expanded_tier(desk: Desk, cuts: Cuts) -> Tier:
    """Return the logs of the expanded efforts, each quoted in a message of its own.

    A log of another session is left out as soon as its effort is no longer concluded there, and
    without the turns that were erased there or are not on its newest branch any more.
    """
    found = [_quoted(desk, name, cuts) for name in desk.space.expanded]
    messages = tuple(message for message in found if message is not None)
    cut = {name: [*place] for name, place in cuts.items() if name in desk.space.expanded}
    return Tier(
        "expanded",
        messages,
        count_messages(messages, desk.count),
        cut=cut or None,
        left_out=_left_out(desk, cut),
        turns=tuple(_turns(desk, cuts)),
        shrink=partial(_shrunk, desk, cuts),
    )


def _shrunk(desk: Desk, cuts: Cuts, target: int) -> Tier:
    steps = [*_steps(desk, cuts)]
    at = bisect_left(steps, -target, key=lambda step: -expanded_tier(desk, step).tokens)
    return expanded_tier(desk, steps[min(at, len(steps) - 1)])


def _steps(desk: Desk, cuts: Cuts) -> Iterator[Cuts]:
    """Yield deeper and deeper cuts: the oldest turns of an effort first; at last nothing is left.

    The effort that was referenced last keeps the head of its last turn for longest.
    """
    yield cuts
    expanded = desk.space.expanded
    for name in sorted(expanded, key=lambda one: expanded[one]["last_referenced_turn"]):
        first, longest = cuts.get(name, (0, share(desk)))
        turns = [turn for turn in expanded[name]["turns"] if turn >= first]
        for turn in turns[1:]:
            yield (cuts := {**cuts, name: (turn, longest)})
        for head in ladder(longest):
            yield (cuts := {**cuts, name: (turns[-1] if turns else first, head)})
        yield (cuts := {**cuts, name: (turns[-1] + 1 if turns else first, longest)})


def _quoted(desk: Desk, name: str, cuts: Cuts) -> Message | None:
    first, longest = cuts.get(name, (0, share(desk)))
    efforts, turns = desk.known([name]), desk.view.turns_of(name, _shown(desk, name, cuts))
    if not efforts or not (turns or not first):
        return None
    return note(prompt("expanded", quote=quote(efforts[0], turns, longest, desk.count)))


def _shown(desk: Desk, name: str, cuts: Cuts) -> list[int]:
    first, _ = cuts.get(name, (0, 0))
    return [turn for turn in desk.space.expanded[name]["turns"] if turn >= first]


def _turns(desk: Desk, cuts: Cuts) -> list[int]:
    """Return the turns of this session that are shown, ascending, each once."""
    own = [name for name in desk.space.expanded if not is_qualified(name)]
    return sorted({turn for name in own for turn in _shown(desk, name, cuts)})


def _left_out(desk: Desk, cuts: Cuts) -> dict[str, str]:
    """Say of each effort which of its turns are not shown, or that a turn is shown as its head."""
    missing = {}
    for name, (first, _) in cuts.items():
        turns = [turn for turn in desk.space.expanded[name]["turns"] if turn < first]
        missing[name] = f"turns {ranges(turns)}" if turns else "the end of the last turn"
    return missing
