"""A real browser for the tests: the Chromium of the system, driven by Playwright."""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import uvicorn
from starlette.applications import Starlette

Browser: TypeAlias = Any
Page: TypeAlias = Any

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""What keeps Chromium from calling its maker's servers, and lets it run as root."""


@contextmanager
def browsing() -> Iterator[Browser]:
    """Start the browser; skip the test where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        pytest.skip("needs Chromium (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=[*_OPTIONS])
        yield browser
        browser.close()


@contextmanager
def serving(app: Starlette) -> Iterator[str]:
    """Serve an application on a free port of this machine, and yield its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, lifespan="off", log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def page_of(browser: Browser, **options: Any) -> Iterator[Page]:
    """Open an empty page, and fail at its end if a script failed or broke the content policy."""
    context = browser.new_context(**options)
    page, complaints = context.new_page(), []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    yield page
    context.close()
    assert complaints == [], complaints


def drawn(page: Page, address: str) -> None:
    """Go to an address, and wait until its view is drawn."""
    page.evaluate("delete document.querySelector('main')?.dataset.drawn")
    if page.url == address:
        page.reload()
    else:
        page.goto(address)
    page.wait_for_selector("main[data-drawn]")


def path_of(page: Page) -> str:
    """Return the address of the page's session, without the view."""
    return str(page.url).rpartition("/context")[0]


def saved(page: Page, folder: Path, name: str) -> Path:
    """Take a screenshot of the whole page."""
    target = folder / f"{name}.png"
    page.screenshot(path=str(target), full_page=True)
    return target
