"""The safety factor: from a provider's figure to the budget that contexts are built for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.context.budget import MOST_FACTOR, effective_budget, safety_factor

FACTORS = st.integers(100, 150).map(lambda hundredths: hundredths / 100)


@pytest.mark.parametrize(
    ("now", "counted", "reported", "expected"),
    [
        (1.0, 1_000, 1_300, 1.3),
        (1.0, 1_000, 1_100, 1.1),
        (1.0, 1_000, 1_001, 1.01),
        (1.0, 3, 4, 1.34),
        (1.0, 1_000, 1_500, 1.5),
        (1.0, 1_000, 3_000, 1.5),
        (1.0, 1, 10**30, 1.5),
        (1.3, 1_000, 1_200, 1.3),
        (1.2, 1_000, 1_300, 1.3),
        (1.3, 1_000, 900, 1.3),
        (1.0, 1_000, 1_000, 1.0),
    ],
)
def test_the_factor_is_the_ratio_in_hundredths_and_never_falls(
    now: float, counted: int, reported: int, expected: float
) -> None:
    """It is rounded up, at most 1.5, and what is below it changes nothing."""
    assert safety_factor(now, counted, reported) == expected


@pytest.mark.parametrize(
    "reported", [None, 0, -5, True, "3000", 3000.0, float("nan"), [3000], {"cache_read": 3000}]
)
def test_what_is_no_number_of_tokens_changes_nothing(reported: Any) -> None:
    """Missing, zero, negative and otherwise typed figures say nothing."""
    assert safety_factor(1.1, 1_000, reported) == 1.1


def test_nothing_counted_changes_nothing() -> None:
    """There is no ratio to nothing."""
    assert safety_factor(1.0, 0, 1_000) == 1.0


@given(FACTORS, st.integers(1, 10**6), st.integers(0, 10**7))
def test_the_factor_stays_in_its_range(now: float, counted: int, reported: int) -> None:
    """Whatever is reported, it is between what it was and the most, and covers the report."""
    factor = safety_factor(now, counted, reported)

    assert now <= factor <= MOST_FACTOR
    assert factor == MOST_FACTOR or factor * counted >= reported - 1e-6


@given(st.integers(2_000, 2_000_000), FACTORS)
def test_the_budget_holds_in_the_provider_s_tokens(budget: int, factor: float) -> None:
    """The effective budget times the factor is the budget, but for less than one token of ours."""
    effective = effective_budget(budget, factor)

    assert effective * factor <= budget + 1e-6
    assert (effective + 1) * factor > budget
