"""Ebbtide: a LangGraph agent whose working memory manages itself."""

import sys

from .graph import commands
from .graph.lazily import exports as _exports

__all__, __getattr__ = _exports(__name__, "__init__.pyi")

sys.modules[f"{__name__}.commands"] = commands  # so that `import ebbtide.commands` finds it as well
