"""Blocks are found on lines of their own, however the text comes in, and nothing else is cut."""

import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.state_block import END, START, Cutter, blocks, cut_content

BLOCK = f"{START}\nGoal: x\n{END}"
QUOTE = f"<log 123456789>\n{BLOCK}\n</log 123456789>"
LINES = st.sampled_from(
    [
        *(START, END, f"  {START} ", f"    {START}", f"> {START}", "---ST", "Goal: x", "说 中文"),
        *("", "  ", "```", "````py", "~~~"),
        *("<log 123456789>", "</log 123456789>"),
    ]
)
ENDS = st.sampled_from(["\n", "\r\n", "\n\n", ""])
TEXTS = st.lists(st.tuples(LINES, ENDS), max_size=12).map(
    lambda lines: "".join(line + end for line, end in lines)
)
"""Texts of lines that begin and end blocks and fences, or nearly so; some run into the next."""

TABLE = [
    ("at the end", f"Done.\n\n{BLOCK}\n", "Done.", ["Goal: x\n"]),
    ("in the middle", f"A\n\n{BLOCK}\n\nB", "A\n\nB", ["Goal: x\n"]),
    ("two blocks", f"A\n{BLOCK}\n\n{START}\nb\n{END}\nC", "A\n\nC", ["Goal: x\n", "b\n"]),
    ("empty", f"A\n{START}\n{END}", "A", [""]),
    ("unclosed", f"A\n\n{START}\nGoal: x\n", "A", ["Goal: x\n"]),
    (
        "unclosed, then an answer",
        f"{START}\nGoal: x\n\nFacts: y\n\nIt is.",
        "It is.",
        ["Goal: x\n\nFacts: y\n\n"],
    ),
    ("cut off", f"A\n{START}", "A", [""]),
    ("begun twice", f"{START}\na\n{BLOCK}\nB", "B", ["a\n", "Goal: x\n"]),
    ("ended twice", f"A\n{BLOCK}\n\n{END}\nB", f"A\n\n{END}\nB", ["Goal: x\n"]),
    ("twice unclosed", f"{START}\nGoal: y\n{START}\nb", "", ["Goal: y\n", "b"]),
    ("in a code fence", f"A\n```\n{BLOCK}\n```\nB", f"A\n```\n{BLOCK}\n```\nB", []),
    ("in a longer fence", f"````\n```\n{BLOCK}\n````", f"````\n```\n{BLOCK}\n````", []),
    ("in a fence without end", f"```\n{BLOCK}", f"```\n{BLOCK}", []),
    ("a fence inside", f"{START}\n```\n{END}\n```\n{END}", "", [f"```\n{END}\n```\n"]),
    ("in a quote of the memory", f"A\n{QUOTE}\nB", f"A\n{QUOTE}\nB", []),
    ("after a quote", f"{QUOTE}\n{BLOCK}", QUOTE, ["Goal: x\n"]),
    ("quoted with >", f"> {START}\n> Goal: x\n> {END}", f"> {START}\n> Goal: x\n> {END}", []),
    ("inline mention", f"Write {START} and {END}.\n", f"Write {START} and {END}.\n", []),
    ("as indented code", f"    {START}\n    {END}", f"    {START}\n    {END}", []),
    ("CRLF around it", f"A\r\n{START}\r\n{END}\r\nB\r\n", "A\r\nB\r\n", [""]),
    ("only blank lines", " \n\n", " \n\n", []),
]


@pytest.mark.parametrize(
    ("text", "shown", "found"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_blocks_are_cut_out(text: str, shown: str, found: list[str]) -> None:
    """The text is shown without its blocks, the blank lines around them tidied."""
    assert cut_content(text) == shown
    assert list(blocks(text)) == found


def fed(pieces: list[str]) -> tuple[str, list[str]]:
    """Return what is shown of a text that comes in pieces, and its blocks."""
    cutter = Cutter()
    shown = "".join(map(cutter.feed, pieces)) + cutter.end()
    return shown, cutter.blocks


@given(TEXTS, st.lists(st.integers(0, 300), max_size=8))
def test_any_division_gives_the_same(text: str, places: list[int]) -> None:
    """However often a text is divided, the same is shown and the same blocks are found."""
    ends = sorted({*(min(place, len(text)) for place in places), len(text)})
    pieces = [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    assert fed(pieces) == (cut_content(text), list(blocks(text)))
    assert fed([*text]) == (cut_content(text), list(blocks(text)))


@given(TEXTS)
def test_nothing_is_lost(text: str) -> None:
    """All lines are shown or stand in a block, but for the markers of one."""
    kept = "\n".join([cut_content(text), *blocks(text)])

    lost = lines(text) - lines(kept)
    assert lost.keys() <= {START, END}
    assert not lines(kept) - lines(text)


def lines(text: str) -> Counter[str]:
    """Return the lines that say something, with how often each stands there."""
    return Counter(line.strip() for line in text.split("\n") if line.strip())


@given(st.text())
def test_a_text_without_blocks_is_unchanged(text: str) -> None:
    """What has no block is shown to the last character."""
    assert cut_content(text) == text


def test_nothing_of_a_block_shows_early() -> None:
    """Fed by characters, a text is shown as it comes, up to what may begin a block."""
    cutter = Cutter()

    shown = [cutter.feed(character) for character in f"Hi.\n--x\n{BLOCK}"]

    assert "".join(shown[:3]) == "Hi."
    assert "".join(shown[3:7]) == "\n--x"
    assert set(shown[7:]) == {""}


def calls_in(work: Callable[[], object]) -> list[int]:
    """Return for each function that `work` calls how many characters it is given."""
    given: list[int] = []

    def called(frame: FrameType, event: str, _: object) -> None:
        texts = [value for value in frame.f_locals.values() if isinstance(value, str)]
        given.extend([len("".join(texts))] if event == "call" else [])

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return given


@pytest.mark.parametrize("begin", ["", f"{START}\n"])
@pytest.mark.parametrize("piece", ["word", f"\n{START}\nGoal: x"])
def test_the_work_on_a_streamed_text_grows_with_it_and_not_faster(begin: str, piece: str) -> None:
    """Twice as many pieces, of one line or of many, are twice as many characters to look at."""
    once, twice = (sum(calls_in(partial(fed, [begin, *[piece] * times]))) for times in (500, 1_000))

    assert twice <= 2.1 * once


CONTENT: list[tuple[Any, Any, list[str]]] = [
    ([{"type": "text", "text": f"A\n{BLOCK}"}], [{"type": "text", "text": "A"}], ["Goal: x\n"]),
    (
        [{"type": "text", "text": "A\n---ST"}, {"type": "text", "text": f"{BLOCK[5:]}\nB"}],
        [{"type": "text", "text": "A"}, {"type": "text", "text": "\nB"}],
        ["Goal: x\n"],
    ),
    (
        ["A", f"\n{BLOCK}", {"type": "image", "url": "u"}],
        ["A", {"type": "image", "url": "u"}],
        ["Goal: x\n"],
    ),
    ([{"type": "text", "text": BLOCK}], [], ["Goal: x\n"]),
    ([{"type": "text", "text": "A"}, {"a": 1}], [{"type": "text", "text": "A"}, {"a": 1}], []),
    ([{"type": "think", "text": BLOCK}], [{"type": "think", "text": BLOCK}], []),
]


@pytest.mark.parametrize(("content", "shown", "found"), CONTENT)
def test_content_blocks(content: Any, shown: Any, found: list[str]) -> None:
    """Text blocks are read as one text; the other blocks, and content without blocks, stay."""
    assert cut_content(content) == shown
    assert list(blocks(content)) == found
