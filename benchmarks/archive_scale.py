"""The archive at scale: time to commit, search and open, and the size of a turn.

    python benchmarks/archive_scale.py --out results --turns 100000
    python benchmarks/archive_scale.py --out results --turns 1000000 --users 1000 --copies 49 \
    --url postgresql+psycopg://...

Sessions have 100 made-up turns, and every tenth turn concludes an effort. Half of the words are
from a vocabulary of 50,000 with Zipf's frequencies. Several processes load the sessions with the
statements that commit a turn, one transaction for each session; on SQLite it is one process without
fsync. With --copies only some users are written so, and PostgreSQL copies their rows for the
others. `--url` may also be a folder. What is there already is not written again, so a run that was
stopped goes on, and one that is repeated measures only.

Then single turns are committed, and sessions searched and opened, a different one each time. CPU is
the CPU time, of PostgreSQL's server too if it runs here, which other programs hardly influence. The
results include the plans of all statements; a plan that reads a large table as a whole is an error.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from multiprocessing import get_context
from tempfile import TemporaryDirectory
from typing import Any

from made_up import exchange, text, write_turns
from report import argument_parser, cpu_clock, spread, timed, write
from sqlalchemy import event
from sqlalchemy.engine import Connection

from ebbtide import SqlArchive
from ebbtide.memory.archive.branches import Branches
from ebbtide.memory.archive.schema import METADATA, PASSAGE_BITS, TERM_BITS, TURN_BITS
from ebbtide.memory.archive.search import find
from ebbtide.memory.turn import Session, StoredTurn, Tip

LONG = 100
"""Turns of a session."""

EVERY = 10
"""Turns from one that opens an effort to the next."""
SAMPLES = 200
"""Calls that are timed of each kind, so that ten are above the 95th percentile."""
PROCESSES = 4
"""Processes that write at once."""
SMALL = 10_000
"""Turns below which PostgreSQL scans any table: then scans are disabled to see its other plan."""

BIG = {"turns", "members", "changes", "runs", "said", "headed", "sessions", "memories"}
PASSAGES = TURN_BITS + PASSAGE_BITS
COPIED: Mapping[str, tuple[str, str]] = {
    "users": ("%(users)s", "id <= %(users)s"),
    "sessions": ("%(sessions)s", "id <= %(sessions)s"),
    "runs": ("%(runs)s", "session <= %(sessions)s"),
    "members": ("0", "run <= %(runs)s"),
    "turns": (f"(%(sessions)s::bigint << {TURN_BITS})", "session <= %(sessions)s"),
    "changes": (f"(%(sessions)s::bigint << {PASSAGES})", "session <= %(sessions)s"),
    "memories": ("0", "owner <= %(users)s"),
    "said": (
        f"(%(sessions)s::bigint << {PASSAGES})",
        f"id < (%(sessions)s + 1)::bigint << {PASSAGES}",
    ),
    "headed": (
        f"(%(sessions)s::bigint << {PASSAGES})",
        f"id < (%(sessions)s + 1)::bigint << {PASSAGES}",
    ),
}
"""For each table the offset of the ids of a copy's rows, and the condition of the copied rows."""

STATE = {
    "memory": {"turn": 1},
    "bookkeeping": {"number": 1, "tip": "0123456789abcdef0123456789abcdef"},
}


@dataclass(frozen=True, slots=True)
class Load:
    """The data to write: address, turns, users, and copies of each user."""

    address: str
    turns: int
    users: int
    copies: int = 0

    @property
    def sessions(self) -> int:
        """The sessions of each user."""
        return max(2, self.turns // self.users // LONG)

    @property
    def length(self) -> int:
        """The turns of each session."""
        return max(1, self.turns // self.users // self.sessions)

    def session(self, user: int, session: int) -> Session:
        """Return a session of a user."""
        return Session(f"user-{user}", f"session-{session}")

    def open(self) -> SqlArchive:
        """Open the archive."""
        return SqlArchive(self.address, durable=False)


def session_turn(turn: int, chance: random.Random) -> StoredTurn:
    """Return a turn: a question of 200 bytes, an answer of 600; every tenth concludes an effort."""
    texts, name, events = (text(chance, 34), text(chance, 100)), "", ()
    if turn % EVERY == 0:
        fields = {"summary": text(chance, 40), "keywords": text(chance, 16).split()[::2]}
        name = f"effort-{turn // EVERY}"
        opened = {"type": "opened", "effort": name, "goal": text(chance, 8)}
        events = (opened, {"type": "concluded", "effort": name, **fields})
    at = f"2026-01-01T00:{turn // 60 % 60:02}:{turn % 60:02}Z"
    return replace(exchange(turn, texts, name, events), at=at, state=STATE)


def fill(load: Load, users: Sequence[int]) -> None:
    """Write the sessions of some users that are not there, each in one transaction."""
    with load.open() as archive:
        for user in users:
            for number in range(load.sessions):
                session = load.session(user, number)
                if archive.load(session).tip:
                    continue
                chance = random.Random(str(session))
                turns = (session_turn(turn, chance) for turn in range(1, load.length + 1))
                write_turns(archive, session, turns, load.length)


def write_all(load: Load, processes: int) -> None:
    """Write all sessions."""
    with load.open() as archive:
        archive.users()
    parts = [range(at, load.users, processes * 8) for at in range(min(load.users, processes * 8))]
    spawn = partial(ProcessPoolExecutor, mp_context=get_context("spawn"))
    with (spawn if processes > 1 else ThreadPoolExecutor)(processes) as pool:
        for done, _ in enumerate(pool.map(fill, repeat(load), parts), 1):
            print(f"{done} of {len(parts)} parts written", flush=True)


def copied(load: Load) -> None:
    """Copy all rows for other users in PostgreSQL, unless they are there; then index the terms."""
    with load.open() as archive, archive.database.writing() as connection:
        run = connection.exec_driver_sql
        if run("SELECT count(*) FROM ebbtide_users").scalar_one() > load.users:
            return
        first = {
            name: run(f"SELECT max(id) FROM ebbtide_{name}").scalar_one()  # noqa: S608 (ours)
            for name in ("users", "sessions", "runs")
        }
        for name in ("said", "headed"):
            run(f"DROP INDEX ebbtide_{name}_terms")
        for copy in range(1, load.copies + 1):
            for name in COPIED:
                run(_copying(name), {**first, "copy": copy, "named": load.users * copy})
            print(f"{copy} of {load.copies} copies made", flush=True)
        run("SET LOCAL maintenance_work_mem = '1GB'")
        for name in ("said", "headed"):
            statement = f"CREATE INDEX ebbtide_{name}_terms ON ebbtide_{name} USING gin (terms)"
            run(f"{statement} WITH (fastupdate=off)")
        for name in first:
            sequence = f"pg_get_serial_sequence('ebbtide_{name}', 'id')"
            run(f"SELECT setval({sequence}, max(id)) FROM ebbtide_{name}")  # noqa: S608 (ours)


def _copying(name: str) -> str:
    """Return the statement that copies the rows of the users who were written."""
    step, condition = COPIED[name]
    terms = f"t + ((%(users)s * %(copy)s)::bigint << {TERM_BITS})"
    new = {
        "id": f"id + {step} * %(copy)s",
        "owner": "owner + %(users)s * %(copy)s",
        "session": "session + %(sessions)s * %(copy)s",
        "run": "run + %(runs)s * %(copy)s",
        "newest": f"newest + (%(sessions)s::bigint << {TURN_BITS}) * %(copy)s",
        "terms": f"ARRAY(SELECT {terms} FROM unnest(terms) t)",  # noqa: S608 (ours)
    }
    if name == "users":
        new["name"] = "'user-' || (substr(name, 6)::bigint + %(named)s)"
    columns = [column.name for column in METADATA.tables[f"ebbtide_{name}"].columns]
    values = ", ".join(new.get(column, f'"{column}"') for column in columns)
    listed, table = ", ".join(f'"{column}"' for column in columns), f"ebbtide_{name}"
    selection = f"SELECT {values} FROM {table} WHERE {condition}"  # noqa: S608 (ours)
    return f"INSERT INTO {table} ({listed}) {selection}"


def sample_sessions(load: Load, count: int) -> Iterator[tuple[Session, str]]:
    """Yield random sessions, each with a query of five words of its first answer."""
    chance = random.Random(7)
    for _ in range(count):
        user, session = chance.randrange(load.users), chance.randrange(load.sessions)
        first = session_turn(1, random.Random(str(load.session(user, session))))
        spoken = first.messages[1].content
        user += load.users * chance.randrange(load.copies + 1)
        yield load.session(user, session), " ".join(chance.sample(spoken.split()[::2], 5))


def operations(
    archive: SqlArchive, session: Session, query: str
) -> dict[str, Callable[[], object]]:
    """Return the operations to measure in one session."""
    tip = archive.load(session).tip or Tip()
    chance = random.Random(query)
    return {
        "commit": lambda: archive.commit(session, tip, session_turn(tip.turn + 1, chance)),
        "search": lambda: find(Branches(archive.load(session, tip)), query, 5),
        "elsewhere": lambda: find(Branches(archive.load(session, tip), session), query, 5),
    }


def opening(archive: SqlArchive, session: Session) -> None:
    """Read all that a thread needs to continue in a new process."""
    branch = archive.load(session)
    branch.saved()
    branch.turns(range(branch.until - 2, branch.until + 1))
    branch.ambient(3)
    branch.efforts(10)


def times(load: Load) -> dict[str, float]:
    """Return the milliseconds of each operation: median and 95th percentile."""
    took = defaultdict[str, list[float]](list)
    count = min(SAMPLES, max(20, load.turns * (load.copies + 1) // 10))
    for session, _ in sample_sessions(load, count):
        with load.open() as fresh:
            fresh.users()  # the connection is not measured
            add_times(took, "open", lambda o=session, a=fresh: opening(a, o), cpu_clock(fresh))
    with load.open() as archive:
        archive.users()
        clock = cpu_clock(archive)
        for session, query in sample_sessions(load, count):
            for name, do in operations(archive, session, query).items():
                add_times(took, name, do, clock)
    row: dict[str, float] = {}
    for name, milliseconds in took.items():
        row |= spread(name, milliseconds)
    return row


def add_times(
    took: dict[str, list[float]], name: str, do: Callable[[], object], clock: Callable[[], float]
) -> None:
    """Add the milliseconds of a call and of its CPU time."""
    before = clock()
    took[name].append(timed(do)[0])
    took[f"{name} CPU"].append((clock() - before) * 1_000)


def sizes(archive: SqlArchive, turns: int) -> dict[str, float]:
    """Return what a turn takes up, in bytes: in tables, in indexes, and its messages as JSON."""
    with archive.database.reading() as connection:
        raw = connection.exec_driver_sql("SELECT sum(size) FROM ebbtide_turns").scalar() or 0
        if archive.database.sqlite:
            pages = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
            whole = connection.exec_driver_sql(pages).scalar() or 0
            return {"bytes per turn": round(whole / turns), "raw": round(int(raw) / turns)}
        of_all = (
            "SELECT sum({}(oid)) FROM pg_class WHERE relname LIKE 'ebbtide%%' AND relkind = 'r'"
        )
        found = {
            name: int(connection.exec_driver_sql(of_all.format(how)).scalar() or 0) / turns
            for name, how in (("tables", "pg_table_size"), ("indexes", "pg_indexes_size"))
        }
    return {f"bytes per turn, {n}": round(v) for n, v in found.items()} | {
        "raw": round(raw / turns)
    }


def plans(load: Load) -> list[dict[str, Any]]:
    """Return the plan of each statement that the operations take; raises if one reads too much."""
    session, query = next(iter(sample_sessions(load, 1)))
    seen: Counter[tuple[str, str]] = Counter()
    parameters: dict[tuple[str, str], Any] = {}
    with load.open() as archive:
        doing = {"open": lambda: opening(archive, session), **operations(archive, session, query)}
        engine = archive.database._engine  # noqa: SLF001 (what is sent to the database)
        for name, do in doing.items():

            def note(*sent: Any) -> None:
                _, _, sql, values, _, many = sent
                if sql.startswith(("SELECT", "\nSELECT", "UPDATE", "INSERT")):
                    seen[name, sql] += 1  # noqa: B023 (removed before the next)
                    parameters[name, sql] = values[0] if many else values  # noqa: B023 (as above)

            event.listen(engine, "before_cursor_execute", note)
            do()
            event.remove(engine, "before_cursor_execute", note)
        with archive.database.reading() as connection:
            if load.turns < SMALL and not archive.database.sqlite:
                connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
            found = [
                {
                    "operation": name,
                    "statement": " ".join(sql.split())[:90],
                    "times": number,
                    "plan": planned(connection, sql, parameters[name, sql]),
                }
                for (name, sql), number in seen.items()
            ]
    return found


def _is_small(step: str) -> bool:
    """Tell whether a step of SQLite reads a full-text match, or the one row of the version."""
    return ":M" in step or step == "SCAN ebbtide_version"


def planned(connection: Connection, sql: str, values: Any) -> str:
    """Return which tables a statement reads how; raises `AssertionError` for one read whole."""
    if connection.dialect.name == "sqlite":
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values).all()
        steps = [row.detail for row in rows]
        whole = [one for one in steps if one.startswith("SCAN ebbtide") and not _is_small(one)]
    else:
        (plan,) = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {sql}", values).scalar()
        nodes = [*_nodes(plan["Plan"])]
        steps = [_step(node) for node in nodes if "Relation Name" in node or "Index Name" in node]
        whole = [_step(node) for node in nodes if node["Node Type"] == "Seq Scan" and _big(node)]
    if whole:
        raise AssertionError(f"{whole} in {sql}")
    return "; ".join(dict.fromkeys(steps)) or "no table"


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)


def _step(node: dict[str, Any]) -> str:
    return " ".join(
        str(node[key]) for key in ("Node Type", "Relation Name", "Index Name") if key in node
    )


def _big(node: dict[str, Any]) -> bool:
    return node.get("Relation Name", "").removeprefix("ebbtide_") in BIG


def main() -> None:
    """Load, measure, and explain."""
    numbers = {"turns": 100_000, "users": 10, "copies": 0, "processes": PROCESSES}
    options = argument_parser(__doc__, url="", **numbers).parse_args()
    with TemporaryDirectory() as folder:
        parts = options.copies + 1
        load = Load(
            options.url or folder, options.turns // parts, options.users // parts, options.copies
        )
        write_all(load, options.processes if "://" in options.url else 1)
        if load.copies:
            copied(load)
        with load.open() as archive:
            kind = "SQLite" if archive.database.sqlite else "PostgreSQL"
            analysed(archive)
            written_turns = load.users * load.sessions * load.length
            all_turns = written_turns * parts
            row = {"database": kind, "turns": all_turns, "users": load.users * parts}
            row |= {"written": written_turns, **sizes(archive, all_turns), **times(load)}
        explained = plans(load)
    name = f"archive_scale_{kind.lower()}"
    write(options.out, name, f"The archive at scale: {kind}", [row])
    write(options.out, f"{name}_plans", f"Plans of the archive's statements: {kind}", explained)


def analysed(archive: SqlArchive) -> None:
    """Run VACUUM ANALYZE, as PostgreSQL does by itself some time after a load."""
    if not archive.database.sqlite:
        engine = archive.database._engine  # noqa: SLF001 (VACUUM runs in no transaction)
        with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            names = sorted(table for table in METADATA.tables if "vectors" not in table)
            connection.exec_driver_sql(f"VACUUM ANALYZE {', '.join(names)}")


if __name__ == "__main__":
    main()
