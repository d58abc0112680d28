"""The file in which attention is kept beside the archive, when something is wrong with it."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ebbtide.graph.own_store import OwnStore
from ebbtide.memory.errors import AttentionError
from ebbtide.memory.store_attention import StoreAttention
from tests.agents import talk
from tests.graph.test_attention import MEMORY, monday, session


def test_a_file_that_is_damaged_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What SQLite says of the file may be no text, and no error of its own."""
    monday(tmp_path)
    path = OwnStore(tmp_path).path
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE", b"CR\xff\x96\xffE TABLE"))

    state = talk(tmp_path, ["Hi."]).say("Hello.", session("tuesday"))

    assert state["messages"][-1].text == "Hi."
    assert "cannot be opened" in caplog.text


FORK = """
import gc, os, sys
from pathlib import Path
from ebbtide.graph.own_store import OwnStore

opened = OwnStore(Path(sys.argv[1]))
store = opened()
store.put(("a",), "k", {"v": 1})
store.conn.execute("BEGIN")
store.conn.execute("UPDATE store SET key = 'later'")
child = os.fork()
if not child:
    del store
    opened()
    gc.collect()
    os._exit(0)
os.waitpid(child, 0)
store.conn.execute("COMMIT")
assert store.get(("a",), "later").value == {"v": 1}
"""


def test_a_process_that_is_forked_off_leaves_its_parent_alone(tmp_path: Path) -> None:
    """It opens the file itself, and what its parent is writing meanwhile is not lost."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_who_reads_the_file_for_long_is_waited_for(tmp_path: Path) -> None:
    """What could not be written meanwhile is an error; later it can, and others can too."""
    monday(tmp_path)
    opened, now = OwnStore(tmp_path, wait=0.1), datetime.now(UTC)
    kept = StoreAttention(opened())
    with closing(sqlite3.connect(opened.path, isolation_level=None, timeout=0)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM store").fetchone()

        with pytest.raises(AttentionError, match="locked"):
            kept.touch("ann", MEMORY, now=now)
        reader.execute("COMMIT")
        reader.execute("BEGIN IMMEDIATE")
        reader.execute("COMMIT")
        kept.touch("ann", MEMORY, now=now)

    found = kept.explain("ann", MEMORY, now=now)
    assert found is not None
    assert found.accesses == 1
