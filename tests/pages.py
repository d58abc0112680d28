"""The README and the pages of docs/: what they show, and what it prints when it is run."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.examples.running import Run, run
from tests.processes import ROOT

README = "README.md"
PAGES = [README, *sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*.md"))]

RESULTS_FOLDER = ROOT / "benchmarks" / "results"

_PROGRAM = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_END = "<<< end of a block >>>"


@dataclass(frozen=True)
class Block:
    """A block of Python on a page, and the text right after it, which is what it prints."""

    page: str
    number: int
    program: str
    said: str


@cache
def text(page: str) -> str:
    """Return the text of a page."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks() -> list[Block]:
    """Return the blocks of Python of all pages; what is fenced as `py` is shown and not run."""
    return [
        Block(page, number, program, said)
        for page in PAGES
        for number, (program, said) in enumerate(_PROGRAM.findall(text(page)))
    ]


def run_page(page: str, folder: Path) -> tuple[Run, list[str]]:
    """Run the blocks of a page one after the other, as one program; return what each printed."""
    programs = [block.program for block in blocks() if block.page == page]
    ran = run(["-c", "\n".join(f"{one}print({_END!r})\n" for one in programs)], folder)
    return ran, ran.printed.split(f"{_END}\n")


def links(page: str) -> list[str]:
    """Return the targets of a page's links, those of other sites aside."""
    return [link for link in _LINK.findall(text(page)) if "://" not in link]


def anchors(page: str) -> set[str]:
    """Return the names by which the headings of a page are linked to."""
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", text(page), re.MULTILINE)}


def slug(heading: str) -> str:
    """Return what a heading is linked to by, as GitHub makes it.

    >>> slug("Lost checkpoints: restore"), slug("What if it is full?")
    ('lost-checkpoints-restore', 'what-if-it-is-full')
    """
    return re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")
