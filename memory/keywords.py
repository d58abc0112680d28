"""How much keywords say, and which efforts a text with these words is about."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from math import log
from typing import TypeAlias, TypeVar

Keywords: TypeAlias = Mapping[str, float]
"""Keywords, and how much each of them counts: 1 or less."""

_Vocabulary: TypeAlias = Mapping[str, Keywords]
"""The keywords of efforts, by id."""

Name = TypeVar("Name", bound=Hashable)

KEYWORD_OVERLAP = 2
"""Distinctive keywords that make a message a reference. With the weight and the bounds below it is
one operating point, measured together: changing one of them voids the figure of all."""

_REFERENCE_SHARE = 0.2
"""Weight that they must have in the message, a fraction of its terms."""

MOST_KEYWORDS = 200
"""Keywords of one effort."""

_FEW = 0.5
"""The share of the efforts that may have a distinctive keyword; one effort always may."""

_ROUNDING = 1e-9
"""Lest a sum in another order falls below a bound."""


def about(
    said: Iterable[str],
    vocabulary: _Vocabulary,
    shown: Iterable[str],
    recent: Sequence[Collection[str]] = (),
) -> frozenset[str]:
    """Return which of the efforts `shown` a text with these terms is about.

    It shares `KEYWORD_OVERLAP` distinctive keywords with them, and their weight has the share
    `_REFERENCE_SHARE` of the text. `recent` are the terms of recent turns: words that the talk uses
    all the time weigh little.

    >>> known = {"css": {"colour": 1.0, "grid": 1.0, "login": 1.0}, "auth": {"login": 1.0}}
    >>> sorted(about(["grid", "colour", "login"], known, ["css", "auth"]))
    ['css']
    """
    spoken = frozenset(said)
    among = having(spoken, vocabulary)
    rare = {term for term, count in among.items() if count <= max(1, _FEW * len(vocabulary))}
    weighed = weights(among, len(vocabulary), recent)
    sums = evidence(weighed, {name: vocabulary[name] for name in shown})
    return frozenset(
        name
        for name, weight in sums.items()
        if share(weight, spoken) >= _REFERENCE_SHARE - _ROUNDING
        and len(rare & vocabulary[name].keys()) >= KEYWORD_OVERLAP
    )


def share(weight: float, said: Collection[str]) -> float:
    """Return the share of a text that keywords with this weight make up; one term is added to it.

    The fewer terms a text has, the more of them are keywords by chance.

    >>> share(2.0, ["refresh", "token", "expired"])
    0.5
    """
    return weight / (len(said) + 1)


def having(said: Collection[str], vocabulary: Mapping[Name, Collection[str]]) -> Counter[str]:
    """Count for each term of a text how many have it as a keyword.

    >>> sorted(having(["a", "b", "c"], {"x": "ab", "y": "b"}).items())
    [('a', 1), ('b', 2)]
    """
    wanted = frozenset(said)
    return Counter(term for known in vocabulary.values() for term in wanted if term in known)


def weights(
    among: Mapping[str, int], efforts: int, recent: Sequence[Collection[str]] = ()
) -> dict[str, float]:
    """Weigh terms: the fewer efforts and recent turns have one, the more it counts.

    >>> {term: round(weight, 2) for term, weight in weights({"a": 1, "b": 1}, 1, [["b"]]).items()}
    {'a': 1.0, 'b': 0.37}
    """
    heard = having(among, dict(enumerate(recent)))
    most = log(efforts + len(recent) + 1)
    # 1 for what one of them has, towards 0 for what all have.
    return {term: 1 - log(count + heard[term]) / most for term, count in among.items()}


def evidence(weighed: Mapping[str, float], vocabulary: _Vocabulary) -> dict[str, float]:
    """Sum the weights of the keywords each effort shares with a text.

    A keyword that a better matching effort has too counts by how much worse this one matches,
    squared: on LoCoMo that is better than the plain ratio (AUC 0.913 and 0.910).

    >>> evidence({"a": 1.0, "b": 1.0}, {"x": {"a": 1.0, "b": 1.0}, "y": {"b": 1.0}})
    {'x': 2.0, 'y': 0.25}
    """
    shared = {
        name: {term: weighed[term] * known[term] for term in sorted(weighed.keys() & known.keys())}
        for name, known in vocabulary.items()
    }
    plain = {name: sum(both.values()) for name, both in shared.items()}
    best: dict[str, float] = {}
    for name, both in shared.items():
        for term in both:
            best[term] = max(best.get(term, 0.0), plain[name])
    return {
        name: sum(
            weight * (plain[name] / (best[term] or 1.0)) ** 2 for term, weight in both.items()
        )
        for name, both in shared.items()
    }
