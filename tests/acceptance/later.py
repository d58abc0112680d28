"""What the pages promise and today's code does not keep yet: a mark for each piece of work ahead.

Each mark expects the assertion to fail, and nothing else to go wrong. Take the mark away where the
test passes.
"""

import pytest


def _later(title: str) -> pytest.MarkDecorator:
    return pytest.mark.xfail(strict=True, raises=AssertionError, reason=title)


GRAPH = _later("The graph that was asked for: one turn, one truth")
