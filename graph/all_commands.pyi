from .commands.by_hand import *
from .commands.change import *
from .commands.look import *
from .commands.on_attention import *
from .commands.registry import COMMANDS as COMMANDS
from .erase.erase import *

__all__: list[str]  # noqa: PYI035 (made of the registry)
