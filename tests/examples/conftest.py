"""The example that a test module is named after, run once."""

import pytest

from tests.examples.running import ROOT, Run, run


@pytest.fixture(scope="module")
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run the example in an empty folder."""
    example = ROOT / "examples" / request.path.name.removeprefix("test_")
    return run([str(example)], tmp_path_factory.mktemp(example.stem))
