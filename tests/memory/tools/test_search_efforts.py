"""Searching what is stored: what the model is answered, and what is kept of the answer."""

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.memory.recalled import recalled
from ebbtide.memory.search.embeddings import Embedder
from ebbtide.memory.tools.summary import EffortSummary
from ebbtide.memory.turn import Event
from ebbtide.prompts.loader import render
from tests.doubles import Concepts
from tests.memory.conversations import (
    LONG_ENOUGH,
    Conversation,
    ai,
    call,
    tool,
    words_of,
)

PAGE = "Nothing else is said. " * 60
FIX = "Fixed 401 errors: refresh tokens never auto-called. Added axios interceptor."


def concluded(talk: Conversation) -> None:
    """Conclude the effort `auth-bug`, in turns 1 and 2, and say something of no effort."""
    talk.replies.append(EffortSummary(summary=FIX, keywords=["auth"], importance=80))
    talk.effort("auth-bug", LONG_ENOUGH, "The interceptor belongs in api.ts, then it works.")
    talk.turn("My cat is called Minka.", answer="A nice name.")


def test_an_effort_comes_with_passages(talk: Conversation) -> None:
    """A result has id, status, and the best pieces of its log with turn and date."""
    concluded(talk)
    talk.ask("Where does the interceptor belong?")
    answer = talk.call("search_efforts", query="Where does the interceptor belong?")
    (result,) = answer["results"]

    assert answer["query"] == "Where does the interceptor belong?"
    assert answer["more"] == 0
    best, *_ = result["passages"]
    assert list(result) == ["id", "status", "passages"]
    assert (result["id"], result["status"]) == ("auth-bug", "concluded")
    assert list(best) == ["turn", "at", "speaker", "text"]
    assert (best["turn"], best["at"]) == (2, "2026-11-21")
    assert best["speaker"].startswith("user, assistant")
    assert best["text"].startswith("The interceptor belongs in api.ts")


@pytest.mark.parametrize("query", ["What was that about?", "?"])
def test_a_query_without_content_says_why(talk: Conversation, query: str) -> None:
    """Nothing is found, and the result tells what to search for instead."""
    concluded(talk)
    talk.ask("continue")
    answer = talk.call("search_efforts", query=query)

    assert answer == {"query": query, "results": [], "why": render("nothing_to_search")}


def passages(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the passages of all results."""
    return [passage for result in answer["results"] for passage in result["passages"]]


def turns(answer: dict[str, Any]) -> list[int]:
    """Return the turns that a search shows, in order."""
    return list(dict.fromkeys(passage["turn"] for passage in passages(answer)))


def events(talk: Conversation) -> list[Event]:
    """Return the events of searches in the running turn."""
    return [event for event in talk.state.events if event["type"] == "searched"]


@pytest.mark.parametrize(("query", "ids"), [("interceptor cat", ["auth-bug"]), ("France", [])])
def test_a_search_is_an_event(talk: Conversation, query: str, ids: list[str]) -> None:
    """It tells which efforts were found, and changes nothing: being found is no reference."""
    concluded(talk)
    talk.ask("Where was that?")
    before = talk.state
    talk.call("search_efforts", query=query)

    assert events(talk) == [{"type": "searched", "efforts": ids}]
    assert replace(talk.state, events=()) == before


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

    assert turns(first)[:2] == [3, 2]
    assert turns(second) == turns(first)
    assert all(passage.keys() == {"turn", "above"} for passage in passages(second))
    assert third == second
    assert passages(again)[0]["text"]


@pytest.mark.thorough
@pytest.mark.parametrize(("asked", "given"), [(3, 3), (None, 10), (99, 20), (-1, 10)])
def test_the_model_may_ask_for_more(talk: Conversation, asked: int | None, given: int) -> None:
    """At most 20 come back, without a number as many as the setting says; the rest is counted."""
    talk.follow([[]] * 25)
    talk.free = 10_000
    talk.ask("What took time?")
    answer = talk.call("search_efforts", query="time", limit=asked)

    assert len(answer["results"]) == given
    assert answer["more"] == 25 - given


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
    assert "by words only" in talk.call("search_efforts", query="auth fix")["note"]
    assert "could not be embedded: TimeoutError: " in caplog.text
    assert "too slow" not in caplog.text


def test_what_is_near_by_its_meaning_alone_is_weak(talk: Conversation) -> None:
    """Beside what says the words, which is not."""
    talk.embedder = Embedder(Concepts("cat kitten"))
    for said in ("A kitten sleeps.", "Rain.", "Snow.", "Fog.", "A cat sleeps."):
        talk.turn(said)
    talk.archive.embed(talk.session, talk.embedder, 9)
    talk.ask("And?")
    found = passages(talk.call("search_efforts", query="cat"))

    assert {one["turn"]: one.get("weak", False) for one in found} == {1: True, 5: False}


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
    turn = talk.answer()
    found = recalled(turn.messages[2])

    assert {2, 3} <= {one.turn for one in found}
    assert "Minka" not in turn.messages[2].content
    assert talk.work.view.messages(turn)[:-1] == seen


def test_an_answer_in_the_next_turn_comes_after_the_question(talk: Conversation) -> None:
    """A question alone is no answer, so what was said next is told with it, without a search."""
    talk.turn("Which port does the harbour master use?", answer="")
    talk.turn("It was 8080, if I remember.", answer="Fine.")
    talk.ask("Once more?")
    question, answer = passages(talk.call("search_efforts", query="port of the harbour master"))

    assert question["text"] == "Which port does the harbour master use?"
    assert (answer["turn"], answer["text"].split("\n")[0]) == (
        *(question["turn"] + 1, "It was 8080, if I remember."),
    )


def test_empty_query_is_an_error(talk: Conversation) -> None:
    """It says that it is empty, not that nothing was found."""
    talk.ask("What was it?")

    assert talk.call("search_efforts", query="  ")["error"].startswith("the query is empty")


def test_the_best_effort_out_of_the_prompt_has_its_summary(talk: Conversation) -> None:
    """One alone, once in a turn; that of an effort which is open again is not current."""
    concluded(talk)
    talk.state = replace(talk.state, summaries={})
    talk.ask("Where was that?")
    first = talk.call("search_efforts", query="Where does the interceptor belong?")
    second = talk.call("search_efforts", query="refresh token expired")
    talk.call("reopen_effort", effort_id="auth-bug")
    reopened = talk.call("search_efforts", query="axios interceptor refresh")

    assert first["results"][0]["summary"] == FIX
    assert [result["id"] for result in second["results"]] == ["auth-bug"]
    assert "summary" not in second["results"][0]
    assert "summary" not in str(reopened["results"])


def test_a_heading_alone_has_no_passage(talk: Conversation) -> None:
    """No turn says what its summary says."""
    talk.replies.append(EffortSummary(summary="Chose granite.", keywords=["granite"]))
    talk.effort("plinth", LONG_ENOUGH, "The darkest one, please.")
    talk.ask("Which stone?")

    (result,) = talk.call("search_efforts", query="granite")["results"]

    assert (result["id"], result["passages"]) == ("plinth", [])


def test_of_a_large_turn_all_that_fit_are_shown(talk: Conversation) -> None:
    """Not only the best of its passages."""
    talk.ask("Read it.")
    talk.look_up("\n".join(f"Kestrel {n} sits there. {f'noise{n} ' * 250}" for n in range(8)))
    talk.answer()
    talk.ask("Which birds?")

    found = passages(talk.call("search_efforts", query="Kestrel"))

    assert sum(one["text"].count("Kestrel") for one in found) > 2


def test_an_answer_is_not_cut_to_its_greeting(talk: Conversation) -> None:
    """It is shown with what it says behind that."""
    talk.turn("Tell me.", answer=f"Hi there! Great question. The kestrel has tower 4711. {PAGE}")
    talk.ask("Which tower?")

    first, *_ = passages(talk.call("search_efforts", query="tower of the kestrel"))

    assert "4711" in first["text"]


@pytest.mark.parametrize(("typed", "other"), [("má", "mà"), ("mà", "má"), ("schön", "schon")])
@pytest.mark.parametrize("newest", [False, True])
def test_marks_that_are_typed_come_first(
    talk: Conversation, typed: str, other: str, *, newest: bool
) -> None:
    """Whichever was said first: without its marks a word is the other one."""
    for word in (other, typed) if newest else (typed, other):
        talk.turn(f"Wir lesen das Wort {word} laut.")
    talk.ask("Und?")

    first, *_ = passages(talk.call("search_efforts", query=typed))

    assert typed in first["text"].split()


@pytest.mark.parametrize("newest_elsewhere", [False, True])
def test_the_newest_of_competing_statements_is_first_and_marked(
    talk: Conversation, *, newest_elsewhere: bool
) -> None:
    """Wherever it was said, and although it says less of the query; the older ones follow."""
    talk.turn("The port of the harbour gateway is 8443.", answer="Noted.")
    for number in range(12):
        talk.turn(f"Stone {number} is grey.", answer="Fine.")
    other = talk.beside("t7") if newest_elsewhere else talk
    other.day = 22
    other.turn("By the way, the gateway port: 9000 from here on.", answer="Fine.")
    talk.day = 23
    talk.turn("Which port has the gateway?", answer="Let me see.")
    talk.ask("And?")

    first, second, *_ = passages(talk.call("search_efforts", query="port of the harbour gateway"))

    assert ("9000" in first["text"], first["newest_with"]) == (True, ["port", "gateway"])
    assert ("8443" in second["text"], "newest_with" in second) == (True, False)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("door code of room 12", ("The door code of room 12 is 4711.", "room 14 is 9000.")),
        ("revenue in Q3", ("The revenue in Q3 was 40,000.", "The revenue in Q4 was 90,000.")),
        (
            "deadline of team B",
            ("The deadline of team B is May 2.", "The deadline of team C is June 9."),
        ),
        (
            "rent of the flat in Bern",
            ("The rent of the flat in Bern is 900.", "The flat in Kent is 950."),
        ),
    ],
)
def test_another_thing_is_not_the_newest(
    talk: Conversation, query: str, said: tuple[str, str]
) -> None:
    """A name that tells two things apart is required, however short."""
    for one in said:
        talk.turn(one)
    talk.ask("And?")
    first, *_ = passages(talk.call("search_efforts", query=query))

    assert (said[0] in first["text"], "newest_with" in first) == (True, False)


def test_a_quote_is_not_the_newest(talk: Conversation) -> None:
    """A line that begins with ">" is what somebody else wrote."""
    talk.turn("The port of the harbour gateway is 8443.", answer="Noted.")
    for number in range(12):
        talk.turn(f"Stone {number} is grey.", answer="Fine.")
    talk.day = 22
    talk.turn("> The gateway port of the harbour is 9000.\nHe wrote that.", answer="Fine.")
    talk.ask("And?")

    first, *_ = passages(talk.call("search_efforts", query="port of the harbour gateway"))

    assert ("8443" in first["text"], "newest_with" in first) == (True, False)


def test_what_competes_with_something_else_is_not_marked(talk: Conversation) -> None:
    """Neither what shares a word beside a common topic, nor what another phrasing is about."""
    talk.turn("The relay port is 8202. The gate code is 4711.", answer="Noted.")
    for number in range(10):
        talk.turn(f"The relay hums at {number} Hz.", answer="Fine.")
    talk.turn("The usb port has 3 pins. The dog name is Rex.", answer="Noted.")
    talk.turn("The dog name is Bello, not Rex.", answer="Noted.")
    talk.ask("And?")

    relay, *_ = passages(talk.call("search_efforts", query="relay port"))
    gate, *_ = passages(talk.call("search_efforts", query="gate code", also=["dog name"]))

    assert ("8202" in relay["text"], "newest_with" in relay) == (True, False)
    assert ("newest_with" in gate, "above" in gate or "4711" in gate["text"]) == (False, True)


def test_other_sessions_are_searched_alike(talk: Conversation) -> None:
    """By words and by days, with the answer beside the question, all within one budget."""
    other = talk.beside("t7")
    other.turn("Which lamp is in the hall?", answer="")
    other.turn("It is the brass one from Kent.", answer="Fine.")
    other.day = 23
    other.turn("I am allergic to wasp stings.", answer="Noted.")
    talk.turn("The hall is painted.", answer="Good.")
    talk.ask("Which lamp?")

    found = talk.call("search_efforts", query="lamp in the hall")
    of_day = talk.call("search_efforts", query="what did we say on 23 November 2026?")

    assert {one["turn"] for one in passages(found)} == {1, 2}
    assert {one.get("session") for one in found["results"]} == {None, "t7"}
    assert [one["session"] for one in of_day["results"]] == ["t7"]
    assert "wasp" in passages(of_day)[0]["text"]


def test_what_answers_is_told_too(talk: Conversation) -> None:
    """Where both say what is asked for, the user's words bring the assistant's along, once."""
    talk.turn(
        "I need a place for the zebra.",
        answer=f"{PAGE}The zebra is best kept in Kent.",
    )
    talk.ask("Where is the zebra best kept?")
    answer = talk.call("search_efforts", query="zebra")

    first, second = passages(answer)
    assert (first["speaker"], second["speaker"]) == ("user", "assistant")
    assert first["text"] == "I need a place for the zebra."
    assert second["text"].endswith("The zebra is best kept in Kent.")
    assert answer["more"] == 0


def test_no_phrasing_is_left_out(talk: Conversation) -> None:
    """From the third on, single words are one phrasing; only what none says is unmatched."""
    concluded(talk)
    talk.ask("Which cat?")
    also = ["airship", "blimp", "balloon", "Zeppelins", "interceptor", "cat Minka"]
    answer = talk.call("search_efforts", query="zeppelin", also=also)
    few = talk.call("search_efforts", query="zeppelin", also=["cat Minka", "interceptor"])

    assert {*turns(answer)} == {*turns(few)} == {2, 3}
    assert few["unmatched"] == ["zeppelin"]


def test_further_phrasings_take_nothing(talk: Conversation) -> None:
    """What they have word for word, too: what the query finds stands first, in its order."""
    talk.turn("The gate key hangs behind the clock.")
    for number in range(6):
        talk.turn(f"Key {number} is lost.")
    talk.turn("E-4711: the pump stopped.")
    talk.ask("Where?")
    alone = talk.call("search_efforts", query="gate key of the clock")
    talk.ask("Where?")
    also = ["E-4711: the pump stopped."]
    beside = talk.call("search_efforts", query="gate key of the clock", also=also)

    clear = [one["turn"] for one in passages(alone) if "weak" not in one]
    assert turns(beside)[: len(clear)] == clear
    assert 8 in turns(beside)


def test_dates_narrow(talk: Conversation) -> None:
    """Both days belong to the period; no date, or one that is before the other, is an error."""
    for day in (20, 21, 22):
        talk.day = day
        talk.turn(f"The boiler broke on a day, for {day} euros.")
    talk.ask("When?")
    found = talk.call("search_efforts", query="boiler", since="2026-11-21", until="2026-11-22")
    first = talk.call("search_efforts", query="boiler", until="2026-11-20")
    month = talk.call("search_efforts", query="boiler", since="2026-11-22", until="2026-11")
    wrong = talk.call("search_efforts", query="boiler", since="soon")
    turned = talk.call("search_efforts", query="boiler", since="2027", until="2026-12")

    assert {*turns(found)} == {2, 3}
    assert turns(first) == [1]
    assert turns(month) == [3]
    assert wrong["error"].startswith("since 'soon' is no date")
    assert turned["error"].startswith("since '2027' is after until '2026-12'")


def test_date_alone_finds_its_day(talk: Conversation) -> None:
    """Its numbers match no path and no other number."""
    talk.turn("Parquet lands in dt=2026-11-22/part-22.")
    talk.day = 22
    talk.turn("I am allergic to wasp stings.")
    talk.ask("And then?")

    assert turns(talk.call("search_efforts", query="what did we say on 22 November 2026?")) == [2]


def test_a_day_that_was_said_is_found(talk: Conversation) -> None:
    """However it is written, before what was said on that day; a path does not say one."""
    talk.turn("Look at s3://lake/dt=2027-03-05/part.")
    talk.turn("The lease ends on 5 March 2027.")
    talk.ask("When?")

    for query in ("2027-03-05", "what ends on 05.03.2027?", "March 5"):
        assert turns(talk.call("search_efforts", query=query)) == [2]


def test_days_are_those_of_the_time_zone(talk: Conversation) -> None:
    """Noon in UTC is the next day on Kiritimati."""
    talk.settings = talk.settings.model_copy(update={"timezone": "Pacific/Kiritimati"})
    talk.turn("The crown is ready.")
    talk.ask("When?")
    (found,) = passages(talk.call("search_efforts", query="crown", since="2026-11-22"))

    assert found["at"] == "2026-11-22"


def test_what_shares_a_common_word_is_weak(talk: Conversation) -> None:
    """It is given as a hint where to look, three passages at most; a rare word is enough."""
    for number in range(20):
        talk.turn(f"The harbour has {number} boats.", answer="Fine.")
    talk.turn("Hollberg pays by direct debit.")
    talk.ask("And?")
    weak = talk.call("search_efforts", query="harbour tariffs electricity substation voltage")
    rare = talk.call("search_efforts", query="preferred electricity tariffs Hollberg voltage")

    assert 0 < len(passages(weak)) <= 3
    assert all(passage["weak"] for passage in passages(weak))
    assert turns(rare) == [21]
    assert "weak" not in passages(rare)[0]


def test_a_goodbye_that_says_a_name_is_weak(talk: Conversation) -> None:
    """By itself it says nothing that most turns do not say."""
    for number in range(14):
        talk.turn(f"Melanie, day {number} was long.", answer="See you, Melanie.")
    talk.turn("Melanie bought a kayak.", answer="Nice.")
    talk.turns(["Rain.", "Snow.", "Fog.", *["Bye Melanie!"] * 5])
    talk.ask("And?")

    found = passages(talk.call("search_efforts", query="Melanie kayak"))

    weak = {one["turn"]: one.get("weak", False) for one in found}
    assert weak[15] is False
    assert [is_weak for turn, is_weak in weak.items() if turn > 18] == [True] * 3


def test_summary_that_shares_a_common_word_is_weak(talk: Conversation) -> None:
    """It is left out where others say a rare word of the query."""
    for number in range(20):
        talk.turn(f"The harbour has {number} boats.", answer="Fine.")
    talk.turn("Hollberg pays by direct debit.")
    talk.replies.append(EffortSummary(summary="The harbour wall is blue.", keywords=[]))
    talk.effort("dock", LONG_ENOUGH, "We paint it.")
    talk.ask("And?")

    query = "preferred electricity tariffs Hollberg voltage harbour"
    found = talk.call("search_efforts", query=query)

    assert "Hollberg" in str(found)
    assert "dock" not in str(found)


def test_each_result_of_a_tool_is_a_passage_of_its_own(talk: Conversation) -> None:
    """Its speaker is who said it, and not who spoke right before."""
    asked = [call(name, call_id=name) for name in ("list_dir", "read_file")]
    notes = "".join(f"{day}.01.: the till in Bern, ticket {day}.\n" for day in range(40))
    talk.ask("Read the notes.")
    talk.messages += (ai("", *asked), tool("list_dir", "NOTES.md\ntill.py", "list_dir"))
    talk.messages += (tool("read_file", notes, "read_file"),)
    talk.answer()
    talk.ask("Which ticket?")

    found = passages(talk.call("search_efforts", query="ticket of the till in Bern, NOTES.md"))

    assert {one["speaker"] for one in found if "till in Bern" in one["text"]} == {"tool read_file"}
    assert any("tool list_dir: NOTES.md" in one["text"] for one in found)


def test_rounds_of_the_running_turn_that_left_are_found(talk: Conversation) -> None:
    """What the context shows no longer is found as text of now, what it shows is not."""
    talk.set(context_budget=talk.fixed + 3_000)
    talk.ask("Look at all of them.")
    talk.call("open_effort", name="old")
    talk.look_up("The gateway listens on port 8493. " + "word " * 150)
    talk.call("close_effort")
    for number in range(20):
        talk.look_up(f"Stone {number} weighs {number} grams. " + "word " * 150)
    talk.plan = talk.context.plan

    gateway = talk.call("search_efforts", query="gateway port 8493")
    early = talk.call("search_efforts", query="stone 0 weighs grams")
    newest = talk.call("search_efforts", query="stone 19 weighs")

    (result,) = gateway["results"]
    assert result["id"] == "old"
    assert result["passages"][0]["at"] == "now"
    assert "port 8493" in result["passages"][0]["text"]
    assert "unmatched" not in gateway
    offset = result["passages"][0].get("offset", 0)
    read = talk.call("read_log", turns="1", offset=offset)
    assert "port 8493" in words_of(read["turns"][0])
    assert "Stone 0 weighs" in early["results"][0]["passages"][0]["text"]
    assert "Stone 19" not in str(newest["results"])


def test_a_very_long_query_is_searched_by_its_beginning_and_its_end(talk: Conversation) -> None:
    """A pasted log costs no more than a page of it, and its last line is searched."""
    talk.turn("Hollberg pays by card.")
    talk.ask("What is this?")
    query = f"kettle {'x' * 1_000_000} Hollberg"

    answer = talk.call("search_efforts", query=query)

    assert turns(answer) == [1]
    assert max(map(len, answer["unmatched"])) < 100


def test_what_is_said_of_others_is_weak(talk: Conversation) -> None:
    """Nobody has spoken of Maria, so what is known of dogs is at most a hint."""
    for name in ("Oliver", "Bailey", "Luna"):
        talk.turn(f"My dog {name} sleeps in the kitchen.", answer="Good dog.")
    talk.ask("And?")
    foreign = talk.call("search_efforts", query="Where does the dog of Maria sleep?")
    own = talk.call("search_efforts", query="Where does the dog Bailey sleep?")

    assert passages(foreign)
    assert all(passage["weak"] for passage in passages(foreign))
    assert "weak" not in passages(own)[0]


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("Die Rechnung von Hollberg ist bezahlt.", "Rechnungen"),
        ("Les chevaux sont dans le pré.", "Où est le cheval ?"),
        ("La factura es de ayer y la pago yo.", "facturas"),
        ("Fakturorna till kommunen är skickade.", "faktura"),
        ("Мы подписали договор до июня.", "договоры"),
    ],
)
def test_a_word_is_found_in_another_form(talk: Conversation, said: str, query: str) -> None:
    """By the stems of its language, whose words stand around it."""
    talk.turn("The kettle is broken.")
    talk.turn(said, answer="Good.")
    talk.ask("And?")

    assert turns(talk.call("search_efforts", query=query)) == [2]
