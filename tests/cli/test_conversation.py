"""A thread that is opened with what the options of the chat say."""

from tests.cli.commands_run import run


def test_the_chat_searches_by_meaning_if_told_to() -> None:
    """An unknown model of embeddings ends in one line: the option reaches the agent."""
    result = run("chat", "--model", "scripted", "--embeddings", "nonsense", said="Hello!\n")

    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "embeddings 'nonsense'" in result.stderr
