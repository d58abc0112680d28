"""The lock of a session: one thread of one process writes at a time."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from filelock import FileLock, Timeout

from ..errors import ArchiveLockedError

_POLL = 0.01


class SessionLock:
    """A lock among the threads of this process, then among processes."""

    def __init__(self, path: Path, timeout: float) -> None:
        """Take `timeout` seconds as the longest wait."""
        self._path, self._timeout = path, timeout
        self._threads = Lock()
        self._processes = FileLock(path, thread_local=False, poll_interval=_POLL)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock; `ArchiveLockedError` if it cannot be had in time."""
        deadline = time.monotonic() + self._timeout
        if not self._threads.acquire(timeout=self._timeout):
            raise ArchiveLockedError(self._path, self._timeout)
        try:
            with self._acquired(max(deadline - time.monotonic(), 0)):
                yield
        finally:
            self._threads.release()

    @contextmanager
    def _acquired(self, seconds: float) -> Iterator[None]:
        try:
            self._processes.acquire(timeout=seconds)
        except Timeout as error:
            raise ArchiveLockedError(self._path, self._timeout) from error
        try:
            yield
        finally:
            self._processes.release()
