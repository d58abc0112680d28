"""The inspector in a real Chromium: every view, wide and narrow, light and dark, by keyboard."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import Settings, create_memory_agent
from ebbtide.inspector.export import export_html
from ebbtide.inspector.server import Inspected, local_app
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.record import ANONYMOUS, Group, Owner, Tip
from ebbtide.testing import ScriptedModel
from tests.inspector.browser import Browser, Page, drawn, page_of, path_of, saved, serving
from tests.inspector.conftest import HOSTILE

pytestmark = pytest.mark.usefixtures("in_time")

EBB_AND_RETURN = (
    "Let's work on the auth bug",
    "The token expires after 3600 s, and nobody refreshes it.",
    "An axios interceptor asks for a new one on a 401. " * 12,
    "That's done",
    "What is new today?",
    "Show me the log of the auth bug",
    "How long does the token live?",
    "Let's work on the late parcel",
    "Parcel 4711 is three days late. " * 15,
    "Tell me about the weather.",
    "That's done",
    *(f"Small talk number {number}, about a blue sky." for number in range(28)),
    "What did we decide about the auth bug?",
    "Show me the log of the auth bug",
    *(f"More small talk, number {number}." for number in range(6)),
)
"""A conversation in which memory ebbs and returns."""

TOKEN = "the-token"  # noqa: S105 (of these tests)
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 380, "height": 800}


@pytest.fixture
def address(archive: SqlArchive) -> Iterator[str]:
    """Serve the inspector, and return its address."""
    with serving(local_app(Inspected(archive, archive.users), TOKEN)) as served:
        yield served


def enter(page: Page, address: str) -> None:
    """Open the list with the token, and the one session in it."""
    drawn(page, f"{address}/?token={TOKEN}")
    page.click("main table a")
    page.wait_for_selector("figure svg")


@pytest.mark.usefixtures("owner")
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_views(
    browser: Browser, address: str, size: dict[str, int], scheme: str, tmp_path: Path
) -> None:
    """Every view is drawn without an error, and nothing serious is in the way of a reader."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with page_of(browser, viewport=size, color_scheme=scheme) as page:
        enter(page, address)
        base = path_of(page)
        for view in (
            "context",
            "turn/5",
            "efforts/auth-bug",
            "search?q=token",
            "cost",
            "branches",
            "memories",
        ):
            drawn(page, f"{base}/{view}")
            found = axe.run(page).response["violations"]
            serious = [rule["id"] for rule in found if rule["impact"] in {"serious", "critical"}]
            assert (view, serious) == (view, [])
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
            name = re.split("[/?]", view)[0]
            picture = saved(page, tmp_path, name)
            assert picture.stat().st_size > 5_000


def test_hostile_text_is_text(browser: Browser, address: str, owner: Owner) -> None:
    """Markup, scripts and names with quotes are shown as they were said, and do nothing."""
    with page_of(browser, viewport=WIDE) as page:
        enter(page, address)
        drawn(page, f"{path_of(page)}/turn/2")

        assert HOSTILE in page.inner_text("main")
        assert page.title() == "Ebbtide inspector"
        assert page.locator("main img, main script").count() == 0
        assert owner.thread in page.inner_text("header")


@pytest.mark.usefixtures("owner")
def test_the_prompt_of_a_call(browser: Browser, address: str) -> None:
    """A call opens to exactly what was sent, with what came since the call before."""
    with page_of(browser, viewport=WIDE) as page:
        enter(page, address)
        drawn(page, f"{path_of(page)}/turn/2")
        page.click("text=The prompt of call 1")
        page.wait_for_selector("text=Exactly what was sent")

        assert "The token expires after 3600 s." in page.inner_text("section.come >> nth=-1")
        assert page.locator("main img, main script").count() == 0


@pytest.mark.usefixtures("owner")
def test_by_keyboard_alone(browser: Browser, address: str) -> None:
    """From the list to a turn and its prompt, with Tab and Enter."""
    with page_of(browser, viewport=WIDE) as page:
        drawn(page, f"{address}/?token={TOKEN}")
        for goal in ("a:has-text('thread')", "button:has-text('Earlier')"):
            for _ in range(30):
                page.keyboard.press("Tab")
                if page.locator(f"{goal}:focus").count():
                    break
            page.keyboard.press("Enter")
            page.wait_for_timeout(500)

        assert page.url.endswith("/turn/5")
        assert "Turn 5" in page.inner_text("h2 >> nth=0")


def test_live(browser: Browser, address: str, archive: SqlArchive, owner: Owner) -> None:
    """A turn that is committed while the page is open appears by itself."""
    with page_of(browser, viewport=WIDE) as page:
        enter(page, address)
        tip = archive.newest(owner)
        assert tip is not None
        human = {"type": "human", "data": {"content": "And now?", "id": "7"}}
        archive.commit(owner, tip, Group(tip.turn + 1, (human,), "2026-03-01T10:00:00+00:00"))

        page.wait_for_selector("#chosen[max='7']", timeout=10_000)


def test_one_file(browser: Browser, archive: SqlArchive, owner: Owner, tmp_path: Path) -> None:
    """The exported file shows a session with no server and asks nobody for anything."""
    tip = archive.newest(owner)
    assert tip is not None
    target = tmp_path / "session.html"
    export_html(archive, owner, tip, target)
    asked: list[str] = []

    with page_of(browser, viewport=WIDE) as page:
        page.on("request", lambda request: asked.append(request.url))
        page.goto(target.as_uri())
        page.wait_for_selector("figure svg")
        page.click("text=The figure as a table")
        page.click("main a:has-text('turn 2')")
        page.wait_for_selector("h2:has-text('Turn 2')")

        assert HOSTILE in page.inner_text("main")
        assert page.title() == "Ebbtide inspector"
    assert {url for url in asked if not re.match("file:|data:", url)} == set()


@pytest.mark.parametrize("turns", [1_000, 20_000])
def test_long_session(
    browser: Browser, address: str, long_session: Callable[[int], Owner], turns: int
) -> None:
    """A long session is drawn with no more bars than can be seen, and its last turn opens."""
    long_session(turns)
    with page_of(browser, viewport=WIDE) as page:
        enter(page, address)

        assert page.locator("figure rect").count() < 5_000
        drawn(page, f"{path_of(page)}/turn/{turns}")
        assert f"Question {turns}" in page.inner_text("main")


def test_a_line_of_five_megabytes(browser: Browser, address: str, archive: SqlArchive) -> None:
    """A message of one long line is shown in its box, and the page stays as wide as it was."""
    human = {"type": "human", "data": {"content": "x" * 5_000_000, "id": "1"}}
    owner, at = Owner(ANONYMOUS, "large"), "2026-03-01T10:00:00+00:00"
    archive.commit(owner, Tip(), Group(1, (human,), at))
    with page_of(browser, viewport=NARROW) as page:
        drawn(page, f"{address}/?token={TOKEN}")
        drawn(page, f"{address}/#/~large/turn/1")

        assert page.locator("pre.long").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_pictures_of_the_docs(
    browser: Browser, address: str, archive: SqlArchive, tmp_path: Path
) -> None:
    """The pictures of docs/ are of this page; PICTURES=docs/images writes them anew."""
    agent = create_memory_agent(
        ScriptedModel(),
        archive=archive,
        checkpointer=InMemorySaver(),
        settings=Settings(context_budget=4_000, summary_eviction_threshold=10),
    )
    for words in EBB_AND_RETURN:
        agent.invoke({"messages": words}, {"configurable": {"thread_id": "demo"}})
    folder = Path(os.environ.get("PICTURES", tmp_path))
    with page_of(browser, viewport=WIDE, color_scheme="light") as page:
        enter(page, address)
        base = path_of(page)
        for view in ("context", "efforts", "turn/6"):
            drawn(page, f"{base}/{view}")
            saved(page, folder, f"inspector-{view.split('/')[0]}")

    assert len([*folder.glob("inspector-*.png")]) == 3
