"""How the room is divided: who is cut, in which order, and how deep."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from ebbtide.memory.errors import SettingsError
from ebbtide.memory.leaving_out import LEFT_OUT_TOKENS
from ebbtide.memory.messages import text
from ebbtide.memory.notes_tier import notes_tier
from ebbtide.memory.settings import Settings
from ebbtide.memory.shares import LEAST_ROOM, checked, shares
from ebbtide.memory.summary import EffortSummary
from ebbtide.memory.tokens import count_messages
from tests.memory.desks import Conversation, call, conversation, count_words

ORDER = ["memory", "open", "expanded", "ambient", "active"]
WORDS = "word " * 60


@pytest.fixture(scope="module")
def told() -> Iterator[Conversation]:
    """Yield a conversation with a lot in every tier that can be cut, in a running turn."""
    with conversation() as talk:
        yield held(talk)


@pytest.fixture
def full(told: Conversation) -> Conversation:
    """Return that conversation, whose settings a test may change."""
    return replace(told)


def held(talk: Conversation) -> Conversation:
    """Hold it."""
    talk.set(context_budget=50_000, ambient_window=0, summary_eviction_threshold=1_000)
    talk.replies = [EffortSummary(summary=f"{WORDS} {number}") for number in range(7)]
    for number in range(7):
        talk.effort(f"done-{number}", WORDS, WORDS, WORDS)
    for _ in range(12):
        talk.turn(WORDS)
    for name in ("left", "right"):
        talk.turn(WORDS, call("open_effort", name=name))
        for _ in range(8):
            talk.turn(WORDS)
    talk.ask("Show what was done first.")
    talk.call("expand_effort", effort_id="done-0")
    return talk


def sizes(talk: Conversation) -> dict[str, int]:
    """Return the tokens of the tiers that can be cut, without the note on what was left out."""
    said = {
        str(tier.name): [one for one in tier.messages if "left out here for lack" not in text(one)]
        for tier in talk.context.tiers
    }
    return {name: count_messages(said[name], count_words) for name in ORDER}


def free(talk: Conversation) -> int:
    """Return what the parts that are always sent leave when something must be cut."""
    turn: int = talk.context.report["tokens"]["turn"]
    return talk.room - notes_tier(talk.desk).tokens - LEFT_OUT_TOKENS - turn


def test_the_order_is_that_of_importance() -> None:
    """Summaries are cut first, the active effort last; the defaults add up to everything."""
    assert [*shares(Settings())] == ORDER
    assert sum(shares(Settings()).values()) == pytest.approx(1)


def test_a_tier_may_exceed_its_share_while_everything_fits(full: Conversation) -> None:
    """With just enough room for all nothing is cut, whatever its share; with less, something is."""
    whole = sizes(full)
    enough = full.context.report["total"] + LEFT_OUT_TOKENS

    full.set(context_budget=enough)
    context, above = full.context, {n: shares(full.settings)[n] * free(full) for n in ORDER}
    full.set(context_budget=enough - LEFT_OUT_TOKENS - 1)
    tight = full.context

    assert sizes(full) != whole
    assert any(whole[name] > above[name] for name in ORDER)
    assert (context.cuts, context.report["left_out"]) == ({}, {})
    assert tight.cuts


@pytest.mark.parametrize("fraction", [0.98, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3])
def test_the_least_important_above_their_share_are_cut_first(
    full: Conversation, fraction: float
) -> None:
    """Each to low water, and none that is below its share, or that need not be cut any more."""
    whole, total = sizes(full), full.context.report["total"]
    full.set(context_budget=int(fraction * total))
    now, share = sizes(full), shares(full.settings)
    cut = [name for name in ORDER if name in full.context.cuts]
    above = [name for name in ORDER if whole[name] > share[name] * free(full)]

    assert cut == above[: len(cut)] != []
    assert all(now[name] == whole[name] for name in ORDER if name not in cut)
    assert all(now[n] <= full.settings.low_water * share[n] * free(full) for n in cut)
    assert sum(now[n] for n in cut[:-1]) + whole[cut[-1]] + sum(
        whole[n] for n in ORDER if n not in cut
    ) > free(full)


def test_the_floor_is_what_is_always_sent_and_a_thousand_tokens() -> None:
    """A token less is an error that says what is too low, and where the floor is."""
    checked(Settings(context_budget=2_500), 900, 600)

    with pytest.raises(SettingsError, match=r"2500 is below the floor of 2501 tokens: 901 for"):
        checked(Settings(context_budget=2_500), 901, 600)
    assert LEAST_ROOM == 1_000
