"""Write a session as one file: the inspector's page with its data in it."""

import os
from pathlib import Path

from ..memory.archive.protocol import Archive
from ..memory.errors import ArchiveError
from ..memory.names import numbers
from ..memory.turn import Session, Tip
from . import page, payload, prompts

MOST_TURNS = 1_000
"""Turns that one file has unless others are asked for: browsers open larger files slowly."""

PROMPTS = 50
"""Turns at the end of a file that have the prompts of their calls, which take time to make."""


def export_html(  # noqa: PLR0913 (the options of a file)
    archive: Archive,
    session: Session,
    tip: Tip,
    path: str | os.PathLike[str],
    *,
    turns: str = "",
    prices: payload.Prices = (),
) -> None:
    """Write the turns that a tip sees, or those of a list such as "1-500", to a new file.

    With prices of a million tokens read, written and cached it has money, too.

    Raises `SessionNotFoundError`, `TurnNotFoundError`, `ToolError` if `turns` is no list, and
    `ArchiveError` if the file exists.
    """
    chosen = sorted(numbers(turns)) or range(max(1, tip.turn - MOST_TURNS + 1), tip.turn + 1)
    shown = payload.whole(archive, session, tip, chosen, prices)
    sent = prompts.listed(archive, session, tip, shown["turns"][-PROMPTS:])
    content = page.standalone({**shown, **sent})
    try:
        with Path(path).open("x", encoding="utf-8", newline="\n") as file:
            file.write(content)
    except FileExistsError as error:
        raise ArchiveError(f"{str(path)!r} already exists: name a new file") from error
