"""Mentions of efforts of earlier sessions: what refers to them, and what to an own effort."""

import pytest

from ebbtide.memory.banners import banner_of
from ebbtide.memory.references import own_words, qualified_words
from tests.memory.conversations import LONG_ENOUGH, Conversation
from tests.memory.earlier import conclude, earlier

AUTH = "t1/auth-bug"


def last_uses(here: Conversation) -> dict[str, int]:
    """Return the turns in which the summaries in the context were last referenced."""
    return {n: entry["last_referenced_turn"] for n, entry in here.state.summaries.items()}


@pytest.fixture
def here(talk: Conversation) -> Conversation:
    """Return a session whose first turn surfaced an effort of an earlier one."""
    earlier(talk)
    talk.ask("Hello again.")
    talk.surface(AUTH)
    talk.answer("Hello.")
    return talk


@pytest.mark.thorough
@pytest.mark.parametrize(
    "said",
    [
        *(f"What of {AUTH}?", f"see `{AUTH}`.", f"({AUTH})", "T1/Auth-Bug!", f"修复了{AUTH}吗"),
        *("What of the auth bug?", "auth-bug again", "AUTH BUG"),
        "The refresh tokens and the axios interceptor, please.",
    ],
)
def test_it_is_referenced(here: Conversation, said: str) -> None:
    """By its qualified id, by its name as whole words, and by its keywords."""
    here.turn(said)

    assert last_uses(here) == {AUTH: 2}


@pytest.mark.parametrize("said", [AUTH, "the auth bug"])
def test_it_is_referenced_in_a_long_message(here: Conversation, said: str) -> None:
    """Wherever it is named between pasted lines."""
    pasted = "The pump runs at 20 bar. " * 400
    here.turn(f"{pasted} What of {said}? {pasted}")

    assert last_uses(here) == {AUTH: 2}


@pytest.mark.parametrize("said", ["What of t1?", "t1/auth", f"x-{AUTH}x", "t2/css"])
def test_other_words_are_no_reference(here: Conversation, said: str) -> None:
    """Neither is a part of its id, nor a longer word."""
    here.turn(said)

    assert last_uses(here) == {AUTH: 1}


def test_the_own_effort_wins_for_the_name(here: Conversation) -> None:
    """An effort of this session that has the name is meant by it, in the context or not."""
    conclude(here, "auth-bug", "Ours is a typo.", "typo")
    here.set(MOST_SUMMARIES=1)
    here.turn("What of the auth bug?")

    assert last_uses(here) == {"auth-bug": 4}
    here.set(MOST_SUMMARIES=9)
    here.turn(f"What of {AUTH}?")
    assert last_uses(here) == {"auth-bug": 4, AUTH: 5}


def test_the_qualified_id_is_not_the_own_effort(here: Conversation) -> None:
    """The effort of this session is not mentioned by the id of the other one."""
    conclude(here, "auth-bug", "Ours is a typo.", "typo")
    here.turn(f"What of {AUTH}?")

    assert last_uses(here) == {AUTH: 4, "auth-bug": 3}


def test_a_folder_does_not_hide_the_name(here: Conversation) -> None:
    """What only looks like a qualified id mentions the own effort whose name is in it."""
    conclude(here, "auth-bug", "Ours is a typo.", "typo")
    here.turn("It is in src/auth-bug now.")

    assert last_uses(here)["auth-bug"] == 4


def test_it_is_evicted_and_returns_by_its_id(here: Conversation) -> None:
    """After the threshold it leaves; its qualified id brings it back, its name alone does not."""
    here.set(summary_eviction_threshold=2, rebuild="every-turn")
    here.follow([[], []])
    assert last_uses(here) == {}

    here.turn("What of the auth bug?")
    assert last_uses(here) == {}

    here.turn(f"What of {AUTH}?")
    assert last_uses(here) == {AUTH: 5}
    assert here.state.banners == (f"--- Returned effort: {AUTH} ---",)


def test_another_users_id_brings_nothing(here: Conversation) -> None:
    """The id of an effort of another user, or of none, is a word like any other."""
    earlier(here, "t7", user="bob")
    here.turn("What of t7/auth-bug, no/such and t1/nothing?")

    assert "t7/auth-bug" not in here.state.summaries
    assert set(here.state.summaries) == {AUTH}


def test_the_banner_is_no_mention() -> None:
    """What the memory said of surfaced efforts is not what the user or the model says."""
    banner = banner_of("surfaced", efforts=[AUTH])

    assert own_words(f"Look:\n{banner}\nWhat now?") == "Look:\n\nWhat now?"


def test_the_banner_stays_short() -> None:
    """Ten ids are named, long ones cut, and the rest counted."""
    efforts = [f"{'x' * 90}/effort-{number}" for number in range(40)]

    banner = banner_of("surfaced", efforts=efforts)

    assert banner.endswith("…, 30 more ---")
    assert len(banner) < 700


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("as in t1/auth-bug, or t2/css.", ("t1/auth-bug", "t2/css")),
        ("src/auth/api.ts https://x.y/z a/b.md", ()),
        (" ".join(f"a/b{number}" for number in range(99)), tuple(f"a/b{n}" for n in range(8))),
        ("/" * 10_000, ()),
    ],
)
def test_words_that_look_like_ids(said: str, found: tuple[str, ...]) -> None:
    """A few words with one slash in them are looked up, paths are not."""
    assert qualified_words(said) == found


def test_a_long_text_is_looked_through(here: Conversation) -> None:
    """However many slashes a message has, the turn ends with what it should."""
    here.turn(f"{LONG_ENOUGH} {'and/or ' * 5_000} {AUTH}")

    assert last_uses(here) == {AUTH: 2}
