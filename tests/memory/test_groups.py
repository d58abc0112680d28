"""Where a tier of turns is cut: previews first, then whole turns, the oldest first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.groups import Cut, Sized, cut_to, most, tokens

GROUPS = [Sized(turn, 0, 100, 40, 20) for turn in (3, 5, 8)]


@st.composite
def tiers(draw: st.DrawFn) -> tuple[list[Sized], list[int]]:
    """Draw turns in up to three sections, each smaller at every level, and the introductions."""
    intros = draw(st.lists(st.integers(1, 20), min_size=1, max_size=3))
    turns = draw(st.lists(st.integers(1, 60), unique=True, max_size=12).map(sorted))
    groups = []
    for turn in turns:
        short, results, now = sorted(draw(st.tuples(*[st.integers(1, 300)] * 3)))
        section = draw(st.integers(0, len(intros) - 1))
        groups.append(Sized(turn, section, now, results, short))
    return groups, intros


@pytest.mark.parametrize(
    ("target", "cut"),
    [
        (310, Cut()),
        (309, Cut(results=5)),
        (249, Cut(results=8)),
        (209, Cut(short=((3, 99), (5, 99), (8, 99)))),
        (69, Cut(first=5, results=8, short=((5, 29), (8, 29)))),
        (29, Cut(first=9, results=8)),
        (0, Cut(first=9, results=8)),
    ],
)
def test_a_cut_goes_as_deep_as_it_must(target: int, cut: Cut) -> None:
    """Turns over the target are shortened, old results become previews, old turns leave."""
    assert cut_to(target, GROUPS, [10], Cut()) == cut


@given(tiers(), st.integers(0, 2_000))
def test_every_target_is_reached(tier: tuple[list[Sized], list[int]], target: int) -> None:
    """However little room there is, what is left fits into it."""
    groups, intros = tier

    assert (
        tokens(groups, intros, cut_to(target, groups, intros, Cut()), most(target, intros))
        <= target
    )


@given(tiers(), st.integers(0, 2_000), st.integers(0, 2_000))
def test_what_was_cut_stays_cut(
    tier: tuple[list[Sized], list[int]], first: int, second: int
) -> None:
    """A second cut begins where the first one ended; nothing comes back."""
    groups, intros = tier
    before = cut_to(first, groups, intros, Cut())
    after = cut_to(second, groups, intros, before)

    assert after.first >= before.first
    assert after.results >= before.results
    assert {*dict(after.short)} >= {turn for turn, _ in before.short if turn >= after.first}


@given(tiers(), st.integers(0, 2_000))
def test_a_cut_is_no_deeper_than_needed(tier: tuple[list[Sized], list[int]], target: int) -> None:
    """Where everything fits, nothing is cut."""
    groups, intros = tier
    whole = tokens(groups, intros, Cut(), 0)

    assert whole > target or cut_to(target, groups, intros, Cut()) == Cut()
