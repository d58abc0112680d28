"""Names that are imported when they are first used, so that `ebbtide --help` is there at once."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pkgutil import get_data
from typing import Any


def exports(module: str, stub: str) -> tuple[list[str], Callable[[str], Any]]:
    """Return `__all__` and `__getattr__` of a module, from the imports of the stub beside it.

    So each name stands once, where type checkers read it too.
    """
    package = str(sys.modules[module].__package__)
    homes = {
        alias.name: "." * line.level + line.module
        for line in ast.parse(get_data(package, stub) or b"").body
        if isinstance(line, ast.ImportFrom) and line.module
        for alias in line.names
    }

    def found(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
        value = getattr(import_module(homes[name], package), name)
        setattr(sys.modules[module], name, value)  # the next use does not come here
        return value

    return sorted(homes), found
