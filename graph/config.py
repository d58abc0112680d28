"""The configuration: arguments beat the environment, which beats `ebbtide.yaml`.

The file and the environment (`EBBTIDE_CONTEXT_BUDGET`) may give every field of `Settings` but
`user_id`, which belongs to a run, and `model` and `root`. A misspelt variable is an error: if it
were ignored, the setting would silently keep its default.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias, cast

import yaml
from pydantic import Field, ValidationError

from ..memory.archive.sql import SqlArchive
from ..memory.attention.law import Attention
from ..memory.errors import SettingsError
from ..memory.settings import Settings

_log = logging.getLogger("ebbtide.config")

_REDIS_URL = "EBBTIDE_REDIS_URL"
"""The variable with the URL of Redis; it may hold a password, so no file and no log has it."""


def redis_attention(
    archive: SqlArchive, settings: Settings, environment: Mapping[str, str]
) -> Attention | None:
    """Return attention cached on the Redis server of the environment, None if it names none.

    Raises `SettingsError` if the extra `redis` is missing, or the URL is invalid.
    """
    url = environment.get(_REDIS_URL)
    if not url:
        return None
    try:
        module: Any = import_module("..memory.redis_attention", __package__)
    except ImportError as error:
        raise SettingsError(
            f"{_REDIS_URL} needs an extra: pip install 'ebbtide[redis]' ({error})"
        ) from error
    table = archive.attention(settings.attention_threshold)
    try:
        return cast("Attention", module.RedisAttention.from_url(url, table))
    except ValueError:
        raise SettingsError(f"{_REDIS_URL} is no URL such as redis://localhost:6379/0") from None


FILE = "ebbtide.yaml"
"""The file that is read from the working directory by default."""

PREFIX = "EBBTIDE_"
"""The prefix of all environment variables."""

ROOT = "~/.ebbtide"
"""The default folder of the archive: the same one from every working directory."""


class Keys(Settings):
    """All keys of a configuration: the settings, and two that only a program decides."""

    model: str | None = Field(
        None, min_length=1, description="Chat model, such as `openai:gpt-5-mini`"
    )
    root: str = Field(
        ROOT, min_length=1, description="Folder of the archive, or the URL of its database"
    )


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration that was read; `model` is None if none was chosen.

    `sources` has the source of each value that is no default: `ebbtide.yaml:3`, `EBBTIDE_MODEL`.
    """

    settings: Settings
    model: str | None
    root: str
    sources: Mapping[str, str] = field(default_factory=dict)


_Layer: TypeAlias = dict[str, tuple[Any, str]]
"""Values by name, each with its source: `ebbtide.yaml:3`, `EBBTIDE_MODEL`."""

_NEAR = 0.8
"""The ratio of `difflib` from which a variable counts as misspelt. All begin with EBBTIDE_, so
any two are alike by half: at 0.8 a letter too many is found, and EBBTIDE_CI is no misspelling."""

NAMES = tuple(name for name in Keys.model_fields if name != "user_id")
"""The names that are allowed in a file, the environment and the arguments."""


def load(
    arguments: Mapping[str, object],
    *,
    environment: Mapping[str, str],
    path: Path | None = None,
    directory: Path = Path(),
) -> Config:
    """Return the configuration; arguments that are None are ignored.

    Reads `path`, by default `ebbtide.yaml` in `directory` if it exists. Raises `SettingsError` for
    unknown names and bad values, overridden or not, with file and line, variable or argument.
    """
    layers: tuple[_Layer, ...] = (
        _from_file(path or directory / FILE, required=path is not None),
        _from_environment(environment),
        {name: (value, f"argument {name}") for name, value in arguments.items()},
    )
    chosen: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for layer in layers:
        checked = _checked(layer)
        chosen |= checked
        sources |= {name: layer[name][1] for name in checked}
    model, root = chosen.pop("model", None), _folder(chosen.pop("root", ROOT))
    return Config(Settings.model_validate(chosen), model, root, sources)


def _checked(layer: _Layer) -> dict[str, Any]:
    """Return the values of a layer; raise `SettingsError` for an unknown name or a bad value."""
    for name, (_, source) in layer.items():
        if name not in NAMES:
            raise SettingsError(f"{source}: {_unknown(name)}")
    values = {name: value for name, (value, _) in layer.items() if value is not None}
    try:
        keys = Keys.model_validate(values)
    except ValidationError as error:
        problems = (
            f"{layer[str(item['loc'][0])][1]}: {item['loc'][0]}: {item['msg']} "
            f"(got {item['input']!r})"
            for item in error.errors()
        )
        raise SettingsError("; ".join(problems)) from error
    return {name: getattr(keys, name) for name in values}


def _unknown(name: str) -> str:
    """Return what to do about an unknown key."""
    if name == "user_id":
        return "'user_id' may only be set by a run: remove it"
    if near := get_close_matches(name, NAMES, n=1):
        return f"unknown key {name!r}: did you mean {near[0]!r}?"
    return f"unknown key {name!r}: use one of {', '.join(NAMES)}"


def _from_environment(environment: Mapping[str, str]) -> _Layer:
    """Return the values of environment variables; raise `SettingsError` for a misspelt one."""
    variables = {name: PREFIX + name.upper() for name in NAMES}
    allowed = [*variables.values(), _REDIS_URL, f"{PREFIX}USER_ID"]
    for unknown in sorted({name for name in environment if name.startswith(PREFIX)} - {*allowed}):
        if near := get_close_matches(unknown, allowed, n=1, cutoff=_NEAR):
            raise SettingsError(f"{unknown}: unknown variable: did you mean {near[0]}?")
        _log.warning("%s is no setting of Ebbtide and is ignored", unknown)
    return {
        name: (environment[variable], variable)
        for name, variable in variables.items()
        if environment.get(variable)
    }


def _from_file(path: Path, *, required: bool) -> _Layer:
    """Return the values of a file; raise `SettingsError` if it cannot be read."""
    if not required and not path.exists():
        return {}
    try:
        layer = _entries(yaml.SafeLoader(path.read_text(encoding="utf-8")), path)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SettingsError(f"{path}:{line}: not valid YAML: {error.problem}") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}") from error
    except RecursionError as error:
        raise SettingsError(f"{path}: cannot be read: it is nested too deeply") from error
    root, source = layer.get("root", (None, ""))
    if root:  # a relative folder is relative to the file
        layer["root"] = _folder(root, path.parent), source
    return layer


def _folder(root: Any, directory: Path = Path()) -> str:
    """Return the path of an archive's folder; the URL of a database stays as it is."""
    return root if "://" in str(root) else str(directory / Path(str(root)).expanduser())


def _entries(loader: yaml.SafeLoader, path: Path) -> _Layer:
    """Return each key with the text of its scalar: YAML would read `off` as False."""
    root = loader.get_single_node()
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        raise SettingsError(f"{path}:{root.start_mark.line + 1}: expected lines `name: value`")
    layer: _Layer = {}
    for key, node in root.value:
        source = f"{path}:{key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode):
            raise SettingsError(f"{source}: expected lines `name: value`")
        if key.value in layer:
            raise SettingsError(f"{source}: {key.value!r} was given before: remove one of the two")
        if isinstance(node, yaml.ScalarNode):
            is_null = loader.construct_object(node) is None
            layer[key.value] = (None if is_null else node.value, source)
        elif key.value in NAMES:
            raise SettingsError(f"{source}: {key.value}: expected one value, got a {node.id}")
        else:  # `_checked` says that there is no such name
            layer[key.value] = (None, source)
    return layer
