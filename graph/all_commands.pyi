from langchain_core.runnables import RunnableConfig

from .commands.by_hand import *
from .commands.change import *
from .commands.look import *
from .commands.look import Transcript as Transcript
from .commands.on_attention import *
from .commands.registry import COMMANDS as COMMANDS
from .commands.threads import Agent, on_a_thread
from .erase.erase import *

aattention = on_a_thread(attention)
aclose_effort = on_a_thread(close_effort)
acollapse_effort = on_a_thread(collapse_effort)
adelete_session = on_a_thread(delete_session)
adelete_user = on_a_thread(delete_user)
aefforts = on_a_thread(efforts)
aerase = on_a_thread(erase)
aexpand_effort = on_a_thread(expand_effort)
aexplain = on_a_thread(explain)
aforget = on_a_thread(forget)
amessages = on_a_thread(messages)
aopen_effort = on_a_thread(open_effort)
arebuild_anchor = on_a_thread(rebuild_anchor)
areopen_effort = on_a_thread(reopen_effort)
arestore = on_a_thread(restore)
asearch = on_a_thread(search)
aset_window = on_a_thread(set_window)
ashow_context = on_a_thread(show_context)
astats = on_a_thread(stats)
asuppress = on_a_thread(suppress)
aswitch_effort = on_a_thread(switch_effort)

async def atranscript(  # pyright takes the annotated result of `transcript` for a text as well
    agent: Agent, config: RunnableConfig, *, limit: int | None = None, before: int | None = None
) -> Transcript: ...

aundo = on_a_thread(undo)
aunsuppress = on_a_thread(unsuppress)
averify = on_a_thread(verify)
