"""Search the facts and rules of a user's state blocks, whose words no turn need say."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from operator import itemgetter

from ..archive.protocol import Elsewhere
from ..archive.query import Found
from ..dates import When, undated
from ..facts import BASE, Fact
from ..names import session_name
from ..running_turn import Turn
from ..search.terms import indexed, query_terms, tells
from ..turn import Session
from ..view import ArchiveView

_ENOUGH = 0.5
"""Share of a phrasing's terms that a fact must say, as a heading must; with no more it is weak."""

_MOST = 3  # facts in a result: what was said is the evidence, and a fact repeats it
_LONGEST = 2_000  # characters of a fact: a longer one has no room in a result
_CACHED = 5_000  # facts whose terms are cached: 5 MB when full


def fact_hits(
    work: Turn, phrasings: Sequence[str], when: When, hits: Sequence[Found]
) -> list[Elsewhere]:
    """Return the facts and rules of the user that say enough of a phrasing, the best first.

    Faded ones and those that left their block are found too. A fact is left out if `hits` have its
    turn with the same terms of the query, a weak one if any other result is not weak.
    """
    view, words = work.view, [undated(text, when.today) for text in phrasings]
    wanted = [frozenset(terms) for text in words if (terms := query_terms(text))]
    if view.session.anonymous or not wanted:
        return []
    in_turns: dict[tuple[Session, int], frozenset[str]] = {}
    for hit in hits:
        place = hit.branch.session if hit.branch else view.session, hit.turn
        in_turns[place] = in_turns.get(place, frozenset()) | hit.said
    found: list[tuple[float, str, Fact, frozenset[str]]] = []
    for fact in view.archive.facts(view.session.user).values():
        share, said = _matched(fact, wanted)
        is_new = not said <= in_turns.get((fact.session, fact.tip.turn), frozenset())
        if share >= _ENOUGH and is_new and when.includes(fact.at):
            found.append((share, fact.at, fact, said))
    others = any(not hit.weak for hit in hits)
    is_clear = others or any(share > _ENOUGH for share, *_ in found)
    ordered = sorted(found, key=itemgetter(0, 1), reverse=True)
    enough = (one for one in ordered if one[0] > _ENOUGH or not is_clear)
    shown = islice((one for one in enough if _is_seen(view, one[2])), _MOST)
    return [_hit(fact, said, share) for share, _, fact, said in shown]


def _hit(fact: Fact, said: frozenset[str], share: float) -> Elsewhere:
    """Return a fact as a result."""
    effort, weak = fact.effort(BASE[fact.field]), share <= _ENOUGH
    return Elsewhere(fact.session, effort, fact.tip, fact.at, share, said, weak=weak)


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
