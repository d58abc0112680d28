"""State blocks in answers: the same one never stands twice in the context."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..growing import Growing
from ..messages import Message
from ..state_block import newest, without_blocks


def each_block_once(
    messages: Sequence[Message], noted: Mapping[str, str], within: int
) -> tuple[Message, ...]:
    """Return a turn's messages without state blocks that stand above them.

    `noted` is the block in the note before the turn, {} for none; it is newer than those of the
    first `within` messages.
    """
    blocks = _blocks(messages)
    if not any(blocks):
        return tuple(messages)
    begin, stands = within if noted else 0, noted
    once = [*_without_blocks(messages)[:begin], *messages[begin:]]
    for at, block in enumerate(blocks[begin:], begin):
        if block is not None:
            once[at] = without_blocks(messages[at]) if block == stands else messages[at]
            stands = block
    return tuple(once)


def last_block(messages: Sequence[Message]) -> int | None:
    """Return the place of the newest message with a state block, None if there is none."""
    found = _blocks(messages)
    return next((at for at in reversed(range(len(found))) if found[at] is not None), None)


_blocks = Growing[Any](
    lambda message, _: newest(message["data"].get("content")) if message["type"] == "ai" else None
)
_without_blocks = Growing[Message](lambda message, _: without_blocks(message))
