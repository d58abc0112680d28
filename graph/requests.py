"""What other middleware does to the messages of a request, which holds in ours.

A message that was replaced is sent as replaced, and stands so in the archive; one that was added is
sent beside its neighbour; one that was removed is not sent.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage

from ..memory.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Changes:
    """What was done to the messages of a state: by the ids of those that are there.

    `added` has each new message after the id of the one before it, "" at the beginning.
    """

    replaced: Mapping[str, BaseMessage]
    removed: frozenset[str]
    added: tuple[tuple[str, BaseMessage], ...]

    @property
    def any(self) -> bool:
        """Whether anything was done."""
        return bool(self.replaced or self.removed or self.added)


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
        self, sent: Sequence[BaseMessage], budget: int, count: Callable[[Sequence[Any]], int]
    ) -> None:
        """Take what we send, the budget, and what counts a final request."""
        self._ours, self._budget, self._count = sent, budget, count

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], **_: Any
    ) -> None:
        """Count the request if it is not what we sent."""
        del serialized
        final = messages[0]
        if [message.content for message in final] == [one.content for one in self._ours]:
            return
        if (total := self._count(final)) > self._budget:
            raise OverBudgetError(total - self._count(self._ours))
