"""The offline model extracts by rules, and writes backgrounds by quoting."""

from collections.abc import Sequence

from ebbtide.graph.offline_model import OfflineModel
from ebbtide.memory.compressions import Item, Kind
from ebbtide.memory.efforts import Effort
from ebbtide.memory.record import Group
from ebbtide.memory.salience.extract import Previous, Sizes, background, extract
from ebbtide.memory.salience.verify import verify
from ebbtide.memory.tokens import count
from ebbtide.nodes.ask import drive
from tests.memory.conversations import ai, call, human, tool

EFFORT = Effort("auth-bug", "open", goal="Log in again")
TURNS = [
    Group(1, (human("Let's work on the login. Tokens must never be logged."), ai("Fine.")), ""),
    Group(
        2,
        (
            human("Which port is it? It rains."),
            ai("", call("grep", call_id="1", pattern="port")),
            tool("1", "a b c\nport: 8443", "grep"),
            ai("It is port 8443. We will use TLS because the audit asks for it."),
        ),
        "",
    ),
]


def extracted(turns: Sequence[Group], quoted: Sequence[str] = ()) -> list[Item]:
    """Return the verified items that the offline model picks."""
    steps = extract(EFFORT, turns, quoted, Sizes(16_000), count)
    selection = drive(steps, {"extraction": OfflineModel()})
    return [one.item for one in verify(selection.new, turns) if one.item]


def described(turns: Sequence[Group], old: str) -> str:
    """Return the background that the offline model writes."""
    steps = background(EFFORT, turns, Previous(old), Sizes(16_000), count)
    return drive(steps, {"background": OfflineModel()})


def test_telling_sentences_are_picked() -> None:
    """Constraints, decisions and numbers are quoted, with their kinds and turns."""
    assert extracted(TURNS) == [
        Item(Kind.CONSTRAINT, "Tokens must never be logged.", 1),
        Item(Kind.OUTPUT, "port: 8443", 2),
        Item(Kind.FACT, "It is port 8443.", 2),
        Item(Kind.DECISION, "We will use TLS because the audit asks for it.", 2),
    ]


def test_a_goal_is_picked_with_the_request_that_states_it() -> None:
    """A request for a tool says nothing itself, unless a goal stands in it."""
    words = ("Let's work on rates: never exceed 5 % in any month", "Please close the rates 2026")
    turns = [Group(at, (human(said), ai("Fine.")), "") for at, said in enumerate(words, start=1)]

    assert extracted(turns) == [Item(Kind.CONSTRAINT, words[0], 1)]


def test_what_is_quoted_already_is_not_picked_again() -> None:
    """Sentences that the request lists as quoted are left out."""
    items = extracted(TURNS)

    assert extracted(TURNS, [item.quote for item in items[1:]]) == items[:1]


def test_nothing_salient() -> None:
    """Small talk gives no items."""
    assert extracted([Group(1, (human("Hello."), ai("Good morning.")), "")]) == []


def test_long_outputs_do_not_crowd_out_the_rest() -> None:
    """Of the lines of tools' outputs only the newest few are picked."""
    rows = "\n".join(f"row {n} took {n} ms" for n in range(400))
    turns = [*TURNS, Group(3, (human("And then?"), tool("2", rows, "query"), ai("Done.")), "")]

    items = extracted(turns)

    assert 0 < [item.kind for item in items].count(Kind.OUTPUT) <= 10
    assert Item(Kind.CONSTRAINT, "Tokens must never be logged.", 1) in items


def test_the_background_goes_on_from_the_old_one() -> None:
    """It begins as the old one does, and says what users asked first and last."""
    written = described(TURNS, "It began on Monday. It was slow.")

    assert written == "It began on Monday. Let's work on the login. Which port is it?"


def test_a_first_background() -> None:
    """Without an old one it says what users asked; without users that nothing was said."""
    silent = [Group(1, (ai("Hello."),), "")]

    assert [described(TURNS[:1], ""), described(silent, "")] == [
        "Let's work on the login.",
        "Nothing was said.",
    ]
