"""The package: its names are imported at their first use and listed before it."""

import subprocess
import sys
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from types import ModuleType

import pytest

import ebbtide
from ebbtide import EbbtideMiddleware, build_memory_graph, commands
from tests.processes import ROOT


@pytest.mark.parametrize("module", [ebbtide, commands], ids=["ebbtide", "commands"])
def test_an_unknown_name_is_an_attribute_error(module: ModuleType) -> None:
    """As with any module, the error names the module and the attribute."""
    with pytest.raises(AttributeError, match=f"{module.__name__} attribute nothing"):
        _ = module.nothing


@pytest.mark.thorough
def test_the_names_are_listed_before_they_are_used() -> None:
    """`dir` lists what can be imported, in a process that has used nothing yet."""
    code = "import ebbtide; print(*dir(ebbtide)); print(*dir(ebbtide.commands))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    names, in_commands = (line.split() for line in done.stdout.splitlines())

    assert {"create_memory_agent", "DiskArchive", "Settings", "commands", "erase"} <= {*names}
    assert {"undo", "search", "attention"} <= {*in_commands}


def test_every_stub_has_its_module() -> None:
    """Without the source, pyright complains of each import of `ebbtide.commands`."""
    stubs = [*ROOT.glob("*.pyi")]

    assert len(stubs) > 1
    assert [stub for stub in stubs if not stub.with_suffix(".py").is_file()] == []


def test_a_star_imports_all_names() -> None:
    """`from ebbtide import *` brings what `__all__` lists."""
    names: dict[str, object] = {}
    exec("from ebbtide import *", names)  # noqa: S102 (a module cannot do that in a function)

    assert {*ebbtide.__all__} <= {*names}


def test_the_version_is_the_installed_one() -> None:
    """The package says the version that its metadata have."""
    assert ebbtide.__version__ == version("ebbtide")


def test_the_arguments_of_the_middleware_are_shown() -> None:
    """`help` shows those that it takes, with the types and defaults of `build_memory_graph`."""
    known, arguments = (
        signature(one).parameters for one in (build_memory_graph, EbbtideMiddleware)
    )

    assert {"archive", "settings", "summary_model", "token_counter"} <= arguments.keys()
    assert all(known[name] == argument for name, argument in arguments.items())


PUBLIC = """
import sys
sys.modules["numpy"] = None
import ebbtide
assert "langgraph" not in sys.modules
from ebbtide.commands import undo
import ebbtide.commands
from ebbtide import EbbtideMiddleware, build_memory_graph, commands
assert undo is ebbtide.commands.undo is commands.undo
from ebbtide import DiskArchive, EbbtideMiddleware, Settings, SqlArchive, attention
from ebbtide import adelete_session, adelete_user, aerase, arestore, atranscript
from ebbtide import build_memory_graph, create_memory_agent
from ebbtide import delete_session, delete_user, erase, restore, transcript
from ebbtide.testing import InMemoryArchive, ScriptedModel
import ebbtide.attention
from ebbtide.commands import *
from ebbtide import *
assert not {"langchain_openai", "prompt_toolkit", "redis", "typer"} & {*sys.modules}
sys.modules["redis"] = None
try:
    ebbtide.attention.RedisAttention
except ImportError as error:
    assert "pip install 'ebbtide[redis]'" in str(error)
else:
    raise AssertionError("no error")
del sys.modules["redis"]
from ebbtide.attention import RedisAttention
assert ebbtide.attention.RedisAttention is attention.RedisAttention
"""


WITHOUT_NUMPY = """
from langchain_core.embeddings import FakeEmbeddings
from langgraph.checkpoint.memory import InMemorySaver
from ebbtide import commands, create_memory_agent
from ebbtide.testing import InMemoryArchive, ScriptedModel
thread = {"configurable": {"thread_id": "t"}}
agent = create_memory_agent(
    ScriptedModel(["Noted."]), archive=InMemoryArchive(), checkpointer=InMemorySaver()
)
agent.invoke({"messages": "The staging port is 5433."}, thread)
assert commands.search(agent, thread, "staging port")
try:
    create_memory_agent(ScriptedModel(), embeddings=FakeEmbeddings(size=4))
except ValueError as error:
    assert "pip install 'ebbtide[embeddings]'" in str(error)
else:
    raise AssertionError("no error")
"""


@pytest.mark.thorough
def test_a_process_that_has_imported_nothing_else(tmp_path: Path) -> None:
    """The public names are found at their first use, without any extra.

    Without numpy words are searched, and embeddings are refused with the way out.
    """
    programs = [sys.executable, "-c", PUBLIC + WITHOUT_NUMPY]
    done = subprocess.run(programs, check=False, capture_output=True, cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, b"")
