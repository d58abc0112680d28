from .graph.all_commands import *

__all__: list[str]  # noqa: PYI035 (made of the registry)
