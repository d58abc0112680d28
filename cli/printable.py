"""Text of others at the terminal: printed, never obeyed, nothing hidden but secrets."""

import re
import unicodedata
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

_PICTURES = {chr(code): chr(0x2400 + code) for code in range(32)} | {"\x7f": "\u2421"}
_HIDDEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
) | frozenset(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
"""Fillers and selectors: letters and marks by their category, but there is nothing to see."""

_BASE = (
    "[©®‼⁉™\u2139〰〽㊗㊙\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf"
    "\u2900-\u297f\u2b00-\u2bff\U0001f000-\U0001faff]"
)
# A picture with its skin tone and its look, and what a digit is before it becomes a key.
_SYMBOL = f"{_BASE}[\U0001f3fb-\U0001f3ff]?[\ufe0e\ufe0f]?"
_KEY = "[0-9#*]\ufe0f"
_NOTABLE = re.compile(f"{_KEY}\u20e3|{_SYMBOL}(?:\u200d{_SYMBOL})*|[^ -~]")
"""An emoji as a whole, or a character that may have to be shown otherwise."""

_OPEN = re.compile(f"(?:{_SYMBOL}\u200d)*(?:{_SYMBOL}|{_KEY}?)?\\Z")
"""An emoji at the end that more text may go on with."""

_LONGEST = 64
"""Characters of an emoji that is waited for; families have 11."""

_SECRET = ("_KEY", "_TOKEN", "_SECRET", "PASSWORD")
"""How the names of variables end that hold secrets."""

_IN_URL = re.compile(r"(?<=://)([^\s:/@]*):\S*@")
_IN_QUERY = re.compile(r"(?i)(password=)[^\s&'\"]*")
"""The two places of a password in a database's URL; what stands before it is kept."""

_SHORTEST = 6
"""Characters of a secret that is hidden in errors: shorter ones stand in other words."""

_LONGEST_ERROR = 500
"""Characters of an error that are shown."""


def printable(text: str) -> str:
    r"""Return text of which a terminal shows every character and obeys none, emoji left whole.

    >>> printable("red\x1b[31m \u202e 👩\u200d🔧 a\u200db")
    'red␛[31m \\u202e 👩\u200d🔧 a\\u200db'
    """
    return _NOTABLE.sub(lambda match: _seen(match[0]), text)


def in_line(text: str) -> str:
    r"""Return printable text for a place within a line, such as a name: line ends are seen too.

    >>> in_line("a\nb")
    'a␊b'
    """
    return printable(text).translate({ord(character): _PICTURES[character] for character in "\n\t"})


def unfinished(text: str) -> int:
    r"""Return where an emoji begins that more text may add to; the length of the text if none does.

    >>> unfinished("ok 👩\u200d"), unfinished("ok")
    (3, 2)
    """
    begun = _OPEN.search(text, max(0, len(text) - _LONGEST))
    return begun.start() if begun else len(text)


def _seen(text: str) -> str:
    joined = len(text) > 1 and all(unicodedata.category(character) != "Cn" for character in text)
    return text if joined else "".join(map(_character, text))


def _character(character: str) -> str:
    visible = character.isprintable() or unicodedata.category(character) == "Zs"
    if character in "\n\t" or (visible and character not in _HIDDEN):
        return character
    return _PICTURES.get(character) or character.encode("unicode_escape").decode()


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
    return text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}…"


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
