"""The attachments of a user: each stored once, with the turns that refer to it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Select, delete, exists, select

from ..attachments import Texts
from ..serialised import fingerprint
from ..turn import Session
from .database import upsert
from .rows import unzipped, zipped
from .schema import attached, attachments, users

_SAME = (attached.c.owner == attachments.c.owner) & (attached.c.digest == attachments.c.digest)


def awaiting(session: Session) -> int:
    """Return what stands for a turn in the rows of what a session's running turn refers to."""
    return -int(fingerprint([session.thread, session.namespace], 15), 16)


def compressed(texts: Texts) -> dict[str, bytes]:
    """Return attachments as they are stored, by digest: compressing large ones takes long."""
    return {digest: zipped(text) for digest, text in texts.items()}


def put(connection: Connection, user: int, turn: int, files: Mapping[str, bytes]) -> None:
    """Store attachments that a turn, or with `awaiting` a running one, refers to."""
    store(connection, user, files)
    _refer(connection, user, turn, files)


def store(connection: Connection, user: int, files: Mapping[str, bytes]) -> None:
    """Store attachments to which turns will refer."""
    rows = [
        {"owner": user, "digest": digest, "content": content} for digest, content in files.items()
    ]
    if rows:
        connection.execute(upsert(connection, attachments).on_conflict_do_nothing(), rows)


def refer(connection: Connection, user: int, turn: int, digests: Iterable[str]) -> None:
    """Note what a turn refers to, of what is stored: a client may send any digest."""
    own = attachments.c.owner == user, attachments.c.digest.in_([*digests])
    stored = connection.execute(select(attachments.c.digest).where(*own)).scalars().all()
    _refer(connection, user, turn, stored)


def _refer(connection: Connection, user: int, turn: int, digests: Iterable[str]) -> None:
    rows = [{"owner": user, "turn": turn, "digest": digest} for digest in digests]
    if rows:
        connection.execute(upsert(connection, attached).on_conflict_do_nothing(), rows)


def settle(connection: Connection, user: int, session: Session, turn: int) -> None:
    """Take off a session's running turn what a commit of it refers to now."""
    committed = attached.alias()
    own = committed.c.owner == user, committed.c.turn == turn
    running = attached.c.owner == user, attached.c.turn == awaiting(session)
    referred = attached.c.digest.in_(select(committed.c.digest).where(*own))
    connection.execute(delete(attached).where(*running, referred))


def read(connection: Connection, user: str, digests: Sequence[str]) -> Texts:
    """Return the attachments of a user with these digests, those that are stored."""
    query = (
        select(attachments.c.digest, attachments.c.content)
        .join(users, users.c.id == attachments.c.owner)
        .where(users.c.name == user, attachments.c.digest.in_(digests))
    )
    return {row.digest: unzipped(row.content) for row in connection.execute(query)}


def of_turns(connection: Connection, own_turns: Select[Any]) -> Texts:
    """Return the attachments that turns refer to."""
    query = (
        select(attachments.c.digest, attachments.c.content)
        .join(attached, _SAME)
        .where(attached.c.turn.in_(own_turns))
        .distinct()
    )
    return {row.digest: unzipped(row.content) for row in connection.execute(query)}


def forget(
    connection: Connection,
    user: int,
    own_turns: Select[Any] | Sequence[int],
    *,
    awaiting_in: Session,
) -> None:
    """Take turns off what refers to attachments, and delete those that nobody refers to then.

    So, too, the turn that may have run in a session, which is at rest.
    """
    gone = attached.c.turn.in_(own_turns) | (attached.c.turn == awaiting(awaiting_in))
    connection.execute(delete(attached).where(attached.c.owner == user, gone))
    referred = exists(select(attached.c.turn).where(_SAME))
    connection.execute(delete(attachments).where(attachments.c.owner == user, ~referred))


def unused(connection: Connection, user: int) -> tuple[str, ...]:
    """Return the digests of a user's attachments that no committed turn refers to."""
    of_turn = exists(select(attached.c.turn).where(_SAME, attached.c.turn > 0))
    query = select(attachments.c.digest).where(attachments.c.owner == user, ~of_turn)
    return tuple(connection.execute(query.order_by(attachments.c.digest)).scalars())


def missing(connection: Connection, user: int) -> dict[int, str]:
    """Return by turn the digest of an attachment of a user that it refers to and is not stored."""
    stored = exists(select(attachments.c.digest).where(_SAME))
    query = select(attached.c.turn, attached.c.digest).where(attached.c.owner == user, ~stored)
    return {row.turn: row.digest for row in connection.execute(query)}


def of_running(connection: Connection, user: str) -> list[tuple[int, dict[str, bytes]]]:
    """Return what running turns of a user refer to, with what stands for each, see `awaiting`."""
    query = select(attached.c.turn, attached.c.digest, attachments.c.content)
    query = query.join(attachments, _SAME).join(users, users.c.id == attached.c.owner)
    rows = connection.execute(query.where(users.c.name == user, attached.c.turn < 0))
    return [(row.turn, {row.digest: row.content}) for row in rows]
