"""The programs of the README and of docs/ run, and their links lead somewhere."""

import re
from collections.abc import Callable
from functools import cache
from pkgutil import resolve_name
from typing import TypeAlias

import pytest

from tests.examples.running import Run
from tests.pages import PAGES, Block, anchors, blocks, links, run_page
from tests.processes import ROOT
from tests.settings_page import PAGE, made

BLOCKS = blocks()
LINKED = [*PAGES, "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
LINKS = sorted({(page, link) for page in LINKED for link in links(page)})

Ran: TypeAlias = Callable[[str], tuple[Run, list[str]]]
"""Runs a page: what it did, and what each of its programs printed."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Return a function that runs the programs of a page, once."""
    return cache(lambda page: run_page(page, tmp_path_factory.mktemp("page")))


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}-{block.number}")
def test_a_program_prints_what_is_said(ran: Ran, block: Block) -> None:
    """Each program runs with no key and prints the text that follows it, or nothing."""
    _, said = ran(block.page)

    assert len(said) > block.number + 1, "a program before it, or it itself, raised"
    assert said[block.number] == block.said


def test_links_lead_somewhere() -> None:
    """Every link to a file or a heading of ours finds it."""
    lost = []
    for page, link in LINKS:
        path, _, heading = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        is_there = target.exists() and (
            not heading or heading in anchors(target.resolve().relative_to(ROOT).as_posix())
        )
        lost += [] if is_there else [(page, link)]

    assert LINKS
    assert lost == []


def test_what_the_api_documents_exists() -> None:
    """A name that moved would break the site."""
    page = (ROOT / "docs" / "api.md").read_text("utf-8")

    assert all(map(resolve_name, re.findall(r"^::: (\S+)", page, re.MULTILINE)))


def test_the_page_of_settings_is_up_to_date() -> None:
    """What stands in the page is what `make docs` would write."""
    assert PAGE.read_text(encoding="utf-8") == made(), "run `make docs`"
