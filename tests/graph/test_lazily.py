"""Names that are imported at their first use: which there are, and how a wrong one ends."""

import subprocess
import sys
from types import ModuleType

import pytest

import ebbtide
from ebbtide import commands

FIRST_USE = """
import sys
import ebbtide
before = "langgraph" in sys.modules
ebbtide.create_memory_agent
print(before, "langgraph" in sys.modules, "create_memory_agent" in vars(ebbtide))
"""


@pytest.mark.parametrize("module", [ebbtide, commands], ids=["ebbtide", "commands"])
def test_an_unknown_name_is_an_attribute_error(module: ModuleType) -> None:
    """As with any module, the error names the module and the attribute."""
    with pytest.raises(AttributeError, match=f"{module.__name__}.* has no attribute 'nothing'"):
        _ = module.nothing


def test_a_name_is_imported_at_its_first_use() -> None:
    """Importing the package imports no LangGraph; using a name does, once."""
    done = subprocess.run([sys.executable, "-c", FIRST_USE], check=True, capture_output=True)

    assert done.stdout.split() == [b"False", b"True", b"True"]
