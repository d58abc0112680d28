"""The page of settings is made from the code."""

from tests.settings_page import PAGE, made


def test_the_page_of_settings_is_up_to_date() -> None:
    """What stands in the page is what `make docs` would write."""
    kept = PAGE.read_text(encoding="utf-8")

    assert kept == made(), "run `make docs`"
