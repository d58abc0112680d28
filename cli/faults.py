"""How errors end at the terminal: one line on stderr, without secrets, and never a traceback."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

from ..memory.errors import SettingsError
from .printable import printable

_SECRET = ("_KEY", "_TOKEN", "_SECRET", "PASSWORD")
"""How the names of variables end that hold secrets."""

_IN_URL = re.compile(r"(?<=://)([^\s:/@]*):\S*@")
_IN_QUERY = re.compile(r"(?i)(password=)[^\s&'\"]*")
"""The two places of a password in a database's URL; what stands before it is kept."""

_SHORTEST = 6
"""Characters of a secret that is hidden in errors: shorter ones stand in other words."""

_LONGEST = 500
"""Characters of an error that are shown."""


@contextmanager
def choosing(what: str) -> Iterator[None]:
    """Raise `SettingsError` if what was chosen fails: each provider's package raises its own."""
    try:
        yield
    except Exception as error:
        raise SettingsError(f"{what} cannot be used: {one_line(error, os.environ)}") from error


def one_line(error: BaseException, environment: Mapping[str, str]) -> str:
    r"""Return what an error says in one line; values of secret variables become "***".

    >>> one_line(ValueError("key sk-12345 was\nrefused"), {"OPENAI_API_KEY": "sk-12345"})
    'key *** was refused'
    """
    text = discreet(" ".join(str(error).split()) or type(error).__name__)
    for name, value in environment.items():
        if name.upper().endswith(_SECRET) and len(value) >= _SHORTEST:
            text = text.replace(value, "***")
    text = printable(text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def discreet(text: str) -> str:
    """Return text with "***" for the passwords in its URLs.

    >>> discreet("postgresql://ann:secret@host/db?sslpassword=more")
    'postgresql://ann:***@host/db?sslpassword=***'
    """
    return _IN_QUERY.sub(r"\1***", _IN_URL.sub(r"\1:***@", text))


def installed_version() -> str:
    """Return the version of Ebbtide; a checkout that is not installed has none."""
    try:
        return version("ebbtide")
    except PackageNotFoundError:
        return "of a checkout"
