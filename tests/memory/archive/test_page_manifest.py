"""The manifest of an export: readable YAML, and what hands make of it."""

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.archive.page import as_yaml, entries
from ebbtide.memory.record import place
from tests.memory.turns import concluded, opened, turn

TEXT = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("\x85\u2028\ufeff\"'\\#:")
)
ENTRIES = st.fixed_dictionaries({"id": TEXT, "goal": TEXT, "keywords": st.lists(TEXT, max_size=2)})
NASTY = (
    "🌊 \x85 \u2028\u2029 \x00\x07 \x7f\x9f \ufeff\ufffe\uffff 'q' \"d\" \\ - # : {} [] \t\r\n é"
)


@given(listed=st.lists(ENTRIES, max_size=3))
def test_what_is_written_is_read_back(listed: list[dict[str, Any]]) -> None:
    """The readable form holds the same entries."""
    assert yaml.safe_load(as_yaml(listed)) == listed


def test_nasty_text_is_kept() -> None:
    """Line ends and control characters come back as they were, emoji stand as they are."""
    text = as_yaml([{"goal": NASTY}])

    assert yaml.safe_load(text) == [{"goal": NASTY}]
    assert "🌊" in as_yaml([{"goal": "🌊"}])


def test_entries_of_a_record() -> None:
    """A record adds an entry for each status change, with branch and time."""
    group = turn(3, events=[opened("a"), {"type": "switched", "effort": "b"}, concluded("b", "s")])

    listed = entries(place(group, "b1", "", None))

    assert [(entry["id"], entry["branch"], entry["at"]) for entry in listed] == [
        ("a", "b1", group.at),
        ("b", "b1", group.at),
    ]
