from .cli.commands import *  # noqa: F403 (its __all__ says what)
from .cli.commands import __all__ as __all__
