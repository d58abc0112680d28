"""Lineage: scripts of commits, forks and retries, against a model that keeps whole histories."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.turn import Event, Session, StoredTurn, Tip
from tests.draws import examples
from tests.memory.turns import START, concluded, effort_in, opened, texts, turn

THREADS = itertools.count()
EFFORTS = ("a", "b", "c")

Step: TypeAlias = tuple[int, str, tuple[str, ...], tuple[Event, ...]]
EVENTS = st.sampled_from(EFFORTS).flatmap(
    lambda name: st.sampled_from([opened(name), concluded(name, f"{name} is done")])
)
STEPS = st.lists(
    st.tuples(
        st.integers(0, 99),
        st.sampled_from(["x", "y", "z"]),
        st.lists(st.sampled_from(EFFORTS), max_size=2, unique=True).map(tuple),
        st.lists(EVENTS, max_size=2).map(tuple),
    ),
    max_size=20,
)


@dataclass
class Model:
    """What every state should see: for each tip the groups up to it, as a plain list."""

    histories: dict[Tip, tuple[StoredTurn, ...]] = field(default_factory=lambda: {START: ()})

    def chosen(self, number: int) -> Tip:
        """Return one of the tips there are."""
        tips = list(self.histories)
        return tips[number % len(tips)]

    def committed(self, before: Tip, turn: StoredTurn, after: Tip) -> None:
        """Remember the history of a new tip."""
        self.histories.setdefault(after, (*self.histories[before], turn))


def run(archive: Archive, session: Session, steps: Sequence[Step]) -> Model:
    """Commit step by step, each after any earlier tip, and each twice."""
    model = Model()
    for at, (number, text, efforts, events) in enumerate(steps):
        before = model.chosen(number)
        plain = turn(before.turn + 1, text, efforts, events)
        new = StoredTurn(plain.number, plain.messages, f"2026-01-01T{at:06}", efforts, events)
        after = archive.commit(session, before, new).tip
        assert archive.commit(session, before, new).tip == after
        model.committed(before, new, after)
    return model


@given(steps=STEPS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(12))
def test_every_tip_sees_its_own_history(archive: Archive, steps: list[Step]) -> None:
    """Whatever was forked and retried, each tip sees exactly the turns that led to it."""
    session = Session("ann", f"t{next(THREADS)}")
    model = run(archive, session, steps)

    for tip, history in model.histories.items():
        numbers = [new.number for new in history]
        ambient = [new.number for new in history if not new.efforts]
        seen = archive.load(session, tip).turns(range(tip.turn + 1))
        assert [stored.number for stored in seen] == numbers
        assert texts(seen) == [new.messages[0].content for new in history]
        assert list(archive.load(session, tip).ambient(3)) == ambient[-3:]
    assert not any(checked(archive, session))


@given(steps=STEPS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(12))
def test_every_tip_sees_its_own_efforts(archive: Archive, steps: list[Step]) -> None:
    """Whatever was forked and retried, each tip sees exactly the efforts of its history."""
    session = Session("ann", f"t{next(THREADS)}")
    model = run(archive, session, steps)

    for tip, history in model.histories.items():
        changed = [(new.number, event) for new in history for event in new.events]
        newest = list(dict.fromkeys(event["effort"] for _, event in reversed(changed)))
        listed = archive.load(session, tip).efforts(2)
        assert [effort.id for effort in listed.efforts] == newest[:2]
        assert listed.total == len(newest)
        for name in EFFORTS:
            own = tuple(new.number for new in history if name in new.efforts)
            assert archive.load(session, tip).turns_of(name) == own
            last = [turn for turn, event in changed if event["effort"] == name][-1:]
            effort = effort_in(archive, session, tip, name)
            assert ([effort.turn] if effort else []) == last


def checked(archive: Archive, session: Session) -> list[bool]:
    """Return whether each finding is fatal; a session that was never written has none."""
    return [found.fatal for found in archive.verify(session)] if archive.load(session).tip else []
