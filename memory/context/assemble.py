"""The working context: what is sent to the model, in its order and within the budget."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from ...prompts.loader import render
from ..anchor import keeping
from ..messages import Message, digest
from ..names import ranges, ranges_between, span
from ..running_turn import RunningTurn
from ..settings import Settings
from ..tokens import REPLY_OVERHEAD, TokenCounter, count_message, count_messages
from .budget import anchor_tokens
from .rebuild import fitted, rebuilt
from .timeline import Part, Timeline, WorkingContext
from .turns import has_long_results

_LENGTH = 6
"""Characters of the digest of a message: 24 bits tell neighbours of a context apart."""


def assemble(work: RunningTurn, fixed: Sequence[Part]) -> WorkingContext:
    """Build the working context of the running turn; the same inputs give the same bytes.

    It has at most as many tokens as the budget, of which `work.room` is what the `fixed` parts
    leave. Between two rebuilds it only grows at its end.
    """
    line, parts = fitted(work, work.line or rebuilt(work, "new", None))
    return WorkingContext((*fixed, *parts), line, _left_out(work, line))


def fixed_parts(system: str, tools: int, count: TokenCounter) -> tuple[Part, Part]:
    """Return what is sent in any case: the system message, with the reply's overhead, and tools.

    `tools` are the tokens of the tool schemas.
    """
    message: Message = {"type": "system", "data": {"content": system}}
    tokens = REPLY_OVERHEAD + count_message(message, count)
    return Part("system", (message,), tokens), Part("tools", (), tools)


def instructions(application: str, settings: Settings) -> str:
    """Return the system message: Ebbtide's instructions, then the application's own."""
    state_block = keeping(settings, anchor_tokens(settings.context_budget))
    return "\n\n".join(filter(None, (render("system"), state_block, application.strip())))


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
    pairs = zip(before, now, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)) // _LENGTH


def prefix_tokens(context: WorkingContext, alike: int, count: TokenCounter) -> int:
    """Return the tokens of the tool schemas and of the first `alike` messages; 0 if none is."""
    tokens, left = -REPLY_OVERHEAD, alike
    for part in context.parts if alike else ():
        whole = len(part.messages) <= left
        tokens += part.tokens if whole else count_messages(part.messages[:left], count)
        left = max(0, left - len(part.messages))
    return max(0, tokens)


def _left_out(work: RunningTurn, line: Timeline) -> dict[str, Any]:
    """Say what is missing: efforts without a line, turns, and turns that are shown in part."""
    older = work.view.turns([turn for turn in line.turns if turn <= line.previews])
    compressed = {}
    for name, made_after in line.quotes.items():
        made, turns = work.view.compression(name, made_after), work.view.log_turns(name)
        compressed[name] = span(turns[0], made.through) if made and turns else ""
    left_out = {
        "efforts": line.older,
        "turns": ranges_between(line.turns, line.built),
        "previews": ranges([record.turn for record in older if has_long_results(work, record)]),
        "shortened": ranges(sorted(line.short)),
        "compressed": compressed,
    }
    return {name: value for name, value in left_out.items() if value}
