"""Names: slugs for efforts, and file names that hold any text reversibly."""

import hashlib
import re
import unicodedata

from .errors import ToolError

SLUG_LENGTH = 64
NAME_BYTES = 200

_SELECTORS = re.compile("[\ufe00-\ufe0f\u20e3\U000e0100-\U000e01ef]")
_ASCII = re.compile("[A-Za-z0-9]+")
_QUOTED = re.compile(rb"%([0-9a-f]{2})")
_JAMO = re.compile("[\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff]")
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul"}
    | {port + digit for port in ("com", "lpt") for digit in "0123456789¹²³"}
)
_EMPTY, _HASHED, _DIGITS = "%", "~", 32


def slug(name: str) -> str:
    """Return the id of an effort: words of letters and digits of any script, joined by hyphens.

    Raises `ToolError` for path syntax, for more than 64 characters, and if nothing is left.

    >>> slug("Fix the Auth Bug!")
    'fix-the-auth-bug'
    """
    text = unicodedata.normalize("NFKC", name)
    if ".." in name or "/" in text or "\\" in text:
        raise ToolError(_refused(name, "looks like a path"))
    slugged = hyphenated(text)
    if not slugged:
        raise ToolError(_refused(name, "has no letters or digits"))
    if len(slugged) > SLUG_LENGTH:
        raise ToolError(_refused(name, f"has {len(slugged)} characters"))
    return slugged


def hyphenated(text: str) -> str:
    """Return the words of any text as ids have them: lower case, joined by hyphens.

    >>> hyphenated("Is the Auth Bug fixed?")
    'is-the-auth-bug-fixed'
    """
    lower = unicodedata.normalize("NFKC", text).lower()
    return "-".join(_words(unicodedata.normalize("NFKC", lower)))


def safe_name(text: str, limit: int = NAME_BYTES) -> str:
    """Return a file name for any text, at most `limit` bytes long, another one for each text.

    Whatever a file system might fold, forbid or reserve is written as `%xx`; what is too long
    keeps its beginning and ends in a hash.

    >>> safe_name("Über/uns"), safe_name("con"), safe_name("")
    ('%c3%9cber%2funs', '%63on', '%')
    """
    pieces = [character if _plain(character) else _quote(character) for character in text]
    if not pieces:
        return _EMPTY
    reserved = text.partition(".")[0] in _DEVICES
    if reserved or text[0] == ".":
        pieces[0] = _quote(text[0])
    if text[-1] == ".":
        pieces[-1] = _quote(text[-1])
    name = "".join(pieces)
    return name if len(name.encode()) <= limit else _hashed(text, pieces, limit)


def original(name: str) -> str | None:
    """Return the text that `safe_name` made this name of; None for hashed and foreign names.

    >>> original("%c3%9cber%2funs")
    'Über/uns'
    """
    if name == _EMPTY:
        return ""
    quoted = _QUOTED.sub(lambda match: bytes([int(match[1], 16)]), name.encode("utf-8", "replace"))
    try:
        text = quoted.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    return text if safe_name(text) == name else None


def _refused(name: str, why: str) -> str:
    shown = name if len(name) <= SLUG_LENGTH else f"{name[:SLUG_LENGTH]}…"
    return (
        f"effort name {shown!r} {why}: use a short name of letters, digits and hyphens, "
        f"at most {SLUG_LENGTH} characters, such as 'auth-bug'"
    )


def _words(text: str) -> list[str]:
    """Split text into runs of letters and digits; accents and vowel signs stay on their letter."""
    if text.isascii():
        return _ASCII.findall(text)
    kept = ""
    for character in _SELECTORS.sub("", text):
        mark = kept[-1:].strip() and unicodedata.category(character) in {"Mn", "Mc"}
        kept += character if mark or character.isalnum() else " "
    return kept.split()


def _plain(character: str) -> bool:
    """Tell whether no file system would change this character or mistake it for another."""
    if character in "-_.":
        return True
    stable = (
        character == character.casefold() == character.upper().casefold()
        and unicodedata.normalize("NFC", character) == character
    )
    return character.isalnum() and stable and not _JAMO.match(character)


def _quote(character: str) -> str:
    return "".join(f"%{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


def _hashed(text: str, pieces: list[str], limit: int) -> str:
    room = limit - _DIGITS - len(_HASHED)
    beginning = ""
    for piece in pieces:
        if len((beginning + piece).encode()) > room:
            break
        beginning += piece
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{beginning}{_HASHED}{digest[:_DIGITS]}"
