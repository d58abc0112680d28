"""Ebbtide: a LangGraph agent whose working memory manages itself."""

import sys

import lazy_loader

from .graph import all_commands as commands
from .memory import attention

__version__ = "0.1.0"

__getattr__, _, __all__ = lazy_loader.attach_stub(__name__, __file__)

# So that `import ebbtide.attention` and `import ebbtide.commands` find them as well.
sys.modules |= {f"{__name__}.attention": attention, f"{__name__}.commands": commands}


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
