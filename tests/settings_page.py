"""`docs/settings.md`, made from the code: `make docs` writes it."""

from ebbtide.cli.reports import settings_table
from tests.processes import ROOT

PAGE = ROOT / "docs/settings.md"

HEAD = """\
# Settings

What a user can say why he changes: each is a field of `ebbtide.Settings`, for an agent
(`settings=Settings(...)`) or for one run (`context={...}`). The commands and the server also read
them from `ebbtide.yaml` (`context_budget: 8000`) and from variables such as
`EBBTIDE_CONTEXT_BUDGET`, beside `model` and `root`; an option beats a variable, which beats the
file. `ebbtide settings` shows those in force and who gave each. Other numbers are constants of the
code: each stands in the file of its rule, with its reason.

"""


def made() -> str:
    """Return what the page must hold."""
    return f"{HEAD}{settings_table()}\n"


if __name__ == "__main__":
    PAGE.write_text(made(), encoding="utf-8")
