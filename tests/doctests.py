"""What examples in docstrings may use without importing it: the classes of messages."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage


@pytest.fixture(scope="session", autouse=True)
def _messages(doctest_namespace: dict[str, Any]) -> None:
    for kind in (AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage):
        doctest_namespace[kind.__name__] = kind
