"""Looking at efforts and logs without changing anything."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.memory.recalled import restored, result_of, shortened, stored
from ebbtide.memory.search.terms import shared_terms
from ebbtide.memory.transcript import entries, log_text
from tests.draws import examples
from tests.memory.contexts import everything
from tests.memory.conversations import (
    LONG_ENOUGH,
    Conversation,
    call,
    conversation,
    count_words,
    words_of,
)


def test_a_short_turn_is_read_at_once(talk: Conversation) -> None:
    """The whole text comes back with the time and the efforts of the turn, and nothing is left."""
    talk.effort("a", LONG_ENOUGH)
    talk.ask("What was that?")
    result = talk.call("read_log", turns="1")
    turn = talk.work.view.past.turns([1])[0]

    assert result == {
        "turns": [
            {
                "turn": 1,
                "at": "2026-11-21 12:00",
                "efforts": ["a"],
                "messages": entries(turn.messages),
            }
        ],
        "next": None,
    }


def test_a_range_is_read_at_once(talk: Conversation) -> None:
    """All its turns come back in order, whatever effort they are of, up to the running one."""
    talk.turn("one")
    talk.effort("a", "two", "three")
    talk.ask("four")
    result = talk.call("read_log", turns="2-4, 1")

    assert [(one["turn"], one["efforts"]) for one in result["turns"]] == [
        (1, []),
        (2, ["a"]),
        (3, ["a"]),
        (4, []),
    ]
    assert result["turns"][-1]["at"] == "now"
    assert "missing" not in result


def test_turns_of_a_day_are_read(talk: Conversation) -> None:
    """Their times are those of the time zone, and so is the day; a day without turns is named."""
    talk.settings = talk.settings.model_copy(update={"timezone": "Asia/Tokyo"})
    for day in (20, 21, 22):
        talk.day = day
        talk.turn(f"It is the {day}th.")
    talk.ask("What was that?")
    read = talk.call("read_log", turns="2026-11-21")
    wrong = talk.call("read_log", turns="2026-12-01")

    assert [(turn["turn"], turn["at"]) for turn in read["turns"]] == [(2, "2026-11-21 21:00")]
    assert wrong["error"].startswith("nothing was said on 2026-12-01")


def test_a_long_turn_is_read_as_far_as_there_is_room(talk: Conversation) -> None:
    """The text is cut at the free budget, and `next` says how to go on."""
    talk.turn("one two three four five six")
    talk.free = 5
    talk.ask("What was that?")
    first = talk.call("read_log", turns="1")
    second = talk.call("read_log", **first["next"])
    texts = [words_of(one["turns"][0]) for one in (first, second)]

    assert count_words(texts[0]) <= 3
    assert first["next"] == {"turns": "1", "offset": len(texts[0])}
    assert "".join(texts).startswith("one two three")


def test_a_long_range_is_read_as_far_as_there_is_room(talk: Conversation) -> None:
    """A later turn for which there is little room is left for the next call, whole."""
    talk.turns(["word " * 40] * 4)
    talk.free = 100
    talk.ask("What was that?")
    result = talk.call("read_log", turns="1-4")

    assert [one["turn"] for one in result["turns"]] == [1, 2]
    assert result["next"] == {"turns": "3-4"}


def test_many_turns_are_read_in_several_calls(talk: Conversation) -> None:
    """One call looks at fifty of them."""
    talk.follow([[]] * 51)
    talk.free = 100_000
    talk.ask("What was that?")
    result = talk.call("read_log", turns="1-99", limit=100_000)

    assert [one["turn"] for one in result["turns"]] == [*range(1, 51)]
    assert result["missing"] == "turns 53-99 are not there; the turns are 1-52"
    assert result["next"] == {"turns": "51-52"}


def test_what_is_missing_is_named(talk: Conversation) -> None:
    """Turns that were erased and turns that never were are told apart; the others are read."""
    talk.turns(("one", "two", "three"))
    talk.archive.erase(talk.session, talk.tip, 2)
    talk.ask("What was that?")
    result = talk.call("read_log", turns="0-9")

    assert [one["turn"] for one in result["turns"]] == [1, 3, 4]
    assert result["missing"] == (
        "turn 2 was erased: its text cannot be read any more; "
        "turns 0,5-9 are not there; the turns are 1-4"
    )


@pytest.mark.thorough
@settings(max_examples=examples(25))
@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200),
    st.integers(1, 30),
)
def test_reading_on_gives_the_whole_turn_exactly(question: str, free: int) -> None:
    """The parts that the offsets give are together the turn, whatever is in it."""
    with conversation() as talk:
        talk.turn(question)
        turn = talk.work.view.past.turns([1])[0]
        talk.free = free
        talk.ask("Read it.")
        read = everything(talk, 1)

    assert read == log_text(turn.messages)


def test_state_blocks_are_read_and_stored_as_references(talk: Conversation) -> None:
    """An answer's block follows the text, comes back from the archive, and moves no offset."""
    anchors = f"Technical Anchors: {'host db-1, ' * 20}port 8443"
    talk.turn("Ship it.", answer=f"Understood.\n\n---STATE---\n{anchors}\n---END STATE---")
    talk.ask("What did I say?")

    whole = talk.call("read_log", turns="1")
    sent = talk.messages[-1]
    cut = result_of(shortened(sent, 40, talk.work.run.count, shared_terms))

    assert whole["turns"][0]["messages"][1:] == [
        {"speaker": "assistant", "text": "Understood."},
        {"speaker": "assistant's state block", "text": anchors},
    ]
    assert (whole["next"], "8443" in words_of(cut["turns"][0])) == (None, False)
    assert restored(stored(sent), talk.work.view.recall) == sent
    rest = talk.call("read_log", **cut["next"])
    assert rest["turns"][0]["messages"][-1]["text"] == anchors


def test_reading_from_an_offset_ends_with_the_message(talk: Conversation) -> None:
    """What follows the message in which a preview was cut is not read with it."""
    talk.turn("one " + "two " * 150 + "three", call("effort_status"), answer="four five")
    talk.ask("What was that?")

    rest = talk.call("read_log", turns="1", offset=len("one "))
    after = talk.call("read_log", **rest["next"])

    assert words_of(rest["turns"][0]) == "two " * 150 + "three"
    assert after["turns"][0]["messages"][0]["speaker"] == "assistant calls"


def test_reading_from_an_offset_shortly_before_the_end_of_a_message(talk: Conversation) -> None:
    """A call for a few words brings the next message too, which else needs another call."""
    talk.turn("one two three", call("effort_status"), answer="four " * 150)
    talk.ask("What was that?")

    read = talk.call("read_log", turns="1", offset=len("one two "), limit=60)

    (part,) = read["turns"]
    assert words_of(part).startswith("three\neffort_status")
    assert "four four" in words_of(part)
    assert read["next"]["offset"] == len("one two ") + len(words_of(part))


@pytest.mark.parametrize(("asked", "tokens"), [({}, 1_000), ({"limit": 300}, 300)])
def test_a_turn_is_read_up_to_a_limit(
    talk: Conversation, asked: dict[str, int], tokens: int
) -> None:
    """A call reads 1,000 tokens, or as many as it names."""
    talk.turn("word " * 5_000)
    talk.free = 10_000
    talk.ask("What was that?")

    (read,) = talk.call("read_log", turns="1", **asked)["turns"]

    assert tokens * 0.9 < count_words(words_of(read)) <= tokens


def test_a_result_that_is_shorter_than_asked_says_why(talk: Conversation) -> None:
    """It names the tokens that it could have; one that leaves nothing out says nothing."""
    talk.turn("word " * 500)
    talk.free = 300
    talk.ask("What was that?")

    cut = talk.call("read_log", turns="1", limit=800)
    whole = talk.call("read_log", turns="1", offset=1_800, limit=800)

    assert ("limit=800" in cut["why"], "300 tokens" in cut["why"]) == (True, True)
    assert "why" not in talk.call("read_log", turns="1")
    assert "why" not in whole


def test_a_small_limit_is_that_of_its_own_call_alone(talk: Conversation) -> None:
    """A later call of the same message reads as much as it asks for."""
    talk.turn("word " * 900)
    talk.ask("What was that?")

    few, many = talk.run(call("read_log", turns="1", limit=50), call("read_log", turns="1"))

    assert count_words(words_of(few["turns"][0])) <= 50
    assert (many["next"], "why" in many) == (None, False)


def test_results_of_one_message_share_the_room(talk: Conversation) -> None:
    """What the running turn may have goes to the first ones; the next says that it got less."""
    talk.set(context_budget=4_000)
    for _ in range(3):
        talk.turn("word " * 900)
    talk.ask("What was that?")

    asked = [call("read_log", turns=str(turn), limit=2_000) for turn in (1, 2, 3)]
    *first, last = talk.run(*asked)

    sizes = [count_words(words_of(one["turns"][0])) for one in (*first, last)]
    assert sizes[0] > 800
    assert 0 < sizes[2] < sizes[0] // 2
    assert "earlier results" in last["why"]


def test_colours_are_left_out(talk: Conversation) -> None:
    """Codes of terminals are stored, but not shown; the result comes back as it was given."""
    talk.turn("\x1b[31mfailed\x1b[0m at\x07 once")
    talk.ask("What was that?")
    (read,) = talk.call("read_log", turns="1")["turns"]
    given = talk.messages[-1]
    turn = talk.answer()

    assert read["messages"][0] == {"speaker": "user", "text": "failed at once"}
    assert talk.work.view.messages(turn)[-2].content == given.content


def test_the_running_turn_can_be_read(talk: Conversation) -> None:
    """What was said and found in this turn so far is there, and its efforts."""
    talk.ask("Which port?")
    talk.call("open_effort", name="a")
    talk.look_up("8080")
    (read,) = talk.call("read_log", turns="1")["turns"]

    assert read["efforts"] == ["a"]
    assert read["messages"][0] == {"speaker": "user", "text": "Which port?"}
    assert {"speaker": "tool look_up", "text": "8080"} in read["messages"]


FORM = 'write them like "3-5,8"'


@pytest.mark.parametrize(
    ("args", "error"),
    [
        *(({"turns": n}, f"turn {n} is not there; the turns are 1-2") for n in (0, 3)),
        *(
            ({"turns": n}, f"turns {n!r} cannot be read; {FORM}")
            for n in ("last", "2-1", "1-999999")
        ),
        ({"turns": ""}, f"no turns are named; {FORM}"),
        *(({"turns": 1, "offset": n}, f"offset {n} is outside turn 1: 0-9") for n in (-1, 30)),
    ],
)
def test_what_cannot_be_read_is_an_error(
    talk: Conversation, args: dict[str, object], error: str
) -> None:
    """The error quotes it, and says which turns or offsets there are, or how turns are written."""
    talk.turn("one", answer="two 90")
    talk.ask("two")

    assert talk.call("read_log", **args) == {"error": error}


def test_the_status_of_each_kind_of_effort(talk: Conversation) -> None:
    """Open, concluded and expanded efforts are listed with sizes and turns, the open ones first."""
    talk.effort("done", LONG_ENOUGH, "on and on")
    talk.turn("three", call("open_effort", name="rest"))
    talk.turn("four", call("open_effort", name="now"))
    talk.ask("five")
    talk.call("expand_effort", effort_id="done")
    rest, now, done = talk.call("effort_status")["efforts"]

    assert rest | {"raw_tokens": 0} == {
        "id": "rest",
        "status": "open",
        "active": False,
        "goal": "",
        "constraints": [],
        "expanded": False,
        "summary": "",
        "raw_tokens": 0,
        "summary_tokens": 0,
        "turns": "3",
    }
    assert (now["id"], now["active"], now["turns"]) == ("now", True, "4-5")
    assert done | {"raw_tokens": 0} == {
        "id": "done",
        "status": "concluded",
        "active": False,
        "expanded": True,
        "summary": "It works now.",
        "raw_tokens": 0,
        "summary_tokens": 3,
        "turns": "1-2",
    }
    assert min(rest["raw_tokens"], now["raw_tokens"], done["raw_tokens"]) > 10


def test_further_efforts_are_listed_up_to_the_limit(talk: Conversation) -> None:
    """Of evicted efforts the newest are listed, then how many more there are."""
    talk.set(MOST_SUMMARIES=1, STATUS_LISTED=2)
    talk.effort("a", "one")
    talk.effort("b", "two")
    talk.effort("c", "three")
    talk.effort("d", "four")
    talk.effort("e", "five")
    talk.ask("six")
    status = talk.call("effort_status")

    assert [effort["id"] for effort in status["efforts"]] == ["e", "d", "c"]
    assert status["more"] == 2
    assert "expand_effort" in status["how"]
