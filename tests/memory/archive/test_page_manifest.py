"""The manifest of an export: readable YAML, which no text can break."""

import yaml
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.archive.page import manifest
from ebbtide.memory.record import Record
from tests.memory.turns import concluded, opened, turn

TEXT = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("\x85\u2028\ufeff\"'\\#:")
)
NASTY = (
    "🌊 \x85 \u2028\u2029 \x00\x07 \x7f\x9f \ufeff\ufffe\uffff 'q' \"d\" \\ - # : {} [] \t\r\n é"
)


def written(*events: dict[str, object]) -> str:
    """Return the manifest of a turn with these events."""
    return manifest([Record(3, "b1", "", (), turn(3).at, events=events)])


@given(drawn=st.lists(st.tuples(TEXT, TEXT, st.lists(TEXT, max_size=2)), max_size=3))
def test_what_is_written_is_read_back(drawn: list[tuple[str, str, list[str]]]) -> None:
    """The readable form holds names, texts and lists as they were."""
    events = [concluded(name, text, keywords=words) for name, text, words in drawn]

    entries = yaml.safe_load(written(*events))

    assert [(entry["id"], entry["summary"], entry["keywords"]) for entry in entries] == drawn


def test_nasty_text_is_kept() -> None:
    """Line ends and control characters come back as they were, emoji stand as they are."""
    text = written(opened("a", goal=NASTY))

    assert yaml.safe_load(text)[0]["goal"] == NASTY
    assert "🌊" in written(opened("a", goal="🌊"))


def test_entries_of_a_record() -> None:
    """A record adds an entry for each status change, with its turn and time."""
    entries = yaml.safe_load(
        written(opened("a"), {"type": "switched", "effort": "b"}, concluded("b", "s"))
    )

    at = turn(3).at
    assert [(entry["id"], entry["commit"], entry["at"]) for entry in entries] == [
        ("a", "b1", at),
        ("b", "b1", at),
    ]
