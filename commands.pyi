from .graph.commands.by_hand import *
from .graph.commands.change import *
from .graph.commands.look import *
from .graph.commands.on_attention import *
from .graph.commands.registry import COMMANDS as COMMANDS
from .graph.erase.erase import *

__all__: list[str]  # noqa: PYI035 (made of the registry)
