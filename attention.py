"""Attention: which memories of a user's sessions are worth surfacing now."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("ebbtide", __file__)
