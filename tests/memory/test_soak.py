"""Random conversations by the thousand: no context breaks the budget, a pair, or the prefix."""

import pytest

from ebbtide.memory.tokens import TokenCounter, count
from tests.memory.conversations import count_words
from tests.memory.soaking import VIOLATIONS, soak

NONE = dict.fromkeys(VIOLATIONS, 0)


@pytest.mark.soak
@pytest.mark.parametrize("counter", [count_words, count], ids=["words", "tokens"])
@pytest.mark.parametrize("seed", range(1, 251))
def test_a_million_contexts(seed: int, counter: TokenCounter) -> None:
    """Invariants 1, 5 and 7 hold in each of 2,000 contexts, times 500, in words and in tokens."""
    found = soak(seed, contexts=2_000, count=counter)

    assert found["contexts"] >= 2_000
    assert found | NONE == found
