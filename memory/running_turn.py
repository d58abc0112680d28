"""The running turn that a memory tool works on: efforts, archive, settings, budget."""

import difflib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

from cachetools import LRUCache
from langchain_core.messages import BaseMessage
from sqlalchemy.util import memoized_property

from ..prompts.loader import render
from .application import Application
from .context.plan import Plan
from .efforts import Effort, EffortState
from .errors import ToolError
from .facts import is_fact
from .fences import Fences
from .locks import CACHES
from .messages import length
from .names import is_qualified, parted, session_called, slug
from .recalled import Recalled, recalled
from .search.embeddings import Embedder
from .settings import Settings
from .tokens import TokenCounter
from .turn import StoredTurn
from .view import ArchiveView, fences_of

_SHOWN = 160
"""Characters of a name in an error: a model may write anything for one."""

LAID_OUT = 1_000
"""Cached forms of turns, two for each: as sent, and as laid out."""

_LARGE = 20_000
"""Characters of each further form that a large one counts as, lest the process's memory be full.

Texts that a turn quotes may not be longer: a cached form has them once more.
"""

T = TypeVar("T")


class Made(NamedTuple):
    """What was made of a turn, and whether it depends on nothing else."""

    turn: StoredTurn
    is_alone: bool
    value: Any


LaidOut: TypeAlias = LRUCache[Any, Made]


def laid_out_cache() -> LaidOut:
    """Return an empty cache of forms of turns."""
    return LRUCache(LAID_OUT, _weight)


def _weight(entry: Made) -> int:
    return min(LAID_OUT, 1 + length(entry.turn.messages) // _LARGE)


@dataclass(frozen=True)  # without slots: `memoized_property` needs a `__dict__`
class RunningTurn:
    """The state of the efforts after the last tool call, and what tools need beside it.

    In tokens: `room` is what the budget leaves beside instructions and tool schemas, `free` what it
    leaves for recalled text, `used` what the last call took of `room`, `short` what this call alone
    lacks of it. `plan` is what the context shows, None before the first one. With an `embedder`
    searches go by meaning too.
    `related` returns qualified ids of efforts of the user's other sessions, best first.
    `refused` are the kinds of attachments that the model does not take, `provider` serves it.
    `results` are those of earlier calls in the same message. `now` is the time, "" for none, and
    then no "yesterday" is read. `laid_out` caches committed turns as sent, and as laid out in the
    context, each with its turn. `own_fences` are those of the session, if they are known.
    `application` is what the application said in system messages, and `todos` its
    open to-dos, as JSON.
    """

    state: EffortState
    view: ArchiveView
    settings: Settings
    count: TokenCounter
    room: int
    free: int
    used: int = 0
    short: int = 0
    plan: Plan | None = None
    embedder: Embedder | None = None
    related: Callable[[str], Sequence[str]] | None = None
    refused: frozenset[str] = frozenset()
    provider: str = ""
    results: tuple[BaseMessage, ...] = ()
    now: str = ""
    laid_out: LaidOut = field(default_factory=laid_out_cache)
    own_fences: Fences | None = None
    application: Application = field(default_factory=Application)
    todos: str = ""

    @memoized_property
    def fences(self) -> Fences:
        """The fences of the session."""
        return self.own_fences or fences_of(self.view.archive, self.view.session, self.count)

    def messages(self, turn: StoredTurn) -> tuple[BaseMessage, ...]:
        """Return the messages of a committed turn as they were sent, recalled text included."""
        return self.once(("sent",), turn, self.view.messages)

    def once(
        self, form: tuple[Hashable, ...], turn: StoredTurn, make: Callable[[StoredTurn], T]
    ) -> T:
        """Return what `make` makes of a turn, cached by form until the turn reads otherwise.

        What quotes other turns is made again when it is read again: those may have been erased.
        """
        key = (*form, self.view.session, turn.id)
        with CACHES:
            known = self.laid_out.get(key)
        if known and (known.turn is turn or (known.is_alone and known.turn == turn)):
            value: T = known.value
            return value
        value, quotes = make(turn), list[Recalled]()
        for message in turn.messages:
            if message.type == "tool":
                quotes += recalled(message)
        if not quotes or _may_be_cached(quotes, turn.number):
            with CACHES:
                self.laid_out[key] = Made(turn, not quotes, value)
        return value

    def put(self, state: EffortState) -> "RunningTurn":
        """Return the turn with another state of the efforts."""
        return replace(self, state=state)

    def known(self, ids: Sequence[str]) -> tuple[Effort, ...]:
        """Return the efforts with these ids, without those that do not exist."""
        return self.view.efforts_named(ids, self.state.events)

    def find(self, effort_id: str) -> Effort:
        """Return the effort that the model named, or raise a `ToolError`.

        A qualified id names a concluded effort of another session of the user.
        """
        session, name = parted(effort_id)
        if is_fact(effort_id):
            return self._found(effort_id)
        is_path = is_qualified(session) and ".." in session
        if is_qualified(effort_id) and not is_path:
            name = self.view.known_as(f"{session_called(session)}/{slug(name)}")
        else:
            name = self.view.known_as(slug(effort_id))
        return self._found(name)

    def _found(self, name: str) -> Effort:
        effort = self.view.effort(name, self.state.events)
        if effort is None:
            raise ToolError(self._unknown(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"))
        return effort

    def _unknown(self, name: str) -> str:
        """Return the error for an unknown name, with the most similar and the newest ones."""
        names = [*self.state.open, *self.state.summaries]
        close = difflib.get_close_matches(name, names, n=1)
        if not names and not self.view.efforts(1).total:
            return render("no_effort_yet", name=repr(name))
        newest = ", ".join(names[-10:]) or "none"
        if close:
            which = {"name": repr(name), "similar": repr(close[0])}
            return render("unknown_effort_like", **which, efforts=newest)
        return render("unknown_effort", name=repr(name), efforts=newest)

    def find_own(self, effort_id: str) -> Effort:
        """Return an effort of this session; one of another session raises a `ToolError`."""
        effort = self.find(effort_id)
        if is_qualified(effort.id):
            raise ToolError(render("of_an_earlier_session", effort=repr(effort.id)))
        return effort

    def find_open(self, effort_id: str) -> Effort:
        """Return an open effort; a concluded one raises a `ToolError` that names reopen_effort."""
        effort = self.find_own(effort_id)
        if effort.status != "open":
            raise ToolError(render("is_concluded", effort=repr(effort.id)))
        return effort

    def find_concluded(self, effort_id: str) -> Effort:
        """Return a concluded effort; an open one, whose log is in view, raises a `ToolError`."""
        effort = self.find(effort_id)
        if effort.status != "concluded":
            raise ToolError(render("is_open", effort=repr(effort.id)))
        return effort


Outcome: TypeAlias = tuple[RunningTurn, Mapping[str, Any]]
"""What a tool returns: the turn after it, and its result for the model."""


def _may_be_cached(quotes: Sequence[Recalled], turn: int) -> bool:
    """Tell whether the texts that a turn quotes are short, and can change by erasing alone.

    Those of another session can change, and those of a turn that was still to come.
    """
    size = sum(quote.end - quote.offset for quote in quotes)
    settled = all(not quote.session and quote.turn <= turn for quote in quotes)
    return settled and size <= _LARGE
