"""Hooks of mkdocs: the README is the first page; files that pages link to are in the site.

At its top it shows the inspector's page of the conversation of `examples/three_agents.py`.
"""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from posixpath import join, normpath
from tempfile import TemporaryDirectory
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]

CONVERSATION = "conversation.html"
TURN = f"{CONVERSATION}#/~orders/turn/182"
BOX = "width: 100%; height: min(80vh, 42rem); border: 1px solid var(--md-default-fg-color--lighter)"
TOP = f"""
In turn 182 a user asks for a telephone number that was said in turn 1. A summariser has lost it.
Ebbtide searches its archive and answers "0711 2350". Look around in the [inspector](inspector.md):

<iframe src="{TURN}" title="The conversation in the inspector" style="{BOX}"></iframe>

[Open the conversation in a page of its own]({TURN})
"""

_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)")
_MERMAID = re.compile(r"```mermaid\n.*?```\n", re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add the README, and each file outside of docs/ that a page links to, directly or not."""
    waiting = ["README.md", *(file.src_uri for file in files.documentation_pages())]
    waiting[1:] = [f"docs/{uri}" for uri in waiting[1:]]
    seen = set(waiting)
    while waiting:
        source = waiting.pop()
        if not source.startswith("docs/"):
            added = File.generated(config, _place(source), abs_src_path=str(ROOT / source))
            files.append(added)
        if source.endswith(".md"):
            targets = {_target(source, link) for link in _LINK.findall(_text(source))}
            waiting += targets - seen
            seen |= targets
    files.append(File.generated(config, CONVERSATION, content=_conversation()))
    files.remove(files.src_uris["llms.txt"])
    links = _moved("docs/llms.txt", _text("docs/llms.txt"))
    files.append(File.generated(config, "llms.txt", content=links))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Point the links at the files in the site; leave out diagrams, which need a script.

    The page as Markdown is beside the site, where llms.txt links to it.
    """
    uri = page.file.src_uri
    page_of = (f"docs/{uri}", "README.md" if uri == "index.md" else uri)
    source = next(name for name in page_of if (ROOT / name).exists())
    moved = _moved(source, markdown)
    copied = Path(config.site_dir, uri)
    copied.parent.mkdir(parents=True, exist_ok=True)
    copied.write_text(moved, encoding="utf-8")
    shown = _MERMAID.sub("", moved)
    if uri == "index.md":
        page.meta["hide"] = ["toc"]  # so that the conversation is as wide as it can be
        title, about, rest = shown.split("\n\n", 2)
        shown = f"{title}\n\n{about}\n{TOP}\n{rest}"
    return shown


@cache
def _conversation() -> str:
    """Return the page of a session that is held for it, once for all builds of `mkdocs serve`."""
    program, exporting = "examples/three_agents.py", ("-m", "ebbtide.cli.main", "archive", "export")
    with TemporaryDirectory() as folder:
        page = f"{folder}/{CONVERSATION}"
        source = ("--format", "html", "--root", f"{folder}/three_agents")
        for command in ((program, "--out", folder), (*exporting, "orders", page, *source)):
            subprocess.run([sys.executable, *command], cwd=ROOT, check=True)  # noqa: S603
        return Path(page).read_text(encoding="utf-8")


def _text(source: str) -> str:
    return (ROOT / source).read_text(encoding="utf-8")


def _moved(source: str, text: str) -> str:
    """Return a page with its links as they are in the site."""
    up = "../" * _place(source).count("/")
    return _LINK.sub(lambda link: up + _place(_target(source, link[0])), text)


def _target(source: str, link: str) -> str:
    """Return the path in the repository of what a page links to."""
    return normpath(join(source.rpartition("/")[0], link))


def _place(source: str) -> str:
    """Return the path in the site of a file of the repository."""
    return "index.md" if source == "README.md" else source.removeprefix("docs/")
