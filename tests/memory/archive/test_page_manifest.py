"""The manifest of an export: readable YAML, which no text can break."""

import yaml
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.archive.export import manifest
from ebbtide.memory.turn import StoredTurn
from tests.memory.turns import concluded, opened, turn

TEXT = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("\x85\u2028\ufeff\"'\\#:")
)
NASTY = (
    "🌊 \x85 \u2028\u2029 \x00\x07 \x7f\x9f \ufeff\ufffe\uffff 'q' \"d\" \\ - # : {} [] \t\r\n é"
)


def written(*events: dict[str, object]) -> str:
    """Return the manifest of a turn with these events."""
    return manifest([StoredTurn(3, (), turn(3).at, events=events, id="b1")])


@given(drawn=st.lists(st.tuples(TEXT, TEXT, st.lists(TEXT, max_size=2)), max_size=3))
def test_what_is_written_is_read_back(drawn: list[tuple[str, str, list[str]]]) -> None:
    """The readable form holds names, texts and lists as they were."""
    events = [concluded(name, text, keywords=words) for name, text, words in drawn]

    entries = yaml.safe_load(written(*events))

    last = {name: (name, text, words) for name, text, words in drawn}
    found = [(entry["id"], entry["summary"], entry["keywords"]) for entry in entries]
    assert found == [*last.values()]


def test_nasty_text_is_kept() -> None:
    """Line ends and control characters come back as they were, emoji stand as they are."""
    text = written(opened("a", goal=NASTY))

    assert yaml.safe_load(text)[0]["goal"] == NASTY
    assert "🌊" in written(opened("a", goal="🌊"))


def test_effort_has_one_entry() -> None:
    """However often it changed, it stands there once, with its turns, as it is now."""
    at = turn(3).at
    turns = [
        StoredTurn(1, (), at, ("a",), (opened("a", goal="g"),), id="a1"),
        StoredTurn(2, (), at, ("a",), (opened("b"),), id="a2", parent="a1"),
        StoredTurn(
            2, (), at, events=(concluded("a", "Over."),), status="command", id="a3", parent="a2"
        ),
    ]

    first, second = yaml.safe_load(manifest(turns))

    known = [first[key] for key in ("id", "status", "summary", "turns", "commit")]
    assert known == ["a", "concluded", "Over.", "1-2", "a3"]
    assert (second["id"], second["status"], second["turns"]) == ("b", "open", "")


def test_effort_stands_as_the_newest_branch_left_it() -> None:
    """What another branch did later to an effort of the same name does not count."""
    at = turn(3).at
    turns = [
        StoredTurn(1, (), at, ("a",), (opened("a"),), id="a1"),
        StoredTurn(2, (), at, ("a",), (concluded("a", "Left."), opened("b")), id="b2", parent="a1"),
        StoredTurn(2, (), at, ("a",), id="a2", parent="a1"),
    ]

    entries = yaml.safe_load(manifest(turns))

    assert [(one["id"], one["status"], one["turns"]) for one in entries] == [
        ("a", "open", "1-2"),
        ("b", "open", ""),
    ]
