"""The forms in which a past turn is shown: whole, with previews, or its request and answer."""

from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

from langchain_core.messages import BaseMessage

from ...prompts.loader import render
from ..efforts import one_line
from ..messages import calls, compact, with_content, without_thoughts
from ..recalled import result_of
from ..running_turn import Turn
from ..state_block import as_users_see
from ..tokens import count_message, count_messages
from ..tool_names import DECIDING, MEMORY_TOOLS
from ..transcript import offsets
from ..turn import StoredTurn
from ..valid_history import valid_history
from .attached import placeholders
from .plan import Plan
from .previews import Limits, previewed

PREVIEW = 150
"""Tokens of a result in an older turn, or to be summed up; a longer one is shown as its preview."""

_TOOL_NAMES = 80  # characters of the list of tools whose rounds are left out

_BRIEF = {
    **dict.fromkeys(DECIDING, ("status", "effort_id", "prior_summary")),
    "expand_effort": ("status", "effort_id"),
}
"""By tool, the fields that its results keep in past turns.

Markers repeat some of the others, and which turns of a log are shown its heading says as long as it
is there.
"""


def as_past(messages: Sequence[BaseMessage]) -> tuple[BaseMessage, ...]:
    """Return messages as a past turn shows them.

    That is without state blocks, the model's thoughts, and what markers repeat.
    """
    past = []
    for message in map(without_thoughts, as_users_see(messages)):
        fields = _BRIEF.get(str(message.name)) if message.type == "tool" else ()
        if fields:
            result = result_of(message)
            brief = {name: result[name] for name in fields if name in result}
            message = with_content(message, compact(brief)) if brief else message  # noqa: PLW2901
        past.append(message)
    return tuple(past)


def is_whole(turn: StoredTurn, plan: Plan) -> bool:
    """Tell whether a turn that is shown has all its rounds: it is ambient, or of an open effort.

    Of another last turn, and of one that took too much, only request and final answer are shown.
    """
    if turn.number > plan.after_turn:
        return True
    is_open = not {*turn.efforts}.isdisjoint(plan.open)
    return turn.number not in plan.brief and (not turn.efforts or is_open)


def edges(messages: Sequence[BaseMessage]) -> list[int]:
    """Return the places of the request and the final answer of a turn.

    >>> edges([HumanMessage("Which port?"), SystemMessage("Be brief."), AIMessage("8443.")])
    [0, 2]
    """
    asked = [at for at, message in enumerate(messages) if message.type == "human"]
    last = len(messages) - 1
    is_answered = last >= 0 and messages[last].type == "ai" and not calls(messages[last])
    return [*asked, *([last] if is_answered else [])]


def rounds_left_out(turn: StoredTurn, messages: Sequence[BaseMessage]) -> str:
    """Return what stands for the rounds of a past turn, empty if they were of the memory alone."""
    asked = [
        (at, one_line(str(call["name"])))
        for at, message in enumerate(messages)
        for call in calls(message)
        if call["name"] not in MEMORY_TOOLS
    ]
    if not asked:
        return ""
    names = ", ".join(dict.fromkeys(map(itemgetter(1), asked)))
    names = names if len(names) <= _TOOL_NAMES else f"{names[:_TOOL_NAMES]}…"
    number = f"{len(asked)} tool call{'' if len(asked) == 1 else 's'}"
    offset = offsets(turn.messages)[asked[0][0]].text
    return render(
        "past_rounds_left_out", calls=number, names=names, turn=turn.number, offset=offset
    )


def has_long_results(work: Turn, stored: StoredTurn, most: int = PREVIEW) -> bool:
    """Tell whether a turn has results over `most` tokens, which are shown as previews."""

    def is_long(stored: StoredTurn) -> bool:
        turn = replace(stored, messages=work.messages(stored))
        messages = as_past(turn.messages)
        return previewed(turn, messages, Limits(most), work.run.count) != messages

    return work.once(("long", work.run.count, most), stored, is_long)


def least_tokens(work: Turn, stored: StoredTurn) -> int:
    """Return the tokens that a past turn takes at least: its messages with results as previews."""

    def tokens(turn: StoredTurn) -> int:
        messages = placeholders(work, as_past(work.messages(turn)), turn.number)
        sizes = ((one.type, count_message(one, work.run.count)) for one in messages)
        return sum(min(size, PREVIEW) if kind == "tool" else size for kind, size in sizes)

    return work.once(("least", work.run.count, work.run.refused), stored, tokens)


def whole_tokens(work: Turn, turns: Sequence[StoredTurn]) -> list[int]:
    """Return the tokens of each past turn as it is sent if nothing of it is cut."""

    def tokens(turn: StoredTurn) -> int:
        messages = placeholders(work, as_past(work.messages(turn)), turn.number)
        return count_messages(valid_history(messages, work.fences), work.run.count)

    return [work.once(("whole", work.run.count, work.run.refused), turn, tokens) for turn in turns]
