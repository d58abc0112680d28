"""The example that a test module is named after, run once."""

from pathlib import Path

import pytest

from tests.examples.running import Run, example_run
from tests.processes import ROOT


@pytest.fixture(scope="module")
def ran(request: pytest.FixtureRequest, shared: Path) -> Run:
    """Run the example in an empty folder, with the module's `ARGUMENTS` if it has any."""
    example = ROOT / "examples" / request.path.name.removeprefix("test_")
    return example_run(example, shared, *getattr(request.module, "ARGUMENTS", ()))
