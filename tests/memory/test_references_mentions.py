"""The ids that a text mentions."""

import pytest

from ebbtide.memory.banners import banner_of
from ebbtide.memory.messages import text
from ebbtide.memory.references import mentionable, own_words
from tests.memory.conversations import FENCES


@pytest.mark.parametrize(
    ("effort_id", "text"),
    [
        ("auth-bug", "What about auth-bug?"),
        ("auth-bug", "the Auth Bug again"),
        ("auth-bug", "see auth_bug.py"),
        ("auth-bug", "auth\nbug"),
        ("auth-bug", "the \u200bau\u00adth\u200b-bug"),
        ("api", "the API"),
        ("straße", "die Straße"),
        ("修复", "请看修复的结果"),
        ("修复登录", "关于修复登录"),
        ("auth修复", "看auth修复吧"),
        ("a-b-c-d-e-f-g-h-i-j-k-l", "a b c d e f g h i j k l"),
    ],
)
def test_an_id_is_mentioned_as_whole_words(effort_id: str, text: str) -> None:
    """Case, separators and the script do not matter."""
    assert effort_id in mentionable(text)


@pytest.mark.parametrize(
    ("effort_id", "text"),
    [
        ("api", "the capital is rapid"),
        ("auth-bug", "authbug"),
        ("auth-bug", "the bug in auth"),
        ("auth-bug", "auth of the bug"),
        ("修复", "修理恢复"),
        ("auth", ""),
    ],
)
def test_parts_of_words_mention_nothing(effort_id: str, text: str) -> None:
    """Pieces of words, other orders and words between are no mention."""
    assert effort_id not in mentionable(text)


@pytest.mark.parametrize(
    "quoted",
    [
        banner_of("opened", effort="auth-bug"),
        banner_of("expanded", effort="auth-bug", tokens=12),
        banner_of("faded", effort="auth-bug", turns=3),
        banner_of("goal_updated", effort="auth-bug"),
        banner_of("constraints_updated", effort="auth-bug"),
        banner_of("paused", effort="auth-bug"),
        text(FENCES.note("[turn 1]\nuser: auth-bug")),
    ],
)
def test_what_the_memory_wrote_is_no_mention(quoted: str) -> None:
    """Banners and quoted logs are left out, what stands around them is not."""
    said = own_words(f"First css.\n{quoted}\nThen api.")

    assert "auth-bug" not in mentionable(said)
    assert {"css", "api"} <= mentionable(said)


def test_of_a_long_text_both_ends_are_read() -> None:
    """A long paste costs no more than its beginning and its end."""
    said = own_words("css " + "x " * 50_000 + "api")

    assert len(said) < 10_000
    assert {"css", "api"} <= mentionable(said)
