"""The command `ebbtide` where its extra may be missing."""

import sys
from importlib import import_module
from importlib.util import find_spec

_NEEDED = ("prompt_toolkit", "rich", "typer")
"""What the extra `cli` installs."""


def main() -> None:
    """Run the command; without its extra say how to install it, and exit with 2."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"ebbtide: {', '.join(missing)} not installed: pip install 'ebbtide[cli]'\n"
        )
        sys.exit(2)
    import_module(".main", __package__).app()
