"""What a terminal is given of the texts of others: nothing that it obeys, hides or should keep."""

import logging
import sys
import unicodedata

import pytest

from ebbtide.cli.main import PrintableFormatter
from ebbtide.cli.printable import in_line, one_line, printable

EMOJI = ["👩‍👩‍👧", "🏳️‍🌈", "🕵🏻‍♂️", "1️⃣", "🇦🇹"]
OTHERS = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
SECRETS = {"OPENAI_API_KEY": "sk-12345", "HF_TOKEN": "hf-67890", "HOME": "/home/ann", "X_KEY": "a"}


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("plain, ümläut, עברית, नमस्ते\n\ta\xa0b", "plain, ümläut, עברית, नमस्ते\n\ta\xa0b"),
        ("\x1b[2J\x07\r\x85", r"␛[2J␇␍\x85"),
        ("txt\u202egpj.exe", r"txt\u202egpj.exe"),
        ("👩\u200da \u200d👩 👩\u200d", r"👩\u200da \u200d👩 👩\u200d"),
        ("a\ufe0f葛\U000e0100\u3164", r"a\ufe0f葛\U000e0100\u3164"),
        ("❤\ufe0e ⠀\u200d⠀", "❤\ufe0e ⠀\\u200d⠀"),
        *((f"a {emoji}{emoji}", f"a {emoji}{emoji}") for emoji in EMOJI),
    ],
)
def test_what_is_hidden_or_obeyed_is_escaped(said: str, shown: str) -> None:
    """Letters, spaces and emoji stay; controls are pictures; what is invisible is named."""
    assert printable(said) == shown


def test_no_character_alone_is_hidden() -> None:
    """Of all characters there are, none of a category that is not to be seen is left."""
    output = {
        *printable("".join(map(chr, [*range(0x30000), *range(0xE0000, 0xE0200), sys.maxunicode])))
    }

    assert {one for one in output if unicodedata.category(one) in OTHERS} == {"\n", "\t"}


def test_a_name_never_leaves_its_line() -> None:
    """Within a line the ends of lines and tabs are pictures too."""
    assert in_line("a\nb\tc\u202e") == r"a␊b␉c\u202e"


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("sk-12345 and hf-67890 in /home/ann", "*** and *** in /home/ann"),
        ("one\n  two\ttwo, a\x1b", "one two two, a␛"),
        ("at postgresql://ann:s@cr:et@host/db gone", "at postgresql://ann:***@host/db gone"),
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("postgresql:///db?password=secret&x=1", "postgresql:///db?password=***&x=1"),
        ("", "ValueError"),
        ("x" * 900, "x" * 500 + "…"),
    ],
)
def test_an_error_is_one_line_without_secrets(said: str, line: str) -> None:
    """Line breaks, secrets and control characters go; what is long is cut; the empty is named."""
    assert one_line(ValueError(said), SECRETS) == line


def test_what_is_logged_is_printable_and_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that a provider repeats in its error is hidden in a warning too."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-12345")
    said = ("bad key %s", ("sk-12345\u202eb",), None)
    logged = logging.LogRecord("ebbtide", logging.WARNING, "", 1, *said)

    assert PrintableFormatter().format(logged) == r"bad key ***\u202eb"
