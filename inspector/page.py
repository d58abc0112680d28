"""The page itself: its shell, its scripts, and what a browser may load for it."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader

from ..graph.all_commands import COMMANDS
from .payload import as_json
from .sentences import LABELS

_OWN = ("elements.js", "figures.js", "views.js", "inspector.js")
SCRIPTS = ("d3.min.js", "plot.umd.min.js", *_OWN)
STATIC = (*SCRIPTS, "inspector.css")

_KINDS: Mapping[str, str] = {"js": "text/javascript", "css": "text/css"}

_PLOT_STYLE = """\
:where(.plot-d6a7b5) {
  --plot-background: white;
  display: block;
  height: auto;
  height: intrinsic;
  max-width: 100%;
}
:where(.plot-d6a7b5 text),
:where(.plot-d6a7b5 tspan) {
  white-space: pre;
}"""
"""The style element that Observable Plot 0.6.17 makes, which the policy names by its hash."""


def static(name: str) -> tuple[bytes, str]:
    """Return a file of the page and its media type; raises `KeyError` for an unknown name."""
    if name not in STATIC:
        raise KeyError(name)
    content = files(__package__).joinpath("static", name).read_bytes()
    return content, _KINDS[name.rpartition(".")[2]]


def shell(actions: str = "") -> str:
    """Return the page that fetches its data; with `actions` "on" or "off" it can change it."""
    buttons = [
        {
            **asdict(command.action),
            "path": command.path,
            "method": command.method,
            "states": command.states,
        }
        for command in COMMANDS.values()
        if command.action
    ]
    page = {"actions": actions, "buttons": escape(json.dumps(buttons)), "scripts": SCRIPTS}
    return str(_template().render(embedded=False, **page))


def standalone(payload: Mapping[str, Any]) -> str:
    """Return the page as one file that has its data, scripts and style in it."""
    scripts = [_script(name) for name in SCRIPTS]
    css = static("inspector.css")[0].decode()
    policy = _policy(" ".join(map(_hash, scripts)), f"{_hash(css)} {_hash(_PLOT_STYLE)}")
    # In a script element only "<" could end the data.
    data = as_json(payload).decode().replace("<", "\\u003c")
    page = {"policy": policy, "css": css, "payload": data, "scripts": scripts}
    return str(_template().render(embedded=True, **page))


def content_policy() -> str:
    """Return the policy of the served page: nothing but its own files, and nobody may frame it."""
    own = _policy("'self'", f"'self' {_hash(_PLOT_STYLE)}")
    return f"{own}; connect-src 'self'; frame-ancestors 'none'"


def _policy(scripts: str, styles: str) -> str:
    return (
        f"default-src 'none'; script-src {scripts}; style-src {styles}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def _script(name: str) -> str:
    # The text that closes a script element would close the one that the file stands in.
    return re.sub(r"</(script)", r"<\\/\1", static(name)[0].decode(), flags=re.IGNORECASE)


def _hash(content: str) -> str:
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{digest}'"


@cache
def _template() -> Any:
    # The file's own texts are plain; what is data is JSON, in which nothing is markup.
    environment = Environment(loader=PackageLoader(__package__), autoescape=False)  # noqa: S701 (as above)
    environment.globals["labels"] = escape(json.dumps(LABELS))
    return environment.get_template("page.html")
