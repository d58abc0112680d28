"""The commands of `ebbtide chat` as functions for applications: the module `ebbtide.commands`.

Each takes the agent and the config of a run: its thread, its user (`configurable.user_id`) if it
has one, and optionally an older checkpoint. Functions that begin with `a` are for asynchronous
checkpointers. Do not run a turn of the thread while a command changes it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
