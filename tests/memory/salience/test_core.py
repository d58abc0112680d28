"""The protected core: what rules find in a log, without a model."""

import pytest

from ebbtide.memory.compressions import Item, Kind
from ebbtide.memory.efforts import Effort
from ebbtide.memory.messages import text
from ebbtide.memory.salience.core import MOST_SENTENCES, Goals, core, kind_of
from ebbtide.memory.turn import StoredTurn
from tests.memory.conversations import ai, human, tool

EFFORT = Effort("login", "open", goal="Log in with passkeys", constraints=("no downtime",))
CHANGES = ((3, "Log in with passkeys", "passwords are phished"),)
GOALS = Goals(EFFORT, "Log in again", CHANGES)
NONE = Goals(Effort("login", "open"), "")


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("The tokens must never be logged.", Kind.CONSTRAINT),
        ("It takes at most 30 ms.", Kind.CONSTRAINT),
        ("Do not touch the billing tables.", Kind.CONSTRAINT),
        ("Please don’t deploy on Fridays.", Kind.CONSTRAINT),
        ("The API has to stay compatible.", Kind.CONSTRAINT),
        ("必须使用加密连接。", Kind.CONSTRAINT),
        ("最多三次重试。", Kind.CONSTRAINT),
        ("We decided on Postgres.", Kind.DECISION),
        ("Let's go with Redis.", Kind.DECISION),
        ("We’ll use TLS 1.3.", Kind.DECISION),
        ("It failed because the clock was wrong.", Kind.DECISION),
        ("我们决定采用PostgreSQL。", Kind.DECISION),
        ("Our goal is a login without passwords.", Kind.GOAL),
        ("新的目标是减少延迟。", Kind.GOAL),
        ("Don't worry about it.", None),
        ("I do not know.", None),
        ("Must it be encrypted?", None),
        ("必须加密吗？", None),
        ("The port is 8443.", None),
    ],
)
def test_sentences_are_known_by_their_words(sentence: str, kind: Kind | None) -> None:
    """Goals, constraints and decisions are told by words, questions tell none."""
    assert kind_of(sentence) == kind


def test_sentences_of_the_log_are_quoted_with_their_turns() -> None:
    """What users and the model say is quoted word for word; outputs and code are not."""
    turns = [
        StoredTurn(1, (human("Hello. Tokens must\nnever leak.\n- We must ship."), ai("Fine.")), ""),
        StoredTurn(2, (tool("1", "You must pay."), ai("```\nx must be 1\n```\nWe chose B.")), ""),
    ]

    items = core(NONE, turns)

    assert items == (
        Item(Kind.CONSTRAINT, "Tokens must", 1),
        Item(Kind.CONSTRAINT, "never leak.", 1),
        Item(Kind.CONSTRAINT, "We must ship.", 1),
        Item(Kind.DECISION, "We chose B.", 2),
    )


def test_goals_and_constraints_are_quoted_where_they_were_said() -> None:
    """The goals, the reasons of changes and the constraints are items if the log has them."""
    turns = [
        StoredTurn(1, (human("Let's work on auth: log in again. And no downtime please."),), ""),
        StoredTurn(3, (human("Passwords are phished, so log in with passkeys."),), ""),
    ]

    items = core(GOALS, turns)

    assert items == (
        Item(Kind.GOAL, "log in again", 1),
        Item(Kind.CONSTRAINT, "no downtime", 1),
        Item(Kind.GOAL, "log in with passkeys", 3),
        Item(Kind.DECISION, "Passwords are phished", 3),
    )


def test_what_the_log_does_not_say_is_no_item() -> None:
    """A goal in other words than those of the log is not quoted from it."""
    assert core(GOALS, [StoredTurn(1, (human("The login is broken."),), "")]) == ()


def test_the_newest_of_the_same_words_stays() -> None:
    """A sentence that is said again is one item, with its last turn."""
    turns = [
        StoredTurn(n, (human("We MUST  ship it!" if n < 3 else "We must ship it."),), "")
        for n in (1, 2, 3)
    ]

    assert core(NONE, turns) == (Item(Kind.CONSTRAINT, "We must ship it.", 3),)


def test_the_core_is_bounded() -> None:
    """Of very many sentences the newest are kept; endless ones are none."""
    turns = [
        StoredTurn(n, (human(f"It must be {n}. It must be{' so' * 300} {n}."),), "")
        for n in range(500)
    ]

    items = core(NONE, turns)

    assert [item.turn for item in items] == [*range(500 - MOST_SENTENCES, 500)]


def test_constraints_stay_longer_than_decisions() -> None:
    """Any number of newer decisions puts no constraint out."""
    decided = [StoredTurn(n, (human(f"We decided on plan {n}."),), "") for n in range(2, 500)]

    items = core(NONE, [StoredTurn(1, (human("Orders must stay."),), ""), *decided])

    assert items[0] == Item(Kind.CONSTRAINT, "Orders must stay.", 1)
    assert [item.turn for item in items[1:]] == [*range(501 - MOST_SENTENCES, 500)]


def test_every_item_stands_in_its_turn() -> None:
    """In any script, with lists and line ends, items are parts of a message of their turn."""
    said = '1. Never do "this."  Always do that!\r\n* 我们决定用B。“必须快！”他说。 At most e.g. 3.'
    turns = [StoredTurn(1, (human(said),), "")]

    items = core(NONE, turns)

    assert len(items) == 5
    assert all(item.quote in text(turns[0].messages[0]) for item in items)
