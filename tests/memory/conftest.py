"""What the tests of the memory share: a conversation over a real archive."""

from collections.abc import Iterator

import pytest

from tests.memory.conversations import Conversation, conversation


@pytest.fixture
def talk() -> Iterator[Conversation]:
    """Begin a conversation with default settings over an empty archive."""
    with conversation() as begun:
        yield begun
