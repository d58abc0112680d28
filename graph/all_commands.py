"""Every command: whoever imports this module has the registry in full."""

from .commands import by_hand, change, look, on_attention  # noqa: F401 (they register)
from .commands.registry import COMMANDS as COMMANDS  # noqa: PLC0414 (exported)
from .erase import erase  # noqa: F401 (it registers)
