"""How fast the inspector opens a long session, in a real browser.

python benchmarks/inspector.py --out results 1000 20000

Made-up turns with one call each, written by the archive's own commits. "open" is the time from the
click on the session until its figure is drawn, the median of five with the 5th and 95th percentile;
"payload" is the size of what the server sends for it.
"""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn
from langchain_core.messages import AIMessage, HumanMessage
from made_up import text
from playwright.sync_api import sync_playwright
from report import argument_parser, ranged, write

from ebbtide import SqlArchive
from ebbtide.inspector.server import Inspected, local_app
from ebbtide.memory.turn import ANONYMOUS, Session, StoredTurn, Tip

_TOKEN = "benchmark"  # noqa: S105 (of this program's own server)
_OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
_REPEATS = 5


def main() -> None:
    """Measure each size, and write the results."""
    parser = argument_parser(__doc__)
    parser.add_argument("turns", nargs="+", type=int, help="turns of a session")
    arguments = parser.parse_args()
    rows = [measured(turns) for turns in arguments.turns]
    write(arguments.out, "inspector", "Opening a session in the inspector", rows)


def measured(turns: int) -> dict[str, Any]:
    """Return the figures of a session of so many turns."""
    with TemporaryDirectory() as folder, SqlArchive(folder) as archive:
        tip, session = Tip(), Session(ANONYMOUS, "long")
        for number in range(1, turns + 1):
            tip = archive.commit(session, tip, turn(number)).tip
        with served(Inspected(archive, archive.users)) as address:
            times, size = in_browser(address)
    return {"turns": turns, **ranged("open, ms", times, 0), "payload, KB": size // 1_000}


def turn(number: int) -> StoredTurn:
    """Return a turn with one call, whose context grows for fifty turns and then falls."""
    tokens = {"system": 500, "tools": 650, "turns": 40 * (number % 50), "turn": 20}
    sent = {"type": "sent", "tokens": tokens, "total": sum(tokens.values()), "budget": 4_000}
    words = text(Random(number), 40)
    human = HumanMessage(words, id=f"h{number}")
    answer = AIMessage(words, id=f"a{number}")
    at = "2026-03-01T10:00:00+00:00"
    return StoredTurn(number, (human, answer), at, events=(sent,), nonce=f"{number:032x}")


@contextmanager
def served(inspected: Inspected) -> Iterator[str]:
    """Serve the inspector on a free port, and yield the address of its page."""
    app = local_app(inspected, _TOKEN)
    server = uvicorn.Server(
        uvicorn.Config(
            app, port=0, lifespan="off", log_level="critical", timeout_graceful_shutdown=1
        )
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/?token={_TOKEN}"
    server.should_exit = True
    thread.join()


def in_browser(address: str) -> tuple[list[float], int]:
    """Return the milliseconds of each opening, and the bytes of the payload."""
    times, sizes = list[float](), [0]
    with sync_playwright() as started:
        program = shutil.which("chromium") or shutil.which("google-chrome")
        browser = started.chromium.launch(executable_path=program, args=[*_OPTIONS])
        for _ in range(_REPEATS):
            page = browser.new_context().new_page()
            page.on("response", lambda answer: sizes.append(_size(answer)))
            page.goto(address)
            page.wait_for_selector("main table a")
            began = time.perf_counter()
            page.click("main table a")
            page.wait_for_selector("figure svg")
            times.append(1_000 * (time.perf_counter() - began))
            page.context.close()
        browser.close()
    return times, max(sizes)


def _size(answer: Any) -> int:
    return len(answer.body()) if "api/session?" in answer.url else 0


if __name__ == "__main__":
    main()
