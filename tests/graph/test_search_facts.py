"""Facts and rules of state blocks are found by their own words, which no turn need say."""

from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig

from ebbtide import commands, memories
from tests.agents import Talk
from tests.agents import talk as agent_of
from tests.doubles import call

SAID = "My throat swells when I eat those nuts."
FACT = "Allergic to peanuts"
FIRST = "a/turn-1/fact-1"
QUERY = "Am I allergic to peanuts?"


def block(**fields: str) -> str:
    """Return an answer with a state block of these fields."""
    written = "\n".join(f"{name}: {text}" for name, text in fields.items())
    return f"Noted.\n---STATE---\n{written}\n---END STATE---"


def thread(name: str, user: str = "ann") -> RunnableConfig:
    """Return the configuration of a thread of a user."""
    return {"configurable": {"thread_id": name, "user_id": user}}


def found(
    talk: Talk, name: str, query: str = QUERY, **options: Any
) -> tuple[commands.SearchResult, ...]:
    """Return what a search in a thread finds."""
    return commands.search(talk.agent, thread(name), query, **options).results


def told(root: Path, *answers: Any) -> Talk:
    """Return an agent that noted a fact in thread `a`, and then gives these answers."""
    talk = agent_of(root, [block(Facts=FACT), *answers])
    talk.say(SAID, thread("a"))
    return talk


def test_a_fact_is_found_in_each_session_of_its_user(tmp_path: Path) -> None:
    """It comes with its id and the day of its turn; other users do not find it."""
    talk = told(tmp_path, "Hello.", "Hello.")
    talk.say("Good morning.", thread("b"))
    talk.say("Good morning.", thread("c", "bob"))

    (own,), (other,) = found(talk, "a"), found(talk, "b")
    (passage,) = other.passages

    assert own == other
    assert (other.id, passage.turn, passage.text) == (FIRST, 1, FACT)
    assert found(talk, "b", until="2020") == ()
    assert commands.search(talk.agent, thread("c", "bob"), QUERY).results == ()


def test_a_fact_whose_turn_is_found_is_not_repeated(tmp_path: Path) -> None:
    """What was said is the evidence, if it has the same words of the query."""
    talk = agent_of(tmp_path, [block(Facts=FACT)])
    talk.say("I am allergic to peanuts.", thread("a"))

    (result,) = found(talk, "a")

    assert "I am allergic to peanuts." in result.passages[0].text


def test_a_fact_of_the_session_itself_can_be_expanded(tmp_path: Path) -> None:
    """By the id that a result has: its log is the turn that said it."""
    talk = told(tmp_path, call("expand_effort", effort_id=FIRST), "Peanuts.")

    talk.say("What must I not eat?", thread("a"))
    (result,) = [message.text for message in talk.last if message.type == "tool"]

    assert "error" not in result
    assert talk.model.sent[-1].text.count(SAID) > 1


def test_a_fact_of_another_branch_is_not_found(tmp_path: Path) -> None:
    """An undone turn tells nothing, neither in its session nor in another one."""
    talk = agent_of(tmp_path, ["Hello.", block(Facts=FACT), "Hello.", "Hello."])
    talk.say("Good morning.", thread("a"))
    talk.say(SAID, thread("a"))
    commands.undo(talk.agent, thread("a"))
    undone = found(talk, "a")
    talk.say("Good evening.", thread("a"))
    talk.say("Good morning.", thread("b"))

    assert undone == ()
    assert found(talk, "a") == found(talk, "b") == ()


def test_a_fact_that_a_search_found_is_stored_as_a_reference(tmp_path: Path) -> None:
    """The model reads it in this turn and the next, and it goes when it is deleted."""
    searching = call("search_efforts", query=QUERY)
    talk = told(tmp_path, "Hello.", searching, "Peanuts.", "Yes.", "Yes.")
    talk.say("Good morning.", thread("b"))
    memories(talk.archive, "ann").suppress(FIRST)

    state = talk.say("What must I not eat?", thread("b"))
    talk.say("Really?", thread("b"))
    (result,) = [message.text for message in talk.last if message.type == "tool"]
    memories(talk.archive, "ann").delete(FIRST)
    talk.say("Why?", thread("b"))
    (deleted,) = [message.text for message in talk.last if message.type == "tool"]

    assert FACT in result
    assert FACT not in deleted
    assert FACT not in repr(talk.turns(state)[-1].messages)


def test_a_fact_that_a_search_found_and_the_answer_used_is_an_access(tmp_path: Path) -> None:
    """Its id stands in the answer; where it does not, being found is none."""
    searching = call("search_efforts", query=QUERY)
    talk = told(tmp_path, "Hello.", searching, "No idea.", searching, f"Peanuts, see {FIRST}.")
    talk.say("Good morning.", thread("b"))

    accesses = []
    for said in ("What must I not eat?", "Look again."):
        talk.say(said, thread("b"))
        accesses.append(memories(talk.archive, "ann").explain(FIRST).accesses)

    assert accesses == [0, 1]
