"""Load the texts that models read.

A template is `prompts/<name>.md`, or a section of `prompts/notices.md`, which holds the short ones
under headings such as `## no_result`. `$name` and `${name}` are variables, `$$` is a dollar sign.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from string import Template

_SUFFIX = ".md"
_NOTICES = "notices"

_HEADING = re.compile(r"^## (\w+)\n", re.MULTILINE)
"""The heading of a section; no notice contains such a line."""


class TemplateError(ValueError):
    """A template is unknown, malformed, or rendered with the wrong variables."""

    def __init__(self, name: str, problem: str, remedy: str) -> None:
        """Name the template, its problem and the remedy."""
        super().__init__(f"template {name!r}: {problem}; {remedy}")


def render(name: str, /, **values: object) -> str:
    """Return the text of a template with its variables replaced by `values`.

    Newlines at both ends are stripped. Raises `TemplateError` if there is no such template, or if a
    variable is missing or unused.
    """
    template = _template(name)
    variables = set(template.get_identifiers())
    if missing := sorted(variables - values.keys()):
        problem = f"no value for {_quoted(missing)}"
        raise TemplateError(name, problem, "pass one for each variable of the template")
    if unused := sorted(values.keys() - variables):
        problem = f"no variable {_quoted(unused)}"
        raise TemplateError(name, problem, f"it has {_quoted(sorted(variables)) or 'none'}")
    return template.substitute(values)


def names() -> tuple[str, ...]:
    """Return the names of all templates, sorted, such as `"tools/open_effort"`."""
    return tuple(sorted(_sources()))


@cache
def _template(name: str) -> Template:
    if name not in _sources():
        raise TemplateError(name, "there is none of that name", f"there are {_quoted(names())}")
    return _parse(name, _sources()[name])


@cache
def _sources() -> Mapping[str, str]:
    """Return the text of each template by its name."""
    sources = dict(_walk(files(__package__), ""))
    parts = _HEADING.split(sources.pop(_NOTICES))[1:]
    return {**sources, **dict(zip(parts[::2], parts[1::2], strict=True))}


def _parse(name: str, source: str) -> Template:
    template = Template(source.strip("\n"))
    if not template.is_valid():
        raise TemplateError(name, "a '$' begins no variable", "write '$$' for a dollar sign")
    return template


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(_SUFFIX):
            yield prefix + entry.name.removesuffix(_SUFFIX), entry.read_text(encoding="utf-8")


def _quoted(words: Iterable[str]) -> str:
    return ", ".join(repr(word) for word in words)
