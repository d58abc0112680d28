"""The archive as one state sees it, with the running turn on top."""

from dataclasses import replace

from ebbtide.memory.record import Tip
from ebbtide.memory.view import ArchiveView, past
from tests.memory.conversations import OWNER, Conversation, call


def test_committed_turns_are_seen(talk: Conversation) -> None:
    """The view gives the records asked for, in order, and leaves out what is not there."""
    talk.turn("one")
    talk.turn("two")
    talk.ask("three")
    view = talk.work.view

    assert [record.turn for record in view.turns([2, 1, 3, 99])] == [1, 2]
    assert view.turns([]) == ()


def test_the_running_turn_is_rendered_from_its_messages(talk: Conversation) -> None:
    """A turn that is not committed can be read so far."""
    talk.turn("one", answer="first")
    talk.ask("two")
    view = talk.work.view

    assert view.render(1) == "user: one\nassistant: first"
    assert view.render(2) == "user: two"
    assert view.render(3) == ""


def test_an_effort_is_as_the_running_turn_left_it(talk: Conversation) -> None:
    """Events of the running turn come before what the archive knows."""
    talk.turn("go", call("open_effort", name="a"))
    talk.ask("done")
    before = talk.work.view.effort("a", talk.state.events)
    talk.call("close_effort")
    after = talk.work.view.effort("a", talk.state.events)

    assert before is not None
    assert before.status == "open"
    assert after is not None
    assert (after.status, after.turn) == ("concluded", 2)
    assert talk.work.view.effort("b", talk.state.events) is None


def test_a_log_ends_in_the_running_turn_if_asked(talk: Conversation) -> None:
    """The log of an effort is its committed turns, and the running one on demand."""
    talk.turn("small talk")
    talk.turn("go", call("open_effort", name="a"))
    talk.ask("on")
    view = talk.work.view

    assert view.log_turns("a") == (2,)
    assert [turn.turn for turn in view.log("a")] == [2]
    assert [turn.turn for turn in view.log("a", running=True)] == [2, 3]
    assert view.log("b") == ()


def test_ambient_turns_are_those_without_an_effort(talk: Conversation) -> None:
    """The newest ambient turns are found among others, ascending."""
    talk.turn("one")
    talk.effort("a", "two", "three")
    talk.turn("four")
    talk.turn("five")
    view = talk.work.view

    assert view.ambient_turns(2) == (4, 5)
    assert view.ambient_turns(9) == (1, 4, 5)
    assert view.ambient_count() == 3


def test_the_newest_efforts_come_first(talk: Conversation) -> None:
    """A limited list says how many there are in all."""
    talk.effort("a", "one")
    talk.effort("b", "two")
    talk.effort("c", "three")
    listed = talk.work.view.efforts(2)

    assert [effort.id for effort in listed.efforts] == ["c", "b"]
    assert listed.total == 3


def test_an_older_state_sees_its_own_past_only(talk: Conversation) -> None:
    """From an earlier tip, what was committed later does not exist."""
    talk.turn("one")
    first = talk.tip
    talk.effort("a", "two")
    view = replace(talk.work.view, tip=first)

    assert view.turns([1, 2]) == talk.archive.turns(OWNER, first, [1])
    assert view.effort("a", ()) is None
    assert view.efforts(9).total == 0


def test_without_a_running_turn_nothing_is_on_top(talk: Conversation) -> None:
    """The view of a settled state renders committed turns and no other."""
    talk.turn("one")
    view = past(talk.archive, OWNER, talk.tip)

    assert view.render(1).startswith("user: one")
    assert (view.render(0), view.render(2)) == ("", "")


def test_before_the_first_turn_there_is_nothing(talk: Conversation) -> None:
    """A session that was never written to is empty, not an error."""
    view = ArchiveView(talk.archive, OWNER, Tip(), talk.work.view.running)

    assert (view.turns([1]), view.ambient_turns(5), view.ambient_count()) == ((), (), 0)
    assert view.efforts(5).total == 0
