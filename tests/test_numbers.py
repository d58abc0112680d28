"""The pages that are made from the code are what the code says now."""

import pytest

from tests.numbers import ROOT, pages, rows_of


@pytest.mark.parametrize("page", pages())
def test_a_page_made_from_the_code_is_up_to_date(page: str) -> None:
    """What stands in the page is what `make docs` would write."""
    kept = (ROOT / page).read_text(encoding="utf-8")

    assert kept == pages()[page], "run `make docs`"


def test_every_constant_has_its_reason() -> None:
    """A number of the code says beside it what it bounds, or what was measured with it."""
    scripts = [row for path in ROOT.glob("benchmarks/*.py") for row in rows_of(path)]
    rows = [*pages()["docs/numbers.md"].splitlines(), *scripts]

    assert [row for row in rows if row.endswith("|  |")] == []
