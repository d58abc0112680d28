"""Lines: records and references as JSON, and what is none."""

import json

import pytest

from ebbtide.memory.disk.lines import Reference, decode, encode, encode_reference, plain
from ebbtide.memory.record import place
from tests.memory.turns import opened, turn

RECORD = place(turn(3, efforts=["a"], events=[opened("a")]), "b1", "parent", ("main", 2))


def test_record_is_read_back() -> None:
    """A record is read back equal from its line."""
    assert decode(encode(RECORD)) == RECORD


def test_reference_is_read_back() -> None:
    """A reference is read back equal from its line."""
    reference = Reference("main", 3, "raw.jsonl")

    assert decode(encode_reference(reference)) == reference


def test_line_is_one_line() -> None:
    """A line has one end, whatever its text holds."""
    record = place(turn(1, "a\nb\x85c\u2028d"), "main", "", None)

    assert encode(record).count(b"\n") == 1


@pytest.mark.parametrize("cut", [1, 2, 50])
def test_line_without_its_end_is_torn(cut: int) -> None:
    """A line that lacks its end is nothing, even if it is whole but for that."""
    assert decode(encode(RECORD)[:-cut]) is None


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[]",
        "1",
        "null",
        "{}",
        '{"ref": {}}',
        '{"ref": 1}',
        "\x00\x00",
        "[" * 100_000,
        *(
            json.dumps({**json.loads(encode(RECORD)), key: value})
            for key, value in {
                "turn": "3",
                "branch": 1,
                "from": 1,
                "messages": ["text"],
                "events": None,
                "efforts": [1],
            }.items()
        ),
        json.dumps({**json.loads(encode(RECORD)), "messages": [{"type": "ai", "data": 1}]}),
    ],
)
def test_anything_else_is_damaged(body: str) -> None:
    """A line that is no record and no reference is nothing."""
    assert decode(body.encode() + b"\n") is None


def test_odd_keys_become_text() -> None:
    """Keys that JSON has no words for become text."""
    assert plain({1: "a", None: "b", 0.5: "c", (1, 2): "d"}) == {
        "1": "a",
        "null": "b",
        "0.5": "c",
        "tuple": "d",
    }
