"""Search what the context shows no longer of the running turn, which no index has yet."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from math import log

from ..archive.query import Found
from ..context.previews import has_files
from ..context.rounds import out_of_view
from ..running_turn import Turn
from ..search.passages import Passage, passages
from ..search.terms import indexed, query_terms
from ..spans import active_before, spans

_ENOUGH = 0.5
"""Share of a phrasing's terms, by their rarity, that a passage must have: there is no index that
knows what is common, and a long turn says the same words again and again."""

_BEGINNING = 4  # letters of a term that a text must have to be looked at: its stem keeps them


def running_hits(work: Turn, phrasings: Sequence[str], best: float) -> list[Found]:
    """Return the passages of rounds that left the context, or were cut, that say enough.

    Those of attachments of the question too, of whose text the context may show a part. One with
    all terms of a phrasing has the score `best`.
    """
    cut, messages = work.plan.rounds if work.plan else None, work.view.running.messages
    places = {at for at, one in enumerate(messages) if one.type == "human" and has_files(one)}
    places |= out_of_view(messages, cut) if cut else set()
    if not places:
        return []
    wanted = [frozenset(query_terms(phrasing, any_name=True)) for phrasing in phrasings]
    searched = _searched(passages(messages), places, frozenset().union(*wanted))
    said = dict(searched)
    common = Counter(term for found in said.values() for term in found)
    weights = {term: log(1 + len(said) / times) for term, times in common.items()}
    rare = log(1 + len(said))
    rounds = spans(messages, active_before(work.efforts))
    hits = []
    for (number, piece), found in said.items():
        shares = [
            sum(weights[term] for term in terms & found) / sum(weights.get(t, rare) for t in terms)
            for terms in wanted
            if terms
        ]
        if (share := max(shares, default=0.0)) >= _ENOUGH:
            effort = next((name for name, begin, end in rounds if begin <= piece.message < end), "")
            turn = work.view.running.number
            hits.append(Found(effort or None, turn, share * best, found, number))
    return hits


def _searched(
    pieces: Sequence[Passage], places: Collection[int], wanted: frozenset[str]
) -> Iterator[tuple[tuple[int, Passage], frozenset[str]]]:
    beginnings = {term[:_BEGINNING] for term in wanted}
    for number, piece in enumerate(pieces):
        if piece.message in places:
            text = piece.searched.casefold()
            looked_at = any(one in text for one in beginnings)
            found = wanted.intersection(indexed(piece.searched)) if looked_at else ()
            yield (number, piece), frozenset(found)
