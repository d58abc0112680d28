"""The best piece of a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.search.passages import best_piece
from ebbtide.memory.search.terms import query_terms

FILLER = "Nothing of it is said in this sentence, which is as long as it has to be here. " * 9


@pytest.mark.parametrize(
    ("text", "query", "piece"),
    [
        ("", "port", ""),
        (f"{FILLER}The port is 8080. Ok.\n{FILLER}", "ports", "The port is 8080. Ok."),
        (f"A port. {FILLER}The port of the proxy.", "proxy port", "The port of the proxy."),
        (f"  Hello.  {FILLER}", "port", f"Hello.  {FILLER}"[:398].rpartition(". ")[0] + "."),
        (f"你好。\n修复了登录。{FILLER * 2}", "登录", "修复了登录。"),
    ],
)
def test_the_piece_that_says_most_is_chosen(text: str, query: str, piece: str) -> None:
    """It begins where the terms are, with what follows, and with the beginning if none is said."""
    begin, end = best_piece(text, query_terms(query))

    assert text[begin:end].startswith(piece)


@pytest.mark.parametrize("said", ["It rose by 8.1 % in v1.2.", "See api.ts, line 3."])
def test_a_point_within_a_word_ends_no_sentence(said: str) -> None:
    """What matches is quoted from its first word on, numbers, versions and file names whole."""
    text = f"{FILLER}\n{said} {FILLER}"
    begin, end = best_piece(text, query_terms("8.1 % v1.2 line 3 1.2.3"))

    assert text[begin:end].startswith(said)


@given(st.text(), st.lists(st.sampled_from(["a1", "b2"])))
def test_a_piece_is_a_part_of_the_text(text: str, wanted: list[str]) -> None:
    """Whatever the text, the piece lies in it and is no longer than 400 characters."""
    begin, end = best_piece(text, wanted)

    assert 0 <= begin <= end <= len(text) or not text.strip()
    assert len(text[begin:end]) <= 400 + len(text) - len(text.rstrip("\n.!?。！？"))
