"""Which efforts share enough distinctive keywords with a text to be what it is about."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from math import log
from typing import TypeAlias, TypeVar

from .settings import Settings

Vocabulary: TypeAlias = Mapping[str, frozenset[str]]
"""The keywords of efforts, by id."""

Name = TypeVar("Name", bound=Hashable)

_ROUNDING = 1e-9


def about(
    said: Iterable[str], vocabulary: Vocabulary, shown: Iterable[str], settings: Settings
) -> frozenset[str]:
    """Return which of the efforts `shown` a text with these terms is about.

    It shares `min_keyword_overlap` distinctive keywords with them, and their weight reaches
    `reference_share` of the text's terms, or `min_keyword_overlap` if that is less: as many
    keywords that no other effort has are always enough, however long the text.

    >>> known = {"css": frozenset({"colour", "grid", "login"}), "auth": frozenset({"login"})}
    >>> sorted(about(["grid", "colour", "login"], known, ["css", "auth"], Settings()))
    ['css']
    """
    spoken = set(said)
    weighed = weights(spoken, vocabulary)
    overlap, share = settings.min_keyword_overlap, settings.reference_share
    enough = min(overlap, share * len(spoken)) - _ROUNDING
    rare = distinctive(weighed, len(vocabulary), settings.distinctive_share)
    sums = evidence(weighed, {name: vocabulary[name] for name in shown})
    return frozenset(
        name
        for name, weight in sums.items()
        if weight >= enough and len(rare & vocabulary[name]) >= overlap
    )


def distinctiveness(efforts: int, having: float) -> float:
    """Weigh a keyword that `having` of `efforts` have: 1 if one has it, towards 0 if all do.

    >>> [round(distinctiveness(5, having), 2) for having in (1, 2, 5)]
    [1.0, 0.61, 0.1]
    """
    return 1 - log(having) / log(efforts + 1)


def having(said: Collection[str], vocabulary: Mapping[Name, Collection[str]]) -> Counter[str]:
    """Count for each term of a text how many have it as a keyword.

    >>> sorted(having(["a", "b", "c"], {"x": "ab", "y": "b"}).items())
    [('a', 1), ('b', 2)]
    """
    wanted = frozenset(said)
    return Counter(term for known in vocabulary.values() for term in wanted.intersection(known))


def weights(said: Collection[str], vocabulary: Vocabulary) -> dict[str, float]:
    """Weigh the terms of a text that are keywords of any effort."""
    counted = having(said, vocabulary)
    return {term: distinctiveness(len(vocabulary), count) for term, count in counted.items()}


def distinctive(weighed: Mapping[str, float], efforts: int, share: float) -> frozenset[str]:
    """Return the keywords that at most this share of the efforts have, or one of them.

    >>> sorted(distinctive({"a": 1.0, "b": 0.1}, efforts=5, share=0.5))
    ['a']
    """
    least = distinctiveness(efforts, max(1.0, share * efforts)) if efforts else 1.0
    return frozenset(term for term, weight in weighed.items() if weight >= least - _ROUNDING)


def evidence(weighed: Mapping[str, float], vocabulary: Vocabulary) -> dict[str, float]:
    """Sum the weights of the keywords each effort shares with a text.

    A keyword that a better matching effort has too counts by how much worse this one matches.

    >>> evidence({"a": 1.0, "b": 1.0}, {"x": frozenset("ab"), "y": frozenset("b")})
    {'x': 2.0, 'y': 0.5}
    """
    shared = {name: known & weighed.keys() for name, known in vocabulary.items()}
    plain = {name: sum(weighed[term] for term in both) for name, both in shared.items()}
    best: dict[str, float] = {}
    for name, both in shared.items():
        for term in both:
            best[term] = max(best.get(term, 0.0), plain[name])
    return {
        name: sum(weighed[term] * plain[name] / (best[term] or 1.0) for term in sorted(both))
        for name, both in shared.items()
    }
