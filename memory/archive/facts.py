"""Facts and rules of state blocks as memories of their user, with the turns that said them.

They belong to no session: one that is said in two of them is one memory with two origins, and goes
with the last one.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from itertools import count
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, select, update

from ..attention.law import Memory
from ..facts import BASE, ENDED, Fact, Item, alike, fold, is_fact, items, keywords_of
from ..names import qualified
from ..state_block import newest
from ..turn import Session, StoredTurn, Tip
from ..veto import claim
from .commit import Committed
from .database import upsert
from .index import among
from .memories import FREE, count_accesses, lock, moment, put, row_of, set_keywords, storable_text
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
    select(turns.c.at, turns.c.status, ANCHOR)
    .join(users, users.c.id == turns.c.owner)
    .where(users.c.name == bindparam("user"), turns.c.hash == bindparam("parent"))
)


@dataclass(frozen=True, slots=True)
class Said:
    """What a turn's state block does to the memories of its user, who has the facts `known`.

    What it says anew is `stored` by the memory: it becomes that, or renews one of the same words in
    any session; without a `Memory` it ends that. What the context had from another session is
    `accessed`, and `rules` are those that an answer had before it.
    """

    number: int
    known: Sequence[Any] = ()
    stored: Mapping[str, tuple[Item, Memory | None]] = field(default_factory=dict)
    accessed: Collection[str] = ()
    rules: Collection[str] = ()


def said_of(
    connect: Callable[[], AbstractContextManager[Connection]],
    session: Session,
    turn: StoredTurn,
    state: Mapping[str, Any] | None,
    *,
    moved: bool = False,
) -> Said:
    """Return what a turn does to the facts and rules of its user, all of which are compared.

    It does something if it wrote its block, is the first of a day on which rules are shown, or
    `moved` its thread to another branch. What a block leaves out stays.
    """
    memory = (state or {}).get("memory", {})
    shown, block = memory.get("summaries") or (), memory.get("anchor") or {}
    if written := [event["anchor"] for event in turn.events if event["type"] == "anchored"]:
        raw = (newest(one.content) for one in reversed(turn.messages) if one.type == "ai")
        block = next(filter(None, raw), written[-1])  # a cut one as the model wrote it
    said = items(block)
    has_rules = any(item.field == "Rules" for item in said) or any(map(is_fact, shown))
    if session.anonymous or not (written or has_rules or moved):
        return Said(turn.number)
    with connect() as connection:
        key = {"user": session.user, "parent": turn.parent}
        parent = connection.execute(_PARENT, key).first()
        is_first = parent is None or (parent.at[:10], parent.status) != (turn.at[:10], "done")
        if not (written or moved or (has_rules and is_first)):
            return Said(turn.number)
        known = connection.execute(_OF_USER, key).all()
    by_fold, wording = dict[str, str](), dict[str, str]()
    for row in known:
        by_fold.setdefault(fold(row.text), row.memory)
        wording.setdefault(row.memory, row.text)
    before = {(one.field == ENDED, fold(one.text)) for one in items(anchor_of(parent))}
    stored, current = dict[str, tuple[Item, Memory | None]](), dict[str, Item]()
    accessed = set[str]()
    for place, item in enumerate(said, 1):
        text, ends = storable_text(item.text), item.field == ENDED
        name = by_fold.get(fold(text)) or alike(text, wording)
        is_new = (ends, fold(item.text)) not in before  # else as it was, or deleted
        if item.field == ENDED:
            named = (one for one in wording if one == text or claim(wording[one]) == claim(text))
            if is_new and (name := name or next(named, "")):
                stored[name] = Item(ENDED, text), None
            continue
        if is_new and name not in shown:
            own = qualified(session, f"turn-{turn.number}")
            free = (f"{own}/fact-{n}" for n in count(place))  # of other branches too
            name = name or next(one for one in free if one not in wording)
            by_fold[fold(text)], wording[name] = name, text
            kept = Memory(name, BASE[item.field], moment(turn.at), keywords_of(text))
            stored[name] = Item(item.field, text), kept
        elif is_new:
            accessed.add(name)
        current[name] = item
    rules = {name for name, item in current.items() if item.field == "Rules"}
    rules |= {row.memory for row in known if row.memory in shown and row.field == "Rules"}
    return Said(turn.number, known, stored, accessed, rules if turn.status == "done" else set())


def remember(
    connection: Connection,
    session: Session,
    done: Committed,
    said: Said,
    state: Mapping[str, Any] | None,
) -> None:
    """Write what a turn does to the facts and rules of its user, see `said_of`.

    A rule has the date of the last day on which it was shown.
    """
    if not (said.stored or said.known or done.moved):
        return
    turn, past, user = done.turn, done.past, done.past.session.user
    lock(connection, user)
    known = connection.execute(_OF_USER, {"user": session.user}).all()
    if (said.number, said.known) != (turn.number, known):  # another writer was faster
        said = said_of(lambda: nullcontext(connection), session, turn, state, moved=done.moved)
    if done.moved:
        own = [row for row in said.known if row.session == past.session.id]
        ids = past.ids([row.turn for row in own])
        seen = [
            row
            for row in said.known
            if row.session != past.session.id or ids.get(row.turn) == row.hash
        ]
        _settle(connection, user, {row.memory for row in own}, seen)
    count_accesses(connection, user, said.accessed)
    at = {"session": past.session.id, "turn": turn.number, "at": turn.at}
    rows = [
        {"owner": user, "memory": name, "hash": turn.id, **at, **asdict(item)}
        for name, (item, _) in said.stored.items()
    ]
    if rows:
        insert = upsert(connection, facts)
        renewed = {name: insert.excluded[name] for name in (*at, "field", "text")}
        said_so = insert.on_conflict_do_update(index_elements=[*facts.primary_key], set_=renewed)
        connection.execute(said_so, rows)
    for name, (_, memory) in said.stored.items():
        put(connection, user, name, memory, None)
    in_use = update(memories).where(memories.c.owner == user, among(memories.c.memory, said.rules))
    connection.execute(in_use.values(created=moment(turn.at).isoformat()))


def _settle(connection: Connection, user: int, names: Collection[str], rows: Sequence[Any]) -> None:
    """Withdraw memories that no row says or the newest ends, and put back others.

    The rows are the newest first.
    """
    last = {row.memory: row.field for row in reversed(rows)}
    holding = [name for name in names if last.get(name, ENDED) != ENDED]
    for memory_id in {*names}.difference(holding):
        put(connection, user, memory_id, None, None)
    returned = memories.c.owner == user, among(memories.c.memory, holding), memories.c.withdrawn
    back = {"withdrawn": False, "attended": ~memories.c.suppressed}
    connection.execute(update(memories).where(*returned).values(back))


def of_user(connection: Connection, user: str, ids: Collection[str] = ()) -> dict[str, Fact]:
    """Return the remembered items of a user by their ids, all or these, in their newest wording."""
    named = (among(facts.c.memory, ids),) if ids else ()
    stored = memories.c.owner == facts.c.owner, memories.c.memory == facts.c.memory
    query = (
        select(facts, sessions.c.thread, sessions.c.namespace, FREE.label("holds"))
        .join(users, users.c.id == facts.c.owner)
        .join(sessions, sessions.c.id == facts.c.session)
        .join(memories, and_(*stored))
        .where(users.c.name == user, *named)
        .order_by(*_NEWEST_FIRST)
    )
    rows = connection.execute(query).all()
    ended = {row.memory: row.at for row in reversed(rows) if row.field == ENDED}
    found: dict[str, Fact] = {}
    wordings = defaultdict[str, set[str]](set)
    for row in rows:
        wordings[row.memory].add(fold(row.text))
    for row in rows:
        if row.field != ENDED and row.memory not in found:
            session, tip = Session(user, row.thread, row.namespace), Tip(row.turn, row.hash)
            state = bool(row.holds), "" if row.holds else ended.get(row.memory, "")
            said = (row.memory, row.field, row.text, session, tip, row.at, *state)
            found[row.memory] = Fact(*said, frozenset(wordings[row.memory]))
    return found


def forget(connection: Connection, user: int, *origins: Any) -> set[str]:
    """Delete origins of a user's facts, and the memories that no other one says.

    Returns the texts of these, folded.
    """
    touched = select(facts).where(facts.c.owner == user, *origins)
    gone = connection.execute(touched).all()
    names = {row.memory for row in gone}
    connection.execute(delete(facts).where(facts.c.owner == user, *origins))
    query = select(facts).where(facts.c.owner == user, among(facts.c.memory, names))
    rows = connection.execute(query.order_by(*_NEWEST_FIRST)).all()
    left = {row.memory: row.text for row in reversed(rows) if row.field != ENDED}
    said = (row for row in (*gone, *rows) if row.memory not in left)
    lost = {fold(row.text) for row in said}
    for memory_id in names:
        if memory_id in left:
            set_keywords(connection, user, memory_id, left[memory_id])
        else:
            connection.execute(delete(memories).where(*row_of(user, memory_id)))
            connection.execute(delete(facts).where(*row_of(user, memory_id, facts)))
    _settle(connection, user, {row.memory for row in gone if row.field == ENDED}, rows)
    return lost
