"""Searching what is stored: what the model is answered, and what is kept of the answer."""

from dataclasses import replace

import pytest

from ebbtide.memory.context.changes import made
from ebbtide.memory.embeddings import Embedder
from ebbtide.memory.messages import Message
from ebbtide.memory.record import Event
from ebbtide.memory.tools.summary import EffortSummary
from ebbtide.memory.transcript import recalled, stored
from ebbtide.prompts.loader import render
from tests.doubles import Concepts
from tests.memory.conversations import LONG_ENOUGH, OWNER, Conversation, call, count_words

FIX = "Fixed 401 errors: refresh tokens never auto-called. Added axios interceptor."


def concluded(talk: Conversation) -> None:
    """Conclude the effort `auth-bug`, in turns 1 and 2, and say something of no effort."""
    talk.replies.append(EffortSummary(summary=FIX, keywords=["auth"], importance=80))
    talk.effort("auth-bug", LONG_ENOUGH, "The interceptor belongs in api.ts, then it works.")
    talk.turn("My cat is called Minka.", answer="A nice name.")


def test_an_effort_comes_with_an_excerpt(talk: Conversation) -> None:
    """A result has id, summary, the turn with its date, and the best piece of its log."""
    concluded(talk)
    talk.ask("Where does the interceptor belong?")
    answer = talk.call("search_efforts", query="Where does the interceptor belong?")
    (result,) = answer["results"]

    assert answer["query"] == "Where does the interceptor belong?"
    assert answer["more"] == 0
    assert list(result) == ["id", "summary", "turn", "at", "excerpt"]
    assert (result["id"], result["turn"], result["at"]) == ("auth-bug", 2, "2026-11-21")
    assert result["summary"] == FIX
    assert result["excerpt"].startswith("user: The interceptor belongs in api.ts")


@pytest.mark.parametrize("query", ["continue", "What was that about?", "go on", "?"])
def test_a_query_without_content_says_why(talk: Conversation, query: str) -> None:
    """Nothing is found, and the result tells what to search for instead."""
    concluded(talk)
    talk.ask("continue")
    answer = talk.call("search_efforts", query=query)

    assert answer == {"query": query, "results": [], "why": render("nothing_to_search")}


def test_nothing_found_is_an_empty_list(talk: Conversation) -> None:
    """A query that nothing matches is no error."""
    concluded(talk)
    talk.ask("What is the capital of France?")

    assert talk.call("search_efforts", query="capital of France")["results"] == []


def events(talk: Conversation) -> list[Event]:
    """Return the events of searches in the running turn."""
    return [event for event in talk.state.events if event["type"] == "searched"]


@pytest.mark.parametrize(
    ("query", "ids"),
    [("interceptor", ["auth-bug"]), ("interceptor cat", ["auth-bug"]), ("France", [])],
)
def test_a_search_is_an_event(talk: Conversation, query: str, ids: list[str]) -> None:
    """It tells which efforts were found, and changes nothing: being found is no reference."""
    concluded(talk)
    talk.ask("Where was that?")
    before = talk.state
    talk.call("search_efforts", query=query)

    assert events(talk) == [{"type": "searched", "efforts": ids}]
    assert replace(talk.state, events=()) == before


def test_an_open_effort_is_told_by_its_goal(talk: Conversation) -> None:
    """It has no summary yet."""
    talk.turn("Where is it?", call("open_effort", name="a", goal="Find the interceptor."))
    talk.ask("Once more.")
    (result,) = talk.call("search_efforts", query="interceptor")["results"]

    assert result["summary"] == "Find the interceptor."


def test_what_was_found_before_is_only_named(talk: Conversation) -> None:
    """In one turn an excerpt is given once, also by calls of one message; the next turn has it."""
    concluded(talk)
    talk.ask("Which interceptor, and what cat?")
    search = call("search_efforts", query="cat interceptor")
    first, second = talk.run(search, search)
    third = talk.call("search_efforts", query="cat interceptor")
    talk.answer()
    talk.ask("Again?")
    again = talk.call("search_efforts", query="cat interceptor")

    assert [one["turn"] for one in first["results"]] == [3, 2]
    assert second["results"] == [
        {"turn": 3, "above": True},
        {"id": "auth-bug", "turn": 2, "above": True},
    ]
    assert third == second
    assert again["results"][0]["excerpt"]


def test_what_was_found_before_is_given_again_in_a_turn_that_is_cut(talk: Conversation) -> None:
    """Its text above may have been shortened since, so naming it would give nothing."""
    concluded(talk)
    talk.ask("Which interceptor, and what cat?")
    first = talk.call("search_efforts", query="cat interceptor")
    now = talk.work.view.running.turn
    talk.plan = replace(made(talk.work, "new"), short={now: (2, 9)})
    again = talk.call("search_efforts", query="cat interceptor")

    assert again["results"] == first["results"]


def test_results_that_repeat_are_restored(talk: Conversation) -> None:
    """What is only named has no text in the archive, and needs none."""
    concluded(talk)
    talk.ask("Which interceptor?")
    talk.run(call("search_efforts", query="interceptor"), call("search_efforts", query="axios cat"))
    seen = talk.messages
    record = talk.answer()

    assert "Minka" not in record.messages[3]["data"]["content"]
    assert talk.work.view.messages(record)[:-1] == seen


@pytest.mark.parametrize(("asked", "given"), [(1, 1), (3, 3), (0, 5), (None, 5), (99, 20), (-1, 5)])
def test_the_model_may_ask_for_more(talk: Conversation, asked: int | None, given: int) -> None:
    """At most 20 come back, without a number as many as the setting says; the rest is counted."""
    talk.follow([[]] * 25)
    talk.free = 10_000
    talk.ask("What took time?")
    answer = talk.call("search_efforts", query="time", limit=asked)

    assert len(answer["results"]) == given
    assert answer["more"] == 25 - given


def test_a_piece_that_one_reading_does_not_reach_has_its_offset(talk: Conversation) -> None:
    """So that `read_log` can begin there."""
    talk.turn(f"{'Nothing else is said. ' * 300} The dog is called Rex.")
    talk.ask("What is it called?")
    (result,) = talk.call("search_efforts", query="dog")["results"]
    read = talk.call("read_log", turns=result["turn"], offset=result["offset"])

    assert read["turns"][0]["text"].startswith(result["excerpt"].partition(".")[0])


def test_a_synonym_is_found(talk: Conversation) -> None:
    """With an embedder a query finds what means the same, although it shares no word with it."""
    talk.embedder = Embedder(Concepts("cat kitten"))
    concluded(talk)
    talk.archive.embed(OWNER, talk.embedder, 9)
    talk.ask("What is my kitten's name?")
    (result,) = talk.call("search_efforts", query="a kitten")["results"]

    assert result["turn"] == 3


def test_a_query_that_cannot_be_embedded(
    talk: Conversation, caplog: pytest.LogCaptureFixture
) -> None:
    """Words alone are searched for, and the log says why."""
    model = Concepts()
    talk.embedder = Embedder(model)
    concluded(talk)
    model.error = TimeoutError("too slow")
    talk.ask("auth fix?")

    assert talk.call("search_efforts", query="auth fix")["results"][0]["id"] == "auth-bug"
    assert "could not be embedded: TimeoutError: too slow" in caplog.text


def test_the_results_fit_into_the_free_budget(talk: Conversation) -> None:
    """As many results as there is room for are shown, and the best one in any case."""
    talk.follow([[], [], [], []])
    talk.free = 40
    talk.ask("What took time?")
    results = talk.call("search_efforts", query="time")["results"]
    talk.free = 1

    assert 1 < len(results) < 4
    assert len(talk.call("search_efforts", query="time")["results"]) == 1


def test_excerpts_are_stored_as_references(talk: Conversation) -> None:
    """The archive keeps ranges and no text, and gives back the result as the model saw it."""
    concluded(talk)
    talk.ask("What about the cat, and the interceptor?")
    talk.call("search_efforts", query="cat interceptor")
    seen = talk.messages
    record = talk.answer()
    found = recalled(record.messages[2])

    assert {one.turn for one in found} == {2, 3}
    assert "Minka" not in record.messages[2]["data"]["content"]
    assert talk.work.view.messages(record)[:-1] == seen


def kept(message: Message) -> int:
    """Count the words of a message as the archive keeps it."""
    return count_words(str(stored(message)["data"]["content"]))


def test_an_answer_in_the_next_turn_comes_after_the_question(talk: Conversation) -> None:
    """A question alone is no answer, so what was said next is told with it, without a search."""
    talk.turn("Which port does the harbour master use?", answer="")
    talk.turn("It was 8080, if I remember.", answer="Fine.")
    talk.ask("Once more?")
    question, answer = talk.call("search_efforts", query="port of the harbour master")["results"]

    assert question["excerpt"] == "user: Which port does the harbour master use?"
    assert (answer["turn"], answer["excerpt"].split("\n")[0]) == (
        *(question["turn"] + 1, "user: It was 8080, if I remember."),
    )


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_limit_counts_turns(talk: Conversation, limit: int) -> None:
    """The answer that comes with a question takes a place, so no more turns are shown."""
    for number in range(4):
        talk.turn(f"Which port does the harbour master {number} use?", answer="")
        talk.turn(f"It was 808{number}, if I remember.", answer="Fine.")
    talk.ask("Once more?")

    answer = talk.call("search_efforts", query="port of the harbour master", limit=limit)

    assert len({result["turn"] for result in answer["results"]}) == limit
    assert answer["more"] > 0


@pytest.mark.parametrize("query", ["", "  "])
def test_empty_query_is_an_error(talk: Conversation, query: str) -> None:
    """It says that it is empty, not that nothing was found."""
    talk.ask("What was it?")

    assert talk.call("search_efforts", query=query)["error"].startswith("the query is empty")


def test_summary_is_given_once_in_a_turn(talk: Conversation) -> None:
    """A later search of the turn finds other words of the effort, and names it."""
    concluded(talk)
    talk.ask("Where was that?")
    first = talk.call("search_efforts", query="Where does the interceptor belong?")

    second = talk.call("search_efforts", query="refresh token expired")

    assert first["results"][0]["summary"] == FIX
    assert [result["id"] for result in second["results"]] == ["auth-bug"]
    assert "summary" not in second["results"][0]


def test_what_answers_is_told_too(talk: Conversation) -> None:
    """Where both say what is asked for, the user's words bring the assistant's along, once."""
    talk.turn(
        "I need a place for the zebra.",
        answer=f"{'Nothing else is said. ' * 60}The zebra is best kept in Kent.",
    )
    talk.ask("Where is the zebra best kept?")
    answer = talk.call("search_efforts", query="zebra")

    assert [one.get("speaker", "user") for one in answer["results"]] == ["user", "assistant"]
    assert answer["results"][0]["excerpt"] == "user: I need a place for the zebra."
    assert answer["results"][1]["excerpt"].endswith("The zebra is best kept in Kent.")
    assert answer["more"] == 0


def test_as_many_results_as_asked_for(talk: Conversation) -> None:
    """Turns of one effort are results of their own, however much better another one is."""
    talk.effort("auth-bug", "The zebra token. The zebra token.", *["A zebra came by."] * 12)
    talk.free = 10_000
    talk.ask("And the zebra token?")
    answer = talk.call("search_efforts", query="zebra token", limit=12)

    assert len({one["turn"] for one in answer["results"]}) == 12
    assert answer["more"] == 1
