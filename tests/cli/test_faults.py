"""Errors in one line: short, without secrets, without control characters."""

import pytest

from ebbtide.cli.faults import one_line

SECRETS = {"OPENAI_API_KEY": "sk-12345", "HF_TOKEN": "hf-67890", "HOME": "/home/ann", "X_KEY": "a"}


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("sk-12345 and hf-67890 in /home/ann", "*** and *** in /home/ann"),
        ("one\n  two\ttwo", "one two two"),
        ("a short secret is no word to hide", "a short secret is no word to hide"),
        ("\x1b[2J", "␛[2J"),
        ("", "ValueError"),
        ("x" * 900, "x" * 500 + "…"),
    ],
)
def test_an_error_is_one_line_without_secrets(said: str, line: str) -> None:
    """Line breaks, secrets and control characters go; what is long is cut; the empty is named."""
    shown = one_line(ValueError(said), SECRETS)

    assert shown == line
