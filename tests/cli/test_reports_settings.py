"""The table of settings: one row each, made from the class."""

from typing import Literal

import pytest
from pydantic import TypeAdapter

from ebbtide.cli.reports import _row, settings_table
from ebbtide.memory.settings import Settings
from tests.cli.commands_run import run


@pytest.mark.parametrize(
    "row",
    [
        "| setting | default | range | meaning |",
        "| `context_budget` | `16_000` | ≥ 2_000, ≤ 2_000_000 | Tokens of the working context",
        "| `semantic_floor` | `0.3` | ≥ 0, ≤ 1 | Cosine that finds what shares no word",
        "| `user_id` | none | any | Whose memory this is;",
    ],
)
def test_a_row_gives_name_default_range_and_meaning(row: str) -> None:
    """A row says what the class says, numbers grouped."""
    table = settings_table()

    assert row in table


def test_every_setting_has_a_row() -> None:
    """The rows are the fields of the class, in their order."""
    rows = settings_table().splitlines()[2:]

    assert [row.split("`")[1] for row in rows] == list(Settings.model_fields)


@pytest.mark.parametrize("annotation", [Literal["on", "off"], Literal["on", "off"] | None])
def test_the_range_of_a_choice_is_what_may_be_chosen(annotation: type[str]) -> None:
    """A setting that is one of several words lists them; a bar in the meaning is escaped."""
    schema = TypeAdapter(annotation).json_schema() | {"default": "on", "description": "on|off"}

    assert _row("anchor", schema) == "| `anchor` | `on` | `on`, `off` | on\\|off |"


def test_a_setting_without_limits_is_shown_without_a_range() -> None:
    """A range of `any` would say nothing of a folder."""
    shown = run("settings").stdout

    assert "Folder of the archive, or the URL of its database\n" in shown
    assert "any" not in shown
