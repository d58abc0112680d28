"""A scripted model over HTTP, that the command finds where OpenAI's is."""

from collections.abc import Iterator

import pytest

from tests.evaluation.answering import KEY, answer
from tests.openai_server import OpenAIServer, serving


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    """Serve the scripted model, and point OpenAI's client at it."""
    with serving(by=answer) as running:
        for name, value in {**KEY, "OPENAI_BASE_URL": running.url}.items():
            monkeypatch.setenv(name, value)
        yield running
