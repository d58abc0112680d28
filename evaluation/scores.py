"""The scores of a context that need no model: what it takes, and what its quotes are worth."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias

from langchain_core.messages import AnyMessage, message_to_dict
from rapidfuzz import fuzz

from ..memory.efforts import one_line
from ..memory.embeddings import Embedder
from ..memory.tokens import count_messages
from .strategy_protocol import Context, as_messages, transcript
from .template import Point

THRESHOLD = 0.85
"""The likeness from which on a quote that is not the same may stand for a sentence."""

Table: TypeAlias = list[list[float]]
Alike: TypeAlias = Callable[[Sequence[str], Sequence[str]], Table]
"""Gives the likeness, 0 to 1, of each text of one side with each of the other."""


def lexical(ours: Sequence[str], truth: Sequence[str]) -> Table:
    """Return how alike texts are by their letters (rapidfuzz's ratio).

    >>> [[round(value, 2) for value in row] for row in lexical(["port 80"], ["port 81", "a"])]
    [[0.86, 0.0]]
    """
    return [[fuzz.ratio(quote, sentence) / 100 for sentence in truth] for quote in ours]


def by_meaning(embedder: Embedder, ours: Sequence[str], truth: Sequence[str]) -> Table:
    """Return how alike texts are by what they mean to an embedding model."""
    products = embedder.documents(ours) @ embedder.documents(truth).T
    table: Table = products.clip(0, 1).tolist()
    return table


def scores(point: Point, context: Context, embedder: Embedder | None) -> dict[str, Any]:
    """Return the scores at a point by their names, those of quotes if the strategy chooses some.

    Constraints count that stand in the context word for word. The verbatim rate is the share of
    quotes that stand in a turn; `fabricated` are those that do not, and those that the strategy
    dropped itself. What the template knows no truth for is None, or not there.
    """
    before, after = size(as_messages(point.turns)), size(context.messages)
    text, rules = one_line(transcript(context.messages)), point.constraints
    found: dict[str, Any] = {
        "tokens_before": before,
        "tokens_after": after,
        "compression_ratio": after / before,
        "constraints_in_context": fmean(rule in text for rule in rules) if rules else None,
        "fallbacks": context.fallbacks,
    }
    if (quotes := context.quotes) is None:
        return found
    verbatim = sum(map(point.says, quotes))
    found["quotes"] = len(quotes)
    found["verbatim_rate"] = verbatim / len(quotes) if quotes else None
    found["fabricated"] = len(quotes) - verbatim + (context.fabricated or 0)
    true = point.salient(context.through)
    if true is not None:
        alike = partial(by_meaning, embedder) if embedder else lexical
        salience = agreement(point.template.as_salient(quotes), true, alike, point.given)
        found |= {f"salience_{name}": value for name, value in salience._asdict().items()}
    return found


def size(messages: Sequence[AnyMessage]) -> int:
    """Return the tokens of messages, as OpenAI bills them."""
    return count_messages([message_to_dict(message) for message in messages])


class Agreement(NamedTuple):
    """How many of the quotes are right, how many of the sentences are found; None if undefined."""

    precision: float | None
    recall: float | None
    f1: float | None


def matches(
    quotes: Sequence[str], truth: Sequence[str], alike: Alike = lexical
) -> tuple[tuple[int, int], ...]:
    """Return the pairs (quote, sentence), by position; no quote and no sentence has two.

    Pairs of the same words, white space aside, come first; of the others as many as possible are
    paired that are alike by `THRESHOLD` at least, or of which one is half of the other or more,
    word for word; the likest quotes come first.

    >>> matches(["The port is 80.", "The port is 80."], ["The port is 80.", "It rains."])
    ((0, 0),)
    """
    unpaired = {at: one_line(sentence) for at, sentence in enumerate(truth)}
    others: dict[int, str] = {}
    same = []
    for at, quote in enumerate(map(one_line, quotes)):
        place = next((place for place, sentence in unpaired.items() if sentence == quote), None)
        if place is None:
            others[at] = quote
        else:
            same.append((at, place))
            del unpaired[place]
    owners = assigned(_choices(others, unpaired, alike))
    return tuple(sorted([*same, *((at, place) for place, at in owners.items())]))


def agreement(
    quotes: Sequence[str],
    truth: Sequence[str],
    alike: Alike = lexical,
    free: Sequence[str] = (),
) -> Agreement:
    """Return precision, recall and F1 of quotes against the truth.

    Quotes of sentences that are `free` are left out: they are neither right nor wrong. Precision is
    undefined without other quotes, recall without truth, F1 unless both are defined.

    >>> agreement(["It rains.", "So what?"], ["It rains."])
    Agreement(precision=0.5, recall=1.0, f1=0.6666666666666666)
    """
    right = {at for at, _ in matches(quotes, truth, alike)}
    others = [quote for at, quote in enumerate(quotes) if at not in right]
    hits, counted = len(right), len(quotes) - len(matches(others, free, alike))
    precision = hits / counted if counted else None
    recall = hits / len(truth) if truth else None
    if precision is None or recall is None:
        return Agreement(precision, recall, None)
    both = precision + recall
    return Agreement(precision, recall, 2 * precision * recall / both if both else 0.0)


def _choices(
    quotes: Mapping[int, str], truth: Mapping[int, str], alike: Alike
) -> dict[int, list[int]]:
    """Return for each quote the sentences it may stand for, by position, the likest first."""
    if not (quotes and truth):
        return {}
    likeness = {}
    table = alike([*quotes.values()], [*truth.values()])
    for (at, quote), row in zip(quotes.items(), table, strict=True):
        for (place, sentence), value in zip(truth.items(), row, strict=True):
            short, long = sorted((quote, sentence), key=len)
            if value >= THRESHOLD or (short in long and 2 * len(short) >= len(long)):
                likeness[at, place] = value
    choices: dict[int, list[int]] = {}
    for at, place in sorted(likeness, key=lambda pair: -likeness[pair]):
        choices.setdefault(at, []).append(place)
    return choices


def assigned(choices: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Return for each sentence the quote that it goes to: as many quotes have one as can.

    `choices` has for each quote the sentences that it may have, the best ones first; of quotes that
    cannot all have one the first ones do. The method is that of augmenting paths (H. W. Kuhn, "The
    Hungarian method for the assignment problem", 1955).

    >>> assigned({0: [0, 1], 1: [0]})
    {0: 1, 1: 0}
    """
    owners: dict[int, int] = {}

    def placed(quote: int, tried: set[int]) -> bool:
        for sentence in choices[quote]:
            if sentence not in tried:
                tried.add(sentence)
                if sentence not in owners or placed(owners[sentence], tried):
                    owners[sentence] = quote
                    return True
        return False

    for quote in choices:
        placed(quote, set())
    return owners
