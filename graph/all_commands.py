"""The commands of `ebbtide chat` as functions for applications: the module `ebbtide.commands`.

Each takes the agent and the config of a run: its thread, its user (`configurable.user_id`) if it
has one, and optionally an older checkpoint. Functions that begin with `a` are for asynchronous
checkpointers. Do not run a turn of the thread while a command changes it. `COMMANDS` is the
registry.
"""

from importlib import import_module
from typing import Any

_MODULES = ("by_hand", "change", "look", "on_attention")
_TYPES = {
    *("CommandResult", "DeletionReport", "EffortLine", "EffortPage", "ErasureReport"),
    *("Explanation", "Finding", "Part", "Passage", "Position", "Rebuilt", "Report", "SearchPage"),
    *("SearchResult", "ShownContext", "Transcript", "TurnLine", "TurnPage", "Window"),
}
"""The types of results."""


def __getattr__(name: str) -> Any:
    """Find a command, its form for asynchronous code, or a type, when it is first used.

    Only then are the modules imported, since LangGraph takes a second.
    """
    modules = [import_module(f"{__package__}.commands.{module}") for module in _MODULES]
    modules.append(import_module(f"{__package__}.erase.erase"))
    registry = import_module(f"{__package__}.commands.registry").COMMANDS
    found = {"COMMANDS": registry}
    for module in modules:
        found |= {name: vars(module)[name] for name in _TYPES & vars(module).keys()}
    for command in registry.values():
        found |= {command.name: command.function, f"a{command.name}": command.asynchronous}
    if name == "__all__":
        return sorted(found)
    if name not in found:
        raise AttributeError(f"No {__name__} attribute {name}")
    return found[name]


def __dir__() -> list[str]:
    return list(__getattr__("__all__"))
