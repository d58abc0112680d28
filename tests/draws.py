"""How many examples a property is tried on: a few in a quick run of the tests, many in the soak."""

import os

SOAK = os.environ.get("EBBTIDE_SOAK") == "1"
"""Whether this is the long run, which draws other examples each time."""

NO_SKIP = os.environ.get("EBBTIDE_NO_SKIP") == "1"
"""Whether a skipped test is a failure."""

WHOLE = SOAK or NO_SKIP
"""Whether all is tried; a quick run leaves out what takes seconds."""


def examples(number: int) -> int:
    """Return so many, in the long run ten times as many, and in a quick one a third."""
    if SOAK:
        return number * 10
    return number if WHOLE else -(-number // 3)
