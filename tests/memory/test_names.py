"""Names: slugs, and file names that hold any text."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ebbtide.memory.errors import ToolError
from ebbtide.memory.names import safe_name, slug

ODD = st.text(
    st.sampled_from("aAbBéÉ./\\~%@ \0\u0301ß\u1100\u1161가") | st.characters(), max_size=90
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("  Fix the  AUTH bug!! ", "fix-the-auth-bug"),
        ("Ｆｕｌｌ Ｗｉｄｔｈ", "full-width"),  # noqa: RUF001 (full width, on purpose)
        ("修复 登录", "修复-登录"),
        ("हिन्दी", "हिन्दी"),
        ("v1.2", "v1-2"),
        ("a" * 64, "a" * 64),
    ],
)
def test_slug_joins_words(name: str, expected: str) -> None:
    """A slug is the lower-case words of a name, in any script, joined by hyphens."""
    assert slug(name) == expected


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../../etc", "path"),
        ("..", "path"),
        ("", "no letters"),
        ("❤️", "no letters"),
        ("\ud800", "no letters"),
        ("x" * 65, "65 characters"),
    ],
)
def test_bad_name_is_an_error(name: str, why: str) -> None:
    """A name of which no slug can be made is an error that says why and what would do."""
    with pytest.raises(ToolError, match=why) as caught:
        slug(name)

    assert "'auth-bug'" in str(caught.value)
    assert len(str(caught.value)) < 400


@given(name=st.text(max_size=40))
@example(name="İ")
def test_slug_of_a_slug_is_itself(name: str) -> None:
    """A slug stays as it is, so that the model can use it as an id."""
    try:
        once = slug(name)
    except ToolError:
        return

    assert slug(once) == once


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("v1.2_x", "v1.2_x"),
        ("日本語", "日本語"),
        ("", "%"),
        ("..", "%2e%2e"),
        ("end.", "end%2e"),
        ("nul.txt", "%6eul.txt"),
        ("CON", "%43%4f%4e"),
        ("a/b\\c\0", "a%2fb%5cc%00"),
        ("\ud800", "%ed%a0%80"),
    ],
)
def test_odd_text_is_quoted(text: str, name: str) -> None:
    """What a file system might fold, forbid or reserve is quoted."""
    assert safe_name(text) == name


def test_long_text_is_hashed() -> None:
    """A text that is too long keeps its beginning, and is told apart by a hash."""
    one, two = safe_name("x" * 1000), safe_name("x" * 1001)

    assert one != two
    assert one.startswith("xxx")
    assert len(one.encode()) <= 200


@given(one=ODD, two=ODD)
@example(one="é", two="e\u0301")
@example(one="가", two="\u1100\u1161")
@example(one="Kelvin \u212a", two="kelvin k")
def test_names_never_collide(one: str, two: str) -> None:
    """Two texts get two names, also where case and composition are folded."""
    names = {
        unicodedata.normalize("NFD", safe_name(text).upper().casefold()) for text in (one, two)
    }

    assert len(names) == len({one, two})


@given(text=ODD)
def test_name_is_safe(text: str) -> None:
    """A name is short, and has nothing that a file system refuses."""
    name = safe_name(text)

    assert len(name.encode()) <= 200
    assert not set(name) & set('/\\:*?"<>|@\0 ')
    assert name not in {"", ".", ".."}
    assert not name.startswith(".")
    assert not name.endswith((".", " "))
