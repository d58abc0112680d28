"""Errors: what they say, also when a pool of processes hands them over."""

import pickle

import pytest

from ebbtide.memory.errors import (
    ArchiveLockedError,
    ArchiveUnavailableError,
    EbbtideError,
    InputError,
    SessionNotFoundError,
    TipNotFoundError,
    TurnArrivedError,
    TurnNotFoundError,
    TurnRunningError,
)


@pytest.mark.parametrize(
    "error",
    [
        *(InputError(3), SessionNotFoundError("t"), TurnNotFoundError(7, 3)),
        *(TipNotFoundError("ab" * 16, 7), TurnRunningError("t", 3), TurnArrivedError("t", 3)),
        *(ArchiveLockedError("a.sqlite", 3.0), ArchiveUnavailableError("a.sqlite", "gone")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_the_same_in_another_process(error: EbbtideError) -> None:
    """Pickled and read again it has its type and its message."""
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 (our own)

    assert (type(again), str(again)) == (type(error), str(error))
