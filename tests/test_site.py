"""The site that `make docs` builds of the README and docs/."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import PAGES, text
from tests.processes import ROOT

NAMES = {page.removeprefix("docs/") for page in PAGES if page != "README.md"}
LINK = re.compile(r"\]\((?!https?:|#)([^)\s#]+)")
_FETCHED = re.compile(
    r"<(?:script|img|iframe)[^>]*?src=\"?(?:https?:)?//[^>]*>"
    r"|<link[^>]*?rel=\"?(?:stylesheet|preconnect|preload)[^>]*?//[^>]*>"
    r"|class=\"?mermaid"
)


def test_every_page_is_in_the_navigation() -> None:
    """Whoever reads the site, or has a model read it, finds each page."""
    configured, for_models = text("mkdocs.yml"), text("docs/llms.txt")

    assert [name for name in NAMES if not re.search(rf": {name}\n", configured)] == []
    assert {*re.findall(r"\]\(([^)]+)\)", for_models)} == {*NAMES, "../README.md"}


@pytest.mark.soak
def test_the_site_builds_and_fetches_nothing(tmp_path: Path) -> None:
    """Every link and every name of the API page is found, and no page asks another host."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    pages = {path: path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}

    assert done.returncode == 0, done.stderr  # it is strict: a warning is an error
    assert len(pages) > len(NAMES)
    assert [found for page in pages.values() for found in _FETCHED.findall(page)] == []
    assert "From the log, turn 1:" in pages[tmp_path / "conversation.html"]
    front = pages[tmp_path / "index.html"]
    opened = front.index('<iframe src="conversation.html#/~orders/turn/182"')
    assert opened < front.index("<img")
    assert "create_memory_agent" in pages[tmp_path / "api" / "index.html"]
    for name in ("llms.txt", "index.md", "concepts.md"):  # they are linked to as Markdown
        linked = LINK.findall((tmp_path / name).read_text(encoding="utf-8"))
        assert linked
        assert [link for link in linked if not (tmp_path / link).is_file()] == []
