"""The commands of `ebbtide chat` as functions for applications: the module `ebbtide.commands`.

Each takes the agent and the config of a run, which names the thread, the user if there is one
(`configurable.user_id`), and perhaps an older checkpoint. What begins with `a` is for asynchronous
checkpointers. While one that changes something works, no turn of the thread may run.
"""

from ..graph.attention_commands import (
    aattention,
    aexplain,
    aforget,
    asuppress,
    attention,
    aunsuppress,
    explain,
    forget,
    suppress,
    unsuppress,
)
from ..graph.effort_commands import (
    aclose_effort,
    acollapse_effort,
    aexpand_effort,
    aopen_effort,
    areopen_effort,
    aswitch_effort,
    close_effort,
    collapse_effort,
    expand_effort,
    open_effort,
    reopen_effort,
    switch_effort,
)
from ..graph.erasing import ErasureReport, aerase, erase
from ..graph.looking import (
    aefforts,
    amessages,
    asearch,
    astats,
    efforts,
    messages,
    search,
    stats,
)
from ..graph.order_tools import Commanded
from ..graph.rebuilding import Rebuilt, arebuild_anchor, rebuild_anchor
from ..graph.show_context import ShownContext, ashow_context, show_context
from ..graph.undoing import aundo, undo
from ..graph.windowing import aset_window, set_window
from ..memory.attention import Explanation
from ..memory.context.timeline import Part
from ..memory.metrics import Report
from ..memory.turn_lines import TurnLine, TurnPage

__all__ = [
    "Commanded",
    "ErasureReport",
    "Explanation",
    "Part",
    "Rebuilt",
    "Report",
    "ShownContext",
    "TurnLine",
    "TurnPage",
    "aattention",
    "aclose_effort",
    "acollapse_effort",
    "aefforts",
    "aerase",
    "aexpand_effort",
    "aexplain",
    "aforget",
    "amessages",
    "aopen_effort",
    "arebuild_anchor",
    "areopen_effort",
    "asearch",
    "aset_window",
    "ashow_context",
    "astats",
    "asuppress",
    "aswitch_effort",
    "attention",
    "aundo",
    "aunsuppress",
    "close_effort",
    "collapse_effort",
    "efforts",
    "erase",
    "expand_effort",
    "explain",
    "forget",
    "messages",
    "open_effort",
    "rebuild_anchor",
    "reopen_effort",
    "search",
    "set_window",
    "show_context",
    "stats",
    "suppress",
    "switch_effort",
    "undo",
    "unsuppress",
]
