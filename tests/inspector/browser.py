"""A real browser for the tests: the Chromium of the system, driven by Playwright."""

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

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

_LONGEST = 60.0
"""Seconds that anything in a test of the browser waits for: a busy machine is slow."""


@contextmanager
def browsing() -> Iterator[Browser]:
    """Start the browser; skip the test where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install -e '.[browser]'")
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        pytest.skip("needs Chromium (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=[*_OPTIONS])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Fail what takes longer: Playwright waits for a script in a page without a limit."""

    def fail(*_: object) -> None:
        raise TimeoutError(f"the test took longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, fail)
    left, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def page_of(browser: Browser, *, allowed: str = "nothing", **options: Any) -> Iterator[Page]:
    """Open an empty page, and fail at its end if a script failed or broke the content policy.

    `allowed` is a part of the one error that the browser may tell.
    """
    context = browser.new_context(**options)
    context.set_default_timeout(1_000 * _LONGEST)
    page, complaints = context.new_page(), []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    try:
        yield page
    finally:
        context.close()
    unexpected = [complaint for complaint in complaints if allowed not in complaint]
    assert unexpected == [], unexpected


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
