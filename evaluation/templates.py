"""Where templates come from: the ones that are shipped, by name, or a file of one's own."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from .errors import TemplateFileError
from .template import Template

FOLDER = Path(__file__).parent / "templates"
_LONGEST = 160
"""Characters of a fault that an error shows."""


def shipped() -> tuple[str, ...]:
    """Return the names of the templates that are shipped, sorted."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


def read(name: str) -> Template:
    """Return a template by its name or by the path of its file; raises `TemplateFileError`."""
    path = FOLDER / f"{name}.json" if name in shipped() else Path(name)
    try:
        return Template.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        there = ", ".join(shipped())
        raise TemplateFileError(path, f"no such file; shipped are {there}") from error
    except OSError as error:
        raise TemplateFileError(path, error.strerror or type(error).__name__) from error
    except ValidationError as error:
        raise TemplateFileError(path, _described(error)) from error


def read_all(names: Sequence[str]) -> tuple[Template, ...]:
    """Return templates; raises `TemplateFileError` if two have one id."""
    found: dict[str, Template] = {}
    for name in names:
        template = read(name)
        if template.template_id in found:
            problem = f"template_id: {template.template_id!r} is that of another template too"
            raise TemplateFileError(Path(name), problem)
        found[template.template_id] = template
    return tuple(found.values())


def _described(error: ValidationError) -> str:
    """Say in which field what is wrong; long values are cut."""
    said = []
    for item in error.errors(include_url=False):
        field = ".".join(map(str, item["loc"]))
        problem = item["msg"].removeprefix("Value error, ")
        given = (
            "" if item["type"] in {"missing", "value_error"} else f" (got {_cut(item['input'])})"
        )
        said.append(f"{field}: {problem}{given}" if field else f"{problem}{given}")
    return "; ".join(said)


def _cut(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
