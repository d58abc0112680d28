"""Of two statements of one fact the newer one first, where it tells that something changed.

To be newer alone is not enough: what mentions a fact in passing is newer too, as often as not.
"""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from .terms import terms

_ALIKE = 0.8
"""Share of the score of the best statement of a fact from which another one is as good."""

_CHANGES = re.compile(
    r"(?i)\b(?:now|actually|instead|no longer|any ?more|after all|these days|from now on|as of|"
    r"chang(?:ed?|es)|switch(?:ed|es)?|moved?|moves|replace[ds]?|renamed|rescheduled|postponed|"
    r"extended|"
    r"jetzt|nun|inzwischen|mittlerweile|stattdessen|nicht mehr|ab sofort|"
    r"ge[aä]ndert|gewechselt|verschoben|verlegt|ersetzt|umgezogen|umbenannt|"
    r"maintenant|désormais|dorénavant|finalement|chang[ée]|remplacé|déplacé|reporté|"
    r"ahora|ya no|finalmente|cambiado|cambió|cambiamos|trasladado|"
    r"adesso|ormai|invece|non più|cambiato|spostato)\b"
    r"|现在|不再|改[成到为在]|换[成到了]"
)
"""Words by which people say that something is no longer as it was."""

_OLDER = re.compile(
    r"(?i)\b(?:original(?:ly)?|initial(?:ly)?|(?:at|very) first|in the (?:beginning|past)|"
    r"previous(?:ly)?|prior|former(?:ly)?|earlier|before|until now|used to|back then|old|"
    r"ursprünglich\w*|anfangs|am anfang|zu beginn|zuerst|früher\w*|vorher\w*|bisher\w*|bislang|"
    r"ehemal\w*|damals|alte[nrms]?|"
    r"avant|auparavant|initiale?(?:ment)?|précéde\w+|au (?:début|départ)|[dl]['’]origine|"
    r"ancien(?:ne)?s?|"
    r"antes|original(?:mente)?|inicial(?:mente)?|anterior(?:es|mente)?|previamente|al principio|"
    r"viej[oa]s?|antigu[oa]s?|"
    r"prima|inizial[ei]|inizialmente|precedente(?:mente)?|precedenti|originariamente|vecchi[oa]?|"
    r"vecchie|all['’]inizio|in origine)\b"
    r"|原来|原先|之前|以前|最初|最早|当初|一开始"
)
"""Words of a query that asks for what was so before."""

_CLAUSES = re.compile(
    r"(?i)[.!?,;:]\s+|[。！？，、；：,]|\n|"
    r"\b(?:and|but|because|while|und|aber|weil|während|et|mais|parce|pero|porque|ma|perché)\b"
)
"""What stands between clauses."""


def asks_for_older(query: str) -> bool:
    """Tell whether a query asks for what was so before.

    >>> asks_for_older("What was the port originally?"), asks_for_older("Which port is it?")
    (True, False)
    """
    return bool(_OLDER.search(query))


class Statement(NamedTuple):
    """A passage that was found: its score, its turn and its text."""

    score: float
    turn: int
    text: str


def newer_first(found: Sequence[Statement], query: AbstractSet[str]) -> list[int]:
    """Return the places of statements, given the best first, with changes before what is older.

    A group is a statement and those behind it that say most of the same terms of the query about as
    well; only within it a change comes before what was so until then. The rest keeps its place.

    >>> said = ["The gate is red", "Lunch at the gate", "The gate is grey now"]
    >>> found = [(9.0, 1, said[0]), (8.9, 3, said[1]), (8.8, 2, said[2])]
    >>> newer_first([Statement(*one) for one in found], {"gate"})
    [2, 0, 1]
    """
    order = [*range(len(found))]
    if not any(_CHANGES.search(one.text) for one in found):
        return order
    says = [query & {*terms(one.text)} for one in found]
    groups: list[list[int]] = []
    for at, one in enumerate(found):
        for group in groups:
            first = group[0]
            if one.score >= _ALIKE * found[first].score and _says_most(says[at], says[first]):
                group.append(at)
                break
        else:
            groups.append([at])
    for group in groups:
        changes = [at for at in group if len(group) > 1 and tells_change(found[at].text, says[at])]
        for place, at in zip(group, _in_order(found, group, changes), strict=True):
            order[place] = at
    return order


def tells_change(text: str, said: AbstractSet[str]) -> bool:
    """Tell whether a clause that says most of this tells that something changed.

    >>> tells_change("The gate is grey now, I moved.", {"gate"})
    True
    >>> tells_change("The gate is grey, I moved.", {"gate"})
    False
    """
    clauses = _CLAUSES.split(text) if _CHANGES.search(text) else []
    return any(
        (_CHANGES.search(clause) or _CHANGES.fullmatch(before.strip()))
        and _says_most({*terms(clause)}, said)
        for before, clause in zip(["", *clauses], clauses, strict=False)
    )


def _in_order(
    found: Sequence[Statement], group: Sequence[int], changes: Sequence[int]
) -> list[int]:
    """Return the places of a group with changes before what is older."""
    order = [*group]
    for at in sorted(changes, key=lambda at: found[at].turn):
        older = (place for place, other in enumerate(order) if found[other].turn < found[at].turn)
        place = min(next(older, len(order)), order.index(at))
        order.remove(at)
        order.insert(place, at)
    return order


def _says_most(said: AbstractSet[str], of: AbstractSet[str]) -> bool:
    return 2 * len(said & of) > len(of)
