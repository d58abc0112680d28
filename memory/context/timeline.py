"""What the context shows between two rebuilds, as the state keeps it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from typing import Any, Literal, TypeAlias

from ..messages import Message, digest
from ..names import numbers, ranges
from ..tokens import REPLY_OVERHEAD, TokenCounter, count_messages
from ..valid_history import with_own_ids

_DIGITS = 6
"""Of the digest of a message: 24 bits tell neighbours of a context apart."""

Why: TypeAlias = Literal[
    "new", "break-even", "every-turn", "compressed", "high-water", "cold-cache", "settings"
]
"""Why a context was rebuilt; "new" if the state has none: at first, after erasing, restoring."""

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

    def with_anchor(self, shown: Mapping[str, str]) -> "Timeline":
        """Return it after a new state block: the one `shown` stays until a rebuild."""
        return self if self.anchor is not None else replace(self, anchor=dict(shown))

    def packed(self) -> dict[str, Any]:
        """Return it as the state keeps it, without what is empty; the inverse of `unpacked`.

        >>> Timeline(9, (3, 4, 5, 8), short={8: (2, 300)}).packed()
        {'built': 9, 'turns': '3-5,8', 'short': {'8': [2, 300]}, 'why': 'new'}
        """
        state = asdict(self) | {
            "turns": ranges(self.turns),
            "short": {str(turn): [*form] for turn, form in self.short.items()},
            "summaries": [*self.summaries],
            "open": [*self.open],
            "hold": round(self.hold, 1),
        }
        anchor = {} if self.anchor is None else {"anchor": state.pop("anchor")}
        return {name: value for name, value in state.items() if value or name == "built"} | anchor

    @classmethod
    def unpacked(cls, state: Mapping[str, Any] | None) -> "Timeline | None":
        """Return the timeline that the state keeps, None if it keeps none.

        >>> Timeline.unpacked({"built": 9, "turns": "3-5"}) == Timeline(9, (3, 4, 5))
        True
        """
        if not state:
            return None
        short = {int(turn): tuple(form) for turn, form in state.get("short", {}).items()}
        names = {name: tuple(state.get(name, ())) for name in ("summaries", "open")}
        turns = tuple(sorted(numbers(state.get("turns", ""))))
        return cls(**{**state, **names, "turns": turns, "short": short})


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the context with its size in tokens, and the turn that it shows, if one."""

    name: PartName
    messages: tuple[Message, ...]
    tokens: int
    turn: int | None = None

    @classmethod
    def of(
        cls,
        name: PartName,
        messages: Iterable[Message],
        count: TokenCounter,
        turn: int | None = None,
    ) -> "Part":
        """Return messages as a part of the context."""
        together = (*messages,)
        return cls(name, together, count_messages(together, count), turn)


@dataclass(frozen=True)  # without slots, in which nothing could be cached
class WorkingContext:
    """What is sent, part by part in its order, and the timeline that it was made by."""

    parts: tuple[Part, ...]
    timeline: Timeline
    left_out: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """The messages of all parts, in order."""
        return with_own_ids([message for part in self.parts for message in part.messages])

    @cached_property
    def sent(self) -> str:
        """What is remembered of the prompt: six hex digits for each message."""
        return "".join(digest([message], _DIGITS) for message in self.messages)

    def prefix(self, before: str, count: TokenCounter) -> int:
        """Return the tokens with which it begins as the prompt did that was `sent` before it.

        Those of the tool schemas count with them; 0 if not even the first message is the same.
        """
        same = takewhile(lambda pair: pair[0] == pair[1], zip(before, self.sent, strict=False))
        alike = len([*same]) // _DIGITS
        tokens, left = -REPLY_OVERHEAD, alike
        for part in self.parts if alike else ():
            whole = len(part.messages) <= left
            tokens += part.tokens if whole else count_messages(part.messages[:left], count)
            left = max(0, left - len(part.messages))
        return max(0, tokens)

    @property
    def report(self) -> dict[str, Any]:
        """Tokens by part and in all, what was left out, and the last rebuild, as state shows it."""
        tokens = Counter[str]()
        for part in self.parts:
            tokens[part.name] += part.tokens
        line = self.timeline
        within = {"within": line.within} if line.within else {}
        return {
            "tokens": dict(tokens),
            "total": tokens.total(),
            "left_out": dict(self.left_out),
            "rebuilt": {"after_turn": line.built, "why": line.why, **within},
        }
