"""The working context: what is sent to the model, in its order and within the budget."""

from collections.abc import Sequence
from typing import Any

from ...prompts.loader import render
from ..anchor import keeping
from ..messages import Message
from ..names import ranges, ranges_between, span
from ..running_turn import RunningTurn
from ..settings import Settings
from ..tokens import REPLY_OVERHEAD, TokenCounter, count_message
from .budget import anchor_tokens
from .rebuild import fitted, rebuilt
from .timeline import Part, Timeline, WorkingContext
from .turns import has_long_results


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
