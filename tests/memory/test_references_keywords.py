"""The keywords of an effort."""

from collections.abc import Iterator
from time import perf_counter

import pytest

from ebbtide.memory.keywords import about, counted, keywords, keywords_of, marks, passages_of
from tests.memory.conversations import Conversation, ai, call, conversation, human, tool


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
    "said",
    [
        "JSONDecodeError or OSError",
        "OOMKilled by SIGKILL",
        "0x80070005 and 0xC0000005",
        "PLATFORM-4711 like KB5034441",
        "std::vector::at or std::vector::end",
        "10.0.3.17:5432 from 192.168.7.44",
    ],
)
def test_a_tool_gives_identifiers_of_each_form(said: str) -> None:
    """Its other words are none, so an identifier that is not known for one is lost."""
    words = {"server": keywords(["server"], [counted([tool("1", f"We see {said} there.")])], 50)}

    assert [*about(passages_of(f"Again {said}?"), words, words)] == ["server"]


PATHS = [f"src/part{number}/file{number}.ts" for number in range(300)]
ERROR = "Error: EADDRINUSE, see ERR_OSSL_EVP"


@pytest.mark.parametrize(
    "results",
    [
        ["\n".join(PATHS[:100]), ERROR],
        [ERROR, "\n".join(PATHS[:100])],
        ["\n".join([*PATHS[:90], ERROR])],
        ["\n".join(PATHS[:100])] * 3 + [ERROR],
        [" ".join(f"some_name_{number}" for number in range(300)), ERROR],
    ],
)
def test_many_identifiers_of_results_leave_room_for_an_error_code(results: list[str]) -> None:
    """Files and paths take no place of codes, and of codes the last ones count."""
    turns = [counted([tool("1", result)]) for result in results]

    found = keywords(["server"], turns, 200)

    assert {"eaddrinus", "err_ossl_evp"} <= found.keys()


def test_the_newest_files_of_results_are_keywords() -> None:
    """Of those that were listed once."""
    turns = [counted([tool("1", "\n".join(PATHS[at : at + 60]))]) for at in range(0, 300, 60)]

    assert {"src/part299/file299.ts", "file299.ts"} <= keywords(["server"], turns, 200).keys()


def test_identifiers_that_the_assistant_writes_leave_room_for_what_the_user_says() -> None:
    """A coding agent writes hundreds of them into files."""
    code = " ".join(f"some_name_{number}" for number in range(250))
    log = [human("Rotate the certificate."), ai("", call("write_file", text=code))]

    found = keywords(["server"], [counted(log)], 200)

    assert {"rotat", "certif", "some_name_249"} <= found.keys()


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("Booked: https://www.hotel-roma.com/rooms.html", {}),
        ("Look at www.flickr.com.", {}),
        ("And status.example.com/incident/77?", {}),
        ("Has Hollis status.example.com?", {"outage": ("exampl", "holli", "status")}),
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
