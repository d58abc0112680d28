"""The interface of the attention manager that this project grew from."""

from datetime import UTC, datetime, timedelta

import pytest

from ebbtide.attention import AttentionManager, compute_effective_salience
from ebbtide.memory.attention.law import Attention, Memory
from tests.memory.remembering import USER


def test_it_prunes_and_refreshes_by_the_clock(attention: Attention) -> None:
    """What a message is about comes first beside it, and attention stays as it was."""
    now, manager = datetime.now(UTC), AttentionManager(attention)
    created = now - timedelta(days=21)
    attention.add(USER, Memory("t1/old", 50, created), now=created)

    pruned = manager.prune_attention(USER), manager.prune_attention(USER)
    attention.add(USER, Memory("t1/axios", 50, now, ("axios",)), now=now)
    manager.add_to_attention(USER, "m1", 55.0)
    beside = [*manager.refresh_for_context(USER, "Why axios?"), *manager.get_attention(USER)]

    assert pruned == (1, 0)
    assert beside == ["t1/axios", "m1", "m1", "t1/axios"]
    assert manager.refresh_for_context(USER, "Why axios?", 1) == ["t1/axios"]


def test_a_date_without_a_zone_is_local() -> None:
    """As Python reads it; an hour may be lost where clocks are changed."""
    created = datetime.now(UTC).astimezone() - timedelta(days=20)

    held = compute_effective_salience(50, created.replace(tzinfo=None), 0)

    assert held == pytest.approx(40, abs=0.1)
