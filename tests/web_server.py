"""Serve an ASGI application on this machine; nothing of it waits for ever."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette

_PATIENCE = 60.0
"""Seconds in which a server starts, and in which it ends: a busy machine is slow."""


@contextmanager
def serving(app: Starlette) -> Iterator[str]:
    """Serve an application on a free port, and yield its address; its end cuts streams."""
    options = uvicorn.Config(app, port=0, log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(options)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        latest = time.monotonic() + _PATIENCE
        while not server.started:
            assert thread.is_alive(), "the server ended while it started"
            assert time.monotonic() < latest, "the server does not start"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(_PATIENCE)
        assert not thread.is_alive(), "the server does not end"
