"""What may be quoted of a log, and how it is shown to a model."""

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.memory.messages import text
from ebbtide.memory.salience.extract import quotable, split_log
from ebbtide.memory.state_block import END, START
from ebbtide.memory.transcript import indented
from ebbtide.memory.turn import StoredTurn
from tests.memory.conversations import ai, call, count_words, human, tool

READ = '{"turns":[{"turn":1,"text":"The port is 8443."}],"next":null}'
ARTIFACT = {"recalled": [{"turn": 1, "offset": 0, "end": 17}]}
OWN = StoredTurn(
    2,
    (
        human("What was the port?"),
        ai("", call("read_log", call_id="1", turns=1), call("ping", call_id="2", port=1)),
        tool("1", READ, "read_log", artifact=ARTIFACT),
        tool("2", "pong in 3 ms", "ping"),
        ai(f"It is 8443.\n\n{START}\nGoal: rule\n{END}"),
        ai("", call("close_effort", call_id="3")),
        tool("3", '{"status":"concluded","summary":"Ports were found."}', "close_effort"),
    ),
    "",
)


def turn(number: int, words: int) -> StoredTurn:
    """Return a turn of some words and the four around them."""
    return StoredTurn(number, (human(" ".join(["word"] * words)),), "")


def test_what_was_said_is_a_source() -> None:
    """Messages and outputs of the application's tools are sources, nothing of the memory is."""
    spoken = [(text(message), message.type) for message in quotable(OWN)]

    assert [(words, who) for words, who in spoken if words] == [
        ("What was the port?", "human"),
        ("pong in 3 ms", "tool"),
        ("It is 8443.", "ai"),
    ]


def test_a_turn_without_messages_is_no_source() -> None:
    """Of a turn without messages, as of an erased one, nothing is read and nothing quoted."""
    erased = StoredTurn(3, (), "", status="erased")

    assert (quotable(erased), split_log([erased], 100, count_words)) == ((), [])


def test_a_log_is_shown_without_the_memory() -> None:
    """A model reads messages, calls and outputs; calls of the memory's tools are left out."""
    (shown,) = split_log([OWN], 100, count_words)

    assert shown == (
        "[turn 2]\n"
        "user: What was the port?\n"
        'assistant calls ping {"port": 1}\n'
        "tool ping: pong in 3 ms\n"
        "assistant: It is 8443."
    )


def test_turns_are_put_together_while_they_fit() -> None:
    """Parts hold whole turns, in order; none is over the limit."""
    made = split_log([turn(1, 2), turn(2, 2), turn(3, 2), turn(4, 30)], 40, count_words)

    assert [part.count("[turn ") for part in made] == [3, 1]


def test_a_long_turn_is_cut_and_stands_under_its_number() -> None:
    """Each piece of a turn over the limit begins with the number of the turn, and who goes on."""
    words = "\n".join(f"line {n} of the log" for n in range(20))

    made = split_log([StoredTurn(7, (human(words),), "")], 30, count_words)

    first, *later = (part.rstrip() for part in made)
    before = "[turn 7]\nuser, continued:\n"
    assert all(part.startswith(before) for part in later)
    said = "\n".join([first, *(part.removeprefix(before) for part in later)])
    assert said == f"[turn 7]\nuser: {indented(words)}"


@given(st.lists(st.integers(0, 80), max_size=8), st.integers(10, 60))
def test_parts_hold_everything_within_the_limit(sizes: list[int], limit: int) -> None:
    """Whatever the sizes of the turns, every word is in a part, and no part is over the limit."""
    turns = [turn(number, words) for number, words in enumerate(sizes, start=1)]

    made = split_log(turns, limit, count_words)

    assert sum(part.count("w") for part in made) == sum(sizes)
    assert all(count_words(part) <= limit for part in made)
