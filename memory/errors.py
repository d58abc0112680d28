"""The errors Ebbtide raises.

EbbtideError
├── SettingsError           a setting is out of range, unknown, or not allowed there
├── InputError              the input of a run holds nothing to answer
├── StateError              the input of a run has more than messages
├── ToolError               a memory tool was called wrongly; the model reads the message
├── AnswerError             a model gave no usable answer to a question of the memory
├── EmbeddingError          the embedding model failed, or returned no vectors
├── AttentionError          the store of attention failed
├── CommandError            a command cannot be done; nothing was changed
├── RequestError            a route of the server refuses a request; nothing was changed
└── ArchiveError            the archive cannot do what was asked
    ├── SessionNotFoundError    no such session for this owner
    ├── TurnNotFoundError       no such turn in what this state sees
    ├── TipNotFoundError        a state was made with another archive
    ├── TurnRunningError        a turn of the thread is not finished
    │   └── TurnArrivedError        one ran while another was erased
    ├── ArchiveLockedError      another process holds the database
    ├── ArchiveUnavailableError the database is gone, full or read-only
    └── ArchiveFormatError      the tables are of another version, or are damaged
"""

from typing import Any


class EbbtideError(RuntimeError):
    """The root of all errors that Ebbtide raises.

    A `RuntimeError`, since a LangGraph server hides the messages of error classes it does not know.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message, not the arguments that it was built from."""
        return _unpickled, (type(self), str(self))


def _unpickled(kind: type[EbbtideError], message: str) -> EbbtideError:
    """Return an error with its message."""
    layout: Any = kind.__base__  # the base whose memory layout an instance has, such as OSError
    error: EbbtideError = layout.__new__(kind)
    Exception.__init__(error, message)
    return error


class SettingsError(EbbtideError, ValueError):
    """A setting is out of range, unknown, or not allowed where it was given."""


class InputError(EbbtideError, ValueError):
    """The input of a run has no new message."""

    def __init__(self, count: int) -> None:
        """Say how many messages came in and what to pass instead."""
        super().__init__(
            f"the input has no new message ({count} in state, all answered): pass "
            '{"messages": [("user", "...")]}, without an id or with one that was not used before'
        )


class StateError(EbbtideError, ValueError):
    """The input of a run has more than messages."""

    def __init__(self, key: str, value: object, why: str) -> None:
        """Name the key, its value and the problem, and say what to do."""
        super().__init__(
            f"{key}: {why} (got {value!r}): leave it out; `update_state` changes `memory`"
        )


class ToolError(EbbtideError):
    """A memory tool was called wrongly; the message tells the model how to do it right."""


class AnswerError(EbbtideError):
    """A model gave no usable answer to a question of the memory."""


class EmbeddingError(EbbtideError):
    """The embedding model failed, or returned no vectors."""

    def __init__(self, problem: str) -> None:
        """Say what the model did, and what to look at."""
        super().__init__(f"{problem}: check the embedding model")


class AttentionError(EbbtideError):
    """The store of attention failed; the operation was not done."""


class CommandError(EbbtideError):
    """A command cannot be done; the message says why, and nothing was changed."""


class RequestError(EbbtideError):
    """A route of the server refuses a request; the message says why, and nothing was changed."""


class ArchiveError(EbbtideError):
    """The archive cannot do what was asked."""


class SessionNotFoundError(ArchiveError, LookupError):
    """No such session exists for this owner."""

    def __init__(self, thread: str) -> None:
        """Name the thread as it was asked for, and nothing about other owners."""
        super().__init__(f"session {thread!r} not found: check the thread id and the user id")


class TurnNotFoundError(ArchiveError, LookupError):
    """A state does not see a turn of this number."""

    def __init__(self, turn: int, newest: int) -> None:
        """Name the turns that exist."""
        turns = f"the turns are 1-{newest}" if newest else "there is none"
        super().__init__(f"turn {turn} not found on this branch: {turns}")


class TipNotFoundError(ArchiveError, LookupError):
    """A state was written with another archive, or a turn does not follow one of this user's."""

    def __init__(self, number: str, turn: int) -> None:
        """Name the turn by its id and its number, and the likely causes."""
        super().__init__(
            f"the thread's state has turn {turn} ({number!r}), which another archive holds: use "
            "the archive that the thread was begun with (machines that share checkpoints must "
            "share the archive too), begin a new thread, or let `restore` rebuild the thread from "
            "what this archive has of it; nothing was changed"
        )


class TurnRunningError(ArchiveError):
    """A turn of the thread is not finished."""

    def __init__(self, thread: str, turn: int) -> None:
        """Name the turn and say how to finish it."""
        super().__init__(
            f"turn {turn} of thread {thread!r} is not finished: finish it by invoking with None, "
            "or send a new message, then try again; nothing was changed"
        )


class TurnArrivedError(TurnRunningError):
    """A turn of the thread ran while another was erased."""

    def __init__(self, thread: str, turn: int) -> None:
        """Name the turn to erase, and say what was erased of it."""
        ArchiveError.__init__(
            self,
            f"thread {thread!r} went on while turn {turn} was erased: the archive has lost it, the "
            "checkpoints were not changed; erase it again when no turn of the thread is running",
        )


class ArchiveLockedError(ArchiveError, TimeoutError):
    """Somebody else holds the archive's database for longer than the timeout."""

    def __init__(self, database: str, seconds: float) -> None:
        """Name the database and the seconds waited."""
        super().__init__(
            f"archive locked: {database!r} was held by another process for {seconds} s; "
            "try again, or raise lock_timeout"
        )


class ArchiveUnavailableError(ArchiveError, OSError):
    """The archive's database cannot be reached, read or written."""

    lost = False
    """Whether the connection broke, so that a commit may have been done."""

    def __init__(self, database: str, why: str, *, lost: bool = False) -> None:
        """Name the database and the problem, and say what may have been written."""
        self.lost = lost
        outcome = "nothing was changed"
        if lost:
            outcome = "what was being written may be there: do it again, a turn is stored once"
        super().__init__(
            f"the archive {database!r} cannot be used ({why}): check that it is there, may be "
            f"written and has room, then go on; {outcome}"
        )


class ArchiveFormatError(ArchiveError, ValueError):
    """The tables are of another version than this program knows, or are damaged."""
