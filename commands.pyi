from .cli.commands import *  # noqa: F403 (what that imports)

__all__: list[str]  # noqa: PYI035 (made of the imports there)
