"""`ebbtide` run by a test, in this process."""

from typer.testing import CliRunner, Result

from ebbtide.cli.main import app


def run(*arguments: str, said: str | None = None) -> Result:
    """Run `ebbtide` with these arguments."""
    return CliRunner().invoke(app, arguments, input=said)


def chat(*lines: str, options: tuple[str, ...] = ()) -> Result:
    """Talk to the scripted model, the lines piped in."""
    said = "".join(f"{line}\n" for line in lines)
    return run("chat", "--model", "scripted", *options, said=said)


def talked(*lines: str, thread: str = "default", user: str = "") -> str:
    """Have a chat on a thread, and return what was shown."""
    result = chat(*lines, options=("--thread", thread, "--user", user))
    assert result.exit_code == 0, result.output
    return result.output
