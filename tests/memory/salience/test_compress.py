"""A pass over an effort: its steps, what is asked in between, and what comes of failures."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ebbtide.memory.compressions import (
    CUT,
    Compression,
    Item,
    Kind,
    as_data,
    capped,
    from_data,
)
from ebbtide.memory.errors import AnswerError
from ebbtide.memory.questions import Question
from ebbtide.memory.salience.compress import Compressed, Due, compress, quoted_limit
from ebbtide.memory.salience.extract import Extracted, Extraction
from ebbtide.memory.salience.merge import lexical
from tests.memory.asking import answered
from tests.memory.conversations import Conversation, call

RULE = "Orders must never be deleted."
OLD, NEW = "The limit is 10 MB.", "The limit is now 25 MB."
DOWN = AnswerError("TimeoutError: no answer within 60 s")


@pytest.fixture
def shop(talk: Conversation) -> Conversation:
    """Return a conversation with an open effort of four turns."""
    talk.set(context_budget=4_000)
    talk.turn("Begin.", call("open_effort", name="shop", goal="Move it."))
    for said in (RULE, OLD, NEW):
        talk.turn(said)
    return talk


def found(*quotes: str, kind: Kind = Kind.FACT) -> Extraction:
    """Return an answer with these quotes."""
    return Extraction(new=[Extracted(quote=quote, kind=kind) for quote in quotes])


def passed(
    talk: Conversation, replies: Sequence[Any], old: Compression | None = None
) -> tuple[list[Question], Compressed]:
    """Compress all turns after those of an old compression; return what was asked and made."""
    view = talk.work.view
    numbers = [turn for turn in view.log_turns("shop") if old is None or turn > old.through]
    (effort,) = talk.work.known(["shop"])
    due = Due(effort, old or None, view.past.turns(numbers), live=900, kept=0)
    asked, made = answered(compress(talk.work, due, lexical), replies)
    assert made is not None
    return asked, made


def test_a_pass_extracts_verifies_merges_and_summarises(shop: Conversation) -> None:
    """What is made stands for the turns, with the items that are in the log and the background."""
    asked, done = passed(shop, [found(RULE, NEW, "It was made up."), "They began."])

    assert [one.what for one in asked] == ["extraction", "background"]
    assert done.made is not None
    assert [item.quote for item in done.made.current] == [RULE, NEW]
    assert (done.made.turn, done.made.through, done.made.background) == (4, 4, "They began.")
    verdicts = [quote["verdict"] for quote in done.told["quotes"]]
    assert verdicts == ["verbatim"] * 2 + ["fabricated"]
    assert NEW in asked[1].log.split("<log")[0]


def test_what_is_replaced_or_done_leaves(shop: Conversation) -> None:
    """Kept quotes that an answer names by their numbers hold no longer, and stay stored."""
    kept = (Item(Kind.CONSTRAINT, RULE, 2), Item(Kind.FACT, OLD, 3))
    old = Compression("shop", 3, 3, kept, "They began.")
    answer = Extraction(new=[Extracted(quote=NEW, replaces=[2])], done=[1])

    asked, done = passed(shop, [answer, "They went on."], old)

    assert done.made is not None
    gone = asked[1].log.split("Replaced or done:")[1]
    new = Item(Kind.FACT, NEW, 4)
    assert [item.superseded_by for item in done.made.items] == ["done", new.key, ""]
    assert [f"- {said}\n" in gone for said in (RULE, OLD, NEW)] == [True, True, False]
    assert [(one["gone"], one["how"]) for one in done.told["merges"]] == [
        (kept[1].key, "superseded"),
        (kept[0].key, "done"),
    ]
    assert [item.quote for item in done.made.without_turn(4).current] == [OLD]


def test_only_current_quotes_are_told(shop: Conversation) -> None:
    """The model is shown no superseded quote, and numbers count the others."""
    kept = (Item(Kind.FACT, OLD, 3, "gone"), Item(Kind.CONSTRAINT, RULE, 2))
    old = Compression("shop", 3, 3, kept, "They began.")

    asked, _ = passed(shop, [found(), "They went on."], old)

    assert f"\n1. {RULE}\n" in asked[0].log
    assert OLD not in asked[0].log


def test_a_part_of_a_kept_quote_may_stay(shop: Conversation) -> None:
    """What of a kept quote still holds takes its place, though its turn is not read again."""
    both = "The sum is £64,850, to be paid by 14 September."
    old = Compression("shop", 2, 2, (Item(Kind.FACT, both, 2, speaker="user"),), "They began.")
    part = Extracted(quote="The sum is £64,850", replaces=[1])
    again = Extracted(quote=both, replaces=[1])

    _, one = passed(shop, [Extraction(new=[part]), "They went on."], old)
    _, same = passed(shop, [Extraction(new=[again], done=[1]), "They went on."], old)

    assert one.made is not None
    assert same.made is not None
    assert one.made.current == (Item(Kind.FACT, "The sum is £64,850", 2),)
    assert same.made.current == old.items


def test_what_was_made_up_revises_nothing(shop: Conversation) -> None:
    """A quote that is not in the log takes no other one's place."""
    old = Compression("shop", 3, 3, (Item(Kind.FACT, OLD, 3),), "They began.")
    invented = Extracted(quote="The limit is lifted for everybody.", replaces=[1])
    answer = Extraction(new=[invented, Extracted(quote="It is four.")], done=[])
    shop.turn("It is four.")

    _, done = passed(shop, [answer, "They went on."], old)

    assert done.made is not None
    assert [item.quote for item in done.made.current] == [OLD, "It is four."]


def test_the_threshold_is_the_settings(shop: Conversation) -> None:
    """What says the same is merged from the similarity on that is set."""
    said = "All the answers must be in JSON.", "All answers must be in JSON."
    shop.turns(said)
    _, some = passed(shop, [found(*said), "They began."])
    shop.set(similarity_threshold=1.0)
    _, none = passed(shop, [found(*said), "They began."])

    assert some.made is not None
    assert none.made is not None
    assert [item.quote for item in some.made.current] == [said[1]]
    assert [item.quote for item in none.made.current] == [*said]


@pytest.mark.parametrize("reply", [DOWN, found("It was made up.")])
def test_without_items_rules_choose(shop: Conversation, reply: Any) -> None:
    """An extraction that failed, or quoted nothing that is in the log, is done without."""
    _, done = passed(shop, [reply, "They began."])

    assert done.made is not None
    assert (done.made.method, done.made.background) == ("protected-core", "They began.")
    assert done.made.items == (Item(Kind.CONSTRAINT, RULE, 2),)
    assert done.told["fallback"]


@pytest.mark.parametrize("first", [found(RULE), DOWN])
@pytest.mark.parametrize("second", [DOWN, ""])
def test_without_a_background_the_quotes_stand(shop: Conversation, first: Any, second: Any) -> None:
    """Beside the background that was there, if the new one failed or is empty."""
    old = Compression("shop", 1, 1, (), "They began.")
    _, done = passed(shop, [first, second], old)

    assert done.made is not None
    assert ([item.quote for item in done.made.items], done.made.through) == ([RULE], 4)
    assert done.made.background == "They began."
    assert done.told["failed"]


def test_without_quotes_and_a_background_nothing_is_made(shop: Conversation) -> None:
    """The log is told why, and the next turn tries again."""
    _, done = passed(shop, [found(), DOWN])

    assert done.made is None
    assert done.told["failed"] == str(DOWN)


def test_a_stale_background_that_fails_stays_stale(shop: Conversation) -> None:
    """With turns that leave the quotes stand, without any nothing changes."""
    old = Compression("shop", 3, 3, (Item(Kind.FACT, OLD, 3),), stale=True)
    _, some = passed(shop, [found(NEW), DOWN], old)
    _, none = passed(shop, [DOWN], replace(old, through=4))

    assert some.made is not None
    assert (some.made.stale, none.made) == (True, None)


def test_a_stale_background_is_made_anew(shop: Conversation) -> None:
    """From all turns that are compressed, without looking for quotes; it is stale no longer."""
    made = Compression("shop", 4, 4, (Item(Kind.FACT, NEW, 4), Item(Kind.FACT, OLD, 3)), "Gone.")
    (request,), done = passed(shop, ["They began."], made.without_turn(3))

    assert request.what == "background"
    assert RULE in request.log.split("<log")[1]
    assert done.made is not None
    assert (done.made.items, done.made.stale) == ((Item(Kind.FACT, NEW, 4),), False)


def test_a_model_sees_the_goals_that_are_quoted(shop: Conversation) -> None:
    """They have numbers among the kept quotes, so that none is copied, and each can be done."""
    shop.turn("Change.", call("update_goal", goal="Close it.", rationale="Nobody buys."))
    answer = Extraction(new=[Extracted(quote=RULE)], done=[1])
    asked, done = passed(shop, [answer, "They began."])

    assert "1. Move it.\n2. Nobody buys.\n" in asked[0].log
    assert done.made is not None
    assert [item.quote for item in done.made.current] == [RULE, "Nobody buys."]


@pytest.mark.parametrize("by_rules", [False, True])
def test_a_first_goal_that_left_is_not_quoted_again(shop: Conversation, by_rules: bool) -> None:
    """Called done it leaves for good, also once the cap took it from what is superseded."""
    shop.turn("Change.", call("update_goal", goal="Close it.", rationale="Nobody buys."))
    rule = Item(Kind.CONSTRAINT, RULE, 2)
    old = Compression("shop", 5, 5, (rule,), "They began.")
    shop.turn("It is four.")
    shop.set(compression="protected-core" if by_rules else "salience")
    _, done = passed(shop, [] if by_rules else [found("It is four."), "They went on."], old)

    assert done.made is not None
    assert [item.quote for item in done.made.items] == [RULE, *["It is four."] * (not by_rules)]


def test_a_goal_of_reopening_is_a_change_and_a_constraint_is_none(shop: Conversation) -> None:
    """What `reopen_effort` gives is a later goal; added constraints leave the goals."""
    shop.turn("Done.", call("close_effort"))
    shop.turn("Again.", call("reopen_effort", effort_id="shop", goal="Close it."))
    shop.turn("One rule.", call("update_goal", add_constraints=["By May."]))
    _, done = passed(shop, [found(RULE), "They began."])

    assert done.made is not None
    goals = [(item.quote, item.turn) for item in done.made.items if item.kind is Kind.GOAL]
    assert goals == [("Move it.", 1)]


def test_the_items_stay_in_their_limit(shop: Conversation) -> None:
    """However much is quoted; one quote has a quarter of it at most."""
    shop.set(context_budget=6_000)
    said = " ".join(f"Rule {number} is to wait." for number in range(200))
    shop.turn(said)
    quotes = [f"Rule {number} is to wait." for number in range(200)]
    _, many = passed(shop, [found(*quotes), "They began."])
    _, long = passed(shop, [found(said), "They began."])

    limit = quoted_limit(shop.work)
    assert many.made is not None
    assert long.made is not None
    assert 0 < sum(shop.count(item.quote) for item in many.made.items) <= limit
    (cut,) = long.made.items
    head, end = cut.quote.split(f" {CUT} ")
    assert said.startswith(head)
    assert said.endswith(end)
    assert many.made.left_out == (5,) * (200 - len(many.made.items))
    assert shop.count(long.made.items[0].quote) <= limit / 4


def test_a_kept_quote_said_again_is_confirmed(shop: Conversation) -> None:
    """It is not made up: rules choose nothing in its place, and what is done leaves."""
    _, first = passed(shop, [found(RULE, NEW), "They began."])
    shop.turn("It is four.")
    again = Extraction(new=[Extracted(quote=RULE), Extracted(quote="Move it.")], done=[2])
    _, done = passed(shop, [again, "They went on."], first.made)

    assert done.made is not None
    assert [(item.quote, item.confirmed) for item in done.made.current] == [(RULE, 5)]
    assert [quote["verdict"] for quote in done.told["quotes"]] == ["confirmed", "confirmed"]
    assert "fallback" not in done.told


def test_what_was_confirmed_stays_longest() -> None:
    """Of equal kinds the quote leaves first that was said and confirmed longest ago."""
    old = Item(Kind.FACT, "It is one.", 1, speaker="user", confirmed=9)
    new = Item(Kind.FACT, "It is two.", 5, speaker="user")

    assert capped([old, new], 1, lambda _: 1) == (old,)


def test_what_left_and_what_was_confirmed_is_stored() -> None:
    """A compression that is read again has both."""
    item = Item(Kind.FACT, "It is one.", 1, speaker="user", confirmed=9)
    read = from_data(
        json.loads(json.dumps(as_data(Compression("a", 9, 6, (item,), left_out=(2, 3)))))
    )

    assert read.items[0].confirmed == 9
    assert read.left_out == (2, 3)
    assert read.without_turn(2).left_out == (3,)
