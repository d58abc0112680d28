"""The configuration: arguments beat the environment, which beats `ebbtide.yaml`.

The file and the environment (`EBBTIDE_CONTEXT_BUDGET`) may give every field of `Settings` but
`user_id`, which belongs to a run, and `model` and `root`.
"""

import logging
import os
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import Field
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict

from ..memory.archive.sql import SqlArchive
from ..memory.attention.law import Attention
from ..memory.errors import SettingsError
from ..memory.settings import Settings, meant

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
        module: Any = import_module("..memory.attention.redis", __package__)
    except ImportError as error:
        raise SettingsError(f"{_REDIS_URL} cannot be used: {error}") from error
    table = archive.attention(settings.attention_threshold)
    try:
        return cast("Attention", module.RedisAttention.from_url(url, table))
    except ValueError:
        raise SettingsError(f"{_REDIS_URL} is not a URL such as redis://localhost:6379/0") from None


FILE = "ebbtide.yaml"
"""The file that is read from the working directory by default."""

PREFIX = "EBBTIDE_"
"""The prefix of all environment variables."""

ROOT = "~/.ebbtide"
"""The default folder of the archive: the same one from every working directory."""


class Keys(Settings):
    """All keys of a configuration: the settings, and two that only a program decides."""

    model: str | None = Field(
        default=None, min_length=1, description="Chat model, such as `openai:gpt-5-mini`"
    )
    root: str = Field(
        default=ROOT,
        min_length=1,
        description="Folder of the archive, or the URL of its database",
    )


NAMES = tuple(name for name in Keys.model_fields if name != "user_id")
"""The names that are allowed in a file, the environment and the arguments."""


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration that was read; `model` is None if none was chosen.

    `sources` has the source of each value that is no default: `ebbtide.yaml:3`, `EBBTIDE_MODEL`.
    """

    settings: Settings
    model: str | None
    root: str
    sources: Mapping[str, str] = field(default_factory=dict)


def load(
    arguments: Mapping[str, object], *, path: Path | None = None, directory: Path = Path()
) -> Config:
    """Return the configuration; arguments that are None are ignored.

    Reads `path`, by default `ebbtide.yaml` in `directory` if it exists. Raises `SettingsError` for
    unknown names and bad values, overridden or not, with file and line, variable or argument.
    """
    layers = (
        _Layer(arguments, {name: f"argument {name}" for name in arguments}),
        _from_environment(),
        _from_file(path or directory / FILE, required=path is not None),
    )
    keys = Keys(**ChainMap(*[layer.checked() for layer in layers]))
    values = {name: getattr(keys, name) for name in NAMES if name in keys.model_fields_set}
    sources = {
        name: next(one.places[name] for one in layers if one.values.get(name) is not None)
        for name in values
    }
    model, root = values.pop("model", None), _folder(values.pop("root", ROOT))
    return Config(Settings.model_validate(values), model, root, sources)


class _Sources(BaseSettings, Keys):
    """The keys as pydantic-settings reads them from the environment."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, extra="forbid")


@dataclass(frozen=True, slots=True)
class _Layer:
    """The values of one source, None for those it does not give, and the place of each."""

    values: Mapping[str, Any]
    places: Mapping[str, str]

    def checked(self) -> dict[str, Any]:
        """Return the values; raise `SettingsError` for an unknown name or a bad value."""
        values, problems = dict[str, Any](), list[str]()
        for name, value in self.values.items():
            if name == "user_id":
                raise SettingsError(f"{self.places[name]}: 'user_id' may only be set by a run")
            if value is None and name in NAMES:
                continue
            try:
                values[name] = value
                Keys(**{name: value})
            except SettingsError as error:
                problems.append(f"{self.places[name]}: {error}")
        if problems:
            raise SettingsError("; ".join(problems))
        return values


def _from_environment() -> _Layer:
    """Return the variables of the environment; others with our prefix are told of and ignored."""
    variables = {name: PREFIX + name.upper() for name in NAMES}
    known = {*variables.values(), _REDIS_URL, f"{PREFIX}USER_ID"}
    for name in sorted({one for one in os.environ if one.startswith(PREFIX)} - known):
        question = meant(name.removeprefix(PREFIX).lower(), NAMES)
        _log.warning("%s is no setting of Ebbtide and is ignored. %s", name, question)
    values = EnvSettingsSource(_Sources)()
    return _Layer({name: values[name] for name in variables if name in values}, variables)


def _from_file(path: Path, *, required: bool) -> _Layer:
    """Return the values of a file; raise `SettingsError` if it cannot be read."""
    if not required and not path.exists():
        return _Layer({}, {})
    try:
        layer = _entries(yaml.SafeLoader(path.read_text(encoding="utf-8")), path)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SettingsError(f"{path}:{line}: not valid YAML: {error.problem}") from error
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}") from error
    except RecursionError as error:
        raise SettingsError(f"{path}: cannot be read: it is nested too deeply") from error
    root = layer.values.get("root")
    if root:  # a relative folder is relative to the file
        return _Layer({**layer.values, "root": _folder(root, path.parent)}, layer.places)
    return layer


def _folder(root: Any, directory: Path = Path()) -> str:
    """Return the path of an archive's folder; the URL of a database stays as it is."""
    return root if "://" in str(root) else str(directory / Path(str(root)).expanduser())


def _entries(loader: yaml.SafeLoader, path: Path) -> _Layer:
    """Return each key with the text of its scalar: YAML would read `off` as False."""
    root = loader.get_single_node()
    if root is None:
        return _Layer({}, {})
    if not isinstance(root, yaml.MappingNode):
        raise SettingsError(f"{path}:{root.start_mark.line + 1}: expected lines `name: value`")
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for key, node in root.value:
        place = f"{path}:{key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode):
            raise SettingsError(f"{place}: expected lines `name: value`")
        if key.value in values:
            raise SettingsError(f"{place}: {key.value!r} is given twice: remove one")
        if not isinstance(node, yaml.ScalarNode) and key.value in NAMES:
            raise SettingsError(f"{place}: {key.value}: expected one value, got a {node.id}")
        is_null = loader.construct_object(node) is None
        values[key.value], places[key.value] = None if is_null else node.value, place
    return _Layer(values, places)
