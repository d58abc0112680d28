"""The inspector in a real Chromium: every view, wide and narrow, light and dark, by keyboard."""

import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import Settings, create_memory_agent
from ebbtide.inspector import payload, prompts
from ebbtide.inspector.export import export_html
from ebbtide.inspector.server import Inspected, local_app
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.turn import ANONYMOUS, Session, StoredTurn, Tip
from ebbtide.testing import ScriptedModel
from tests.inspector.browser import Browser, Page, drawn, page_of, path_of, saved
from tests.inspector.conftest import HOSTILE
from tests.inspector.conversation import EBB_AND_RETURN
from tests.web_server import serving

pytestmark = pytest.mark.usefixtures("in_time")

TOKEN = "the-token"  # noqa: S105 (of these tests)
THREAD: Any = {"configurable": {"thread_id": "demo", "user_id": "ann"}}
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


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        pytest.param(WIDE, "light", id="wide-light"),
        pytest.param(NARROW, "dark", id="narrow-dark"),
        pytest.param(WIDE, "dark", id="wide-dark", marks=pytest.mark.soak),
        pytest.param(NARROW, "light", id="narrow-light", marks=pytest.mark.soak),
    ],
)
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


def test_hostile_names(browser: Browser, address: str, archive: SqlArchive) -> None:
    """Names that mean something to addresses, scripts and encodings are names."""
    session = Session('~a/../%2F?#"<b>\u202e😀\ud800', "__proto__")
    turn = StoredTurn(
        1,
        (HumanMessage("half \ud83d, \x00, \u2028", id="1"),),
        "2026-03-01T10:00:00+00:00",
        events=({"type": "opened", "effort": "constructor"},),
    )
    archive.commit(session, Tip(), turn)
    with page_of(browser, viewport=WIDE) as page:
        enter(page, address)
        base = path_of(page)
        for view in ("context", "turn/1", "efforts/constructor", "cost", "branches", "memories"):
            drawn(page, f"{base}/{view}")
            assert "cannot be shown" not in page.inner_text("main"), view
        drawn(page, f"{base}/turn/1")
        assert "half \ufffd, \x00" in page.inner_text("main")
        drawn(page, f"{base}/constructor")
        assert "There is no such page" in page.inner_text("main")


def test_deleted_while_open(
    browser: Browser, address: str, archive: SqlArchive, session: Session
) -> None:
    """A page of a session that is deleted says that it is not there any more."""
    with page_of(browser, allowed="status of 404", viewport=WIDE) as page:
        enter(page, address)
        archive.delete_session(session)

        page.wait_for_selector("text=This cannot be shown")


def test_deleted_before_the_page_listens(
    browser: Browser, address: str, archive: SqlArchive, session: Session
) -> None:
    """It says so as well if the session is deleted between its drawing and its listening."""

    def delete(route: Any) -> None:
        archive.delete_session(session)
        route.continue_()

    with page_of(browser, allowed="status of 404", viewport=WIDE) as page:
        page.route("**/api/live**", delete)
        drawn(page, f"{address}/?token={TOKEN}")
        page.click("main table a")

        page.wait_for_selector("text=This cannot be shown")


def test_the_prompt_of_a_call(browser: Browser, address: str, session: Session) -> None:
    """A call opens to exactly what was sent; markup, scripts and names with quotes do nothing."""
    with page_of(browser, viewport=WIDE) as page:
        enter(page, address)
        drawn(page, f"{path_of(page)}/turn/2")
        page.wait_for_selector("text=Exactly what was sent")

        assert "The token expires after 3600 s." in page.inner_text("details.come >> nth=-1")
        assert HOSTILE in page.inner_text("main")
        assert page.title() == "Ebbtide inspector"
        assert page.locator("main img, main script").count() == 0
        assert session.thread in page.inner_text("header")


@pytest.mark.usefixtures("session")
def test_by_keyboard_alone(browser: Browser, address: str) -> None:
    """From the list to a turn and its prompt, with Tab and Enter."""
    with page_of(browser, viewport=WIDE) as page:
        drawn(page, f"{address}/?token={TOKEN}")
        steps = {"a:has-text('thread')": "figure svg", "button:has-text('Earlier')": "text=Turn 5"}
        for goal, drawn_then in steps.items():
            for _ in range(30):
                page.keyboard.press("Tab")
                if page.locator(f"{goal}:focus").count():
                    break
            page.evaluate("delete document.querySelector('main').dataset.drawn")
            page.keyboard.press("Enter")
            page.wait_for_selector(drawn_then)

        assert page.url.endswith("/turn/5")


@pytest.mark.parametrize("view", ["", "turn/7"])
def test_live(
    browser: Browser, address: str, archive: SqlArchive, session: Session, view: str
) -> None:
    """A turn that is committed while the page is open appears by itself."""
    with page_of(browser, viewport=WIDE) as page:
        enter(page, address)
        if view:
            page.goto(f"{path_of(page)}/{view}")
            page.wait_for_selector("text=Turn 7 is not committed yet")
        tip = archive.load(session).tip
        assert tip is not None
        human = HumanMessage("And now?", id="7")
        archive.commit(
            session, tip, StoredTurn(tip.turn + 1, (human,), "2026-03-01T10:00:00+00:00")
        )

        page.wait_for_selector("text=And now?" if view else "#chosen[max='7']")


def test_one_file(browser: Browser, archive: SqlArchive, session: Session, tmp_path: Path) -> None:
    """The exported file shows a session with no server and asks nobody for anything."""
    tip = archive.load(session).tip
    assert tip is not None
    target = tmp_path / "session.html"
    export_html(archive, session, tip, target)
    asked: list[str] = []

    with page_of(browser, viewport=WIDE) as page:
        page.on("request", lambda request: asked.append(request.url))
        page.goto(target.as_uri())
        page.wait_for_selector("figure svg")
        page.click("text=The figure as a table")
        page.click("main a:has-text('turn 2')")
        page.wait_for_selector("h2:has-text('Turn 2')")
        page.wait_for_selector("text=Exactly what was sent")

        assert HOSTILE in page.inner_text("main")
        assert HOSTILE in page.inner_text("details.come >> nth=-1")
        assert page.title() == "Ebbtide inspector"
        page.click("nav a:has-text('Search')")
        page.fill("#query", "3600 EXPIRES")
        page.keyboard.press("Enter")
        page.wait_for_selector("caption:has-text('3600 EXPIRES')")
        assert "searched for words alone" in page.inner_text("main")
        assert "The token expires after 3600 s." in page.inner_text("main tbody")
        page.click("main tbody a:has-text('turn 2')")
        page.wait_for_selector("h2:has-text('Turn 2')")
    assert {url for url in asked if not re.match("file:|data:", url)} == set()


@pytest.mark.parametrize("turns", [1_000, pytest.param(20_000, marks=pytest.mark.soak)])
def test_long_session(
    browser: Browser, address: str, long_session: Callable[[int], Session], turns: int
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
    human = HumanMessage("x" * 5_000_000, id="1")
    session, at = Session(ANONYMOUS, "large"), "2026-03-01T10:00:00+00:00"
    archive.commit(session, Tip(), StoredTurn(1, (human,), at))
    with page_of(browser, viewport=NARROW) as page:
        drawn(page, f"{address}/?token={TOKEN}")
        drawn(page, f"{address}/#/~large/turn/1")

        assert page.locator("pre.long").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture(scope="module")
def remembering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any, SqlArchive]]:
    """Talk so that memory ebbs and returns; serve the page with actions, and return its parts."""
    settings = Settings(context_budget=6_000, summary_eviction_threshold=12)
    with SqlArchive(tmp_path_factory.mktemp("remembering")) as archive:
        agent = create_memory_agent(
            ScriptedModel(), archive=archive, checkpointer=InMemorySaver(), settings=settings
        )
        for words in EBB_AND_RETURN:
            agent.invoke({"messages": words}, THREAD)

        @contextmanager
        def opened(user: str) -> Iterator[Any]:
            assert user == "ann"
            yield agent

        app = local_app(Inspected(archive, archive.users, settings), TOKEN, opened)
        with serving(app) as served:
            yield served, agent, archive


def test_questions_of_a_newcomer(browser: Browser, remembering: tuple[str, Any, Any]) -> None:
    """What brought an effort back, what a turn sent and cost: the page answers by clicks."""
    with page_of(browser, viewport=WIDE) as page:
        enter(page, remembering[0])
        page.click("nav a:has-text('Efforts')")
        page.click("main a:has-text('auth-bug')")
        page.wait_for_selector("h2:has-text('auth-bug')")
        back = page.inner_text(".chosen tr:has-text('its summary came back')")
        page.click(".chosen tr:has-text('its summary came back') a")
        page.wait_for_selector("text=Exactly what was sent")
        turn = page.inner_text("main")

    assert "What did we decide about the auth bug?" in back
    assert "Turn 40" in turn
    assert "- auth-bug" in turn
    assert re.search(r"Sent\s+[45],\d{3}\s+tokens in 1 call", turn)
    assert re.search(r"Full history\s+\d+.\dk\s+tokens, had .* been sent, .*: \d\d % saved", turn)


def test_prices_and_what_is_open_stay(browser: Browser, remembering: tuple[str, Any, Any]) -> None:
    """Prices are typed one after the other; a narrower window closes nothing."""
    with page_of(browser, viewport=WIDE) as page:
        enter(page, remembering[0])
        drawn(page, f"{path_of(page)}/cost")
        page.focus("#price-input")
        page.keyboard.type("2.5")
        for typed in ("0.25", "10"):
            page.keyboard.press("Tab")
            page.keyboard.type(typed)
        given = [page.input_value(f"#price-{kind}") for kind in ("input", "cached", "output")]
        page.click("summary:has-text('All metrics')")
        before = page.locator("figure svg").get_attribute("width")
        page.set_viewport_size({"width": 900, "height": 700})
        page.wait_for_function(
            "before => document.querySelector('figure svg').getAttribute('width') !== before",
            arg=before,
        )

        assert given == ["2.5", "0.25", "10"]
        page.wait_for_selector("text=at these prices")
        assert "$0." in page.inner_text("main")
        assert "tokens that all calls saved" in page.inner_text("details[open]")


@pytest.mark.thorough
def test_the_page_agrees_with_itself(remembering: tuple[str, Any, SqlArchive]) -> None:
    """Its turns add up to its metrics, and an effort changes where the prompts do."""
    archive = remembering[2]
    told = payload.overview(archive, next(iter(archive.sessions("ann"))), prices=(2.5, 10, 0.25))
    calls = {turn["turn"]: turn["calls"] for turn in told["turns"]}
    logs = {turn: "expanded" in made[-1]["tokens"] for turn, made in calls.items()}
    (auth,) = [effort for effort in told["efforts"] if effort["id"] == "auth-bug"]
    changes = [*auth["changes"], {"from": 53}]
    drawn_as = {
        turn: one["state"] == "expanded"
        for one, after in itertools.pairwise(changes)
        for turn in range(one["from"], after["from"])
    }

    metrics, figures = told["metrics"], told["figures"]
    sums = {name: sum(turn.get(name, 0) for turn in told["turns"]) for name in ("sent", "read")}
    assert [figures[name] for name in sums] == [*sums.values()]
    assert (figures["sent"], figures["full_history"]) == (metrics["sent"], metrics["full_history"])
    assert told["turns"][-1]["so_far"] == (metrics["sent"], metrics["full_history"])
    assert figures["saved"] == pytest.approx(metrics["savings_vs_full_history"])
    paid = sum(float(cost["money"][1:]) for cost in metrics["costs"])
    assert float(figures["money"][1:]) == pytest.approx(paid, abs=0.001)
    assert drawn_as == logs


def test_forecasts_come_true(remembering: tuple[str, Any, SqlArchive]) -> None:
    """Logs collapse and summaries leave in the turns foretold."""
    archive = remembering[2]
    session = next(iter(archive.sessions("ann")))
    told = payload.overview(archive, session)
    standing = {n: payload.turn(archive, session, None, n)["standing"] for n in range(1, 53)}
    left = [
        (effort["id"], before["state"], change["turn"])
        for effort in told["efforts"]
        for before, change in itertools.pairwise(effort["changes"])
        if f"{before['state']} {change['state']}" in {"expanded concluded", "concluded evicted"}
    ]
    kept = [
        ((name, state, turn), turn - n, re.findall(r"\d+", now[name]["leaves"]))
        for name, state, turn in left
        for n, now in standing.items()
        if n < turn
        and now.get(name, {}).get("state") == state
        and all(
            standing[at].get(name, {}).get("last") == now[name]["last"] for at in range(n, turn)
        )
    ]

    assert {what for what, *_ in kept} == {*left}
    assert all(int(soon[0]) <= turns <= int(soon[-1]) for _, turns, soon in kept)


@pytest.mark.thorough
def test_sums_and_reasons_of_prompts(remembering: tuple[str, Any, SqlArchive]) -> None:
    """The messages of a prompt add up to its call; a turn that left is no longer sent."""
    archive = remembering[2]
    session = next(iter(archive.sessions("ann")))
    tip = archive.load(session).tip
    assert tip is not None
    for turn in payload.overview(archive, session)["turns"]:
        for place, call in enumerate(turn["calls"]):
            made = prompts.prompt(archive, session, tip, turn["turn"], place)["messages"]
            sizes = Counter[str]()
            for line in made:
                sizes[line["part"]] += line["tokens"] if line["change"] != "left" else 0
            leaving = any(line["change"] == "left" for line in made)

            assert +sizes == +Counter(call["tokens"])
            assert leaving >= ("no longer shown" in call.get("why", ""))


def test_why_efforts_came_and_left(remembering: tuple[str, Any, SqlArchive]) -> None:
    """A sentence tells who mentioned an effort in a turn, and why another one left."""
    archive = remembering[2]
    told = payload.overview(archive, next(iter(archive.sessions("ann"))))
    auth, parcel, _ = told["efforts"]

    assert dict(auth["uses"])[5] == "its name in the answer: “auth-bug”"
    assert "in the user's message and the answer" in dict(auth["uses"])[40]
    assert "left in turn 24, because nobody mentioned it for 13 turns" in parcel["where"]


def test_click_on_a_part(browser: Browser, remembering: tuple[str, Any, Any]) -> None:
    """It opens the turn, at the text of this part of its prompt."""
    with page_of(browser, viewport=WIDE) as page:
        enter(page, remembering[0])
        log = page.locator("figure rect[fill='url(#fill-expanded)'] >> nth=0").bounding_box()
        page.mouse.click(log["x"] + log["width"] / 2, log["y"] + log["height"] / 2)
        page.wait_for_selector("details[data-part='expanded'][open] pre")

        assert "/turn/6?part=expanded" in page.url
        assert "The token expires after 3600 s" in page.inner_text("details[data-part='expanded']")


def test_pictures_of_the_docs(
    browser: Browser, remembering: tuple[str, Any, Any], tmp_path: Path
) -> None:
    """The pictures of docs/ are of this page; PICTURES=docs/images writes them anew."""
    folder = Path(os.environ.get("PICTURES", tmp_path))
    archive = remembering[2]
    with (
        serving(local_app(Inspected(archive, archive.users), TOKEN)) as read_only,
        page_of(browser, viewport={"width": 1280, "height": 940}, color_scheme="light") as page,
    ):
        enter(page, read_only)
        base = path_of(page)
        for view in ("context", "efforts/auth-bug", "turn/4"):
            drawn(page, f"{base}/{view}")
            page.wait_for_selector("text=Loading …", state="detached")
            page.mouse.move(0, 0)
            target = folder / f"inspector-{view.split('/')[0]}.png"
            page.screenshot(path=str(target))
            assert target.stat().st_size < 200_000


def test_actions(browser: Browser, remembering: tuple[str, Any, SqlArchive]) -> None:
    """An effort is expanded, a turn erased after a question, and the page shows it."""
    address, agent, archive = remembering
    with page_of(browser, viewport=WIDE) as page:
        enter(page, address)
        base = path_of(page)
        drawn(page, f"{base}/efforts/late-parcel")
        page.click("text=Expand its log")
        page.wait_for_selector("#notice:not(:has-text('Working'))")
        assert page.inner_text("#notice").startswith("Done.")
        assert "The whole log of late-parcel is in the prompt" in page.inner_text("p.answer")
        drawn(page, f"{base}/turn/12")
        page.click("text=Erase this turn")
        page.keyboard.press("Escape")
        page.wait_for_selector("dialog", state="detached")
        page.click("text=Erase this turn")
        page.click("dialog button.danger")
        page.wait_for_selector("#notice:has-text('Done.')")

    assert "late-parcel" in agent.get_state(THREAD).values["memory"]["expanded"]
    session = Session("ann", "demo")
    (erased,) = archive.load(session).turns([12])
    assert erased.status == "erased"
