"""`docs/settings.md`, made from the code: `make docs` writes it."""

from ebbtide.cli.reports import settings_table
from tests.processes import ROOT

PAGE = ROOT / "docs/settings.md"

HEAD = """\
# Settings

Each setting is a field of `ebbtide.Settings`. Set it for an agent with `settings=Settings(...)`, or
for one run with `context={...}`, which may have keys of your own: one that is nearly the name of a
setting is a warning in the log.

The command `ebbtide` and the server also read settings, `model` and `root` from `ebbtide.yaml`
(`context_budget: 8000`) and from variables such as `EBBTIDE_CONTEXT_BUDGET`. Options of `ebbtide`
override variables, and variables override the file. `ebbtide settings` shows the settings in force
and where each was set.

Other numbers are constants, in the source file of the rule that uses them, with the reason beside
them.

"""

WRITTEN = "\n## Which context_budget"
"""The beginning of what people write there, which stays as it is."""


def made() -> str:
    """Return what the page must hold."""
    _, begin, written = PAGE.read_text(encoding="utf-8").partition(WRITTEN)
    return f"{HEAD}{settings_table()}\n{begin}{written}"


if __name__ == "__main__":
    PAGE.write_text(made(), encoding="utf-8")
