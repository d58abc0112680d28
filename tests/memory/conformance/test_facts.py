"""Facts and rules of state blocks are memories of their user, wherever they are said."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, event

from ebbtide import memories
from ebbtide.memory.archive.copy import copy
from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.archive.sql import DiskArchive, SqlArchive
from ebbtide.memory.errors import CommandError
from ebbtide.memory.turn import Session, Status, StoredTurn, Tip
from tests.memory.turns import START, answer, human

PEANUTS = "allergic to peanuts"
FIRST, RULE = "a/turn-1/fact-1", "a/turn-1/fact-2"
NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)


@dataclass
class Saying:
    """A session of ann's, in which answers have state blocks."""

    archive: Archive
    name: str
    user: str = "ann"
    tip: Tip = START
    block: Mapping[str, str] = field(default_factory=dict)

    @property
    def session(self) -> Session:
        """The session."""
        return Session(self.user, self.name)

    def say(
        self,
        said: str = "",
        *,
        day: int = 1,
        surfaced: str = "",
        after: Tip | None = None,
        status: Status = "done",
        **block: str,
    ) -> StoredTurn:
        """Commit a turn, which writes a block if it has fields."""
        before, tip = self.block, self.tip if after is None else after
        written = "\n".join(f"{name}: {text}" for name, text in block.items())
        told = f"Noted.\n---STATE---\n{written}\n---END STATE---" if block else "Noted."
        self.block = block or before
        kept = {name: text.partition(" CUT ")[0] for name, text in self.block.items()}
        shown = {surfaced: 1} if surfaced else {}
        new = StoredTurn(
            *(tip.turn + 1, (human(said or f"{self.name} {day} {tip}"), answer(told))),
            at=f"2026-03-{day:02}T09:00:00.000000Z",
            events=({"type": "anchored", "anchor": kept},) if block else (),
            state={"memory": {"anchor": kept, "summaries": shown}},
            status=status,
        )
        stored = self.archive.commit(self.session, tip, new)
        self.tip = stored.tip
        return stored


def surfaced(archive: Archive, user: str = "ann") -> list[str]:
    """Return what is in attention."""
    return [one.id for one in archive.attention(40).top(user, 9, now=NOW)]


def created(archive: Archive, memory_id: str = FIRST) -> str:
    """Return the day that a memory is of."""
    explained = archive.attention(40).explain("ann", memory_id, now=NOW)
    assert explained is not None
    return f"{NOW.day - round(explained.days)}"


def test_items_of_a_block_are_memories(archive: Archive) -> None:
    """A fact weighs 60 and a rule 90, each by the turn that said it."""
    Saying(archive, "a").say(Facts=f"{PEANUTS}\nlives in Lyon", Rules="Answer in Dutch.")

    found = {one.id: (one.text, one.base) for one in memories(archive, "ann").list()}

    assert found == {
        FIRST: (PEANUTS, 60),
        "a/turn-1/fact-2": ("lives in Lyon", 60),
        "a/turn-1/fact-3": ("Answer in Dutch", 90),
    }
    assert surfaced(archive, "bob") == []


def test_a_character_that_a_database_does_not_store(archive: Archive) -> None:
    """NUL in a fact blocks nothing: the turn has it, the memory U+FFFD."""
    Saying(archive, "a").say(Facts="allergic\0to peanuts")

    (fact,) = archive.facts("ann").values()
    assert fact.text == "allergic\ufffdto peanuts"


def test_said_in_two_sessions_it_is_one_memory(archive: Archive) -> None:
    """The newer wording wins; the id stays that of the first turn."""
    Saying(archive, "a").say(Facts=PEANUTS)
    Saying(archive, "b").say(Facts="Allergic to PEANUTS", day=2)

    assert surfaced(archive) == [FIRST]
    assert archive.facts("ann")[FIRST].text == "Allergic to PEANUTS"
    assert created(archive) == "2"


def test_said_by_two_at_once_it_is_one_memory(archive: SqlArchive) -> None:
    """The second writer finds what the first one wrote after it had looked."""
    name, first = "set_connection_execution_options", [Saying(archive, "a")]
    Saying(archive, "b").say()

    def overtake(_: Connection, options: dict[str, Any]) -> None:
        if first and "ebbtide_writes" in options:
            first.pop().say(Facts=PEANUTS)

    event.listen(archive.database._engine, name, overtake)
    Saying(archive, "c").say(Facts=f"{PEANUTS}.", day=2)
    event.remove(archive.database._engine, name, overtake)

    assert surfaced(archive) == [FIRST]
    assert created(archive) == "2"


def test_its_opposite_is_another_memory(archive: Archive) -> None:
    """However alike the letters are."""
    Saying(archive, "a").say(Facts=f"{PEANUTS}\nnot {PEANUTS}\nrent is 900\nrent is 950")

    assert len(surfaced(archive)) == 4


def test_what_a_block_leaves_out_stays(archive: Archive) -> None:
    """A block of two other fields ends nothing, and neither does our own cut of a long one."""
    session = Saying(archive, "a")
    session.say(Facts=f"{PEANUTS}… CUT \nlives in Lyon", Rules="Answer in Dutch.")
    session.say(Goal="ship", Resolved="the login")

    assert len(surfaced(archive)) == 3


@pytest.mark.parametrize("line", ["Allergic to peanuts.", "always allergic to peanuts", FIRST])
def test_a_line_ends_a_fact(archive: Archive, line: str) -> None:
    """In any session: it is stored with the day, and comes back when it is said again."""
    Saying(archive, "a").say(Facts=f"{PEANUTS}\nlives in Lyon")
    other = Saying(archive, "b")
    other.say(Rules=f"- No longer: {line}\n- no longer: likes tea", day=2)
    left = surfaced(archive)
    other.say(Rules=f"- No longer: {line}", Goal="ship", day=3)
    of_ann, fact = memories(archive, "ann"), archive.facts("ann")[FIRST]
    texts = {one.text for one in of_ann.list()}
    Saying(archive, "c").say(Facts=PEANUTS, day=4)

    assert left == ["a/turn-1/fact-2"]
    assert (fact.holds, fact.tip.turn, fact.session.thread) == (False, 1, "a")
    assert texts == {f"{PEANUTS} (no longer since 2026-03-02)", "lives in Lyon"}
    assert FIRST in surfaced(archive)
    assert archive.facts("ann")[FIRST].lifted == ""


def test_the_line_that_ended_a_fact_is_erased(archive: Archive) -> None:
    """The fact is back; without the turn that said it, it is gone with all that ended it."""
    said, other = Saying(archive, "a"), Saying(archive, "b")
    said.say(Facts=PEANUTS)
    other.say(Facts=f"no longer: {PEANUTS}", day=2)

    archive.erase(other.session, other.tip, 1)
    back = surfaced(archive)
    Saying(archive, "c").say(Facts=f"no longer: {PEANUTS}", day=2)
    archive.erase(said.session, said.tip, 1)

    assert back == [FIRST]
    assert (archive.facts("ann"), memories(archive, "ann").list()) == ({}, ())


def test_a_fact_ended_on_an_abandoned_branch(archive: Archive) -> None:
    """Who goes back has it again, also if the branch that is left ended it."""
    session = Saying(archive, "a")
    start = session.say(Facts=PEANUTS).tip
    session.say(Facts=f"no longer: {PEANUTS}")
    ended = surfaced(archive)
    session.block = {"Facts": PEANUTS}
    session.say("another way", after=start)

    assert (ended, surfaced(archive)) == ([], [FIRST])


def test_competing_lines_are_listed_with_the_newest_first(archive: Archive) -> None:
    """One list of all sessions, whatever was said between them."""
    Saying(archive, "a").say(Facts="works at Nordlys as a welder")
    Saying(archive, "b").say(Facts="has two cats", day=2)
    Saying(archive, "c").say(Facts="works at Havn", day=3)

    texts = [one.text for one in memories(archive, "ann").list()]

    assert texts == ["works at Havn", "works at Nordlys as a welder", "has two cats"]


def test_a_surfaced_fact_that_is_repeated_is_an_access(archive: Archive) -> None:
    """Its date stays, it has no further origin, and blocks that keep it are no accesses."""
    Saying(archive, "a").say(Facts=PEANUTS)
    other = Saying(archive, "b")
    for goal in ("", "ship", "sail"):
        other.say(Facts=PEANUTS, Goal=goal, surfaced=FIRST, day=2)

    explained = archive.attention(40).explain("ann", FIRST, now=NOW)
    assert explained is not None
    assert (explained.accesses, created(archive)) == (1, "1")
    archive.delete_session(Session("ann", "a"))
    assert archive.attention(40).remembered("ann") == ()


def test_a_rule_has_the_day_on_which_it_was_shown(archive: Archive) -> None:
    """An answer of another day renews it: in its own session, and where it was surfaced."""
    session = Saying(archive, "a")
    session.say(Rules="Answer in Dutch.", Facts=PEANUTS)
    session.say(day=2)
    session.say(day=3, status="aborted")
    own = created(archive), created(archive, RULE)
    Saying(archive, "b").say(day=3, surfaced=RULE)

    assert own == ("1", "2")
    assert created(archive, RULE) == "3"


def test_suppressed_stays_suppressed(archive: Archive) -> None:
    """Whoever says it again, and where."""
    Saying(archive, "a").say(Facts=PEANUTS)
    of_ann = memories(archive, "ann")
    text = of_ann.suppress(FIRST).text
    Saying(archive, "b").say(Facts=PEANUTS)

    assert surfaced(archive) == []
    assert text == f"{PEANUTS} (no longer since {datetime.now(UTC):%Y-%m-%d})"
    assert of_ann.unsuppress(FIRST).text == PEANUTS


def test_the_last_origin_takes_it_along(archive: Archive) -> None:
    """Erased in one session it is known from the other; deleted there, it is gone."""
    one = Saying(archive, "a")
    one.say(Facts=PEANUTS)
    Saying(archive, "b").say(Facts=f"{PEANUTS}.")

    archive.erase(one.session, one.tip, 1)
    kept = surfaced(archive)
    archive.delete_session(Session("ann", "b"))

    assert kept == [FIRST]
    assert archive.attention(40).remembered("ann") == ()
    assert archive.facts("ann") == {}


def test_abandoned_branches_give_none(archive: Archive) -> None:
    """Who goes back gets it back."""
    session = Saying(archive, "a")
    start = session.say().tip
    left = session.say(Facts=PEANUTS).tip
    session.block = {}
    session.say("another way", after=start)
    without = surfaced(archive)
    session.block = {"Facts": PEANUTS}
    session.say("back again", after=left)

    assert (without, surfaced(archive)) == ([], ["a/turn-2/fact-1"])


def test_two_branches_say_two_facts(archive: Archive) -> None:
    """The turns have one number, and the memories two ids."""
    session = Saying(archive, "a")
    start = session.say().tip
    session.say(Facts=PEANUTS, after=start)
    session.say(Facts="likes tea", after=start)

    assert {one.text for one in archive.facts("ann").values()} == {PEANUTS, "likes tea"}
    assert surfaced(archive) == ["a/turn-2/fact-2"]


def test_a_fact_is_edited_and_deleted(archive: Archive) -> None:
    """What a session's block still says does not bring it back."""
    session = Saying(archive, "a")
    session.say(Facts=PEANUTS)
    of_ann = memories(archive, "ann")

    assert of_ann.edit(FIRST, "allergic to all nuts").text == "allergic to all nuts"
    of_ann.delete(FIRST)
    session.say(Facts=f"{PEANUTS}\nlives in Lyon")

    assert [one.text for one in of_ann.list()] == ["lives in Lyon"]
    with pytest.raises(CommandError, match="no memory 'a/turn-1/fact-1'"):
        of_ann.edit(FIRST, "none")


def test_without_a_user_there_are_none(archive: Archive) -> None:
    """Sessions of nobody share nothing."""
    Saying(archive, "a", user="").say(Facts=PEANUTS)

    assert archive.facts("") == {}


def test_copied_facts(archive: Archive, tmp_path_factory: pytest.TempPathFactory) -> None:
    """An archive is copied with the facts, each with all turns that said it."""
    Saying(archive, "a").say(Facts=PEANUTS)
    Saying(archive, "b").say(Facts=PEANUTS, day=2)

    with DiskArchive(tmp_path_factory.mktemp("copy"), durable=False) as target:
        copy(archive, target)  # type: ignore[arg-type]  # every archive here has a database
        target.delete_session(Session("ann", "b"))

        assert surfaced(target) == [FIRST]
