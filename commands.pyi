from .graph.commands import *  # noqa: F403 (its __all__ says what)

__all__: list[str]  # noqa: PYI035 (made of the imports there)
