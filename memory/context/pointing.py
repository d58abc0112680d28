"""Which of several things a message clearly points at, by the keywords that tell them apart."""

from collections.abc import Collection, Mapping

from ..overlap import Name, distinctiveness, having

OVERLAP = 3
SHARE = 0.6
LEAD = 1.0
_DISTINCT_SHARE = 0.5
_ROUNDING = 1e-9


def pointed_at(
    message: Collection[str], vocabulary: Mapping[Name, Collection[str]], count: int
) -> Name | None:
    """Return the one thing that a message clearly points at, else None.

    `vocabulary` says which terms of the message each has, `count` how many things there are. It
    shares three terms that at most half of them have, and three fifths of the weight of all that
    the message says (a term that none has weighs 1), and leads the next best by 1.

    >>> said = {"auth": {"refresh", "token", "login"}, "css": {"login"}}
    >>> pointed_at(["refresh", "token", "login", "expir"], said, 4)
    'auth'
    >>> pointed_at(["login", "page"], said, 4)
    """
    wanted = set(message)
    counted = having(wanted, vocabulary)
    known = max(count, len(vocabulary))
    weights = {term: distinctiveness(known, number) for term, number in counted.items()}
    sums = {name: _sum(weights, wanted.intersection(terms)) for name, terms in vocabulary.items()}
    name = max(sums, key=lambda one: sums[one], default=None)
    if name is None:
        return None
    most = max(1.0, _DISTINCT_SHARE * known)
    distinct = [term for term in wanted.intersection(vocabulary[name]) if counted[term] <= most]
    said = sum(weights.get(term, 1.0) for term in wanted)
    lead = sums[name] - max((value for one, value in sums.items() if one != name), default=0.0)
    enough = sums[name] >= SHARE * said - _ROUNDING
    return name if len(distinct) >= OVERLAP and enough and lead >= LEAD - _ROUNDING else None


def _sum(weights: Mapping[str, float], terms: Collection[str]) -> float:
    return sum(weights[term] for term in sorted(terms))
