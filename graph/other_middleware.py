"""What other middleware does to the messages of a request, which holds in ours.

A message that was replaced is sent as replaced, and stands so in the archive; one that was added is
sent beside its neighbour; one that was removed from the running turn is not sent.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from rapidfuzz.distance import Prefix

from ..memory.context.budget import DIGITS
from ..memory.errors import SettingsError
from ..memory.history import KNOWN, boundaries, id_digest
from ..memory.serialised import digest, stored_form
from ..memory.tokens import count_messages
from ..nodes.call_model import Call
from ..nodes.turn.state import TurnState, updated

_OF_MIDDLEWARE = frozenset({"lc_internal_call", "lc_source"})
"""Metadata of calls that LangChain's middleware makes for itself, as its selector of tools does."""


_SUMMARISER = "summarization"
"""What LangChain's and deepagents' summarisers are called there, and in their messages."""

_log = logging.getLogger("ebbtide.config")


@dataclass(frozen=True, slots=True)
class Changes:
    """What was done to the messages of a state: by the ids of those that are there.

    `added` has each new message after the id of the one before it, "" at the beginning.
    """

    replaced: Mapping[str, BaseMessage]
    removed: frozenset[str]
    added: tuple[tuple[str, BaseMessage], ...]


def changes(before: Sequence[BaseMessage], after: Sequence[BaseMessage]) -> Changes:
    """Return what was done to messages; they are told by their ids, else by place and role."""
    replaced: dict[str, BaseMessage] = {}
    removed: set[str] = set()
    added: list[tuple[str, BaseMessage]] = []
    last = ""
    for old, new in _aligned(before, after):
        if old is None and new is not None:
            added.append((last, new))
        if old is None:
            continue
        last = str(old.id)
        if new is None:
            removed.add(last)
        elif new is not old and (same := new.model_copy(update={"id": old.id})) != old:
            replaced[last] = same
    return Changes(replaced, frozenset(removed), tuple(added))


def _aligned(
    before: Sequence[BaseMessage], after: Sequence[BaseMessage]
) -> Iterator[tuple[BaseMessage | None, BaseMessage | None]]:
    """Yield pairs of the same message before and after, in order; None where there is none."""
    places = {message.id: at for at, message in enumerate(before) if message.id}
    known = [(places[m.id], at) for at, m in enumerate(after) if m.id in places]
    begin = start = 0
    for old_at, new_at in [*known, (len(before), len(after))]:
        if old_at < begin:  # it was moved: it is said where it stands now
            continue
        yield from _in_gap(before[begin:old_at], after[start:new_at])
        if old_at < len(before):
            yield before[old_at], after[new_at]
        begin, start = old_at + 1, new_at + 1


def _in_gap(
    old: Sequence[BaseMessage], new: Sequence[BaseMessage]
) -> Iterator[tuple[BaseMessage | None, BaseMessage | None]]:
    """Yield pairs of messages without a known id, by role and order."""
    rest = [*new]
    for message in old:
        while rest and rest[0].type != message.type and any(m.type == message.type for m in rest):
            yield None, rest.pop(0)
        found = bool(rest) and rest[0].type == message.type
        yield message, rest.pop(0) if found else None
    for message in rest:
        yield None, message


def with_added(
    messages: Sequence[BaseMessage],
    added: Sequence[tuple[str, BaseMessage]],
    running: Sequence[str],
) -> list[BaseMessage]:
    """Return the messages of a call with those that were added, each behind its neighbour.

    One whose neighbour is not shown stands before the running turn, whose ids are `running`.
    """
    shown = [*messages]
    for after, message in reversed(added):
        ids = [str(one.id) for one in shown]
        if after in ids:
            at = ids.index(after) + 1
            while at < len(shown) and shown[at].type == "tool":  # results stay with their calls
                at += 1
        else:
            first = (place for place, own in enumerate(ids) if own in running)
            at = next(first, len(shown))
        shown.insert(at, message)
    return shown


def rejoined(
    messages: Sequence[BaseMessage], turn: Sequence[BaseMessage], earlier: int
) -> list[BaseMessage]:
    """Return the messages of a state with those of the running turn that were taken out of it.

    `turn` has what was seen of the turn, `earlier` counts the messages before it. What was put in
    the place of the question, as a summary, stands behind it.
    """
    places = {message.id: at for at, message in enumerate(messages)}
    if all(message.id in places for message in turn):
        return [*messages]
    begin = min((places[m.id] for m in turn if m.id in places), default=len(messages))
    begin = earlier if earlier or turn[0].id not in places else begin
    whole, at = [*turn], 0
    for message in messages[begin:]:
        found = next((n for n, one in enumerate(whole) if one.id == message.id), None)
        if found is None:
            whole.insert(at + 1, message)
        else:
            whole[found] = message
        at = at + 1 if found is None else found
    return [*messages[:begin], *whole]


def whole_turn(state: TurnState, values: Mapping[str, Any]) -> TurnState:
    """Return the state with the running turn whole, as other middleware replaced messages.

    `values` are the state as LangGraph has it.
    """
    turn, replaced = values.get("ebbtide_turn") or (), values.get("ebbtide_replaced") or {}
    there, last = state.get("messages", []), state.get("number", 0)
    earlier, _ = boundaries(there, state.get("known", ()), last, last)
    messages = rejoined(there, turn, earlier)
    return updated(state, {"messages": [replaced.get(str(one.id), one) for one in messages]})


def is_summary(message: BaseMessage) -> bool:
    """Tell whether a message is of `SummarizationMiddleware`, whose next one replaces it."""
    return message.additional_kwargs.get("lc_source") == _SUMMARISER


def is_summarised(messages: Sequence[BaseMessage], state: TurnState) -> bool:
    """Tell whether another middleware put a summary into a request since the turn began.

    The summaries of an adopted thread were known then.
    """
    known = {own for own, *_ in state.get("known", ())}
    newest = messages[-KNOWN:]
    return any(is_summary(one) and id_digest(one.id) not in known for one in newest)


@cache
def warn_of_summariser() -> None:
    """Warn once of a summariser in an agent that has the memory."""
    _log.warning(
        "another middleware summarises the messages that EbbtideMiddleware manages: remove "
        "SummarizationMiddleware (from a deep agent with the excluded_middleware of its "
        "HarnessProfile). Ebbtide keeps the prompt in its budget without it"
    )


def is_cleared(message: BaseMessage) -> bool:
    """Tell whether `ContextEditingMiddleware` cleared a message, which it does for one call."""
    return "context_editing" in message.response_metadata


def check_question(removed: frozenset[str], question: BaseMessage | None) -> None:
    """Raise `SettingsError` if a middleware took the running question out of the request."""
    if question is not None and question.id in removed:
        raise SettingsError(
            f"a middleware before EbbtideMiddleware took the running question {question.id!r} "
            f"({question.text[:60]!r}) out of the request: put it after EbbtideMiddleware, or let "
            "it keep the last message of the user"
        )


class OverBudgetError(BaseException):
    """The final request is over the budget; no `Exception`, so that nothing repeats the call."""

    def __init__(self, added: int) -> None:
        """Take the tokens that were added to the request."""
        super().__init__(added)
        self.added = added


class Gate(BaseCallbackHandler):
    """Stops a call that another middleware made longer than the budget, before it is sent."""

    raise_error = True
    run_inline = True

    def __init__(
        self, ours: Sequence[BaseMessage], budget: int, count: Callable[[Sequence[Any]], int]
    ) -> None:
        """Take what the memory sends, the budget, and what counts a final request."""
        self.ours, self.added = ours, 0
        self.final: Sequence[BaseMessage] = ()
        self._budget, self._count = budget, count

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], **run: Any
    ) -> None:
        """Count the request if it is not what the memory sent; not what middleware itself asks."""
        del serialized
        metadata = run.get("metadata") or {}
        if metadata.get("lc_source") == _SUMMARISER:
            warn_of_summariser()
        if not _OF_MIDDLEWARE.isdisjoint(metadata):
            return
        self.final, self.added = messages[0], 0
        if [*map(_form, self.final)] == [*map(_form, self.ours)]:
            return
        total = self._count(self.final)
        self.added = total - self._count(self.ours)
        if total > self._budget:
            raise OverBudgetError(self.added)


def _form(message: BaseMessage) -> tuple[object, ...]:
    """Return what of a message a trace leaves as it is: the data of files is in another form."""
    content = message.content
    blocks = content if isinstance(content, list) else ()
    files = sum(isinstance(one, dict) and one.get("type") != "text" for one in blocks)
    own = message.tool_calls if isinstance(message, AIMessage) else ()
    called = [(one["name"], one["args"]) for one in own]
    return message.type, str(message.text), files, called


def digests_of(final: Sequence[BaseMessage], ours: Sequence[BaseMessage], digests: str) -> str:
    """Return the digests of a final request, given those of what the memory made of it."""
    known = [digests[at : at + DIGITS] for at in range(0, len(digests), DIGITS)]
    rest = [*zip(map(_form, ours), known, strict=True)]
    found = []
    for message in final:
        form = _form(message)
        at = next((at for at, (own, _) in enumerate(rest) if own == form), None)
        found.append(digest(stored_form([message]), DIGITS) if at is None else rest[at][1])
        rest = rest if at is None else rest[at + 1 :]
    return "".join(found)


def as_sent(call: Call, final: Sequence[BaseMessage], sent: str, added: int) -> Call:
    """Return a call whose report tells of the request as other middleware changed it.

    `sent` are the digests of the final messages, `added` the tokens that they have more.
    """
    state = updated(call.state, call.update)
    report, earlier = dict(state["context_report"]), call.state.get("sent", "")
    if added:
        report["tokens"] = _with(report["tokens"], added)
        report["total"] = sum(report["tokens"].values())
    if sent != state.get("sent"):
        shared = Prefix.similarity(earlier, sent) // DIGITS
        prefix = count_messages(final[:shared], call.parts.count)
        report["prefix"] = report["tokens"].get("tools", 0) + prefix if shared else 0
    before = call.state.get("context_report", {}).get("changed", {})
    now = report["changed"]
    names = ("after_turn", "within", *(("why",) if before.get("why") != "middleware" else ()))
    if all(before.get(name) == now.get(name) for name in names) and not sent.startswith(earlier):
        report["changed"] = {**report["changed"], "why": "middleware"}
    if (report, sent) == (state["context_report"], state.get("sent")):
        return call
    return replace(call, update={**call.update, "context_report": report, "sent": sent})


_LESS = ("turn", "turns", "expanded", "quotes", "memory", "anchor", "system")
"""The parts from which tokens are taken that another middleware left out, in this order."""


def _with(tokens: Mapping[str, int], added: int) -> dict[str, int]:
    """Return the tokens by part of a request that has so many more, or less.

    >>> _with({"system": 9, "turns": 30, "turn": 5}, -7)
    {'system': 9, 'turns': 28, 'turn': 0}
    """
    if added > 0:
        return {**tokens, "turns": tokens.get("turns", 0) + added}
    changed, less = dict(tokens), -added
    for part in _LESS:
        taken = min(less, changed.get(part, 0))
        if taken:
            changed[part], less = changed[part] - taken, less - taken
    return changed
