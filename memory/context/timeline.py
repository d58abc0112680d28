"""What the context shows between two rebuilds, as the state keeps it."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

from ..messages import Message
from ..names import numbers, ranges
from ..valid_history import with_own_ids

Why: TypeAlias = Literal[
    "new", "break-even", "every-turn", "compressed", "high-water", "cold-cache", "settings"
]
"""Why a context was rebuilt; "new" where the state has none: at first, after erasing or restoring.
"""

PartName: TypeAlias = Literal[
    "system", "tools", "memory", "quotes", "turns", "expanded", "anchor", "turn"
]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Which turns the context shows, and how; plain data, so that the same bytes come of it.

    It was rebuilt after the turn `built`. Up to there the `turns` are shown, those up to `previews`
    with previews of long results, later turns as they were said. `short`: turn -> how many of its
    first messages are shortened, and to how many tokens. Turns before `first` had to leave for
    lack of room, and stay away. `summaries` are the concluded efforts that have a line, `older`
    counts the others; `open` are those that were open. `quotes` says after which turn a shown
    compression of an effort was made, `logs` in which turn the log of an effort was put. `size` had
    all of it in tokens, `hold` is the cost so far of keeping what a rebuild would take away. `key`
    names the settings and the room that it was made for, `within` is how many messages the running
    turn had if it was cut in the middle, `anchor` is the state block as it was then, if it changed.
    """

    built: int
    turns: tuple[int, ...] = ()
    previews: int = 0
    short: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    first: int = 0
    summaries: tuple[str, ...] = ()
    older: int = 0
    open: tuple[str, ...] = ()
    quotes: Mapping[str, int] = field(default_factory=dict)
    logs: Mapping[str, int] = field(default_factory=dict)
    size: int = 0
    hold: float = 0.0
    key: str = ""
    why: Why = "new"
    within: int = 0
    anchor: Mapping[str, str] | None = None

    def room(self, now: int) -> int:
        """Return the room that it was made for, by which its parts are limited; else `now`.

        >>> Timeline(9, key="ab12cd34:900").room(800), Timeline(9).room(800)
        (900, 800)
        """
        made_for = self.key.rpartition(":")[2]
        return int(made_for) if made_for.isdecimal() else now


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the context with its size in tokens, and the turn that it shows, if one."""

    name: PartName
    messages: tuple[Message, ...]
    tokens: int
    turn: int | None = None


def messages_of(parts: Iterable[Part]) -> tuple[Message, ...]:
    """Return the messages of parts as they are sent together."""
    return with_own_ids([message for part in parts for message in part.messages])


@dataclass(frozen=True, slots=True)
class WorkingContext:
    """What is sent, part by part in its order, and the timeline that it was made by."""

    parts: tuple[Part, ...]
    timeline: Timeline
    left_out: Mapping[str, Any] = field(default_factory=dict)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of all parts, in order."""
        return messages_of(self.parts)

    @property
    def report(self) -> dict[str, Any]:
        """Tokens by part and in all, what was left out, and the last rebuild, as state shows it."""
        tokens: dict[str, int] = {}
        for part in self.parts:
            tokens[part.name] = tokens.get(part.name, 0) + part.tokens
        line = self.timeline
        within = {"within": line.within} if line.within else {}
        rebuilt = {"after_turn": line.built, "why": line.why, **within}
        left_out = dict(self.left_out)
        total = sum(tokens.values())
        return {"tokens": tokens, "total": total, "left_out": left_out, "rebuilt": rebuilt}


def with_anchor(line: Timeline, shown: Mapping[str, str]) -> Timeline:
    """Return the timeline when a new state block was written: the one shown stays until a rebuild.

    >>> with_anchor(Timeline(9), {"Goal": "a"}).anchor
    {'Goal': 'a'}
    """
    return line if line.anchor is not None else replace(line, anchor=dict(shown))


def packed(line: Timeline) -> dict[str, Any]:
    """Return a timeline as the state keeps it, without what is empty; the inverse of `unpacked`.

    >>> packed(Timeline(9, (3, 4, 5, 8), short={8: (2, 300)}))
    {'built': 9, 'turns': '3-5,8', 'short': {'8': [2, 300]}, 'why': 'new'}
    """
    state = asdict(line) | {
        "turns": ranges(line.turns),
        "short": {str(turn): [*form] for turn, form in line.short.items()},
        "summaries": [*line.summaries],
        "open": [*line.open],
        "hold": round(line.hold, 1),
    }
    anchor = {} if line.anchor is None else {"anchor": state.pop("anchor")}
    return {name: value for name, value in state.items() if value or name == "built"} | anchor


def unpacked(state: Mapping[str, Any] | None) -> Timeline | None:
    """Return the timeline that the state keeps, None if it keeps none.

    >>> unpacked({"built": 9, "turns": "3-5", "why": "new"})
    Timeline(built=9, turns=(3, 4, 5), previews=0, short={}, first=0, summaries=(), older=0, \
open=(), quotes={}, logs={}, size=0, hold=0.0, key='', why='new', within=0, anchor=None)
    """
    if not state:
        return None
    short = {int(turn): tuple(form) for turn, form in state.get("short", {}).items()}
    names = {name: tuple(state.get(name, ())) for name in ("summaries", "open")}
    turns = tuple(sorted(numbers(state.get("turns", ""))))
    return Timeline(**{**state, **names, "turns": turns, "short": short})
