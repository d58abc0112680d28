"""The examples where matplotlib is not installed."""

import pytest

from tests.examples.running import ROOT, Run, run

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
HIDDEN = """
import runpy
import sys

sys.modules["matplotlib.figure"] = None
for path in sys.argv[1:]:
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        assert not end.code
    print("=== The end ===", flush=True)
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run all examples, one after the other."""
    folder = tmp_path_factory.mktemp("plain")
    return run(["-c", HIDDEN, *map(str, EXAMPLES)], folder)


def test_the_tables_are_printed_without_a_plot(ran: Run) -> None:
    """Without matplotlib there is the table, a line that says how to get the plot, and no file."""
    *pages, rest = ran.printed.split("=== The end ===\n")
    said = [("┃" in page, "For a plot, install matplotlib." in page) for page in pages]

    assert (ran.code, rest) == (0, "")
    assert said == [(True, True)] * len(EXAMPLES)
    assert list(ran.folder.iterdir()) == []
