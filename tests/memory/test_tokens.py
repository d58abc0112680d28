"""Token counts: exact where they can be, never too low, offline, and cheap when repeated."""

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from ebbtide import EbbtideError
from ebbtide.memory import tokens
from tests.doubles import words

OFFLINE = """
import sys

def refuse(event, arguments):
    if event.startswith("socket.") or (event == "open" and "data-gym-cache" in str(arguments[0])):
        raise RuntimeError(event)

sys.addaudithook(refuse)
from ebbtide.memory.tokens import count
sys.exit(count("Nothing is lost.") != 4)
"""

PROSE = (
    "The quick brown fox, 42 of them, don't jump.\nÜber den Hund… 记忆系统，自动管理。 👩‍👩‍👧 \t"
)
MIXED = st.lists(
    st.sampled_from(["word", " ", "\n", "'s", ",", "。", "中文", "é", "7", "👩‍👧", "_"])
)


class Recorder:
    """A word counter that keeps what it was asked."""

    def __init__(self) -> None:
        """Begin with no questions."""
        self.asked: list[str] = []

    def __call__(self, text: str) -> int:
        """Count the words of `text` and keep it."""
        self.asked.append(text)
        return words(text)


def whole(text: str) -> int:
    """Count without slices."""
    return len(tokens._load().encode(text, disallowed_special=()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("Nothing is lost.", 4),
        ("<|endoftext|>", 7),
        ("记忆系统会自动管理上下文", 8),
        ("👩‍👩‍👧", 8),
        ("\ud800", 1),
    ],
)
def test_short_texts_are_counted_exactly(text: str, expected: int) -> None:
    """The count is that of o200k_base; special tokens and lone surrogates are plain text."""
    counted = tokens.count(text)

    assert counted == expected


@pytest.mark.thorough
def test_counting_needs_no_network_and_no_cache_on_disk() -> None:
    """A fresh process counts without opening a socket or tiktoken's cache folder."""
    command = [sys.executable, "-c", OFFLINE]

    finished = subprocess.run(command, check=False, capture_output=True, text=True)

    assert finished.returncode == 0, finished.stderr


def test_a_damaged_vocabulary_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vocabulary with another digest raises, saying to install again."""
    monkeypatch.setattr(tokens, "_SHA256", "0" * 64)

    with pytest.raises(EbbtideError, match=r"vocabulary '.*' is damaged: install"):
        tokens._load.__wrapped__()


@pytest.mark.thorough
def test_threads_share_one_vocabulary() -> None:
    """Threads that count at once load the vocabulary once."""
    tokens._load.cache_clear()

    with ThreadPoolExecutor(8) as pool:
        counts = set(pool.map(tokens.exact, ["Nothing is lost."] * 64))

    assert counts == {4}
    assert tokens._load.cache_info().misses == 1


@pytest.mark.thorough
@pytest.mark.parametrize("character", ["abcdefgh", "记忆系统会自动管理", "👩‍👩‍👧"])
@pytest.mark.parametrize("size", [450_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
def test_a_long_run_is_never_too_low_and_at_most_one_percent_too_high(
    character: str, size: int
) -> None:
    """Runs of many characters without a seam count as much as the whole, up to 1 % more."""
    text = (character * (size // len(character) + 1))[:size]

    counted, expected = tokens.exact(text), whole(text)

    assert expected <= counted <= expected * 1.01


@pytest.mark.parametrize("character", [" \n  "])
def test_a_long_run_of_white_space_is_counted(character: str) -> None:
    """White space that makes tiktoken fail is counted, about as its parts are."""
    text = character * (400_000 // len(character))
    part = character * (100_000 // len(character))

    counted = tokens.exact(text)

    assert counted == pytest.approx(4 * whole(part), rel=0.01)


def test_a_megabyte_of_text_is_counted_exactly() -> None:
    """Slices of text end where a word does, which leaves the count exact."""
    text = PROSE * (1_000_000 // len(PROSE))

    counted = tokens.exact(text)

    assert counted == whole(text)


@given(MIXED, st.integers(min_value=8, max_value=40))
def test_slices_never_count_too_low(parts: list[str], size: int) -> None:
    """Whatever the text and the size of the slices, the sum is not below the whole."""
    text = "".join(parts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "_SLICE", size)
        counted = tokens.exact(text)

    assert counted >= whole(text)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"content": "one", "name": "ebbtide"}, 4 + 1 + 1 + 1),
        ({"content": "one", "id": "a b c"}, 4 + 1),
        ({"content": ["one two", {"type": "text", "text": "three"}]}, 4 + 3),
        ({"content": [{"type": "image_url", "image_url": {"url": "x" * 999}}]}, 4 + 1_600),
        ({"content": [{"type": "reasoning", "reasoning": "two words"}]}, 4 + 2),
        ({"content": "", "tool_calls": [{"name": "f", "args": {"q": "a"}, "id": "1"}]}, 4 + 1 + 2),
        ({"content": "", "invalid_tool_calls": [{"name": "f", "args": "a b c"}]}, 4 + 1 + 3),
    ],
)
def test_a_message_counts_what_a_model_sees_of_it(data: dict[str, Any], expected: int) -> None:
    """Text, name, calls with arguments, images and overhead count; ids do not."""
    message: BaseMessage = AIMessage(**data)

    counted = tokens.count_message(message, words)

    assert counted == expected


def test_a_result_counts_its_id_and_not_its_name() -> None:
    """Of a tool's result a model sees the content, and three tokens that join it to its call."""
    data = {"content": "one two", "name": "look_up", "tool_call_id": "a b c"}

    counted = tokens.count_message(ToolMessage(**data), words)

    assert counted == 4 + 2 + 3


def test_a_call_that_stands_in_the_content_too_counts_once() -> None:
    """Providers repeat calls as content blocks; they are counted as calls only."""
    call = {"name": "f", "args": {"q": "a b"}, "id": "1"}
    blocks: Any = [{"type": "tool_use", "name": "f", "input": {"q": "a b"}, "id": "1"}]
    message: BaseMessage = AIMessage(blocks, tool_calls=[call])

    counted = tokens.count_message(message, words)

    assert counted == 4 + 1 + 3


def test_other_scripts_in_arguments_count_as_characters() -> None:
    """Arguments are counted as text and not as escapes."""
    call = {"name": "f", "args": {"q": "记忆"}, "id": "1"}
    message: BaseMessage = AIMessage("", tool_calls=[call])

    counted = tokens.count_message(message, len)

    assert counted == 4 + len("f") + len('{"q": "记忆"}')


def test_tools_count_what_is_shown_of_them() -> None:
    """Each tool counts its name and description and seven tokens, and all together twelve."""
    counted = tokens.count_tools([{"name": "a", "description": "one two"}, {"name": "b"}], len)

    assert counted == len("a:one two") + len("b:") + 7 + 7 + 12


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("", 5, ""),
        ("It works. It is fast.", 4, "It works."),
        ("It works! Does it? “Yes.” It does.", 5, "It works! Does it? “Yes.”"),
        ("Version 3.5 is out. Use it now.", 4, "Version 3.5 is out."),
        ("1. Read it all first.", 3, "1. Read it…"),
        ("One line\nanother line\nthe end", 4, "One line\nanother line"),
        ("no end of it at all", 3, "no end of…"),
    ],
)
def test_a_text_is_cut_after_whole_sentences(text: str, limit: int, expected: str) -> None:
    """The longest prefix of whole sentences stays; one that is too long is cut after a word."""
    cut = tokens.cut_at_sentence(text, limit, words)

    assert cut == expected


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [("他说：「好的。」然后走了。", 8, "他说：「好的。」"), ("没有句号的长句子", 4, "没有句…")],
)
def test_chinese_is_cut_after_whole_sentences(text: str, limit: int, expected: str) -> None:
    """Full-width stops end a sentence; one that is too long is cut inside."""
    cut = tokens.cut_at_sentence(text, limit, len)

    assert cut == expected


@given(
    st.lists(st.sampled_from(["One two.", "Three?", "four", "五六。", "\n"])), st.integers(0, 30)
)
def test_a_cut_text_fits(parts: Sequence[str], limit: int) -> None:
    """Whatever the text and the limit, the result fits."""
    cut = tokens.cut_at_sentence(" ".join(parts), limit)

    assert tokens.count(cut) <= limit


def test_a_huge_text_is_cut_without_counting_it_whole() -> None:
    """Cutting asks for counts of short prefixes only, so that its cost follows the limit."""
    recorder = Recorder()
    text = "One two three. " * 100_000

    cut = tokens.cut_at_sentence(text, 30, recorder)

    assert words(cut) == 30
    assert max(map(len, recorder.asked)) < 1_000


@pytest.mark.parametrize("marks", ["." * 100_000 + '"' * 100_000])
def test_marks_that_end_no_sentence_are_passed_at_once(marks: str) -> None:
    """A run of marks before a letter is looked at once, not once from each of its marks."""
    text = f"It works. {marks}x. No."

    assert tokens.cut_at_sentence(text, 50, len) == "It works."
    assert tokens.cut_at_sentence(text, len(text) - 4, len) == text.removesuffix(" No.")


def test_no_tools_count_nothing() -> None:
    """A request without tools has nothing around them."""
    counted = tokens.count_tools([], len)

    assert counted == 0


@pytest.mark.parametrize("parameters", [True, {"properties": ["x"]}, {"properties": {"x": True}}])
def test_what_is_no_schema_does_not_stop_the_count(parameters: Any) -> None:
    """An application may bind tools whose parameters are no JSON schema of an object."""
    assert tokens.count_tools([{"function": {"name": "f", "parameters": parameters}}], len) > 0
