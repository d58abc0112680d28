"""`ebbtide archive`: check, export, copy and delete the stored sessions."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

import typer

from ..graph.erase.erase import delete_session
from ..memory.archive.copy import Copied, copy
from ..memory.archive.export import export_folder, export_markdown
from ..memory.archive.protocol import Archive, Finding
from ..memory.archive.sql import SqlArchive
from ..memory.errors import ArchiveError, ArchiveFormatError, SessionNotFoundError
from ..memory.metrics import prices_of
from ..memory.names import session_label
from ..memory.turn import Session
from .home import HISTORY, AnySession, ConfigFile, Json, Root, SessionName, User, configured
from .inspect import ChatAgents, inspector
from .printable import counted, discreet, in_line, print_json
from .reports import Prices, finding_line, sessions_named

app = typer.Typer(
    help="Check, export, copy and delete what is stored.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.command()
def verify(
    checked: AnySession = None,
    root: Root = None,
    user: User = None,
    config: ConfigFile = None,
    *,
    json: Json = False,
) -> None:
    """Check every stored turn. The exit code is 1 if something is damaged or missing."""
    home = configured(root, user, config)
    with home.archive() as archive:
        sessions = sessions_named(archive, home.user, checked)
        of_file = archive.verify_file()  # once, however many sessions it has
        checks = [_Check.of(archive, session) for session in sessions]
    damaged = bool(of_file) or any(check.damage for check in checks)
    if json:
        print_json({"file": of_file, "sessions": checks})
    else:
        lines = [finding_line(finding).strip() for finding in of_file]
        lines += [line for check in checks for line in check.lines()]
        typer.echo("\n".join(lines if sessions else [*lines, home.no_sessions]))
    raise typer.Exit(int(damaged or not sessions))


@dataclass(frozen=True, slots=True)
class _Check:
    """What was found wrong with a session; `damage` counts what is more than a note."""

    session: str
    turns: int
    damage: int
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, archive: Archive, session: Session) -> Self:
        """Check a session."""
        turns = 0
        try:
            findings = archive.verify(session)
            damage = sum(finding.fatal for finding in findings)
            tip = None if damage else archive.load(session).tip
            turns = tip.turn if tip else 0
        except ArchiveFormatError as error:  # the other sessions are checked all the same
            findings, damage = (Finding("archive", str(error)),), 1
        return cls(session_label(session), turns, damage, findings)

    def lines(self) -> Iterator[str]:
        """Yield the lines about the session."""
        intact = f"{counted(self.turns, 'turn')}, intact"
        state = f"damaged in {counted(self.damage, 'place')}" if self.damage else intact
        yield f"{in_line(self.session)}: {state}"
        yield from map(finding_line, self.findings)


@app.command()
def export(  # noqa: PLR0913, PLR0917 (the options that every command has)
    session: SessionName,
    target: Annotated[Path, typer.Argument(help="New folder, or new file for Markdown or HTML.")],
    form: Annotated[
        Literal["folder", "markdown", "html"] | None,
        typer.Option("--format", help="Default: by TARGET's suffix .md or .html, else folder."),
    ] = None,
    turns: Annotated[
        str, typer.Option(help="Turns in the HTML file, as 1-500 (default: the last 1,000).")
    ] = "",
    prices: Prices = None,
    root: Root = None,
    user: User = None,
    config: ConfigFile = None,
) -> None:
    """Write a session as a folder, Markdown or HTML.

    Markdown and HTML have the newest branch alone.
    """
    home = configured(root, user, config)
    with home.archive() as archive:
        sessions = sessions_named(archive, home.user, session)
        exact = [chosen for chosen in sessions if session_label(chosen) == session]
        chosen, *namesakes = exact or sessions
        if namesakes:
            names = ", ".join(repr(session_label(namesake)) for namesake in (chosen, *namesakes))
            state = f"{session!r} is the thread of several sessions"
            raise ArchiveError(f"{state}: name one of {names}")
        kind = form or {".md": "markdown", ".html": "html"}.get(target.suffix.lower(), "folder")
        if kind == "folder":
            export_folder(archive, chosen, target)
        elif (tip := archive.load(chosen).tip) is None:
            raise SessionNotFoundError(chosen.thread)
        elif kind == "markdown":
            export_markdown(archive, chosen, tip, target)
        else:
            write = inspector("export").export_html
            rates = prices_of(prices) if prices is not None else ()
            write(archive, chosen, tip, target, turns=turns, prices=rates)
        damaged = kind == "folder" and any(found.fatal for found in archive.verify(chosen))
    typer.echo(in_line(f"Wrote {session_label(chosen)} to {target}"))
    if damaged:
        state = f"session {session_label(chosen)!r} is damaged, and {str(target)!r} with it"
        raise ArchiveError(f"{state}: `ebbtide archive verify` says where")


@app.command()
def delete(
    thread: SessionName,
    root: Root = None,
    user: User = None,
    config: ConfigFile = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a thread for good, after you confirm.

    Its turns, memories and checkpoints go. With --yes nothing is asked.
    """
    home = configured(root, user, config, model="scripted")  # nothing is asked of a model
    with home.archive() as archive:
        threads = [session.thread for session in sessions_named(archive, home.user, thread)]
        name = thread if thread in threads else threads[0]
        tips = [archive.load(o).tip for o in archive.sessions(home.user) if o.thread == name]
        turns = sum(tip.turn for tip in tips if tip)
        state = f"thread {name!r} of {counted(turns, 'turn')} in {home.location}"
        if not yes and not _agreed(f"Delete {in_line(state)} for good?"):
            raise typer.Exit(1)
        with ChatAgents(home, archive)(home.user) as agent:
            report = delete_session(
                agent, {"configurable": {"thread_id": name, "user_id": home.user}}
            )
    (home.chat_folder() / HISTORY).unlink(missing_ok=True)  # it has what was typed
    typer.echo("\n".join([f"Deleted {in_line(state)}", *map(in_line, report.not_erased)]))


def _agreed(question: str) -> bool:
    try:
        return typer.confirm(question, err=True)
    except typer.Abort as error:
        if sys.stdin is not None and sys.stdin.isatty():
            raise
        typer.echo("", err=True)
        raise ArchiveError("nobody answered, and nothing was deleted: pass --yes") from error


@app.command("copy")
def duplicate(
    source: Annotated[str, typer.Argument(metavar="FROM", help="Folder or URL of an archive.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Folder or URL of another one.")],
) -> None:
    """Copy all sessions of all users. If it is stopped, run it again to continue."""
    with SqlArchive(source) as original, SqlArchive(target) as copied:
        if not original.users():
            place = "the folder or URL of an archive"
            raise ArchiveError(f"{discreet(source)!r} holds no session: name {place}")
        done = copy(original, copied, _print_session)
    fresh = [session for session in done if session.fresh]
    turns = counted(sum(session.turns for session in fresh), "turn")
    sessions = counted(len(fresh), "session")
    typer.echo(f"{sessions} with {turns} copied, {len(done) - len(fresh)} there already")


def _print_session(session: Copied) -> None:
    state = counted(session.turns, "turn") if session.fresh else "there already"
    typer.echo(in_line(f"{session.session.user_label}: {session_label(session.session)}: {state}"))
