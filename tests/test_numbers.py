"""The pages that are made from the code are what the code says now."""

import pytest

from tests.numbers import ROOT, pages


@pytest.mark.parametrize("page", pages())
def test_a_page_made_from_the_code_is_up_to_date(page: str) -> None:
    """What stands in the page is what `make docs` would write."""
    kept = (ROOT / page).read_text(encoding="utf-8")

    assert kept == pages()[page], "run `make docs`"
