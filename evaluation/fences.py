"""The fences around what models of an evaluation read."""

from ..memory.fences import Fences
from ..memory.tokens import count

FENCES = Fences(b"ebbtide evaluation", count)
"""With a key that everybody knows, so that recorded answers are found again."""
