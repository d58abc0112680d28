"""Whether a newer sentence says the same as an older one, or what stands in its place."""

from .claims import Claim
from .markers import CLASSES, GENERIC
from .quantities import Quantity


def same(one: Claim, other: Claim) -> bool:
    """Tell whether two alike texts say the same: no number, name, denial or condition differs.

    >>> from .claims import claim
    >>> same(claim("Keep 3 copies."), claim("Three copies are kept."))
    True
    >>> same(claim("Copy it from A to B."), claim("Copy it from B to A."))
    False
    """
    said, too = ((told.core, told.values, told.denied, told.mode) for told in (one, other))
    return said == too and _in_order(one, other)


def supersedes(newer: Claim, older: Claim, likeness: float, threshold: float) -> bool:
    """Tell whether what the older text claims no longer holds; in doubt it does.

    >>> from .claims import claim
    >>> supersedes(claim("Keep 5 copies."), claim("Keep 3 copies."), 0.9, 0.85)
    True
    >>> supersedes(claim("Room 5 has 25 seats."), claim("Room 4 has 20 seats."), 0.9, 0.85)
    False
    """
    if "?" in newer.mode:
        return False
    if newer.revoked and _revokes(newer, older):
        return True
    if older.revoked and newer.cue and _returns(newer, older):
        return True
    if newer.core == older.core:
        return bool(newer.core) and _differs(newer, older)
    return (
        newer.cue
        and _replaces(newer, older)
        and (likeness > threshold or bool((newer.core & older.core) - GENERIC))
    )


def _revokes(newer: Claim, older: Claim) -> bool:
    """Tell whether the newer text names what the older one says, as what is gone."""
    said: frozenset[str | Quantity] = older.core | {*older.values}
    if not newer.revoked <= said or newer.denied != older.denied:
        return False
    rest = older.core - newer.revoked - GENERIC - newer.core
    numbers = {*older.values} - newer.revoked - {*newer.values}
    kinds = frozenset() if newer.core & CLASSES else CLASSES
    scope = newer.scoped - older.core
    return not (rest - kinds or numbers or scope)


def _returns(newer: Claim, older: Claim) -> bool:
    """Tell whether the newer text goes back to what the older one revoked."""
    said: frozenset[str | Quantity] = newer.core | {*newer.values}
    rest = older.core - {*older.names} - GENERIC - newer.core
    more = newer.core - older.revoked - GENERIC - older.core
    return older.revoked <= said and not rest and not more and newer.denied == older.denied


def _differs(newer: Claim, older: Claim) -> bool:
    """Tell whether two texts on the same subject give it another value."""
    if (newer.vague and not newer.cue) or not _in_order(newer, older):
        return False
    if len(newer.values) != len(older.values):
        return False
    pairs = zip(newer.values, older.values, strict=True)
    changed = [(new, old) for new, old in pairs if new != old]
    if newer.denied != older.denied:
        return not changed and not (newer.denied and older.denied)
    if not changed:
        return newer.cue and newer.mode != older.mode
    alike = len(changed) == 1 and _kind(changed[0][0]) == _kind(changed[0][1])
    return newer.cue or alike


def _in_order(one: Claim, other: Claim) -> bool:
    """Tell whether the words of two texts stand in such an order that they can say the same.

    A text may begin with what another one ends with, and one of them may be passive.
    """
    if len(one.values) > 1 or len(one.denied) > 1:
        return one.words == other.words
    if one.passive != other.passive:
        return True
    return one.names == other.names and _moved(one.words, other.words)


def _moved(words: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Tell whether two rows of words differ at most by where one piece of them stands.

    >>> _moved(("a", "b", "c"), ("c", "a", "b")), _moved(("a", "b", "c"), ("c", "b", "a"))
    (True, False)
    """
    if len(words) != len(others):
        return False
    differ = [at for at in range(len(words)) if words[at] != others[at]]
    if not differ:
        return True
    one, other = (row[differ[0] : differ[-1] + 1] for row in (words, others))
    return any(one[cut:] + one[:cut] == other for cut in range(1, len(one)))


def _replaces(newer: Claim, older: Claim) -> bool:
    """Tell whether the last word of a text was exchanged for another, the rest being the same."""
    fresh, stale = newer.core - older.core, older.core - newer.core
    if len(fresh) != 1 or len(stale) != 1 or newer.denied != older.denied:
        return False
    if newer.values != older.values or len(newer.words) < 2:  # noqa: PLR2004 (a subject and a value)
        return False
    last = newer.words[-1] in fresh and older.words[-1] in stale
    return last and not (fresh & newer.scoped or stale & older.scoped)


def _kind(value: Quantity) -> str:
    return "time" if value.unit in {"ms", "month"} else value.unit
