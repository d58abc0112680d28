"""How much of a prompt is the prompt before it, so that the provider's cache serves it."""

from collections.abc import Sequence

from .messages import Message, digest
from .tiers import WorkingContext
from .tokens import TokenCounter, count_messages

_LENGTH = 6


def sent(messages: Sequence[Message]) -> str:
    """Return what is remembered of a prompt: six hex digits for each message.

    >>> len(sent([{"type": "human", "data": {"content": "hi"}}] * 2))
    12
    """
    return "".join(digest([message], _LENGTH) for message in messages)


def shared(before: str, now: str) -> int:
    """Return how many messages two prompts begin with alike, given what is remembered of them.

    >>> shared("aaaaaabbbbbbcccccc", "aaaaaabbbbbbdddddd")
    2
    """
    alike = 0
    while alike < min(len(before), len(now)) and (
        before[alike : alike + _LENGTH] == now[alike : alike + _LENGTH]
    ):
        alike += _LENGTH
    return alike // _LENGTH


def prefix_tokens(context: WorkingContext, alike: int, count: TokenCounter) -> int:
    """Return the tokens of the tool schemas and of the first `alike` messages; 0 if none is."""
    tools = context.report["tokens"]["tools"]
    messages = context.messages[:alike]
    return tools + count_messages(messages, count) if messages else 0
