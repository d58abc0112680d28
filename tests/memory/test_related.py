"""What other sessions have on an effort that is opened, and on what a message names."""

from collections.abc import Sequence

import pytest

from ebbtide.memory.hints import hints
from ebbtide.memory.record import Event
from tests.memory.desks import LONG_ENOUGH, Conversation, call
from tests.memory.earlier import FIX, earlier

AUTH = "t1/auth-bug"


def opened(talk: Conversation) -> Event:
    """Return the event of the effort that was opened in the running turn."""
    (event,) = [event for event in talk.space.events if event["type"] == "opened"]
    return event


def asking(talk: Conversation) -> list[str]:
    """Let an earlier session have one relative; return what it will be asked for."""
    asked: list[str] = []

    def related(subject: str) -> Sequence[str]:
        asked.append(subject)
        return [AUTH]

    earlier(talk)
    talk.related = related
    return asked


def test_an_opened_effort_knows_its_relatives(talk: Conversation) -> None:
    """They are asked for by name and goal, and stand in the event by their ids."""
    asked = asking(talk)
    talk.ask("Let's mend the login.")
    talk.call("open_effort", name="login", goal="users stay signed in")

    assert asked == ["login users stay signed in"]
    assert opened(talk)["related"] == [AUTH]
    assert hints(talk.desk, ()) == (f"- {AUTH}: {FIX}",)


def test_they_are_hints_of_that_turn_only(talk: Conversation) -> None:
    """In the next turn there is no such line."""
    earlier(talk)
    talk.related = lambda _subject: [AUTH]
    talk.turn("Let's mend the login.", call("open_effort", name="login"))
    talk.ask("Go on.")

    assert hints(talk.desk, ()) == ()


def test_the_hints_stand_in_the_notes(talk: Conversation) -> None:
    """The model sees them, quoted, before the running turn."""
    earlier(talk)
    talk.related = lambda _subject: [AUTH]
    talk.ask("Let's mend the login.")
    talk.call("open_effort", name="login")
    (notes,) = [tier for tier in talk.context.tiers if tier.name == "notes"]

    assert FIX in str(notes.messages)


@pytest.mark.parametrize("subject", ["t9/x", "t1/nothing", "auth-bug", "thread/own", "t3/auth-bug"])
def test_what_is_not_there_is_left_out(talk: Conversation, subject: str) -> None:
    """Neither what is unknown or open, nor this session's own, nor another user's is related."""
    earlier(talk)
    earlier(talk, "t3", user="bob")
    talk.effort("own", LONG_ENOUGH)
    talk.related = lambda _subject: [subject]
    talk.ask("Let's mend the login.")
    talk.call("open_effort", name="login")

    assert "related" not in opened(talk)


def test_what_is_in_the_context_is_left_out(talk: Conversation) -> None:
    """A summary that is shown already is no hint, whenever it came."""
    earlier(talk)
    talk.related = lambda _subject: [AUTH]
    talk.ask("Let's mend the login.")
    talk.surface(AUTH)
    talk.call("open_effort", name="login")

    assert "related" not in opened(talk)


def test_there_are_as_many_as_hints(talk: Conversation) -> None:
    """`recall_hints` says how many there are at most."""
    for number in range(5):
        earlier(talk, f"t{number}")
    talk.related = lambda _subject: [f"t{number}/auth-bug" for number in range(5)]
    talk.set(recall_hints=2)
    talk.ask("Let's mend the login.")
    talk.call("open_effort", name="login")

    assert opened(talk)["related"] == ["t0/auth-bug", "t1/auth-bug"]
    assert len(hints(talk.desk, ())) == 2


def test_without_hints_nobody_is_asked(talk: Conversation) -> None:
    """`recall_hints=0` switches them off."""
    asked = asking(talk)
    talk.set(recall_hints=0)
    talk.ask("Let's mend the login.")
    talk.call("open_effort", name="login")

    assert asked == []
    assert "related" not in opened(talk)


def test_the_qualified_id_in_a_message_is_a_hint(talk: Conversation) -> None:
    """An effort of an earlier session that the user names is shown, if it is not in the context."""
    earlier(talk)
    talk.ask(f"What was {AUTH} about?")
    assert hints(talk.desk, ()) == (f"- {AUTH}: {FIX}",)

    talk.surface(AUTH)

    assert hints(talk.desk, ()) == ()


def test_nothing_of_it_is_kept(talk: Conversation) -> None:
    """The record of the turn holds the id, and nothing that the effort says."""
    earlier(talk)
    talk.related = lambda _subject: [AUTH]
    talk.ask("Let's mend the login.")
    talk.call("open_effort", name="login")
    record = talk.answer()

    assert AUTH in str(record.events)
    assert "401" not in str(record)
