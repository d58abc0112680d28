"""The parts of a working context, each with its size and how it is cut."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from .messages import Message

TierName: TypeAlias = Literal[
    "system", "tools", "memory", "expanded", "open", "ambient", "active", "notes", "turn"
]


@dataclass(frozen=True, slots=True)
class Tier:
    """One part of the working context: its messages and their size in tokens.

    `cut` is what the state remembers of how it was cut, plain data, None if it is whole.
    `left_out` says what is missing and where it is, `turns` which turns are shown. `shrink` returns
    the tier cut to a number of tokens at most.
    """

    name: TierName
    messages: tuple[Message, ...]
    tokens: int
    cut: Any = None
    left_out: Mapping[str, Any] = field(default_factory=dict)
    turns: tuple[int, ...] = ()
    shrink: Callable[[int], "Tier"] | None = field(default=None, compare=False)

    def within(self, tokens: int) -> "Tier":
        """Return the tier cut to `tokens` at most."""
        return self if self.shrink is None or self.tokens <= tokens else self.shrink(tokens)


@dataclass(frozen=True, slots=True)
class WorkingContext:
    """All tiers in the order in which they are sent, and what the state remembers of cuts."""

    tiers: tuple[Tier, ...]
    cuts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of all tiers, in order."""
        return tuple(message for tier in self.tiers for message in tier.messages)

    @property
    def report(self) -> dict[str, Any]:
        """Tokens by tier and in all, and what was left out, as the state shows them."""
        tokens = {tier.name: tier.tokens for tier in self.tiers}
        left_out = {tier.name: dict(tier.left_out) for tier in self.tiers if tier.left_out}
        return {"tokens": tokens, "total": sum(tokens.values()), "left_out": left_out}
