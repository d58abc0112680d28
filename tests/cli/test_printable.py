"""What a terminal is given of the texts of others: nothing that it obeys, nothing hidden."""

import sys
import unicodedata

import pytest

from ebbtide.cli.printable import in_line, printable

FAMILY = "👩‍👩‍👧"
EMOJI = [FAMILY, "🏳️‍🌈", "🕵🏻‍♂️", "👩‍❤️‍💋‍👨", "❤️", "©️", "1️⃣", "#️⃣", "👍🏽", "🇦🇹"]
OTHERS = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("plain, ümläut, 记忆, עברית, नमस्ते", "plain, ümläut, 记忆, עברית, नमस्ते"),
        ("two\n\tlines", "two\n\tlines"),
        ("\x1b[2J\x07\r\x7f", "␛[2J␇␍␡"),
        ("\x85\x9b", r"\x85\x9b"),
        ("txt\u202egpj.exe", r"txt\u202egpj.exe"),
        ("\u2066a\u2069\u200e\u200f\u061c", r"\u2066a\u2069\u200e\u200f\u061c"),
        ("ad\u200bmin\u2060\ufeff\xad", r"ad\u200bmin\u2060\ufeff\xad"),
        ("a\u2028b\u2029c", r"a\u2028b\u2029c"),
        ("\ue000\U000f0000\U000e0041\ud800", r"\ue000\U000f0000\U000e0041\ud800"),
        ("\u0378\U0001faff", r"\u0378\U0001faff"),
        ("a\u200db\u200d", r"a\u200db\u200d"),
        ("👩\u200da \u200d👩 👩\u200d", r"👩\u200da \u200d👩 👩\u200d"),
        ("a\ufe0f葛\U000e0100\u3164", r"a\ufe0f葛\U000e0100\u3164"),
        ("a\xa0b\u3000c", "a\xa0b\u3000c"),
    ],
)
def test_what_is_hidden_or_obeyed_is_escaped(said: str, shown: str) -> None:
    """Letters and spaces stay; controls are pictures; what is invisible or turns text is named."""
    assert printable(said) == shown


@pytest.mark.parametrize("emoji", EMOJI[:3])
def test_emoji_stay_whole(emoji: str) -> None:
    """Joiners, selectors and skin colours of an emoji are not torn from it."""
    assert printable(f"a {emoji}{emoji}") == f"a {emoji}{emoji}"


def test_no_character_alone_is_hidden() -> None:
    """Of all characters there are, none of a category that is not to be seen is left."""
    output = {
        *printable("".join(map(chr, [*range(0x30000), *range(0xE0000, 0xE0200), sys.maxunicode])))
    }

    assert {unicodedata.category(one) for one in output} & OTHERS == {"Cc"}
    assert {one for one in output if unicodedata.category(one) == "Cc"} == {"\n", "\t"}


@pytest.mark.parametrize(
    ("said", "shown"), [("a\nb\tc", "a␊b␉c"), ("t1\u202e", r"t1\u202e"), (FAMILY, FAMILY)]
)
def test_a_name_never_leaves_its_line(said: str, shown: str) -> None:
    """Within a line the ends of lines and tabs are pictures too."""
    assert in_line(said) == shown
