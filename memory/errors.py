"""The errors Ebbtide raises.

EbbtideError
├── SettingsError           a setting is out of range, unknown, or not allowed there
├── InputError              the input of a run holds nothing to answer
├── ToolError               a memory tool was called wrongly; the model reads the message
├── SummaryError            a model call that summarises failed
├── SalienceError           a model call that extracts or writes the background failed
├── EmbeddingError          the embedding model failed, or what it returned are no vectors
├── AttentionError          the store of attention failed
├── CommandError            a command cannot be done; nothing was changed
└── ArchiveError            the archive cannot do what was asked
    ├── SessionNotFoundError    no such session for this owner
    ├── TurnNotFoundError       no such turn in what this state sees
    ├── TurnRunningError        a turn of the thread is not finished
    │   └── TurnArrivedError        one ran while another was erased
    ├── ArchiveLockedError      another process holds the session's lock
    └── ArchiveFormatError      the stored format is newer or damaged
"""

from pathlib import Path


class EbbtideError(Exception):
    """The root of all errors that Ebbtide raises."""


class SettingsError(EbbtideError, ValueError):
    """A setting is out of range, unknown, or not allowed where it was given."""


class InputError(EbbtideError, ValueError):
    """The input of a run holds no message that has not been answered already."""

    def __init__(self, count: int) -> None:
        """Say how many messages came in and what to pass instead."""
        super().__init__(
            f"the input has no new message ({count} in state, all answered): pass "
            '{"messages": [("user", "...")]}, without an id or with one that was not used before'
        )


class ToolError(EbbtideError):
    """A memory tool was called wrongly; the message tells the model how to do it right."""


class SummaryError(EbbtideError):
    """A model call that summarises failed."""


class SalienceError(EbbtideError):
    """A model call that extracts, or that writes the background, failed."""


class EmbeddingError(EbbtideError):
    """The embedding model failed, or what it returned are no vectors."""


class AttentionError(EbbtideError):
    """What keeps attention failed; what was asked was not done."""


class CommandError(EbbtideError):
    """A command cannot be done; the message says why, and nothing was changed."""


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
        """Name the turns that there are."""
        there = f"the turns are 1-{newest}" if newest else "there is none"
        super().__init__(f"turn {turn} not found on this branch: {there}")


class TurnRunningError(ArchiveError):
    """A turn of the thread is not finished."""

    def __init__(self, thread: str, turn: int) -> None:
        """Name the turn and say how it is finished."""
        super().__init__(
            f"turn {turn} of thread {thread!r} is not finished: finish it by invoking with None, "
            "or send a new message, then try again; nothing was changed"
        )


class TurnArrivedError(TurnRunningError):
    """A turn of the thread ran while another was erased."""

    def __init__(self, thread: str, turn: int) -> None:
        """Name the turn that was to be erased, and say how far that came."""
        ArchiveError.__init__(
            self,
            f"thread {thread!r} went on while turn {turn} was erased: the archive has lost it, the "
            "checkpoints were not changed; erase it again when no turn of the thread is running",
        )


class ArchiveLockedError(ArchiveError, TimeoutError):
    """Another process holds the lock of the session for longer than the timeout."""

    def __init__(self, lock: Path, seconds: float) -> None:
        """Name the lock file and how long was waited."""
        super().__init__(
            f"session locked: {str(lock)!r} was held by another process for {seconds} s; "
            "try again, or raise lock_timeout"
        )


class ArchiveFormatError(ArchiveError, ValueError):
    """The stored format is newer than this program, or is damaged."""
