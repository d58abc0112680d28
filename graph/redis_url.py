"""Attention on Redis for the commands and the server, if the environment names one."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ..memory.archive.sql import SqlArchive
from ..memory.attention.law import Attention
from ..memory.errors import SettingsError
from ..memory.settings import Settings

VARIABLE = "EBBTIDE_REDIS_URL"
"""The variable that names the server; it may hold a password, so it is in no file and no log."""


def redis_attention(
    archive: SqlArchive, settings: Settings, environment: Mapping[str, str]
) -> Attention | None:
    """Return attention cached on the Redis server of the environment, None if it names none.

    Raises `SettingsError` if the extra `redis` is missing, or if the URL is none.
    """
    url = environment.get(VARIABLE)
    if not url:
        return None
    try:
        module: Any = import_module("..memory.redis_attention", __package__)
    except ImportError as error:
        raise SettingsError(
            f"{VARIABLE} needs an extra: pip install 'ebbtide[redis]' ({error})"
        ) from error
    table = archive.attention(settings.attention_threshold)
    try:
        kept: Attention = module.RedisAttention.from_url(url, table)
    except ValueError:
        raise SettingsError(f"{VARIABLE} is no URL such as redis://localhost:6379/0") from None
    return kept
