"""What holds for the tests of the commands: a home of their own."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run each test in a folder of its own, where its sessions are as well."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("EBBTIDE_ROOT", "sessions")
    monkeypatch.chdir(tmp_path)
    return tmp_path
