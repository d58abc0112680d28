"""What is read out of a sentence: its subject, numbers, names, denials, conditions and cues."""

import pytest

from ebbtide.memory.claims import LONGEST, claim
from ebbtide.memory.quantities import Quantity


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1,000 rows", "1000 rows"),
        ("10 MB", "10MB"),
        ("2 minutes", "120 s"),
        ("three files", "3 files"),
        ("8 thousand dollars", "$8,000"),
        ("50%", "50 percent"),
        ("at 9:00 pm", "at 9:00 pm"),
        ("is on May 3, 2026", "is on 2026-05-03"),
        ("Version v1.2.0", "Version 1.2.0"),
        ("等待三十秒", "等待30秒"),
        ("zwölf Stunden", "12 Stunden"),
    ],
)
def test_numbers_that_are_the_same(one: str, other: str) -> None:
    """A number is the same however it and its unit are written."""
    assert claim(one).values == claim(other).values != ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("10 MB", "10 GB"),
        ("10 MB", "10 MiB"),
        ("1.5 s", "15 s"),
        ("is on 3 May", "is on 4 May"),
        ("at 9:00", "at 9:30"),
        ("at 10.0.0.1", "at 10.0.0.2"),
        ("of 10-20", "of 10-30"),
        ("is 123456789012345678901234567890", "is 123456789012345678901234567891"),
    ],
)
def test_numbers_that_differ(one: str, other: str) -> None:
    """A number is another one with another unit, part or digit."""
    assert (claim(one).values, claim(one).words) != (claim(other).values, claim(other).words)


@pytest.mark.parametrize(
    "text",
    [
        "It isn't on.",
        "It is never on.",
        "Nothing is on.",
        "It is off.",
        "It runs without it.",
        "没有打开。",
        "Es ist nicht an.",
        "Es gibt keine Tests.",
    ],
)
def test_denials(text: str) -> None:
    """A denial is found in whatever words."""
    assert claim(text).denied


@pytest.mark.parametrize(
    "text", ["It is now on.", "Use B instead.", "不再使用。", "现在是3。", "Jetzt ist es an."]
)
def test_cues(text: str) -> None:
    """A word that says that something else was said before is found in three languages."""
    assert claim(text).cue


@pytest.mark.parametrize(
    "text", ["It takes no longer than 30 s.", "Change requests need two reviews.", "It is known."]
)
def test_what_is_no_cue(text: str) -> None:
    """Words that only look like a revision are none."""
    assert not claim(text).cue


@pytest.mark.parametrize(
    ("text", "revoked"),
    [
        ("We use B instead of Redis.", {"redi"}),
        ("We use B rather than Redis for events.", {"redi"}),
        ("We switch from Redis to B.", {"redi"}),
        ("Replace Redis with B.", {"redi"}),
        ("We use B, not Redis.", {"redi"}),
        ("Not Redis but B.", {"redi"}),
        ("我们从 Redis 改为 B。", {"redi"}),
        ("Wir wechseln von Redis zu B.", {"redi"}),
        ("The limit goes from 5 to 6.", {Quantity("5")}),
        ("Not only Redis but B.", set()),
        ("The road goes from here.", set()),
    ],
)
def test_what_is_revoked(text: str, revoked: set[str | Quantity]) -> None:
    """The value that no longer holds is told from the one that does."""
    assert claim(text).revoked == revoked


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Room 4 has seats.", "#4"),
        ("See src/a.py.", "src/a.py"),
        ("Set DB_HOST here.", "DB_HOST"),
        ("The UserService runs.", "UserService"),
        ("Call `f` here.", "`f`"),
        ('Rename "total" here.', '"total"'),
        ("4号仓库很大。", "#4"),
        ("The second server runs.", "#2."),
    ],
)
def test_names(text: str, name: str) -> None:
    """Identifiers are kept as they are written."""
    assert name in claim(text).words


def test_the_end_of_a_long_text_counts() -> None:
    """Texts whose difference lies behind what is read are two claims."""
    same = "word " * LONGEST

    assert claim(same + "one") == claim(same + "one")
    assert claim(same + "one") != claim(same + "two")
