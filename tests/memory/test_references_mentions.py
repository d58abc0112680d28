"""The ids that a text mentions."""

import pytest

from ebbtide.memory.banners import banner_of
from ebbtide.memory.references import mentionable, own_words

EVICTED = banner_of("evicted", effort="auth-bug")


@pytest.mark.parametrize(
    "quoted",
    [
        banner_of("opened", effort="auth-bug"),
        banner_of("expanded", effort="auth-bug", tokens=12),
        banner_of("faded", effort="auth-bug", turns=3),
        banner_of("goal_updated", effort="auth-bug"),
        banner_of("constraints_updated", effort="auth-bug"),
        banner_of("paused", effort="auth-bug"),
        banner_of(
            "surfaced", efforts=[f"{'t' * 59}/{number}" for number in range(9)] + ["auth-bug"]
        ),
        f"\r\n{EVICTED}\r\n",
        f"> {EVICTED} ",
        f"What does `{EVICTED}` mean?",
        f"{EVICTED} {EVICTED}",
    ],
)
def test_what_the_memory_wrote_is_no_mention(quoted: str) -> None:
    """Banners are left out, what stands around them is not."""
    said = own_words(f"First css.\n{quoted}\nThen api.")

    assert "auth-bug" not in mentionable(said)
    assert {"css", "api"} <= mentionable(said)
