"""The rules for which a page gives a formula or a limit, by their names of today."""

from ebbtide.memory.attention.law import effective, in_context
from ebbtide.memory.tokens import count as tokens

__all__ = ["effective", "in_context", "tokens"]
