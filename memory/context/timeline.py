"""The timeline, which says what the context shows between two rebuilds, and the context itself."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

from rapidfuzz.distance import Prefix

from ..messages import Message, digest
from ..names import numbers, ranges
from ..tokens import REPLY_OVERHEAD, TokenCounter, count_messages
from ..valid_history import with_own_ids

_DIGITS = 6  # hex digits of the digest of a message: 24 bits tell the messages of one context apart

Why: TypeAlias = Literal[
    "new",
    "break-even",
    "every-turn",
    "compressed",
    "high-water",
    "cold-cache",
    "settings",
    "command",
]
"""Why a context was rebuilt; "new" if the state had none: at first, after erasing or restoring."""

PartName: TypeAlias = Literal[
    "system", "tools", "memory", "quotes", "turns", "expanded", "anchor", "turn"
]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Which turns the context shows, and how: plain data, from which the same bytes are built."""

    built: int
    """The newest turn when the context was rebuilt; later turns are shown as they were said."""
    turns: tuple[int, ...] = ()
    """The turns up to `built` that are shown."""
    previews: int = 0
    """The newest turn whose long results are shown as previews."""
    short: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Turn -> how many of its first messages are shortened, and to how many tokens."""
    first: int = 0
    """The oldest turn that may be shown: those before it left for lack of room and stay away."""
    summaries: tuple[str, ...] = ()
    """The concluded efforts that have a summary line."""
    older: int = 0
    """How many concluded efforts have none."""
    open: tuple[str, ...] = ()
    """The efforts that were open."""
    active: str = ""
    """The one of them that was active, empty for none."""
    quotes: Mapping[str, int] = field(default_factory=dict)
    """Effort -> the turn after which the compression was made that is shown for it."""
    logs: Mapping[str, int] = field(default_factory=dict)
    """Effort -> the turn that expanded or reopened its log; 0 if the log had to leave."""
    by_hand: Mapping[str, str] = field(default_factory=dict)
    """Effort -> turns of its log, such as "3-5,8", that a command brought back after the turn."""
    size: int = 0
    """Tokens of all parts after the rebuild, without the fixed ones."""
    hold: float = 0.0
    """What it has cost so far, in tokens, to keep what a rebuild would take away."""
    key: str = ""
    """The settings and the room that it was made for: a fingerprint, ":", tokens."""
    why: Why = "new"
    within: int = 0
    """How many messages the running turn had if the context was cut in the middle of it."""
    anchor: Mapping[str, str] | None = None
    """The state block at the rebuild, if a newer one was written since."""

    def room(self, default: int) -> int:
        """Return the room that it was made for, in tokens; its parts have their shares of that.

        >>> Timeline(9, key="ab12cd34:900").room(800), Timeline(9).room(800)
        (900, 800)
        """
        tokens = self.key.rpartition(":")[2]
        return int(tokens) if tokens.isdecimal() else default

    def with_anchor(self, anchor: Mapping[str, str]) -> "Timeline":
        """Keep showing this state block until a rebuild, unless an older one is shown already."""
        return self if self.anchor is not None else replace(self, anchor=dict(anchor))

    def packed(self) -> dict[str, Any]:
        """Return it as the state keeps it, without empty fields; the inverse of `unpacked`.

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
        """Return the timeline of the state, None if the state has none.

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
    """A piece of the context, its size in tokens, and the turn that it shows, if any."""

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
        """Make a part of these messages, and count its tokens."""
        part_messages = tuple(messages)
        return cls(name, part_messages, count_messages(part_messages, count), turn)


@dataclass(frozen=True)  # without slots: `cached_property` needs a `__dict__`
class WorkingContext:
    """The prompt of a model call in parts, the timeline behind it, and what it leaves out."""

    parts: tuple[Part, ...]
    timeline: Timeline
    left_out: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """The messages of all parts, in order, in which each tool call has an id of its own."""
        return with_own_ids([message for part in self.parts for message in part.messages])

    @cached_property
    def sent(self) -> str:
        """The digests of all messages, six hex digits each: enough to compare two prompts."""
        return "".join(digest([message], _DIGITS) for message in self.messages)

    def prefix(self, earlier: str, count: TokenCounter) -> int:
        """Return the tokens of the prefix shared with an earlier prompt, given what that `sent`.

        The tool schemas count as shared, unless not even the first message is.
        """
        shared = Prefix.similarity(earlier, self.sent) // _DIGITS
        tokens = -REPLY_OVERHEAD
        for part in self.parts if shared else ():
            is_shared = len(part.messages) <= shared
            tokens += part.tokens if is_shared else count_messages(part.messages[:shared], count)
            shared = max(0, shared - len(part.messages))
        return max(0, tokens)

    @property
    def report(self) -> dict[str, Any]:
        """What the state shows: tokens by part and in all, what was left out, the last rebuild."""
        tokens = Counter[str]()
        for part in self.parts:
            tokens[part.name] += part.tokens
        line = self.timeline
        cut_within = {"within": line.within} if line.within else {}
        return {
            "tokens": dict(tokens),
            "total": tokens.total(),
            "left_out": dict(self.left_out),
            "rebuilt": {"after_turn": line.built, "why": line.why, **cut_within},
        }
