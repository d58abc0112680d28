"""Vectors as they are stored: a scale of four bytes, then a byte for each number."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..meaning import Vector, Vectors
from .damage import IndexDamagedError

_SCALE = np.dtype("<f4")
_STEPS = 127
_LONGEST = 1.01


def blob(vector: Vector) -> bytes:
    """Return a vector as bytes; a cosine loses at most a few thousandths by it.

    >>> vectors([blob(np.float32([0.6, -0.8]))]).round(2).tolist()
    [[0.6000000238418579, -0.800000011920929]]
    """
    scale = float(np.abs(vector).max(initial=0)) / _STEPS
    steps = np.round(vector / (scale or 1.0)).astype(np.int8)
    return np.array(scale, _SCALE).tobytes() + steps.tobytes()


def vectors(blobs: Sequence[Any], size: int | None = None) -> Vectors:
    """Return stored vectors by row; `IndexDamagedError` if one does not have `size` numbers."""
    try:
        length = len(blobs[0]) if size is None else size + _SCALE.itemsize
        if {*map(len, blobs)} != {length}:
            raise IndexDamagedError(f"a vector is not of {size} numbers")
        rows = np.frombuffer(b"".join(blobs), np.uint8).reshape(len(blobs), length)
        scales = rows[:, : _SCALE.itemsize].copy().view(_SCALE)
        if not np.all((scales >= 0) & (scales * _STEPS <= _LONGEST)):
            raise IndexDamagedError("a vector is too long")
        return rows[:, _SCALE.itemsize :].view(np.int8).astype(np.float32) * scales
    except (TypeError, ValueError) as error:
        raise IndexDamagedError(f"a vector cannot be read: {error}") from error
