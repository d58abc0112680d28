"""The manifest of an export: readable YAML, and what hands make of it."""

from dataclasses import replace

import yaml
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.archive.manifest import Entry, block, entries, fields
from ebbtide.memory.efforts import Effort
from ebbtide.memory.record import place
from tests.memory.turns import concluded, opened, turn

TEXT = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("\x85\u2028\ufeff\"'\\#:")
)
ENTRIES = st.builds(
    Entry,
    st.builds(
        Effort,
        TEXT,
        st.sampled_from(["open", "concluded"]),
        TEXT,
        st.lists(TEXT, max_size=2).map(tuple),
        TEXT,
        st.lists(TEXT, max_size=2).map(tuple),
        st.integers(0, 100),
        st.integers(0, 10**6),
        st.integers(1, 10**6),
    ),
    TEXT,
    TEXT,
)
NASTY = (
    "🌊 \x85 \u2028\u2029 \x00\x07 \x7f\x9f \ufeff\ufffe\uffff 'q' \"d\" \\ - # : {} [] \t\r\n é"
)
A = Entry(Effort("a", "open", goal="g", turn=1), "main", "2026")


@given(listed=st.lists(ENTRIES, max_size=3))
def test_block_form_is_read_back(listed: list[Entry]) -> None:
    """The readable form holds the same entries."""
    text = block(listed)

    assert yaml.safe_load(text) == [fields(entry) for entry in listed]


def test_nasty_text_is_kept() -> None:
    """Line ends and control characters come back as they were, emoji stand as they are."""
    text = block([Entry(Effort("a", "open", goal=NASTY, turn=1), "main", "")])

    assert yaml.safe_load(text)[0]["goal"] == NASTY
    assert "🌊" in block([replace(A, effort=replace(A.effort, goal="🌊"))])


def test_entries_of_a_record() -> None:
    """A record adds an entry for each status change, with branch and time."""
    group = turn(3, events=[opened("a"), {"type": "switched", "effort": "b"}, concluded("b", "s")])

    listed = entries(place(group, "b1", "", None))

    assert [(entry.effort.id, entry.branch, entry.at) for entry in listed] == [
        ("a", "b1", group.at),
        ("b", "b1", group.at),
    ]
