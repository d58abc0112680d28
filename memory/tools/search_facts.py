"""Search the facts and rules of a user's state blocks, whose words no turn need say."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

from ..archive.query import Found
from ..dates import When, undated
from ..facts import Fact, holding
from ..names import session_name
from ..running_turn import Turn
from ..search.terms import indexed, query_terms, tells, unsaid_words
from ..turn import Session
from ..view import ArchiveView

_ENOUGH = 0.5
"""Share of a phrasing's terms that a fact must say, as a heading must; with no more it is weak."""

_MOST = 3  # facts in a result: what was said is the evidence, and a fact repeats it
_LONGEST = 2_000  # characters of a fact: a longer one has no room in a result
_CACHED = 5_000  # facts whose terms are cached: 5 MB when full


@dataclass(frozen=True, slots=True)
class FactHit:
    """A fact or a rule, the share of a phrasing's terms that it says, and these terms.

    One that competes with other hits is the `newest_with` the words that both say.
    """

    fact: Fact
    score: float
    said: frozenset[str]
    newest_with: tuple[str, ...] = ()

    @property
    def weak(self) -> bool:
        """Whether it says little of the query."""
        return self.score <= _ENOUGH

    @property
    def at(self) -> str:
        """When it was said."""
        return self.fact.at


def fact_hits(
    work: Turn, phrasings: Sequence[str], when: When, hits: Sequence[Found]
) -> list[FactHit]:
    """Return the facts and rules of the user that say enough of a phrasing, the best first.

    Faded ones are found too, and before one that is replaced what holds in its place. A fact is
    left out if `hits` have its turn with the same terms of the query, a weak one if any other
    result is not weak.
    """
    view, words = work.view, [undated(text, when.today) for text in phrasings]
    wanted = [frozenset(terms) for text in words if (terms := query_terms(text))]
    if view.session.anonymous or not wanted:
        return []
    in_turns: dict[tuple[Session, int], frozenset[str]] = {}
    for hit in hits:
        place = hit.branch.session if hit.branch else view.session, hit.turn
        in_turns[place] = in_turns.get(place, frozenset()) | hit.said
    facts = view.archive.facts(view.session.user)
    found = [
        hit
        for hit in (FactHit(fact, *_matched(fact, wanted)) for fact in facts.values())
        if hit.score >= _ENOUGH and when.includes(hit.at)
    ]
    found.sort(key=lambda hit: (hit.score, hit.at), reverse=True)
    is_clear = not (all(hit.weak for hit in hits) and all(hit.weak for hit in found))
    enough = [hit for hit in found if not (hit.weak and is_clear)]
    in_force = holding(facts) if enough else {}
    ordered: dict[str, FactHit] = {}
    for one in enough:
        newest = in_force.get(one.fact.id, one.fact)
        if newest is not one.fact and when.includes(newest.at):
            shared = dict.fromkeys(unsaid_words(newest.text, _terms(one.fact.text)))
            ordered[newest.id] = replace(one, fact=newest, newest_with=(*shared,))
        if not one.said <= in_turns.get((one.fact.session, one.fact.tip.turn), frozenset()):
            ordered.setdefault(one.fact.id, one)
    return [*islice((hit for hit in ordered.values() if _is_seen(view, hit.fact)), _MOST)]


def _matched(fact: Fact, wanted: Sequence[frozenset[str]]) -> tuple[float, frozenset[str]]:
    """Return the largest share of a phrasing's terms that a fact says, with these terms."""
    terms = _terms(fact.text)
    found = ((len(terms & asked) / len(asked), terms & asked) for asked in wanted)
    share, said = max(found, key=lambda pair: pair[0])
    is_found = any(map(tells, said)) and len(fact.text) <= _LONGEST
    return (share, said) if is_found else (0.0, said)


@lru_cache(maxsize=_CACHED)
def _terms(text: str) -> frozenset[str]:
    return frozenset(indexed(text))


def _is_seen(view: ArchiveView, fact: Fact) -> bool:
    """Tell whether its turn is on this branch, or on the newest one of another session."""
    session, tip = view.of_session(session_name(fact.session)), fact.tip
    return session is not None and session.past.ids([tip.turn]).get(tip.turn) == tip.id
