"""The example that a test module is named after, run once."""

from pathlib import Path

import pytest

from tests.examples.running import Run, once
from tests.processes import ROOT


@pytest.fixture(scope="module")
def ran(request: pytest.FixtureRequest, shared: Path) -> Run:
    """Run the example in an empty folder."""
    example = ROOT / "examples" / request.path.name.removeprefix("test_")
    return once(example.stem, [str(example)], shared)
