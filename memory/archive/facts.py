"""Facts and rules of state blocks as memories of their user, with the turns that said them.

They belong to no session: one that is said in two of them is one memory with two origins, and goes
with the last one.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, select, update

from ..attention.law import Memory
from ..facts import BASE, Fact, Item, fact_id, fold, items, keywords_of, same
from ..state_block import newest
from ..turn import Session, StoredTurn, Tip
from .database import upsert
from .index import among
from .load import Past
from .memories import FREE, lock, moment, put, row_of, set_keywords, storable_text
from .rows import anchor_of
from .schema import ANCHOR, facts, memories, sessions, turns, users

_NEWEST_FIRST = (facts.c.at.desc(), facts.c.turn.desc(), facts.c.hash)


@dataclass(frozen=True, slots=True)
class Said:
    """What a turn's state block says, and what the block before it said, as the model was shown it.

    `anchored`: the turn wrote it. `shown` are the memories that were surfaced.
    """

    items: tuple[Item, ...]
    before: tuple[Item, ...]
    anchored: bool
    shown: frozenset[str]
    first_of_day: bool

    @property
    def rules(self) -> tuple[Item, ...]:
        """The rules of the block."""
        return tuple(item for item in self.items if item.field == "Rules")


def items_of(turn: StoredTurn, state: Mapping[str, Any] | None) -> tuple[Item, ...]:
    """Return what the state block after a turn says; a cut one is read as the model wrote it."""
    written = [event["anchor"] for event in turn.events if event["type"] == "anchored"]
    if not written:
        return items((state or {}).get("memory", {}).get("anchor") or {})
    raw = [newest(one.content) for one in turn.messages if one.type == "ai"]
    return items(next(filter(None, reversed(raw)), written[-1]))


def said_of(
    connection: Connection,
    turn: StoredTurn,
    state: Mapping[str, Any] | None,
    said: tuple[Item, ...],
    parent: int,
) -> Said:
    """Return what a turn says, its `items_of`; `parent` is the id of the row that it follows."""
    written = any(event["type"] == "anchored" for event in turn.events)
    if not written and not any(item.field == "Rules" for item in said):
        return Said(said, (), anchored=False, shown=frozenset(), first_of_day=False)
    row = connection.execute(select(turns.c.at, ANCHOR).where(turns.c.id == parent)).first()
    earlier = anchor_of(row)
    before = tuple(item for item in items(earlier) if not item.text.endswith("…"))
    shown = frozenset((state or {}).get("memory", {}).get("summaries") or ())
    is_first = row is None or row.at[:10] != turn.at[:10]
    return Said(said, before, written, shown, is_first)


def remember(
    connection: Connection, session: Session, past: Past, turn: StoredTurn, said: Said
) -> None:
    """Write what a turn's block does to the facts and rules of its user.

    What it says anew becomes a memory, or renews the one of the same words in any session; what
    the context had from another session is accessed. What it leaves out is withdrawn. A rule has
    the date of the last day on which its block was in use.
    """
    if not (said.anchored or (said.rules and said.first_of_day)):
        return
    lock(connection, past.session.user)
    known = _Known.of(connection, past.session.user)
    before, stood = {fold(item.text) for item in said.before}, known.names(said.before)
    for number, item in enumerate(said.items, 1):
        memory_id = known.name(item.text)
        if memory_id in said.shown:
            accessed = {"accesses": memories.c.accesses + 1, "attended": FREE}
            own = row_of(known.user, memory_id)
            connection.execute(update(memories).where(*own).values(accessed))
        elif fold(item.text) not in before:  # else it is as it was, or was deleted by hand
            known.store(memory_id or fact_id(session, turn.number, number), item, past, turn)
    for memory_id in stood - known.names(said.items):
        put(connection, known.user, memory_id, None, None)
    of_rules = among(memories.c.memory, known.names(said.rules))
    renewed = update(memories).where(memories.c.owner == known.user, of_rules)
    connection.execute(renewed.values(created=moment(turn.at).isoformat()))


def move(connection: Connection, past: Past, said: Said) -> None:
    """Withdraw the facts of a branch that a session left, and put back those of its new one."""
    lock(connection, past.session.user)
    known, session = _Known.of(connection, past.session.user), past.session.id
    current = known.names(said.items)
    for memory_id, origins in known.origins.items():
        own = [row for row in origins if row.session == session]
        ids = past.ids([row.turn for row in own])
        seen = [row for row in own if ids.get(row.turn) == row.hash]
        if own and not seen and len(own) == len(origins):
            put(connection, known.user, memory_id, None, None)
        elif seen and memory_id in current:
            back = {"withdrawn": False, "attended": ~memories.c.suppressed}
            withdrawn = (*row_of(known.user, memory_id), memories.c.withdrawn)
            connection.execute(update(memories).where(*withdrawn).values(back))


@dataclass(frozen=True, slots=True)
class _Known:
    """The remembered items of a user: by their ids the turns that said them, newest first."""

    connection: Connection
    user: int
    origins: dict[str, list[Any]]

    @classmethod
    def of(cls, connection: Connection, user: int) -> "_Known":
        origins: dict[str, list[Any]] = {}
        query = select(facts).where(facts.c.owner == user).order_by(*_NEWEST_FIRST)
        for row in connection.execute(query):
            origins.setdefault(row.memory, []).append(row)
        return cls(connection, user, origins)

    def name(self, text: str) -> str:
        """Return the id of the memory that says the same, "" if there is none."""
        folded, wordings = fold(text), list[tuple[str, str]]()
        for memory_id, rows in self.origins.items():
            if any(fold(row.text) == folded for row in rows):
                return memory_id
            wordings.append((memory_id, rows[0].text))
        return next((memory_id for memory_id, other in wordings if same(text, other)), "")

    def names(self, said: Iterable[Item]) -> set[str]:
        return {name for item in said if (name := self.name(item.text))}

    def store(self, memory_id: str, item: Item, past: Past, turn: StoredTurn) -> None:
        """Store an item that a turn said."""
        text = storable_text(item.text)
        values = {"session": past.session.id, "turn": turn.number, "at": turn.at}
        values |= {"field": item.field, "text": text}
        key = {"owner": self.user, "memory": memory_id, "hash": turn.id}
        statement = upsert(self.connection, facts).values(**key, **values)
        self.connection.execute(statement.on_conflict_do_update(index_elements=[*key], set_=values))
        at = moment(turn.at)
        memory = Memory(memory_id, BASE[item.field], at, keywords_of(text))
        put(self.connection, self.user, memory_id, memory, None)
        fresh = _Known.of(self.connection, self.user)
        self.origins.update(fresh.origins)


def of_user(connection: Connection, user: str, ids: Collection[str] = ()) -> dict[str, Fact]:
    """Return the remembered items of a user by their ids, all or these, in their newest wording."""
    named = (among(facts.c.memory, ids),) if ids else ()
    query = (
        select(facts, sessions.c.thread, sessions.c.namespace)
        .join(users, users.c.id == facts.c.owner)
        .join(sessions, sessions.c.id == facts.c.session)
        .where(users.c.name == user, *named)
        .order_by(*_NEWEST_FIRST)
    )
    found: dict[str, Fact] = {}
    for row in connection.execute(query):
        session, tip = Session(user, row.thread, row.namespace), Tip(row.turn, row.hash)
        found.setdefault(row.memory, Fact(row.memory, row.field, row.text, session, tip, row.at))
    return found


def forget(connection: Connection, user: int, *origins: Any) -> None:
    """Delete origins of a user's facts, and the memories that have no other one."""
    touched = select(facts.c.memory).where(facts.c.owner == user, *origins)
    names = {*connection.execute(touched).scalars()}
    connection.execute(delete(facts).where(facts.c.owner == user, *origins))
    left = _Known.of(connection, user).origins
    for memory_id in names:
        if memory_id in left:
            set_keywords(connection, user, memory_id, left[memory_id][0].text)
        else:
            connection.execute(delete(memories).where(*row_of(user, memory_id)))
