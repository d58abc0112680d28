"""Words of a text, for comparing texts."""

import pytest

from ebbtide.memory.words import words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fixed 401 errors", {"fixed", "401", "errors"}),
        ("auth-bug, auth_bug!", {"auth", "bug"}),
        ("STRASSE straße", {"strasse"}),
        ("ﬁne fine", {"fine"}),
        ("\uff14\uff10\uff11", {"401"}),
        ("数据库", {"数据", "据库"}),
        ("好", {"好"}),
        ("データ 서버", {"デー", "ータ", "서버"}),
        ("--- 🙂 ---", set()),
        ("", set()),
    ],
)
def test_words_are_normalised(text: str, expected: set[str]) -> None:
    """Case, punctuation, width and ligatures do not count; CJK text comes in pairs."""
    assert words(text) == expected
