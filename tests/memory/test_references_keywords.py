"""The keywords of an effort."""

from collections.abc import Iterator
from time import perf_counter

import pytest

from ebbtide.memory.efforts import Effort
from ebbtide.memory.keywords import (
    Vocabulary,
    about,
    counted,
    efforts_with,
    keywords,
    keywords_of,
    marks,
    passages_of,
)
from tests.memory.conversations import Conversation, ai, conversation, human


@pytest.fixture
def talk() -> Iterator[Conversation]:
    """Begin a conversation with one concluded effort."""
    with conversation() as begun:
        begun.effort("auth-bug", "The gateway answers 401.", "Rotate the certificate, please.")
        begun.ask("And now?")
        yield begun


def of(talk: Conversation, name: str) -> frozenset[str]:
    """Return the keywords of an effort."""
    (effort,) = talk.work.known([name])
    return frozenset(keywords_of(talk.work, [effort], talk.keywords)[effort.id])


def test_heading_comes_before_what_the_log_repeats() -> None:
    """Within the limit stand the heading's terms, then those of most messages."""
    said = [human("grid blue css"), human("grid"), human("colour grid blue")]

    found = keywords(["css"], [counted(said)], 3)

    assert [*found] == ["css", "grid", "blue"]


def test_the_memorys_own_tools_give_none(talk: Conversation) -> None:
    """The calls of memory tools and their results are no words of an effort."""
    assert not {"effort_id", "open", "status", "conclud"} & of(talk, "auth-bug")


def test_an_open_effort_has_those_of_its_log_so_far(talk: Conversation) -> None:
    """With each committed turn the keywords of an open effort grow; the running turn is no part."""
    talk.call("open_effort", name="css", goal="A calmer palette")
    before = of(talk, "css")
    talk.answer("The header is teal.")
    talk.ask("Purple, perhaps?")

    assert {"css", "palett"} <= before
    assert of(talk, "css") >= before | {"teal", "header"}
    assert "purpl" not in of(talk, "css")


def test_words_of_the_assistant_weigh_least() -> None:
    """Its identifiers are keywords like those of the user; its other words come last."""
    said = [human("The footer is teal."), ai("Changed colours in footer.css.")]

    found = keywords(["css"], [counted(said)], 10, full_weight=0)

    assert [*found] == ["css", "footer.css", "footer", "teal", "chang", "color"]
    assert found["footer.css"] == 1.0
    assert found["teal"] > found["color"]


def test_identifiers_of_one_word_are_compared_by_their_stem() -> None:
    """In the assistant's words as in those of the text, which is stemmed as a whole."""
    log = [human("It fails."), ai("EADDRINUSE, whatever maxRetries is.")]
    words = {"server": keywords(["server"], [counted(log)], 50)}

    found = about(passages_of("Does EADDRINUSE depend on maxRetries?"), words, words)

    assert found == {"server": ("eaddrinus", "maxretri")}


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("Booked: https://www.hotel-roma.com/rooms.html", {}),
        ("Look at www.flickr.com.", {}),
        ("And status.example.com/incident/77?", {"outage": ("exampl", "incid", "status")}),
    ],
)
def test_what_all_addresses_have_is_no_keyword(said: str, found: dict[str, object]) -> None:
    """`https`, `www` and `com` make no reference to an effort with another address."""
    log = [human("It says so at https://www.status.example.com/incident/77.html, Hollis told us.")]
    words = {"outage": keywords(["outage"], [counted(log)], 50)}

    assert about(passages_of(said), words, words) == found


@pytest.mark.parametrize("character", ["1", "-x", "x.", "_"])
def test_pasted_data_without_spaces_take_no_time(character: str) -> None:
    """Of a word as long as a message only the beginning is looked through for identifiers."""
    pasted = character * (8_000 // len(character))

    begun = perf_counter()
    found = marks(f"See src/auth.ts and {pasted}")

    assert found[:2] == ["src/auth.ts", "auth.ts"]
    assert perf_counter() - begun < 0.5


def test_efforts_with_a_keyword_are_counted_as_they_change() -> None:
    """Of a vocabulary that follows another the efforts that changed or left count no longer."""
    css, auth, api = (Effort(name, "concluded") for name in ("css", "auth", "api"))
    old = {"css": {"grid": 1.0, "login": 1.0}, "auth": {"login": 0.4}}
    new = {"css": {"grid": 1.0}, "api": {"grid": 1.0}}

    before = Vocabulary().followed({"css": (css, "1"), "auth": (auth, "2")}, old.__getitem__)
    after = before.followed({"css": (css, "3"), "api": (api, "4")}, new.__getitem__)

    assert efforts_with({"grid", "login"}, before) == {"grid": 1, "login": 2}
    assert efforts_with({"grid", "login"}, after) == {"grid": 2}
