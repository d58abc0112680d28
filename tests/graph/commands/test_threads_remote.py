"""The client of a server is no agent: its commands are routes there."""

from collections.abc import Callable
from typing import Any

import pytest
from langgraph.pregel.remote import RemoteGraph

import ebbtide
from ebbtide import SettingsError, commands
from tests.agents import THREAD

GIVEN: dict[str, tuple[Any, ...]] = {
    "open_effort": ("a",),
    "switch_effort": ("a",),
    "reopen_effort": ("a",),
    "expand_effort": ("a",),
    "collapse_effort": ("a",),
    "search": ("words",),
    "explain": ("a",),
    "suppress": ("a",),
    "unsuppress": ("a",),
    "forget": ("a",),
    "set_window": (3,),
}
ALONE = (
    *("close_effort", "undo", "rebuild_anchor", "messages", "efforts", "transcript", "stats"),
    *("show_context", "attention"),
)


@pytest.fixture
def client() -> RemoteGraph:
    """Return the client of a server that is not there."""
    return RemoteGraph("ebbtide", url="http://127.0.0.1:1")


def refused(call: Callable[[], Any]) -> bool:
    """Tell whether a call says what to do, before it asks any server."""
    with pytest.raises(SettingsError, match=r"RemoteGraph is not a compiled graph.*routes"):
        call()
    return True


@pytest.mark.parametrize("name", [*GIVEN, *ALONE])
def test_a_command_names_the_routes(client: RemoteGraph, name: str) -> None:
    """Each command says so of a RemoteGraph, which has no graph of ours."""
    command = getattr(commands, name)

    assert refused(lambda: command(client, THREAD, *GIVEN.get(name, ())))


@pytest.mark.parametrize("name", ["restore", "delete_session"])
def test_so_do_restoring_and_deleting(client: RemoteGraph, name: str) -> None:
    """What is no command but takes an agent does the same."""
    assert refused(lambda: getattr(ebbtide, name)(client, THREAD))


def test_so_does_deleting_a_user(client: RemoteGraph) -> None:
    """Nothing of the user is deleted then."""
    assert refused(lambda: ebbtide.delete_user(client, "ann"))  # type: ignore[arg-type]  # refused, on purpose
