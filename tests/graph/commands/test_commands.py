"""The module `ebbtide.commands`: found under its name, and complete."""

from types import ModuleType
from typing import get_args, get_type_hints

import ebbtide.commands
from ebbtide import commands
from ebbtide.cli.chat_commands import COMMANDS

ASYNCHRONOUS = [name for name in commands.__all__ if f"a{name}" in commands.__all__]


def test_it_is_one_module() -> None:
    """Both names lead to the same module."""
    assert ebbtide.commands is commands


def test_its_surface_is_what_all_names() -> None:
    """`__all__` is sorted, and names all that is there."""
    for name in commands.__all__:
        getattr(commands, name)

    there = {name: value for name, value in vars(commands).items() if not name.startswith("_")}
    assert commands.__all__ == sorted(
        name for name, value in there.items() if not isinstance(value, ModuleType)
    )


def test_every_command_has_an_asynchronous_form() -> None:
    """A function without one would not work with the checkpointer of the chat."""
    functions = [name for name in commands.__all__ if name.islower()]

    assert sorted(functions) == sorted([*ASYNCHRONOUS, *(f"a{name}" for name in ASYNCHRONOUS)])


def test_what_the_functions_return_can_be_named() -> None:
    """A type of ours that an application gets can be imported from where it got it."""
    hints = [get_type_hints(getattr(commands, name))["return"] for name in ASYNCHRONOUS]
    types = [one for hint in hints for one in (hint, *get_args(hint)) if isinstance(one, type)]
    ours = {one.__name__ for one in types if one.__module__.startswith("ebbtide")}

    assert "Explanation" in ours
    assert {
        "CommandResult",
        "Rebuilt",
        "Report",
        "ShownContext",
        "TurnPage",
    } <= ours
    assert ours <= {*commands.__all__}


def test_every_command_is_a_function_too() -> None:
    """What the chat does, an application can do; help and quit are the chat's own."""
    verbs = {name.partition("_")[0] for name in ASYNCHRONOUS}
    functions = verbs | {"context", "message"}  # `ebbtide.erase` is in the package itself

    assert {name[1:] for name in COMMANDS} - {"help", "quit"} <= functions
