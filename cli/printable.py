"""Untrusted text at the terminal: no control character works, secrets are hidden."""

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

import typer
from pydantic_core import to_jsonable_python

_PICTURES = {chr(code): chr(0x2400 + code) for code in range(32)} | {"\x7f": "\u2421"}
_HIDDEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
) | frozenset(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
"""Fillers and selectors: letters and marks by their category, but invisible."""

_EMOJI = "©®‼⁉™\u2139\u2190-\u27ff\u2900-\u2bff〰〽㊗㊙\U0001f000-\U0001faff"
_NOTABLE = re.compile(
    f"((?<=[{_EMOJI}])[\ufe0e\ufe0f]|(?<=[0-9#*])\ufe0f(?=\u20e3)|"
    f"(?:(?<=[{_EMOJI}])|(?<=[{_EMOJI}][\ufe0e\ufe0f]))\u200d(?=[{_EMOJI}]))|[^ -~]"
)
"""What joins the parts of an emoji (the group), or a character that may have to be replaced."""

_SECRET = ("_KEY", "_TOKEN", "_SECRET", "PASSWORD")
"""Ends of the names of variables that hold secrets."""

_IN_URL = re.compile(r"(?<=://)([^\s:/@]*):\S*@")
_IN_QUERY = re.compile(r"(?i)(password=)[^\s&'\"]*")
"""The two places of a password in a database's URL; group 1 is kept."""

_SHORTEST = 6
"""Characters of a secret that is hidden in errors: a shorter one may be part of a word."""

_LONGEST_ERROR = 500
"""Characters of an error that are shown."""


def printable(text: str) -> str:
    r"""Return text of which a terminal shows every character and obeys none; emoji stay whole.

    >>> printable("red\x1b[31m \u202e 👩\u200d🔧 a\u200db")
    'red␛[31m \\u202e 👩\u200d🔧 a\\u200db'
    """
    return _NOTABLE.sub(lambda match: match[1] or _visible(match[0]), text)


def in_line(text: str) -> str:
    r"""Return printable text for one line, such as a name: line ends and tabs are shown too.

    >>> in_line("a\nb")
    'a␊b'
    """
    return printable(text).translate({ord(character): _PICTURES[character] for character in "\n\t"})


def counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _visible(character: str) -> str:
    visible = character.isprintable() or unicodedata.category(character) == "Zs"
    if character in "\n\t" or (visible and character not in _HIDDEN):
        return character
    return _PICTURES.get(character) or character.encode("unicode_escape").decode()


def one_line(error: BaseException, environment: Mapping[str, str]) -> str:
    r"""Return the message of an error in one line; values of secret variables become "***".

    >>> one_line(ValueError("key sk-12345 was\nrefused"), {"OPENAI_API_KEY": "sk-12345"})
    'key *** was refused'
    """
    said = " ".join(str(error).split()) or type(error).__name__
    text = printable(without_secrets(said, environment))
    return text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}…"


def without_secrets(text: str, environment: Mapping[str, str]) -> str:
    """Return text with "***" for the values of secret variables and the passwords in URLs.

    >>> without_secrets("sk-12345 was refused", {"OPENAI_API_KEY": "sk-12345"})
    '*** was refused'
    """
    text = discreet(text)
    for name, value in environment.items():
        if name.upper().endswith(_SECRET) and len(value) >= _SHORTEST:
            text = text.replace(value, "***")
    return text


def discreet(text: str) -> str:
    """Return text with "***" for the passwords in its URLs.

    >>> discreet("postgresql://ann:secret@host/db?sslpassword=more")
    'postgresql://ann:***@host/db?sslpassword=***'
    """
    return _IN_QUERY.sub(r"\1***", _IN_URL.sub(r"\1:***@", text))


def print_json(value: Any) -> None:
    """Print data for programs as JSON, in ASCII, so that no terminal obeys it."""
    typer.echo(json.dumps(to_jsonable_python(value), indent=1))
