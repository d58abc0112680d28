"""What other sessions have on an effort that is opened, and on what a message names."""

from collections.abc import Sequence

import pytest

from ebbtide.memory.context.changes import new_plan
from ebbtide.memory.messages import text
from ebbtide.memory.turn import Event
from tests.memory.contexts import begins
from tests.memory.conversations import LONG_ENOUGH, Conversation
from tests.memory.earlier import earlier

AUTH = "t1/auth-bug"


def opened(talk: Conversation) -> Event:
    """Return the event of the effort that was opened in the running turn."""
    (event,) = [event for event in talk.state.events if event["type"] == "opened"]
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


def shown(talk: Conversation) -> list[str]:
    """Return the hints that the context shows."""
    said = map(text, talk.context.messages)
    return [words.split("\n")[1] for words in said if "possibly related" in words]


def test_an_opened_effort_knows_its_relatives(talk: Conversation) -> None:
    """They are asked for by name and goal, and stand in the event by their ids."""
    asked = asking(talk)
    talk.ask("Let's mend the login.")
    talk.call("open_effort", name="login", goal="users stay signed in")

    assert asked == ["Let's mend the login.", "login users stay signed in"]
    assert opened(talk)["related"] == [AUTH]
    assert shown(talk) == [f"- {AUTH}"]


def test_they_stand_after_the_result_until_a_rebuild(talk: Conversation) -> None:
    """The prompt of the next call begins with the one before, and so does that of the next turn."""
    earlier(talk)
    talk.related = lambda _subject: [AUTH]
    talk.ask("Let's mend the login.")
    before = talk.context
    talk.call("open_effort", name="login")
    result, hint = talk.context.messages[-2:]
    after = talk.context
    talk.answer()
    talk.ask("Go on.")

    assert result.type == "tool"
    assert AUTH in text(hint)
    assert begins(after, before)
    assert begins(talk.context, after)
    talk.plan = new_plan(talk.work, "concluded")
    assert shown(talk) == []


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


def test_there_are_as_many_as_hints(talk: Conversation) -> None:
    """`recall_hints` says how many there are at most."""
    for number in range(5):
        earlier(talk, f"t{number}")
    talk.related = lambda _subject: [f"t{number}/auth-bug" for number in range(5)]
    talk.set(recall_hints=2)
    talk.ask("Let's mend the login.")
    talk.call("open_effort", name="login")

    assert opened(talk)["related"] == ["t0/auth-bug", "t1/auth-bug"]
    (hint,) = [text(m) for m in talk.context.messages if "possibly related" in text(m)]
    assert hint.split("\n")[1:-1] == ["- t0/auth-bug", "- t1/auth-bug"]
