"""The command where its extra is missing, and where it is there."""

import subprocess
import sys

import pytest

WITHOUT = """
import sys
for name in {missing!r}:
    sys.modules[name] = None
from ebbtide.cli.entry import main
sys.argv = ["ebbtide", "--version"]
main()
"""


@pytest.mark.parametrize("missing", [("typer",), ("rich", "prompt_toolkit")])
def test_missing_extra_is_named(missing: tuple[str, ...]) -> None:
    """Without one of its packages the command says what to install, and exits with 2."""
    code = WITHOUT.format(missing=missing)
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(" not installed: pip install 'ebbtide[cli]'\n")
    assert all(name in done.stderr for name in missing)
