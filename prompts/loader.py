"""Load the texts that models read.

A template is `prompts/<name>.md`; `$name` and `${name}` are variables, `$$` is a dollar sign.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from string import Template

_SUFFIX = ".md"


class TemplateError(ValueError):
    """A template is unknown or malformed, or was given other variables than it names."""

    def __init__(self, name: str, problem: str, remedy: str) -> None:
        """Quote the template, say what is wrong with it and what to do."""
        super().__init__(f"template {name!r}: {problem}; {remedy}")


def render(name: str, /, **values: object) -> str:
    """Return the text of the template `name` with `values` in the place of its variables.

    Newlines at the end are stripped. Raises `TemplateError` if there is no such template, or if a
    variable is missing or unused.
    """
    template = _template(name)
    wanted = set(template.get_identifiers())
    if missing := sorted(wanted - values.keys()):
        problem = f"no value for {_quoted(missing)}"
        raise TemplateError(name, problem, "pass one for each variable of the template")
    if unused := sorted(values.keys() - wanted):
        problem = f"no variable {_quoted(unused)}"
        raise TemplateError(name, problem, f"it has {_quoted(sorted(wanted)) or 'none'}")
    return template.substitute(values)


@cache
def names() -> tuple[str, ...]:
    """Return the names of all templates, sorted, such as `"tools/open_effort"`."""
    return tuple(sorted(_walk(_root(), "")))


@cache
def _template(name: str) -> Template:
    if name not in names():
        raise TemplateError(name, "there is none of that name", f"there are {_quoted(names())}")
    source = _root().joinpath(*f"{name}{_SUFFIX}".split("/")).read_text(encoding="utf-8")
    return _parse(name, source)


def _parse(name: str, source: str) -> Template:
    template = Template(source.rstrip("\n"))
    if not template.is_valid():
        raise TemplateError(name, "a '$' begins no variable", "write '$$' for a dollar sign")
    return template


def _root() -> Traversable:
    return files(__package__)


def _walk(folder: Traversable, prefix: str) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(_SUFFIX):
            yield prefix + entry.name.removesuffix(_SUFFIX)


def _quoted(words: Iterable[str]) -> str:
    return ", ".join(repr(word) for word in words)
