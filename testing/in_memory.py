"""An archive for tests: it keeps everything in memory and writes no file."""

from sqlalchemy import URL

from ..memory.archive.sql import SqlArchive


class InMemoryArchive(SqlArchive):
    """An archive in memory, for tests in one process. Its content is lost with the object.

    It has one connection, so threads wait for each other.

    Examples:
        >>> from ebbtide import create_memory_agent
        >>> from ebbtide.testing import ScriptedModel
        >>> agent = create_memory_agent(ScriptedModel(["Hello."]), archive=InMemoryArchive())
        >>> agent.invoke({"messages": "Hi"})["messages"][-1].text
        'Hello.'
    """

    def __init__(self) -> None:
        """Start empty."""
        super().__init__(URL.create("sqlite", database=":memory:"))
