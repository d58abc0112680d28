"""Attention: which memories of a user's sessions are worth surfacing now."""

import lazy_loader

_OFFERED = {
    "attention.law": ["Attention", "Explanation", "Memory"],
    "attention.manager": ["AttentionManager", "compute_effective_salience"],
    "attention.redis": ["RedisAttention"],
}
"""What `ebbtide.attention` offers, by module; Redis is an extra."""

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__.rpartition(".")[0], submod_attrs=_OFFERED
)
