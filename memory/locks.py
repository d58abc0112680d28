"""The lock of the caches that threads share."""

import os
from threading import RLock

CACHES = RLock()
"""Held while a cache is read or changed, never while something waits.

A fork of the process takes it: a child in which a thread of its parent had it, or had changed a
cache by half, would wait for ever, or read nonsense.
"""

if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(
        before=CACHES.acquire, after_in_parent=CACHES.release, after_in_child=CACHES.release
    )
