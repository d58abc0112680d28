"""Scores for compressions of your own, without `ebbtide eval`.

>>> collector = MetricsCollector()
>>> collector.collect("a b c d e f", "a b c", ["a b c"], ["a b c"])["salience_recall"]
1.0
"""

from collections.abc import Sequence
from functools import partial
from statistics import fmean

from langchain_core.embeddings import Embeddings

from ..graph.agent import choose_embedder
from ..memory.salience.merge import lexical
from ..memory.tokens import count
from .harness import THRESHOLD, agreement, by_meaning

Scores = dict[str, float | None]
"""Scores by name; None where one is undefined."""


def measure_salience_accuracy(
    extracted: Sequence[str],
    ground_truth: Sequence[str],
    similarity_threshold: float = THRESHOLD,
    *,
    embeddings: Embeddings | str | None = None,
) -> Scores:
    """Return `precision`, `recall` and `f1` of quotes against the sentences that matter.

    Each quote matches at most one sentence: one with the same words, else one that is as similar
    as the threshold, by letters or, with `embeddings` (LangChain's, or "minilm"), by meaning.

    >>> measure_salience_accuracy(["It rains.", "So what?"], ["It rains."])["precision"]
    0.5
    """
    embedder = choose_embedder(embeddings)
    similarity = partial(by_meaning, embedder) if embedder else lexical
    found = agreement(extracted, ground_truth, similarity, threshold=similarity_threshold)
    return dict(found._asdict())


class MetricsCollector:
    """Collects the scores of several compressions."""

    def __init__(self, *, embeddings: Embeddings | str | None = None) -> None:
        """Begin without scores; `embeddings` are those of `measure_salience_accuracy`."""
        self.points: list[Scores] = []
        self._embeddings = embeddings

    def collect(
        self,
        before: str,
        after: str,
        salience_set: Sequence[str] = (),
        ground_truth: Sequence[str] | None = None,
    ) -> Scores:
        """Return the scores of a compression, and keep them.

        Those of salience are missing without ground truth.
        """
        tokens_before, tokens_after = count(before), count(after)
        scores: Scores = {
            "tokens_before": tokens_before,
            "tokens_after": tokens_after,
            "compression_ratio": tokens_after / tokens_before if tokens_before else None,
        }
        if ground_truth is not None:
            found = measure_salience_accuracy(
                salience_set, ground_truth, embeddings=self._embeddings
            )
            scores |= {f"salience_{name}": value for name, value in found.items()}
        self.points.append(scores)
        return scores

    def summary(self) -> Scores:
        """Return the mean of each score over the compressions that have it."""
        names = dict.fromkeys(name for point in self.points for name in point)
        values = {
            name: [value for point in self.points if (value := point.get(name)) is not None]
            for name in names
        }
        return {name: fmean(found) if found else None for name, found in values.items()}
