"""Lineage: scripts of commits, forks and retries, against a model that keeps whole histories."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.turn import Event, Session, StoredTurn, Tip
from tests.draws import examples
from tests.memory.turns import SESSION, START, commit_all, concluded, opened, turn

THREADS = itertools.count()
LEFT = {"opened": "open", "concluded": "concluded"}
EFFORTS = ("a", "b", "c")

Step: TypeAlias = tuple[int, str, tuple[str, ...], tuple[Event, ...]]
"""After which earlier tip, what is said (nothing by hand), of which efforts, and what happens."""
EVENTS = st.sampled_from(EFFORTS).flatmap(
    lambda name: st.sampled_from([opened(name), concluded(name, f"{name} is done")])
)
STEPS = st.lists(
    st.tuples(
        st.integers(0, 99),
        st.sampled_from(["x", "y", "z", ""]),
        st.lists(st.sampled_from(EFFORTS), max_size=2, unique=True).map(tuple),
        st.lists(EVENTS, max_size=2).map(tuple),
    ),
    max_size=20,
)

FORKED: list[Step] = [
    (0, "", (), (opened("c"),)),
    (1, "x", ("a",), (opened("a"), opened("b"))),
    (2, "y", ("b", "a"), (concluded("a", "a is done"),)),
    (2, "z", (), ()),
    (2, "", (), (concluded("b", "b is done"),)),
    (5, "z", ("b",), ()),
    (2, "y", (), ()),
    (3, "x", (), (opened("a"), concluded("c", "c is done"))),
    (0, "x", (), ()),
    (4, "", (), ()),
    (6, "x", ("c",), ()),
]
"""Forks of a turn, of a fork, of a command and of the start, of which one was committed before."""


@dataclass
class Model:
    """What every state should see: for each tip the commits up to it, as a plain list."""

    histories: dict[Tip, tuple[StoredTurn, ...]] = field(default_factory=lambda: {START: ()})
    retries: list[tuple[Tip, StoredTurn]] = field(default_factory=list)

    def chosen(self, number: int) -> Tip:
        """Return one of the tips there are."""
        tips = list(self.histories)
        return tips[number % len(tips)]

    def committed(self, before: Tip, new: StoredTurn, stored: StoredTurn) -> None:
        """Remember the history of a new tip."""
        assert (stored.number, stored.parent) == (before.turn + bool(new.messages), before.id)
        assert stored.messages == new.messages
        self.histories.setdefault(stored.tip, (*self.histories[before], stored))
        self.retries.append((before, new))

    def leaves(self) -> tuple[Tip, ...]:
        """Return the tips that nothing follows, in the order of their commit."""
        followed = {history[-2].tip for history in self.histories.values() if len(history) > 1}
        return tuple(tip for tip in self.histories if tip not in {START, *followed})


def run(archive: Archive, session: Session, steps: Sequence[Step]) -> Model:
    """Commit step by step, each after any earlier tip, and then all of them once more."""
    model = Model()
    for at, (number, text, efforts, events) in enumerate(steps):
        before = model.chosen(number)
        new = replace(turn(before.turn + 1, text, efforts, events), at=f"2026-01-01T{at:06}")
        if not text:
            by_hand: dict[str, Any] = {
                "number": before.turn,
                "messages": (),
                "efforts": (),
                "status": "command",
            }
            new = replace(new, **by_hand)
        stored = archive.commit(session, before, new)
        assert archive.commit(session, before, new) == stored
        model.committed(before, new, stored)
    for before, new in model.retries:
        stored = archive.commit(session, before, new)
        assert stored == model.histories[stored.tip][-1]
    return model


@pytest.mark.thorough
@given(steps=STEPS)
@example(steps=FORKED)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(12))
def test_every_tip_sees_its_own_history(archive: Archive, steps: list[Step]) -> None:
    """Whatever was forked, retried and done by hand, each tip sees exactly what led to it."""
    session = Session("ann", f"t{next(THREADS)}")
    model = run(archive, session, steps)

    assert archive.tips(session) == model.leaves()
    assert archive.load(session).tip == ([*model.histories][-1] if steps else None)
    for tip, history in model.histories.items():
        said = tuple(one for one in history if one.messages)
        ambient = tuple(one.number for one in said if not one.efforts)
        past = archive.load(session, tip)
        assert past.commits(range(len(steps) + 1)) == history
        assert past.turns(range(len(steps) + 1)) == said
        assert past.ids(range(len(steps) + 1)) == {one.number: one.id for one in said}
        assert (past.ambient(0), past.ambient(3)) == ((), ambient[-3:])
    verified = archive.verify(session) if steps else ()
    assert not any(finding.fatal for finding in verified)


@pytest.mark.thorough
@given(steps=STEPS)
@example(steps=FORKED)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(12))
def test_every_tip_sees_its_own_efforts(archive: Archive, steps: list[Step]) -> None:
    """Each tip sees exactly the efforts of its history, also those that were changed by hand."""
    session = Session("ann", f"t{next(THREADS)}")
    model = run(archive, session, steps)

    for tip, history in model.histories.items():
        last = {event["effort"]: (one.number, event) for one in history for event in one.events}
        changed = [event["effort"] for one in history for event in one.events]
        newest = list(dict.fromkeys(reversed(changed)))
        past = archive.load(session, tip)
        listed = past.efforts(2)
        assert ([effort.id for effort in listed.efforts], listed.total) == (newest[:2], len(newest))
        for name in EFFORTS:
            own = tuple(one.number for one in history if name in one.efforts)
            assert past.turns_of(name) == own
            found = {
                one.id: (one.turn, one.status, one.summary) for one in past.efforts_named([name])
            }
            number, event = last.get(name, (0, {}))
            left = {name: (number, LEFT[event["type"]], event.get("summary", ""))} if event else {}
            assert found == left


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ([3, 1], [1, 3]),
        ([1, 1], [1]),
        ([-1, 0, 1, 4, 10**12], [1]),
        ([], []),
        (range(9), [1, 2, 3]),
    ],
)
def test_turns_with_these_numbers(archive: Archive, asked: Sequence[int], found: list[int]) -> None:
    """They come in the order of their numbers, each once; what no turn has is left out."""
    tip = commit_all(archive, [turn(1), turn(2), turn(3)])

    assert [one.number for one in archive.load(SESSION, tip).turns(asked)] == found


def test_many_turns_at_once(archive: Archive) -> None:
    """A whole session is read in one go."""
    tip = commit_all(archive, [turn(number) for number in range(1, 101)])

    assert len([*archive.load(SESSION, tip).every_turn()]) == 100
    assert archive.load(SESSION, tip).turns_read.keys() <= {100}, "it would fill the memory"
    assert len(archive.load(SESSION, tip).turns(range(1, 101))) == 100
