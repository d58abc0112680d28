"""Names of efforts and sessions, and turn numbers as people write them."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import accumulate
from urllib.parse import quote, unquote

from ..prompts.loader import render
from .errors import SettingsError, ToolError
from .turn import Session

_RANGE = re.compile(r"\s*(\d{1,9})\s*(?:[-–]\s*(\d{1,9})\s*)?")
"""A turn, or two with a dash between them; no session has a turn of ten digits."""

_LIMIT = 100_000  # numbers in a list of ranges at most: `1-999999999` would fill the memory


def numbers(text: str) -> frozenset[int]:
    """Return the turn numbers of a list of ranges; raise `ToolError` if it is none.

    >>> sorted(numbers("3-5, 8"))
    [3, 4, 5, 8]
    """
    turns: set[int] = set()
    for part in filter(str.strip, text.split(",")):
        match = _RANGE.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not 0 <= last - first < _LIMIT - len(turns):
            raise ToolError(render("turns_no_ranges", turns=repr(text[:80])))
        turns.update(range(first, last + 1))
    return frozenset(turns)


def ranges(turns: Sequence[int]) -> str:
    """Write ascending turn numbers as a list of ranges, the inverse of `numbers`.

    >>> ranges([3, 4, 5, 8])
    '3-5,8'
    """
    return ",".join(span(first, last) for first, last in runs(turns))


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and the last of each run of ascending numbers.

    >>> runs([3, 4, 5, 8])
    [(3, 5), (8, 8)]
    """
    found: list[tuple[int, int]] = []
    for number in numbers:
        first = found.pop()[0] if found and number == found[-1][1] + 1 else number
        found.append((first, number))
    return found


def turns_named(listed: str) -> str:
    """Return a list of ranges with the word 'turn' or 'turns' before it.

    >>> turns_named("4-6,8"), turns_named("7")
    ('turns 4-6,8', 'turn 7')
    """
    return f"turn{'' if listed.isdecimal() else 's'} {listed}"


def ranges_between(turns: Sequence[int], last: int) -> str:
    """Write the numbers from 1 to `last` without the ascending `turns` as a list of ranges.

    >>> ranges_between([3, 7, 8], 9), ranges_between([1, 2], 2)
    ('1-2,4-6,9', '')
    """
    ends = zip([0, *turns], [*turns, last + 1], strict=True)
    gaps = ((before + 1, after - 1) for before, after in ends if after - before > 1)
    return ",".join(span(first, end) for first, end in gaps)


def span(first: int, last: int) -> str:
    """Write a range of numbers, a single one as itself.

    >>> span(2, 9), span(2, 2)
    ('2-9', '2')
    """
    return str(first) if first == last else f"{first}-{last}"


SLUG_LENGTH = 64
"""Characters of an effort's name at most: the width of a table's column."""

_NAME_BYTES = 200  # bytes of a file name at most: file systems take 255, and suffixes are added

# Variation selectors and keycaps, which change the look of the character before them.
_SELECTORS = re.compile("[\ufe00-\ufe0f\u20e3\U000e0100-\U000e01ef]")
_ASCII = re.compile("[a-z0-9]+")
# Parts of Korean syllables, which some file systems compose.
_JAMO = re.compile("[\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff]")
# File names that Windows reserves for devices.
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul"}
    | {port + digit for port in ("com", "lpt") for digit in "0123456789¹²³"}
)
_EMPTY, _HASHED = "%", "~"  # the file name of the empty text, and the mark before a hash
_DIGITS = 32  # hexadecimal digits of the hash in a file name: 128 bits, so that no two names meet


def slug(name: str) -> str:
    """Return the id of an effort: its words, letters and digits of any script, joined by hyphens.

    Raises `ToolError` for path syntax, more than 64 characters, and a name without words.

    >>> slug("Fix the Auth Bug!")
    'fix-the-auth-bug'
    """
    text = unicodedata.normalize("NFKC", name)
    slugged = hyphenated(text)
    if ".." in name or "/" in text or "\\" in text:
        problem = render("like_a_path")
    elif not slugged:
        problem = render("without_letters")
    elif len(slugged) > SLUG_LENGTH:
        problem = render("too_long", characters=len(slugged))
    else:
        return slugged
    quoted = name if len(name) <= SLUG_LENGTH else f"{name[:SLUG_LENGTH]}…"
    which = {"name": repr(quoted), "problem": problem}
    raise ToolError(render("no_name_of_an_effort", **which, most=SLUG_LENGTH))


def hyphenated(text: str) -> str:
    """Return the words of a text in lower case, joined by hyphens.

    Accents and vowel signs stay on their letter; an invisible soft hyphen divides no word.

    >>> hyphenated("Is the Auth Bug fixed?")
    'is-the-auth-bug-fixed'
    """
    lower = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).lower())
    if lower.isascii():
        return "-".join(_ASCII.findall(lower))
    plain = _SELECTORS.sub("", lower)
    kinds = {character: unicodedata.category(character) for character in {*plain}}
    marks = "".join(one for one, kind in kinds.items() if kind in {"Mn", "Mc"})
    # One character at a time takes seconds for a long text.
    apart = {one for one in kinds if not one.isalnum() and one not in marks}
    plain = plain.translate({ord(one): "" if kinds[one] == "Cf" else " " for one in apart})
    if marks:  # those on no letter divide words
        plain = re.sub(rf"(?:(?<= )|^)[{re.escape(marks)}]+", " ", plain)
    return "-".join(plain.split())


def safe_name(text: str) -> str:
    """Return a file name of at most `_NAME_BYTES` for any text, different for each text.

    Characters that a file system may fold, forbid or reserve are written as `%xx`; a long name is
    cut and ends in a hash.

    >>> safe_name("Über/uns"), safe_name("con"), safe_name("")
    ('%c3%9cber%2funs', '%63on', '%')
    """
    pieces = [character if _is_stable(character) else _quote(character) for character in text]
    if not pieces:
        return _EMPTY
    if text[0] == "." or text.partition(".")[0] in _DEVICES:
        pieces[0] = _quote(text[0])
    if text[-1] == ".":
        pieces[-1] = _quote(text[-1])
    name = "".join(pieces)
    if len(name.encode()) <= _NAME_BYTES:
        return name
    room = _NAME_BYTES - _DIGITS - len(_HASHED)
    ends = accumulate(len(piece.encode()) for piece in pieces)
    beginning = "".join(pieces[: sum(end <= room for end in ends)])
    return f"{beginning}{_HASHED}{_digest(text)[:_DIGITS]}"


def _is_stable(character: str) -> bool:
    """Tell whether every file system keeps this character and tells it from all others."""
    if character in "-_.":
        return True
    stable = (
        character == character.casefold() == character.upper().casefold()
        and unicodedata.normalize("NFC", character) == character
    )
    return character.isalnum() and stable and not _JAMO.match(character)


def _quote(character: str) -> str:
    return "".join(f"%{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_ODD = re.compile(r"[^\w.:-]")
"""A character that is percent-encoded in a session's name, such as space, slash and `@`."""

_LONGEST = 80  # characters of a session's name before it is cut and ends in a hash
_KEY = 12  # hexadecimal digits of that hash: 48 bits

_FACT = re.compile(r"(.+)/(turn-\d+/fact-\d+)")
"""The id of a fact or rule that a turn of a session said."""

_NAMESPACE, _EFFORT = "@", "/"
"""The marks before a namespace and before an effort; inside names both are percent-encoded."""


def session_name(session: Session) -> str:
    """Return the name of a session: its thread and namespace, percent-encoded to one word.

    A long name is cut and ends in a hash.

    >>> session_name(Session("ann", "t1")), session_name(Session("ann", "Büro 2/a", "sub"))
    ('t1', 'Büro%202%2Fa@sub')
    """
    name = _quoted(session.thread)
    if session.namespace:
        name += f"{_NAMESPACE}{_quoted(session.namespace)}"
    if len(name) <= _LONGEST:
        return name
    digest = _digest(f"{session.thread}\0{session.namespace}")
    return f"{name[:_LONGEST]}{_HASHED}{digest[:_KEY]}"


def session_label(session: Session) -> str:
    """Return the name of a session as people read it: its thread, and its namespace if any.

    >>> session_label(Session("ann", "trip", namespace="home"))
    'trip (home)'
    """
    return f"{session.thread} ({session.namespace})" if session.namespace else session.thread


def session_called(text: str) -> str:
    """Return the name of the session that a text means, by its name or by its bare thread.

    >>> session_called("planning%202026"), session_called("planning 2026")
    ('planning%202026', 'planning%202026')
    """
    thread, _, namespace = text.partition(_NAMESPACE)
    try:
        is_name = session_name(Session("", unquote(thread), unquote(namespace))) == text
        # A name that was cut cannot be built again from its text.
        is_cut = len(text) == _LONGEST + len(_HASHED) + _KEY
        return text if is_name or is_cut else session_name(Session("", text))
    except SettingsError:  # it has control characters, and no session has
        return text


def qualified(session: Session, effort_id: str) -> str:
    """Return the id of an effort in other sessions.

    >>> qualified(Session("ann", "t1"), "auth-bug")
    't1/auth-bug'
    """
    return f"{session_name(session)}{_EFFORT}{effort_id}"


def is_qualified(effort_id: str) -> bool:
    """Tell whether an id includes a session; names of efforts have no slash.

    >>> is_qualified("t1/auth-bug"), is_qualified("auth-bug")
    (True, False)
    """
    return _EFFORT in effort_id


def parted(effort_id: str) -> tuple[str, str]:
    """Return the session's name and the effort of a qualified id.

    >>> parted("t1/auth-bug"), parted("auth-bug"), parted("t1/turn-3/fact-1")
    (('t1', 'auth-bug'), ('', 'auth-bug'), ('t1', 'turn-3/fact-1'))
    """
    if fact := _FACT.fullmatch(effort_id):
        return fact[1], fact[2]
    session, _, effort = effort_id.rpartition(_EFFORT)
    return session, effort


def _quoted(text: str) -> str:
    return _ODD.sub(lambda odd: quote(odd[0], safe="", errors="surrogatepass"), text)
