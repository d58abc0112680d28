"""The errors Ebbtide raises.

EbbtideError
├── SettingsError           a setting is out of range, unknown, or not allowed there
├── InputError              the input of a run has no new message
├── ToolError               a memory tool was called incorrectly; the model reads the message
├── AnswerError             a model gave no usable summary, extraction or other answer to the memory
├── EmbeddingError          the embedding model failed or returned no vectors
├── AttentionError          the store of attention failed
├── CommandError            a command failed; nothing was changed
├── RequestError            a route of the server refused a request; nothing was changed
└── ArchiveError            the archive failed
    ├── SessionNotFoundError    this user has no such session
    │   ├── NotAdoptedError         the thread has not run with Ebbtide yet
    │   └── UserDeletedError        the user is being deleted, and begins no session
    ├── TurnNotFoundError       this branch has no such turn
    ├── TipNotFoundError        the state belongs to another archive
    ├── TurnRunningError        a turn of the thread is not finished
    │   └── TurnArrivedError        a turn ran while another was being erased
    ├── ArchiveLockedError      another process holds the database
    ├── ArchiveUnavailableError the database is missing, full or read-only
    └── ArchiveFormatError      the tables are damaged or of another version
"""

from typing import Any


class EbbtideError(RuntimeError):
    """The base class of all errors that Ebbtide raises.

    A `RuntimeError`, since a LangGraph server hides the messages of error classes it does not know.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message, not the arguments that it was built from."""
        return _unpickled, (type(self), str(self))


def _unpickled(kind: type[EbbtideError], message: str) -> EbbtideError:
    layout: Any = kind.__base__  # the base whose memory layout an instance has, such as OSError
    error: EbbtideError = layout.__new__(kind)
    Exception.__init__(error, message)
    return error


class SettingsError(EbbtideError, ValueError):
    """A setting or argument is out of range, unknown, or not allowed there."""


class InputError(EbbtideError, ValueError):
    """The input of a run has no new message."""

    def __init__(self, count: int) -> None:
        """Say how many messages came in and what to pass instead."""
        super().__init__(
            f"the input has no new message (none of the {count} in the state is new): pass "
            '{"messages": [("user", "...")]}, without an id or with a new one'
        )


class ToolError(EbbtideError):
    """A memory tool was called incorrectly; the message tells the model how to call it."""


class AnswerError(EbbtideError):
    """A model gave no usable summary, extraction or other answer to the memory."""


class EmbeddingError(EbbtideError):
    """The embedding model failed or returned no vectors."""

    def __init__(self, problem: str) -> None:
        """Say what the model did, and what to look at."""
        super().__init__(f"{problem}: check the embedding model")


class AttentionError(EbbtideError):
    """The store of attention failed; nothing was changed."""


class CommandError(EbbtideError):
    """A command failed; the message says why, and nothing was changed."""


class RequestError(EbbtideError):
    """A route of the server refused a request; the message says why. Nothing was changed."""


class ArchiveError(EbbtideError):
    """The archive failed. The base class of its errors."""


class SessionNotFoundError(ArchiveError, LookupError):
    """This user has no such session."""

    def __init__(self, thread: str) -> None:
        """Name the thread as it was asked for, and nothing about other owners."""
        super().__init__(f"session {thread!r} not found: check the thread id and the user id")


class NotAdoptedError(SessionNotFoundError):
    """The thread has not run with Ebbtide yet; its next run adopts its messages."""

    def __init__(self, thread: str, messages: int) -> None:
        """Name the thread, and say when its messages are adopted."""
        ArchiveError.__init__(
            self,
            f"thread {thread!r} has {messages} messages that Ebbtide has not archived yet; they "
            "are adopted when the next message is sent; nothing was changed",
        )


class UserDeletedError(SessionNotFoundError):
    """The user is being deleted, and begins no session until that is done."""

    def __init__(self, user: str) -> None:
        """Name the user, and say how to go on."""
        how = "wait until `delete_user` is done, or call it again if it was interrupted"
        ArchiveError.__init__(self, f"user {user!r} is being deleted: {how}; then begin anew")


class TurnNotFoundError(ArchiveError, LookupError):
    """This branch has no turn of this number."""

    def __init__(self, turn: int, newest: int) -> None:
        """Name the turns that exist."""
        turns = f"its turns are 1-{newest}" if newest else "it has no turns"
        super().__init__(f"turn {turn} not found on this branch: {turns}")


class TipNotFoundError(ArchiveError, LookupError):
    """A state belongs to another archive, or a turn does not follow a turn of this user."""

    def __init__(self, number: str, turn: int) -> None:
        """Name the turn by its id and its number, and the likely causes."""
        super().__init__(
            f"the state of the thread names turn {turn} ({number!r}), which is in another archive: "
            "use the archive that the thread was started with (machines that share checkpoints "
            "must share the archive), start a new thread, or call `restore` to rebuild the thread "
            "from this archive; nothing was changed"
        )


class TurnRunningError(ArchiveError):
    """A turn of the thread is not finished."""

    def __init__(self, thread: str, turn: int) -> None:
        """Name the turn and say how to finish it."""
        super().__init__(
            f"turn {turn} of thread {thread!r} is not finished: continue it with None first, by "
            "`invoke(None, config)`, then try again; nothing was changed"
        )


class TurnArrivedError(TurnRunningError):
    """A turn of the thread ran while another was being erased."""

    def __init__(self, thread: str, turn: int) -> None:
        """Name the turn to erase, and say what was erased of it."""
        ArchiveError.__init__(
            self,
            f"thread {thread!r} ran while turn {turn} was being erased: the turn is gone from the "
            "archive but not from the checkpoints; erase it again when no turn of the thread runs",
        )


class ArchiveLockedError(ArchiveError, TimeoutError):
    """Another process held the database for longer than the timeout."""

    def __init__(self, database: str, seconds: float) -> None:
        """Name the database and the seconds waited."""
        super().__init__(
            f"archive locked: another process held {database!r} for {seconds} s; try again, or "
            "raise lock_timeout"
        )


class ArchiveUnavailableError(ArchiveError, OSError):
    """The database is missing, full, read-only or not reachable."""

    lost = False
    """Whether the connection broke, so that a commit may have been done."""

    def __init__(self, database: str, why: str, *, lost: bool = False) -> None:
        """Name the database and the problem, and say what may have been written."""
        self.lost = lost
        outcome = "nothing was changed"
        if lost:
            outcome = "the last write may have succeeded: repeat it, a turn is stored only once"
        super().__init__(
            f"the archive {database!r} cannot be used ({why}): check that it exists, is writable "
            f"and has free space, then try again; {outcome}"
        )


class ArchiveFormatError(ArchiveError, ValueError):
    """The tables are damaged, or of a version that this program does not know."""
