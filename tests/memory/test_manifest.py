"""The manifest: lines that are JSON and YAML, and what hands make of them."""

from dataclasses import replace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.efforts import Effort
from ebbtide.memory.manifest import (
    Entry,
    Manifest,
    ManifestError,
    block,
    edits,
    entries,
    entry_of,
    fields,
    lacking,
    line,
    parse,
    unknown,
)
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
B = Entry(Effort("b", "concluded", summary="s", turn=2), "main", "2026")


def written(*listed: Entry) -> bytes:
    """Return the manifest of these entries as it is stored."""
    return "".join(map(line, listed)).encode()


@given(listed=st.lists(ENTRIES, max_size=3))
def test_lines_are_json_and_yaml(listed: list[Entry]) -> None:
    """What is written is read back equal, by our reader and by YAML's."""
    data = written(*listed)

    assert parse(data).entries == tuple(listed)
    assert (yaml.safe_load(data) or []) == [fields(entry) for entry in listed]


@given(listed=st.lists(ENTRIES, min_size=1, max_size=3))
def test_block_form_is_read_back(listed: list[Entry]) -> None:
    """The readable form holds the same entries."""
    assert parse(block(listed).encode()).entries == tuple(listed)


def test_nasty_text_is_one_line() -> None:
    """Text full of line ends and control characters stays on one line, emoji as they are."""
    text = line(Entry(Effort("a", "open", goal=NASTY, turn=1), "main", ""))

    assert len(text.splitlines()) == 1
    assert "🌊" in text
    assert yaml.safe_load(text)[0]["goal"] == NASTY


def test_entries_of_a_record() -> None:
    """A record adds an entry for each status change, with branch and time."""
    group = turn(3, events=[opened("a"), {"type": "switched", "effort": "b"}, concluded("b", "s")])

    listed = entries(place(group, "b1", "", None))

    assert [(entry.effort.id, entry.branch, entry.at) for entry in listed] == [
        ("a", "b1", group.at),
        ("b", "b1", group.at),
    ]


@pytest.mark.parametrize("cut", [2, 5, 40, len(written(B)) - 1])
def test_torn_last_line_is_left_out(cut: int) -> None:
    """Half a last line is dropped; what follows must be written on a new one."""
    found = parse(written(A, B)[:-cut])

    assert (found.entries, found.appendable) == ((A,), False)


def test_torn_only_line_is_left_out() -> None:
    """A manifest that is half a line is empty."""
    assert parse(written(A)[:9]) == Manifest((), 0, appendable=False)


def test_missing_end_of_line_is_noticed() -> None:
    """A last line without its end is read, and nothing may be put behind it."""
    assert parse(written(A).rstrip()) == Manifest((A,), 0, appendable=False)


def test_empty_manifest_has_no_entries() -> None:
    """An empty file is an empty manifest."""
    assert parse(b"") == Manifest(())


def test_hand_written_values_are_converted() -> None:
    """Values of another type, as people write them, become what they must mean."""
    key = b"- {id: 401, status: open, turn: 1, branch: main, "

    effort = parse(key + b"keywords: one, summary: 12, importance: 200}").entries[0].effort

    assert (effort.id, effort.keywords, effort.summary) == ("401", ("one",), "12")
    assert (effort.importance, effort.goal) == (100, "")


@pytest.mark.parametrize("data", [b"a: 1", b"- [", b"\xff\xfe\xff", b"x", b"- \x00", b"2026-99-99"])
def test_no_list_is_an_error(data: bytes) -> None:
    """What is no list in YAML is an error."""
    with pytest.raises(ManifestError):
        parse(data)


@pytest.mark.parametrize(
    "item",
    [
        "text",
        {"id": "a"},
        {**fields(A), "turn": "1"},
        {**fields(A), "turn": True},
        {**fields(A), "status": "done"},
        {k: v for k, v in fields(A).items() if k != "branch"},
    ],
)
def test_strange_item_is_no_entry(item: object) -> None:
    """An item without id, status, turn or branch is no entry."""
    assert entry_of(item) is None


def test_strange_items_are_counted() -> None:
    """Items that are no entry are passed over and counted."""
    assert parse(b"- text\n- 1\n" + written(A)) == Manifest((A,), 2, appendable=False)


def test_lacking_are_the_entries_not_there() -> None:
    """Entries of the records that the manifest does not have are found, in order."""
    assert lacking([A, B], Manifest((B,))) == (A,)


def test_later_of_two_equal_keys_is_lacking() -> None:
    """Of two changes of an effort in one turn, the later is the one that was not written."""
    later = replace(A, effort=replace(A.effort, goal="later"))

    assert lacking([A, later], Manifest((A,))) == (later,)


def test_edit_is_another_value_under_the_same_key() -> None:
    """An entry that says something else than its record is an edit."""
    edited = replace(B, effort=replace(B.effort, summary="better"))

    assert edits([A, B], Manifest((A, edited))) == (edited,)


def test_entry_of_no_record_is_unknown() -> None:
    """An entry that no record made is unknown, and no edit."""
    assert unknown([A], Manifest((A, B))) == (B,)
    assert edits([A], Manifest((A, B))) == ()
