"""Qualified ids: `<session>/<effort>`, by which an effort of another session is known.

The session is its thread, quoted so that any text is one short word, and its namespace if any.
"""

import hashlib
import re
from urllib.parse import quote, unquote

from .record import Owner

_PLAIN = re.compile(r"[\w.:-]")
_LONGEST = 80
_DIGITS = 12
_NAMESPACE, _HASHED, _EFFORT = "@", "~", "/"


def session_name(owner: Owner) -> str:
    """Return the name of a session, another one for each session of a user.

    What is too long keeps its beginning and ends in a hash.

    >>> session_name(Owner("ann", "t1")), session_name(Owner("ann", "Büro 2/a", "sub"))
    ('t1', 'Büro%202%2Fa@sub')
    """
    name = _quoted(owner.thread)
    if owner.namespace:
        name += f"{_NAMESPACE}{_quoted(owner.namespace)}"
    if len(name) <= _LONGEST:
        return name
    whole = f"{owner.thread}\0{owner.namespace}".encode("utf-8", "surrogatepass")
    return f"{name[:_LONGEST]}{_HASHED}{hashlib.sha256(whole).hexdigest()[:_DIGITS]}"


def owner_called(name: str, user: str) -> Owner | None:
    """Return the owner whose session has this name, None if the name does not tell: it is hashed.

    >>> owner_called("Büro%202%2Fa@sub", "ann")
    Owner(user='ann', thread='Büro 2/a', namespace='sub')
    """
    thread, _, namespace = name.partition(_NAMESPACE)
    owner = Owner(user, unquote(thread), unquote(namespace))
    return owner if session_name(owner) == name else None


def is_hashed(name: str) -> bool:
    """Tell whether a session's name was too long, so that it does not tell the whole thread."""
    return len(name) == _LONGEST + len(_HASHED) + _DIGITS


def session_called(text: str) -> str:
    """Return the name of the session that somebody calls by its name, or by its bare thread.

    >>> session_called("planning%202026"), session_called("planning 2026")
    ('planning%202026', 'planning%202026')
    """
    known = is_hashed(text) or owner_called(text, "") is not None
    return text if known else session_name(Owner("", text))


def qualified(owner: Owner, effort_id: str) -> str:
    """Return the id by which other sessions know an effort.

    >>> qualified(Owner("ann", "t1"), "auth-bug")
    't1/auth-bug'
    """
    return f"{session_name(owner)}{_EFFORT}{effort_id}"


def is_qualified(effort_id: str) -> bool:
    """Tell whether an id names an effort with its session; names of efforts have no slash."""
    return _EFFORT in effort_id


def parted(effort_id: str) -> tuple[str, str]:
    """Return the session's name and the effort of a qualified id.

    >>> parted("t1/auth-bug")
    ('t1', 'auth-bug')
    """
    session, _, effort = effort_id.rpartition(_EFFORT)
    return session, effort


def _quoted(text: str) -> str:
    return "".join(
        one if _PLAIN.match(one) else quote(one, safe="", errors="surrogatepass") for one in text
    )
