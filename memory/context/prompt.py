"""The prompt of a model call in parts, and the report of what it shows."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

from rapidfuzz.distance import Prefix

from ..messages import Message, digests
from ..tokens import REPLY_OVERHEAD, TokenCounter, count_messages
from ..valid_history import with_own_ids
from .plan import Plan

_DIGITS = 6  # hex digits of the digest of a message: 24 bits tell the messages of one context apart

PartName: TypeAlias = Literal[
    "system", "tools", "memory", "quotes", "turns", "expanded", "anchor", "turn"
]


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
    """The prompt of a model call in parts, the plan behind it, and what it leaves out."""

    parts: tuple[Part, ...]
    plan: Plan
    budget: int
    left_out: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """The messages of all parts, in order, in which each tool call has an id of its own."""
        return with_own_ids([message for part in self.parts for message in part.messages])

    @cached_property
    def sent(self) -> str:
        """The digests of all messages, six hex digits each: enough to compare two prompts."""
        return "".join(digests(self.messages, _DIGITS))

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
        """What the state shows: tokens by part and in all, what is left out, why it changed."""
        tokens = Counter[str]()
        for part in self.parts:
            tokens[part.name] += part.tokens
        plan = self.plan
        changed = {"after_turn": plan.after_turn, "why": plan.why}
        return {
            "tokens": dict(tokens),
            "total": tokens.total(),
            "budget": self.budget,
            "left_out": dict(self.left_out),
            "changed": changed | ({"within": plan.within} if plan.within else {}),
        }
