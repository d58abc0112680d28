"""Ebbtide: a LangGraph agent whose working memory manages itself."""

import sys

import lazy_loader

from .graph import commands

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

sys.modules[f"{__name__}.commands"] = commands  # so that `import ebbtide.commands` finds it as well
