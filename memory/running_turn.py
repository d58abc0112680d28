"""The running turn that a memory tool works on: efforts, archive, settings, budget."""

import difflib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from cachetools import LRUCache
from langchain_core.messages import BaseMessage

from ..prompts.loader import render
from .application import Application
from .context.plan import Plan
from .efforts import Effort, Efforts
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
from .view import ArchiveView

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
    return LRUCache(LAID_OUT, lambda made: min(LAID_OUT, 1 + length(made.turn.messages) // _LARGE))


@dataclass(frozen=True, slots=True)
class Run:
    """What all nodes of a run have in common.

    Attributes:
        settings: Those of the run.
        count: Counts the tokens of a text.
        fences: Those of the session.
        fixed: The tokens of the system message and the tool schemas.
        room: The tokens that the budget leaves beside these.
        short: Tokens of the budget that a call of this run may not have.
        refused: The kinds of attachments that the model does not take.
        provider: Who serves the model.
        embedder: With one, searches go by meaning too.
        laid_out: Caches committed turns as sent, and as laid out in the context.
        given: What it was made from: a run of another agent, or with other settings, has its own.
    """

    settings: Settings
    count: TokenCounter
    fences: Fences
    fixed: int = 0
    room: int = 0
    short: int = 0
    refused: frozenset[str] = frozenset()
    provider: str = ""
    embedder: Embedder | None = None
    laid_out: LaidOut = field(default_factory=laid_out_cache)
    given: tuple[Any, ...] = field(default=(), repr=False)


Converted: TypeAlias = tuple[BaseMessage, Mapping[str, Any], BaseMessage]
"""A message, the fields that it had, and the message that the archive stores for it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The running turn: the efforts after the last tool call, and what rules read beside them.

    Attributes:
        run: What the run has.
        view: The past, and the messages of the turn so far.
        efforts: The state of the efforts.
        room: The tokens that the budget leaves beside instructions, tool schemas and application.
        free: The tokens of them that recalled text may have.
        used: The tokens of them that the last call took.
        plan: What the context shows, None before the first one.
        related: Returns qualified ids of efforts of the user's other sessions, best first.
        results: Those of earlier calls in the same message.
        now: The time, "" for none, and then no "yesterday" is read.
        application: What the application said in system messages.
        todos: Its open to-dos, as JSON.
        packed: The plan as the state has it, and unpacked.
        key: The session, the tip and the nonce, by which the next node finds it.
        began: When a node first loaded it. What other runs commit later is said at the same time.
        read_at: When the past was read last, by the clock of the process.
        converted: Its messages in the state, by their identity.
        part: The id of the last part of it in the archive, "" for none.
        left: The messages that left the state up to that part, as they were sent.
    """

    run: Run
    view: ArchiveView
    efforts: Efforts
    room: int
    free: int
    used: int = 0
    plan: Plan | None = None
    related: Callable[[str], Sequence[str]] | None = None
    results: tuple[BaseMessage, ...] = ()
    now: str = ""
    application: Application = field(default_factory=Application)
    todos: str = ""
    packed: tuple[Any, Plan | None] = (None, None)
    key: tuple[Any, ...] = ()
    began: str = ""
    read_at: float = 0.0
    converted: Mapping[int, Converted] = field(default_factory=dict)
    part: str = ""
    left: tuple[BaseMessage, ...] = ()

    @property
    def short(self) -> int:
        """The tokens that a plan leaves free, beside `room`: what the application says counts here.

        So a plan need not change when the application says something new.
        """
        return self.run.short + self.application.tokens

    @property
    def fences(self) -> Fences:
        """The fences of the session."""
        return self.run.fences

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
            known = self.run.laid_out.get(key)
        if known and (known.turn is turn or (known.is_alone and known.turn == turn)):
            value: T = known.value
            return value
        value, quotes = make(turn), _quotes(turn)
        if _may_be_cached(quotes, turn.number):
            with CACHES:
                self.run.laid_out[key] = Made(turn, not quotes, value)
        return value

    def unchanged(
        self, given: tuple[Any, ...], turns: Sequence[StoredTurn], make: Callable[[], T]
    ) -> T:
        """Return what `make` makes of turns, cached until one of them or what is given is another.

        Of each session the newest is kept, of turns that may be cached alone.
        """
        with CACHES:
            known = self.run.laid_out.get(self.view.session)
        kept, read, made = known.value if known else (None, (), None)
        if kept == given and len(read) == len(turns) and all(map(is_, read, turns)):
            return cast("T", made)
        value = make()
        if turns and all(_may_be_cached(_quotes(turn), turn.number) for turn in turns):
            entry = Made(turns[-1], is_alone=False, value=(given, turns, value))
            with CACHES:
                self.run.laid_out[self.view.session] = entry
        return value

    def put(self, efforts: Efforts) -> "Turn":
        """Return the turn with another state of the efforts."""
        return replace(self, efforts=efforts)

    def known(self, ids: Sequence[str]) -> tuple[Effort, ...]:
        """Return the efforts with these ids, without those that do not exist."""
        return self.view.efforts_named(ids, self.efforts.events)

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
        effort = self.view.effort(name, self.efforts.events)
        if effort is None:
            raise ToolError(self._unknown(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"))
        return effort

    def _unknown(self, name: str) -> str:
        """Return the error for an unknown name, with the most similar and the newest ones."""
        names = [*self.efforts.open, *self.efforts.summaries]
        close = difflib.get_close_matches(name, names, n=1)
        if not names and not self.view.past.efforts(1).total:
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


Outcome: TypeAlias = tuple[Turn, Mapping[str, Any]]
"""What a tool returns: the turn after it, and its result for the model."""


def _quotes(turn: StoredTurn) -> list[Recalled]:
    results = (message for message in turn.messages if message.type == "tool")
    return [quote for message in results for quote in recalled(message)]


def _may_be_cached(quotes: Sequence[Recalled], turn: int) -> bool:
    """Tell whether the texts that a turn quotes are short, and can change by erasing alone.

    Those of another session can change, and those of a turn that was still to come.
    """
    size = sum(quote.end - quote.offset for quote in quotes)
    settled = all(not quote.session and quote.turn <= turn for quote in quotes)
    return settled and size <= _LARGE
