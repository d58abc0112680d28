"""When an open effort is compressed, and how far."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.compressions import Compression, Item, Kind
from ebbtide.memory.context.plan import Plan
from ebbtide.memory.salience.compress import (
    RECENT_TURNS,
    Due,
    leaving,
    outgrown,
    share_of,
)
from ebbtide.memory.salience.extract import readable_at_once
from tests.memory.conversations import Conversation, call
from tests.memory.turns import put_compression

LONG, HUGE = "word " * 60, "word " * 600
SIZES = st.lists(st.integers(1, 1_000), max_size=30)


@pytest.fixture
def shop(talk: Conversation) -> Conversation:
    """Return a conversation with an open effort of three short turns."""
    talk.set(context_budget=2_000, compression="salience")
    talk.turn("Begin.", call("open_effort", name="shop", goal="Move it."))
    for _ in range(2):
        talk.turn("Go on.")
    return talk


def grown(talk: Conversation, turns: int, said: str = LONG) -> Conversation:
    """Go through further long turns."""
    for _ in range(turns):
        talk.turn(said)
    return talk


def compressed(talk: Conversation, through: int, **chosen: Any) -> Compression:
    """Store a compression of the turns up to one."""
    item = Item(Kind.FACT, "Begin.", 1)
    made = Compression("shop", talk.tip.turn, through, (item,), "They began.", **chosen)
    return put_compression(talk.archive, talk.tip, made, talk.session)


def overdue(talk: Conversation) -> Due | None:
    """Return what is to be compressed now."""
    return outgrown(talk.work)


@pytest.mark.parametrize(
    ("budget", "share"),
    [(2_000, 0.6), (4_096, 0.6), (8_192, 0.55), (16_384, 0.5), (1_000_000, 0.3)],
)
def test_a_larger_budget_leaves_an_effort_less_of_it(
    talk: Conversation, budget: int, share: float
) -> None:
    """In a small context a pass costs more than it saves."""
    talk.set(context_budget=budget)

    assert share_of(talk.work) == pytest.approx(share * talk.work.room)


def test_an_effort_in_its_share_is_not_due(shop: Conversation) -> None:
    """What fits stays as it is."""
    talk = grown(shop, 3)

    assert overdue(talk) is None


def test_an_effort_above_its_share_is_compressed_to_low_water(shop: Conversation) -> None:
    """The oldest turns leave, the newest three never."""
    talk = grown(shop, 20)
    found = overdue(talk)

    assert found is not None
    assert found.effort.id == "shop"
    assert [turn.number for turn in found.leaving] == [*range(1, found.through + 1)]
    assert found.through <= talk.tip.turn - RECENT_TURNS
    assert found.live > share_of(talk.work)


def test_what_the_next_turn_would_cut_is_compressed_before(shop: Conversation) -> None:
    """An effort in its share is compressed where the next turn would cut turns of it away."""
    # That is in a full context, and if the effort alone has more than is left of it.
    work = grown(shop, 14).work
    tip = work.view.tip.turn
    plan = Plan(tip, tuple(range(1, tip + 1)))
    full = replace(work, used=work.room * 9 // 10, plan=plan)
    empty, small = replace(full, used=work.room // 2), replace(full, room=2 * work.room)

    found = outgrown(full)

    assert found is not None
    assert found.through == shop.tip.turn - RECENT_TURNS
    assert found.live <= share_of(full)
    assert [outgrown(one) for one in (work, empty, replace(small, used=small.room))] == [None] * 3


def test_a_backlog_is_compressed_in_bounded_passes(talk: Conversation) -> None:
    """After many turns without compression the oldest leave first, as many as a pass reads."""
    talk.set(context_budget=2_000, compression="off")
    talk.turn("Begin.", call("open_effort", name="shop", goal="Move it."))
    talk.turns([HUGE] * 12)
    talk.set(compression="salience")

    found = overdue(talk)

    limit = readable_at_once(2_000)
    assert found is not None
    assert (limit, [turn.number for turn in found.leaving]) == (4_000, [1, 2, 3, 4, 5, 6, 7])


def test_switched_off_nothing_is_due(shop: Conversation) -> None:
    """With `off` the hard budget alone cuts."""
    talk = grown(shop, 20)
    talk.set(compression="off")

    assert overdue(talk) is None


def test_what_is_compressed_already_is_not_read_again(shop: Conversation) -> None:
    """Only later turns leave."""
    talk = grown(shop, 14)
    compressed(talk, 9)
    talk = grown(talk, 14)
    found = overdue(talk)

    assert found is not None
    assert found.leaving[0].number == 10


def test_an_open_effort_that_is_not_active_has_half_the_share(shop: Conversation) -> None:
    """Left for another one, it is compressed where it was not while it was active."""
    talk = grown(shop, 12)
    assert overdue(talk) is None
    talk.turn("Another.", call("open_effort", name="other"))
    found = overdue(talk)

    assert found is not None
    assert found.effort.id == "shop"


def test_after_many_failures_a_pass_takes_the_oldest(shop: Conversation) -> None:
    """What one pass looks at does not grow with the effort; the next one takes the next turns."""
    few, many = overdue(grown(shop, 10, HUGE)), overdue(grown(shop, 10, HUGE))

    assert few is not None
    assert many is not None
    taken = [turn.number for turn in many.leaving]
    assert taken == [turn.number for turn in few.leaving] == [*range(1, len(taken) + 1)]
    compressed(shop, many.through)
    following = overdue(shop)
    assert following is not None
    assert following.leaving[0].number == many.through + 1


def test_a_stale_one_is_due_without_new_turns(shop: Conversation) -> None:
    """What erasing took from it is written again."""
    compressed(shop, 2, stale=True)
    found = overdue(shop)

    assert found is not None
    assert (found.leaving, found.through) == ((), 2)


@given(SIZES, st.integers(1, 5), st.integers(0, 2_000), st.integers(0, 1_000))
def test_recent_turns_never_leave(sizes: list[int], recent: int, low: int, least: int) -> None:
    """Whatever the sizes; and what leaves is worth a pass."""
    gone = leaving(sizes, recent, low=low, least=least)

    assert 0 <= gone <= max(0, len(sizes) - recent)
    assert not gone or sum(sizes[: len(sizes) - recent]) >= least
    assert not gone or sum(sizes[gone:]) <= low or gone == len(sizes) - recent
