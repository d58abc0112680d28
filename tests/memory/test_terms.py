"""The terms of a text, by which texts are compared."""

import pytest

from ebbtide.memory.terms import content, terms, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fixed 401 errors", ["fix", "401", "error"]),
        ("auth-bug, auth_bug!", ["auth", "bug", "auth", "bug"]),
        ("STRASSE straße", ["strass", "strass"]),
        ("\uff14\uff10\uff11", ["401"]),
        ("the tokens of a token", ["token", "token"]),
        ("数据库", ["数据", "据库"]),
        ("fix数据库now好", ["fix", "数据", "据库", "好"]),
        ("データ 서버", ["デー", "ータ", "서버"]),
        ("go on, yes, continue", []),
        ("--- 🙂 ---", []),
        ("", []),
    ],
)
def test_terms_are_normalised(text: str, expected: list[str]) -> None:
    """Case, width, punctuation, endings and stop words do not count; CJK text comes in pairs."""
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fixed the 401 errors!", ["fixed", "the", "401", "errors"]),
        ("ﬁne auth_bug", ["fine", "auth", "bug"]),
        ("a 数据库", ["a", "数据", "据库"]),
        ("", []),
    ],
)
def test_words_are_whole(text: str, expected: list[str]) -> None:
    """Words keep their endings, and stop words are among them."""
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("an API v2", ["api"]), ("401 ok", ["401"]), ("好 数据", ["数据"])]
)
def test_short_terms_are_no_keywords(text: str, expected: list[str]) -> None:
    """Keywords have three characters and more, CJK pairs aside."""
    assert content(text) == expected
