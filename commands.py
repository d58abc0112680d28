"""The commands of `ebbtide chat` for programs: `ebbtide.graph.all_commands` by a short name."""

import sys

from .graph import all_commands

sys.modules[__name__] = all_commands
