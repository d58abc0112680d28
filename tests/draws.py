"""How many examples a property is tried on: a few in each run of the tests, many in the soak."""

import os

SOAK = os.environ.get("EBBTIDE_SOAK") == "1"
"""Whether this is the long run, which draws other examples each time."""


def examples(number: int) -> int:
    """Return so many, and in the long run ten times as many."""
    return number * 10 if SOAK else number
