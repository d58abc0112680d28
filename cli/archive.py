"""`ebbtide archive`: check the stored sessions, and write them for people to read."""

from pathlib import Path
from typing import Annotated

import typer

from ..memory.archive.protocol import Archive, Finding
from ..memory.errors import ArchiveFormatError
from ..memory.record import Owner
from .faults import reported
from .home import configured
from .options import AnySession, ConfigFile, Root, Session, User
from .printable import printable
from .session_names import called, none_of, one_called, shown

app = typer.Typer(help="Check and export what is stored.", no_args_is_help=True)


@app.command()
@reported()
def verify(
    session: AnySession = None, root: Root = None, user: User = None, config: ConfigFile = None
) -> None:
    """Check every record from the stored bytes; exit code 1 if something is damaged or missing."""
    home = configured(root, user, config).home
    damaged = False
    with home.archive() as archive:
        owners = called(archive, home.user, session)
        for owner in owners:
            findings = _findings(archive, owner)
            damaged |= any(finding.fatal for finding in findings)
            typer.echo("\n".join([_verdict(archive, owner, findings), *map(_line, findings)]))
    if not owners:
        typer.echo(none_of(home))
    raise typer.Exit(int(damaged or not owners))


@app.command()
@reported()
def export(
    session: Session,
    folder: Annotated[Path, typer.Argument(help="Folder to write; made if it is not there.")],
    root: Root = None,
    user: User = None,
    config: ConfigFile = None,
) -> None:
    """Write a session as a folder that people can read."""
    home = configured(root, user, config).home
    with home.archive() as archive:
        owner = one_called(archive, home.user, session)
        archive.export(owner, folder)
    typer.echo(f"Wrote {printable(shown(owner))} to {folder}")


def _findings(archive: Archive, owner: Owner) -> tuple[Finding, ...]:
    """Return what is wrong with a session, also if its format is, so that the others follow."""
    try:
        return archive.verify(owner)
    except ArchiveFormatError as error:
        return (Finding("session.json", str(error)),)


def _verdict(archive: Archive, owner: Owner, findings: tuple[Finding, ...]) -> str:
    name, fatal = printable(shown(owner)), sum(finding.fatal for finding in findings)
    if fatal:
        return f"{name}: damaged in {fatal} place{'s' if fatal > 1 else ''}"
    tip = archive.newest(owner)
    turns = tip.turn if tip else 0
    return f"{name}: {turns} turn{'' if turns == 1 else 's'}, intact"


def _line(finding: Finding) -> str:
    what = finding.what if finding.fatal else f"note: {finding.what}"
    return printable(f"  {finding.where}: {what}")
