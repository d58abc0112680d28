"""What a memory tool works on: the state of the efforts, the archive's view, the settings."""

import difflib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from .context.timeline import Timeline
from .efforts import Effort, EffortState
from .embeddings import Embedder
from .errors import ToolError
from .lru_cache import LruCache
from .messages import Message
from .names import is_qualified, parted, session_called, slug
from .record import Record
from .settings import Settings
from .tokens import TokenCounter
from .transcript import recalled
from .view import ArchiveView

_SHOWN = 160
"""Characters of a name in an error: a model may write anything for one."""

LAID_OUT = 1_000
"""Turns that are held as they were sent and as the context has them: the archive holds 500."""

_LARGE = 20_000
"""Characters of a turn that is laid out anew each time, lest a few of them fill the memory.

The archive holds no records of 50,000: each reading gives another one, which no key would match.
"""

LaidOut: TypeAlias = LruCache[tuple[Sequence[Record], Any]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunningTurn:
    """The state of the efforts as the tool before left it, and what is around it.

    `room` is what the budget leaves beside instructions and tool schemas, `free` what it leaves for
    recalled text, `used` what the last call had of it, all in tokens; `line` is what the context
    shows, None before it was first built. With an `embedder` searches go by meaning too. `related`
    returns the qualified ids of what the user's other sessions have on a subject, best first.
    `results` are those of the calls before it in the same message. `laid_out` are committed turns
    as they were sent, and as the context has them, with their records.
    """

    state: EffortState
    view: ArchiveView
    settings: Settings
    count: TokenCounter
    room: int
    free: int
    used: int = 0
    line: Timeline | None = None
    embedder: Embedder | None = None
    related: Callable[[str], Sequence[str]] | None = None
    results: tuple[Message, ...] = ()
    laid_out: LaidOut = field(default_factory=lambda: LruCache(LAID_OUT))

    def messages(self, record: Record) -> tuple[Message, ...]:
        """Return the messages of a committed turn as they were sent, recalled text included."""
        return self.once(("sent",), (record,), lambda: self.view.messages(record))

    def once(
        self, form: tuple[Hashable, ...], records: Sequence[Record], make: Callable[[], T]
    ) -> T:
        """Return what is made of records, once for each form, or each time if one may not be held.

        The records stand beside it, so that no others have their ids as long as they do.
        """
        key = (*form, *map(id, records))
        entry = self.laid_out.get(key)
        if entry is None:
            entry = records, make()
            if all(map(_may_be_held, records)):
                self.laid_out.put(key, entry)
        made: T = entry[1]
        return made

    def put(self, state: EffortState) -> "RunningTurn":
        """Return the turn with another state of the efforts."""
        return replace(self, state=state)

    def known(self, ids: Sequence[str]) -> tuple[Effort, ...]:
        """Return efforts that the state names; of those the archive has lost, what state knows."""
        stored = {e.id: e for e in self.view.efforts_named(ids, self.state.events)}
        efforts = (stored.get(name) or self._lost(name) for name in ids)
        return tuple(effort for effort in efforts if effort is not None)

    def find(self, effort_id: str) -> Effort:
        """Return the effort that the model named; unknown ones raise a `ToolError`.

        A qualified id names a concluded effort of another session of the user.
        """
        session, name = parted(effort_id)
        is_path = is_qualified(session) and ".." in session
        if is_qualified(effort_id) and not is_path:
            name = self.view.known_as(f"{session_called(session)}/{slug(name)}")
        else:
            name = self.view.known_as(slug(effort_id))
        effort = self.view.effort(name, self.state.events) or self._lost(name)
        if effort is None:
            raise ToolError(self._unknown(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"))
        return effort

    def _unknown(self, name: str) -> str:
        known = [*self.state.open, *self.state.summaries]
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean {close[0]!r}? " if close else ""
        listed = ", ".join(known[-10:]) or "none"
        return f"no effort {name!r}. {hint}In the context: {listed}. effort_status lists them"

    def find_own(self, effort_id: str) -> Effort:
        """Return an effort of this session; those of others raise a `ToolError`."""
        effort = self.find(effort_id)
        if is_qualified(effort.id):
            raise ToolError(
                f"effort {effort.id!r} belongs to an earlier session and stays as it is; use "
                "expand_effort or read_log to look at it, open_effort for new work on it, with "
                "the goal and the constraints that still hold"
            )
        return effort

    def find_open(self, effort_id: str) -> Effort:
        """Return an open effort; concluded ones raise a `ToolError` that names reopen_effort."""
        effort = self.find_own(effort_id)
        if effort.status != "open":
            raise ToolError(
                f"effort {effort.id!r} is concluded; use reopen_effort to go on with it"
            )
        return effort

    def find_concluded(self, effort_id: str) -> Effort:
        """Return a concluded effort; open ones raise a `ToolError`: they are in the context."""
        effort = self.find(effort_id)
        if effort.status != "concluded":
            raise ToolError(
                f"effort {effort.id!r} is open, so its messages are in the context already; "
                "use switch_effort to make it active or close_effort to conclude it"
            )
        return effort

    def _lost(self, name: str) -> Effort | None:
        """Return what state knows of an effort that an older backup of the archive does not.

        What another session has lost is gone: it may have been erased there.
        """
        if is_qualified(name):
            return None
        if name in self.state.open:
            return Effort(name, "open")
        return Effort(name, "concluded") if name in self.state.summaries else None


Outcome: TypeAlias = tuple[RunningTurn, Mapping[str, Any]]
"""What a tool leaves: the changed turn, and its result for the model."""


def _may_be_held(record: Record) -> bool:
    """Tell whether a turn is small, and what it quotes cannot become another.

    That of another session can, and of a turn that was yet to come.
    """
    quotes = [quote for message in record.messages for quote in recalled(message)]
    size = sum(len(str(message["data"])) for message in record.messages)
    size += sum(quote.end - quote.offset for quote in quotes)
    settled = all(not quote.session and quote.turn <= record.turn for quote in quotes)
    return settled and size <= _LARGE
