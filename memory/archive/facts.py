"""Facts and rules of state blocks as memories of their user, with the turns that said them.

They belong to no session: one that is said in two of them is one memory with two origins, and goes
with the last one.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from itertools import count
from typing import Any

from sqlalchemy import Connection, bindparam, delete, select, update

from ..attention.law import Memory
from ..facts import BASE, Fact, Item, fact_id, fold, items, keywords_of, same
from ..state_block import newest
from ..turn import Session, StoredTurn, Tip
from .commit import Committed
from .database import upsert
from .index import among
from .load import Past
from .memories import FREE, lock, moment, put, row_of, set_keywords, storable_text
from .rows import anchor_of
from .schema import ANCHOR, facts, memories, sessions, turns, users

_NEWEST_FIRST = (facts.c.at.desc(), facts.c.turn.desc(), facts.c.hash, facts.c.memory)
_OF_USER = (
    select(facts)
    .join(users, users.c.id == facts.c.owner)
    .where(users.c.name == bindparam("user"))
    .order_by(*_NEWEST_FIRST)
)
_PARENT = (
    select(turns.c.at, ANCHOR)
    .join(users, users.c.id == turns.c.owner)
    .where(users.c.name == bindparam("user"), turns.c.hash == bindparam("parent"))
)


@dataclass(frozen=True, slots=True)
class Said:
    """What a turn's state block does to the memories of its user, who has the facts `known`.

    `names` has the memory of each item. What is said anew is `stored`: it becomes a memory, or
    renews the one of the same words in any session. What the context had from another session is
    `accessed`, and what the block leaves out `withdrawn`.
    """

    number: int
    known: Sequence[Any] = ()
    names: Mapping[Item, str] = field(default_factory=dict)
    stored: Sequence[tuple[Item, Memory]] = ()
    accessed: Collection[str] = ()
    withdrawn: Collection[str] = ()


def items_of(turn: StoredTurn, state: Mapping[str, Any] | None) -> tuple[Item, ...]:
    """Return what the state block after a turn says; a cut one is read as the model wrote it."""
    written = [event["anchor"] for event in turn.events if event["type"] == "anchored"]
    if not written:
        return items((state or {}).get("memory", {}).get("anchor") or {})
    raw = [newest(one.content) for one in turn.messages if one.type == "ai"]
    return items(next(filter(None, reversed(raw)), written[-1]))


def said_of(
    connect: Callable[[], AbstractContextManager[Connection]],
    session: Session,
    turn: StoredTurn,
    state: Mapping[str, Any] | None,
    *,
    moved: bool = False,
) -> Said:
    """Return what a turn does to the facts and rules of its user, all of which are compared.

    It does something if it wrote its block, or is the first of a day on which rules are in use; if
    its thread `moved` to another branch, only the names are needed.
    """
    said, written = items_of(turn, state), any(one["type"] == "anchored" for one in turn.events)
    has_rules = any(item.field == "Rules" for item in said)
    if session.anonymous or not (written or has_rules or moved):
        return Said(turn.number)
    with connect() as connection:
        key = {"user": session.user, "parent": turn.parent}
        parent = connection.execute(_PARENT, key).first()
        is_first = parent is None or parent.at[:10] != turn.at[:10]
        renews = written or (has_rules and is_first)
        known = connection.execute(_OF_USER, key).all() if renews or moved else ()
    by_fold, wording = dict[str, str](), dict[str, str]()
    for row in known:
        by_fold.setdefault(fold(row.text), row.memory)
        wording.setdefault(row.memory, row.text)

    def name_of(text: str) -> str:
        """Return the id of the memory that says the same, "" if there is none."""
        alike = (memory_id for memory_id, other in wording.items() if same(text, other))
        return by_fold.get(fold(text)) or next(alike, "")

    if not renews:
        return Said(turn.number, known, {item: name_of(item.text) for item in said if known})
    before = [item.text for item in items(anchor_of(parent)) if not item.text.endswith("…")]
    folded, stood = {fold(text) for text in before}, {name_of(text) for text in before}
    shown = (state or {}).get("memory", {}).get("summaries") or ()
    names, stored = dict[Item, str](), list[tuple[Item, Memory]]()
    for place, item in enumerate(said, 1):
        name = name_of(item.text)
        if name not in shown and fold(item.text) not in folded:  # else as it was, or deleted
            free = (fact_id(session, turn.number, n) for n in count(place))  # of other branches too
            name = name or next(one for one in free if one not in wording)
            text = storable_text(item.text)
            by_fold[fold(text)], wording[name] = name, text
            memory = Memory(name, BASE[item.field], moment(turn.at), keywords_of(text))
            stored.append((Item(item.field, text), memory))
        names[item] = name
    current = {*names.values()}
    return Said(turn.number, known, names, stored, current & {*shown}, stood - current)


def remember(
    connection: Connection,
    session: Session,
    done: Committed,
    said: Said,
    state: Mapping[str, Any] | None,
) -> None:
    """Write what a turn does to the facts and rules of its user, see `said_of`.

    A rule has the date of the last day on which its block was in use.
    """
    if not (said.names or said.known or done.moved):
        return
    turn, past, user = done.turn, done.past, done.past.session.user
    lock(connection, user)
    known = connection.execute(_OF_USER, {"user": session.user}).all()
    if (said.number, said.known) != (turn.number, known):  # another writer was faster
        said = said_of(lambda: nullcontext(connection), session, turn, state, moved=done.moved)
    if done.moved:
        _move(connection, past, said)
    accessed = {"accesses": memories.c.accesses + 1, "attended": FREE}
    for memory_id in said.accessed:
        connection.execute(update(memories).where(*row_of(user, memory_id)).values(accessed))
    at = {"session": past.session.id, "turn": turn.number, "at": turn.at}
    rows = [
        {"owner": user, "memory": memory.id, "hash": turn.id, **at, **asdict(item)}
        for item, memory in said.stored
    ]
    if rows:
        insert = upsert(connection, facts)
        renewed = {name: insert.excluded[name] for name in (*at, "field", "text")}
        said_so = insert.on_conflict_do_update(index_elements=[*facts.primary_key], set_=renewed)
        connection.execute(said_so, rows)
    for _, memory in said.stored:
        put(connection, user, memory.id, memory, None)
    for memory_id in said.withdrawn:
        put(connection, user, memory_id, None, None)
    rules = [name for item, name in said.names.items() if item.field == "Rules"]
    in_use = update(memories).where(memories.c.owner == user, among(memories.c.memory, rules))
    connection.execute(in_use.values(created=moment(turn.at).isoformat()))


def _move(connection: Connection, past: Past, said: Said) -> None:
    """Withdraw the facts of a branch that a session left, and put back those of its new one."""
    user, session = past.session.user, past.session.id
    own = [row for row in said.known if row.session == session]
    ids = past.ids([row.turn for row in own])
    seen = {row.memory for row in own if ids.get(row.turn) == row.hash}
    elsewhere = {row.memory for row in said.known if row.session != session}
    for memory_id in {row.memory for row in own} - seen - elsewhere:
        put(connection, user, memory_id, None, None)
    returned = memories.c.owner == user, among(memories.c.memory, seen & {*said.names.values()})
    back = {"withdrawn": False, "attended": ~memories.c.suppressed}
    connection.execute(update(memories).where(*returned, memories.c.withdrawn).values(back))


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
    query = select(facts).where(facts.c.owner == user, among(facts.c.memory, names))
    newest_first = connection.execute(query.order_by(*_NEWEST_FIRST)).all()
    left = {row.memory: row.text for row in reversed(newest_first)}
    for memory_id in names:
        if memory_id in left:
            set_keywords(connection, user, memory_id, left[memory_id])
        else:
            connection.execute(delete(memories).where(*row_of(user, memory_id)))
