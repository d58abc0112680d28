"""The commands of `ebbtide chat` as functions for applications: the module `ebbtide.commands`.

Each takes the agent and the config of a run, which names the thread, the user if there is one
(`configurable.user_id`), and perhaps an older checkpoint. What begins with `a` is for asynchronous
checkpointers. While one that changes something works, no turn of the thread may run.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
