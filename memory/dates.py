"""Dates that a query names: "what did James say in April"."""

import re
from collections.abc import Iterable

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_VERBS = {"march", "may"}
"""Months only with a number, or after a word that says so."""

_DAY = r"(\d{1,2})(?:st|nd|rd|th)?\b"
_NAMED = re.compile(
    rf"(?i)\b(?:{_DAY} (?:of )?|(in|of|during|since|until|by|last|early|late|mid) )?"
    rf"({'|'.join(_MONTHS)})\b(?! \d{{1,2}}:)(?: {_DAY})?(?:,? (\d{{4}})\b)?"
)
_ISO = re.compile(r"\b\d{4}-\d\d(?:-\d\d)?\b")
_YEAR = re.compile(r"(?i)\b(?:in|of|during|since|year) ((?:19|20)\d\d)\b(?!-)")


def dates(query: str, years: Iterable[int]) -> list[str]:
    """Return how the days begin that a query names, in any of these years if it names none.

    >>> dates("What did James say in April?", [2025, 2026])
    ['2025-04', '2026-04']
    >>> dates("on 8 May, 2026", [2026]), dates("you may go on", [2026])
    (['2026-05-08'], [])
    """
    named = list(_NAMED.finditer(query))
    found = [day for one in named for day in _days(one, years)] + _ISO.findall(query)
    return list(dict.fromkeys(found or _YEAR.findall(query)))


def undated(query: str) -> str:
    """Return a query without its dates, which need not be said where they are meant.

    >>> undated("What did James say in April?").split()
    ['What', 'did', 'James', 'say', '?']
    """
    for pattern in (_NAMED, _ISO, _YEAR):
        query = pattern.sub(" ", query)
    return query


def _days(found: re.Match[str], years: Iterable[int]) -> list[str]:
    before, word, month, after, year = found.groups()
    if month.lower() in _VERBS and not (before or word or after or year):
        return []
    day = f"-{int(before or after):02}" if before or after else ""
    number = _MONTHS.index(month.lower()) + 1
    return [f"{one}-{number:02}{day}" for one in ([year] if year else years)]
