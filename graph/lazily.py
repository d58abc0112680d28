"""Names that are imported at their first use, so that `ebbtide --help` starts fast."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pkgutil import get_data
from typing import Any


def exports(module: str, stub: str) -> tuple[list[str], Callable[[str], Any]]:
    """Return `__all__` and `__getattr__` of a module, from the imports in its stub file.

    Type checkers read the same stub, so each name is written once.
    """
    package = str(sys.modules[module].__package__)
    homes = {
        alias.name: "." * line.level + line.module
        for line in ast.parse(get_data(package, stub) or b"").body
        if isinstance(line, ast.ImportFrom) and line.module
        for alias in line.names
    }

    def imported(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
        value = getattr(import_module(homes[name], package), name)
        setattr(sys.modules[module], name, value)  # later uses skip this function
        return value

    return sorted(homes), imported
