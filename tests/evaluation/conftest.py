"""A scripted model over HTTP, that the command finds where OpenAI's is."""

from collections.abc import Iterator

import pytest

from tests.evaluation.answering import answer, pointed_at
from tests.openai_server import OpenAIServer, serving


@pytest.fixture(scope="module")
def served() -> Iterator[OpenAIServer]:
    """Serve the scripted model to all tests of a file.

    By its address OpenAI's client keeps what is slow to make for each connection.
    """
    with serving(by=answer) as running:
        yield running


@pytest.fixture
def server(served: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> OpenAIServer:
    """Point OpenAI's client at the server, as if that were new."""
    pointed_at(served, monkeypatch)
    served.answers = answer
    served.requests.clear()
    return served
