"""Errors in one line: short, without secrets, without control characters."""

import logging

import pytest

from ebbtide.cli.main import PrintableFormatter
from ebbtide.cli.printable import one_line

SECRETS = {"OPENAI_API_KEY": "sk-12345", "HF_TOKEN": "hf-67890", "HOME": "/home/ann", "X_KEY": "a"}


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("sk-12345 and hf-67890 in /home/ann", "*** and *** in /home/ann"),
        ("one\n  two\ttwo", "one two two"),
        ("a short secret is no word to hide", "a short secret is no word to hide"),
        ("\x1b[2J", "␛[2J"),
        ("no effort \u202e", r"no effort \u202e"),
        (
            "at postgresql+psycopg://ann:s@cr:et@host/db gone",
            "at postgresql+psycopg://ann:***@host/db gone",
        ),
        (
            "'sqlite:///a.db' and redis://localhost:6379/0",
            "'sqlite:///a.db' and redis://localhost:6379/0",
        ),
        (
            "postgresql:///db?user=ann&password=secret&x=1",
            "postgresql:///db?user=ann&password=***&x=1",
        ),
        ("", "ValueError"),
        ("x" * 900, "x" * 500 + "…"),
    ],
)
def test_an_error_is_one_line_without_secrets(said: str, line: str) -> None:
    """Line breaks, secrets and control characters go; what is long is cut; the empty is named."""
    output = one_line(ValueError(said), SECRETS)

    assert output == line


def test_what_is_logged_is_printable() -> None:
    """A warning shows what its text hides."""
    record = logging.LogRecord("ebbtide", logging.WARNING, "", 1, "lost %s", ("a\u202eb",), None)

    assert PrintableFormatter().format(record) == r"lost a\u202eb"


def test_what_is_logged_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that a provider repeats in its error is hidden in a warning too."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-12345")
    record = logging.LogRecord("ebbtide", logging.WARNING, "", 1, "bad key %s", ("sk-12345",), None)

    assert PrintableFormatter().format(record) == "bad key ***"
