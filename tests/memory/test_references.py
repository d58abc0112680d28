"""Which efforts a turn mentions."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from ebbtide import DiskArchive
from ebbtide.memory.keywords import counted, keywords
from ebbtide.memory.references import referenced as noted
from ebbtide.memory.turn import Event, StoredTurn
from tests.memory.conversations import SESSION, Conversation, ai, call, conversation, human
from tests.memory.turns import concluded, opened

AUTH = "The gateway answers 401 since the certificate was rotated."
CSS = "The header is teal, and the sidebar overlaps the footer."
OTHER = "Which trains go to Vienna tomorrow?"


@pytest.fixture
def talk() -> Iterator[Conversation]:
    """Begin a conversation with two concluded efforts and three silent turns."""
    with conversation(summary_eviction_threshold=8, rebuild="every-turn") as begun:
        begun.effort("auth-bug", AUTH)
        begun.effort("css", CSS)
        begun.follow([[], [], []])
        yield begun


def referenced(
    talk: Conversation, question: str, *calls: Event, answer: str = "Done."
) -> list[str]:
    """Go through a turn, and return what it referenced, and what returned in it."""
    talk.ask(question)
    talk.run(*calls)
    turn = talk.answer(answer)
    types = {"referenced", "returned"}
    return [*dict.fromkeys(e["effort"] for e in turn.events if e["type"] in types)]


@pytest.mark.parametrize(
    "question",
    [
        "(auth-bug).",
        "AUTH_BUG!",
        "The auth bugs?",
        "ＧＡＴＥＷＡＹ　ｃｅｒｔｉｆｉｃａｔｅ",  # noqa: RUF001 (full width, on purpose)
    ],
)
def test_writing_does_not_matter(talk: Conversation, question: str) -> None:
    """Punctuation, case, width and plurals hide neither an id nor keywords; numbers count."""
    assert referenced(talk, question) == ["auth-bug"]


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("我登录了", ["登录"]),
        ("刷新令牌的错误", ["登录"]),
        ("今天天气怎么样", []),
        ("メニューの日本語", ["翻訳"]),
    ],
)
def test_scripts_without_spaces_mention_efforts(
    talk: Conversation, question: str, found: list[str]
) -> None:
    """Chinese and Japanese text mentions an effort by its id, or by pairs of its characters."""
    talk.effort("登录", "登录页面的刷新令牌错误一直出现。")
    talk.effort("翻訳", "メニューの翻訳を日本語で確認してください。")
    talk.turn(OTHER)

    assert referenced(talk, question) == found


def test_reopening_is_a_reference(talk: Conversation) -> None:
    """A reopened effort counts from this turn."""
    talk.turn(OTHER, call("reopen_effort", effort_id="css"))

    assert talk.state.open["css"]["last_referenced_turn"] == 6


def test_switching_back_is_a_reference(talk: Conversation) -> None:
    """An open effort that becomes active again counts from this turn, the other one does not."""
    talk.turn(OTHER, call("open_effort", name="one"), call("open_effort", name="two"))
    talk.turn("Back, please.", call("switch_effort", effort_id="one"))

    counters = {name: entry["last_referenced_turn"] for name, entry in talk.state.open.items()}
    assert counters == {"one": 7, "two": 6}


def test_a_long_talk_about_an_effort_keeps_it(talk: Conversation) -> None:
    """However often the words of an effort were said, the turns that mention it do not count."""
    talk.turn("The whole log.", call("expand_effort", effort_id="auth-bug"))
    talk.turns(["Does the gateway take the certificate?"] * 20)

    assert [*talk.state.expanded] == ["auth-bug"]


TRACE = """\
[webpack-cli] Error: error:0308010C:digital envelope routines::unsupported
    at Module.createHash (node_modules/webpack/lib/util/createHash.js:135:53)
  opensslErrorStack: [ 'error:03000086:digital envelope routines::initialization error' ],
  code: 'ERR_OSSL_EVP_UNSUPPORTED'
Node.js v17.4.0, exit status EX_SOFTWARE
"""


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("Does ERR_OSSL_EVP_UNSUPPORTED come back?", []),
        ("Where is EX_SOFTWARE from, and ERR_OSSL_EVP_UNSUPPORTED?", ["build"]),
        ("Is the initialization of the digital envelope routines wrong?", []),
        ("Is that unsupported?", []),
    ],
)
def test_an_error_code_that_only_a_tool_said_is_a_keyword(
    talk: Conversation, said: str, found: list[str]
) -> None:
    """Its other words are none: a tool says most words of a trade."""
    talk.ask("It fails.")
    talk.run(call("open_effort", name="build"))
    talk.look_up(TRACE)
    talk.answer("I see it.")
    talk.turn("Pin it, please.", call("close_effort"))
    talk.turn(OTHER)

    assert referenced(talk, said) == found


def test_the_running_turn_does_not_refer_to_itself(talk: Conversation) -> None:
    """What is said in an open effort for the first time is no reference to it."""
    talk.turn("Now something else.", call("open_effort", name="trip"))
    talk.turn("Hotels beside the Danube river.")

    assert talk.state.open["trip"]["last_referenced_turn"] == 6


def test_an_open_effort_is_mentioned_by_its_goal_and_log(talk: Conversation) -> None:
    """Words of the goal and of earlier turns refer to an open effort."""
    talk.turn(OTHER, call("open_effort", name="trip", goal="Hotels beside the Danube"))
    talk.turn("Nothing so far.")
    talk.turn("The Danube hotels, then.")

    assert talk.state.open["trip"]["last_referenced_turn"] == 8


PASTED = "".join(f"The pump in hall {n} runs at {n + 20} bar. " for n in range(400))
"""More than is compared with keywords."""

IN_THE_MIDDLE = f"{PASTED} Are the {{}} related? {PASTED}"


def test_an_id_counts_wherever_it_stands_in_a_long_message(talk: Conversation) -> None:
    """A mail with a pasted page may name an effort behind the page's first lines."""
    assert referenced(talk, IN_THE_MIDDLE.format("AUTH BUG, then,")) == ["auth-bug"]
    assert referenced(talk, "And now?", answer=IN_THE_MIDDLE.format("auth-bug")) == ["auth-bug"]


@pytest.mark.parametrize("cached", [2_000, 1])
def test_a_long_message_names_an_evicted_effort(talk: Conversation, cached: int) -> None:
    """However many efforts the session has: their names are cached only if they are few."""
    talk.patch.setattr("ebbtide.memory.archive.load._MOST_NAMES", cached)
    talk.follow([[]] * 5)

    assert referenced(talk, IN_THE_MIDDLE.format("auth-bug, css")) == ["auth-bug", "css"]


def test_keywords_count_at_the_ends_of_a_long_message(talk: Conversation) -> None:
    """What stands between them is pasted: most words of most efforts are somewhere in a page."""
    keywords = "The gateway takes the certificate."

    assert referenced(talk, f"{PASTED} {keywords} {PASTED}") == []
    assert referenced(talk, f"{keywords} {PASTED}") == ["auth-bug"]


def test_keywords_do_not_bring_an_evicted_effort_back(talk: Conversation) -> None:
    """Two keywords of an evicted effort are a matter of search."""
    talk.follow([[], [], [], [], []])

    assert referenced(talk, "Is the sidebar still over the footer?") == []


def test_all_messages_of_the_user_count(talk: Conversation) -> None:
    """Of several messages that came in together each can mention an effort."""
    talk.ask("The auth bug", human("and the css"))
    turn = talk.answer()

    assert [event["effort"] for event in turn.events] == ["auth-bug", "css"]


@pytest.mark.parametrize("blocks", [["The auth-bug", "Then lunch"], ["Yes", "auth-bug", "Now"]])
def test_blocks_of_a_message_end_its_words(talk: Conversation, blocks: list[str]) -> None:
    """An application sends a question in several, and a model answers in several."""
    content = [{"type": "text", "text": block} for block in blocks]
    talk.ask(human(content))
    assert [event["effort"] for event in talk.answer().events] == ["auth-bug"]
    talk.ask(OTHER)
    talk.messages += (ai(content),)

    found = noted(talk.work, talk.keywords).events

    assert [one["effort"] for one in found if one["type"] == "referenced"] == ["auth-bug"]


def test_blocks_of_a_message_end_its_keywords() -> None:
    """In the log as in what is compared with it."""
    content = [{"type": "text", "text": part} for part in ("Ask Hollberg", "Nordpay")]
    found = keywords(["pay"], [counted([human(content)])], 20)

    assert {"hollberg", "nordpay"} <= found.keys()


def worked(number: int) -> StoredTurn:
    """Return a turn in which an effort is opened and concluded."""
    name, said = f"work-{number}", f"The gateway number {number} answers {number + 400}."
    events = (opened(name, goal=""), concluded(name, said, keywords=[f"word{number}"]))
    return StoredTurn(number, (human(said), ai("I see.")), "2026-01-01", (name,), events)


def cost(folder: Path, efforts: int) -> dict[str, int]:
    """Return what the references of a turn cost in a session of so many efforts, just opened.

    That is statements, steps of SQLite's machine, of which each row takes some, and keywords of
    efforts and turns.
    """
    with DiskArchive(folder, durable=False) as archive:
        talk = Conversation(archive)
        for number in range(1, efforts + 1):
            talk.tip = talk.archive.commit(SESSION, talk.tip, worked(number)).tip
    with DiskArchive(folder, durable=False) as archive:
        talk.archive = archive
        names = [f"work-{number}" for number in range(efforts - 20, efforts + 1)]
        talk.state = replace(
            talk.state, summaries={name: {"last_referenced_turn": efforts} for name in names}
        )
        talk.ask(f"Has gateway {efforts} its word{efforts}, as in work-3, and not work-4000?")
        counts = Counter[str]()

        def watch(connection: Any, *_: Any) -> None:
            counts["statements"] += 1
            connection.connection.driver_connection.set_progress_handler(
                lambda: counts.update(["steps"]), 1
            )

        event.listen(archive.database._engine, "before_cursor_execute", watch)
        after = noted(talk.work, talk.keywords)
        found = {one["effort"] for one in after.events if "effort" in one}
        assert found == {"work-3", f"work-{efforts}"}
        return {**counts, "weighed": len(talk.keywords)}


@pytest.mark.thorough
def test_the_cost_does_not_grow_with_the_number_of_efforts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice the efforts take as many statements, rows and keywords."""
    # The session has more names than are cached, since cached ones would be read only once.
    monkeypatch.setattr("ebbtide.memory.archive.load._MOST_NAMES", 50)
    monkeypatch.setattr("ebbtide.memory.references._COMPARED", 50)
    few, many = cost(tmp_path / "few", 100), cost(tmp_path / "many", 200)

    assert many["statements"] == few["statements"]
    assert many["steps"] <= 1.01 * few["steps"]
    assert many["weighed"] == few["weighed"] < 450


def reasons(talk: Conversation) -> dict[str, tuple[str, list[str]]]:
    """Return kind and words of the references of the last turn."""
    (turn,) = talk.work.view.past.turns([talk.tip.turn])
    found = [event for event in turn.events if event["type"] == "referenced"]
    return {event["effort"]: (event["kind"], event["words"]) for event in found}


def test_collapsing_is_a_reference(talk: Conversation) -> None:
    """As any call is that names an effort."""
    talk.turn("The whole log.", call("expand_effort", effort_id="auth-bug"))

    talk.turn("Hm.", call("collapse_effort", effort_id="auth-bug"))

    assert reasons(talk)["auth-bug"] == ("tool", ["collapse_effort"])


def test_status_of_an_evicted_effort_brings_it_back(talk: Conversation) -> None:
    """Asking for one effort by its name is a reference."""
    talk.follow([[]] * 5)

    (status,) = talk.turn("Hm.", call("effort_status", effort_id="CSS"))

    assert [entry["id"] for entry in status["efforts"]] == ["css"]
    assert [*talk.state.summaries] == ["css"]


def test_asking_twice_for_the_status_is_one_reference(talk: Conversation) -> None:
    """Each reference of a turn is listed once."""
    asked = [call("effort_status", effort_id=name) for name in ("css", "CSS")]

    talk.turn("Hm.", *asked)

    (turn,) = talk.work.view.past.turns([talk.tip.turn])
    assert [event["effort"] for event in turn.events if event["type"] == "referenced"] == ["css"]


def test_an_id_of_several_words_is_known_with_other_endings(talk: Conversation) -> None:
    """A single word may be any word, so that one must stand there as it is."""
    talk.effort("login-crash", "Which soups are there?")
    talk.effort("import", "Which rolls are there?")

    talk.turn("Are the logins crashing? And the imports?")

    assert reasons(talk) == {"login-crash": ("id", ["login-crash"])}


@pytest.mark.parametrize("said", ["Were there more auth bugs?", "An AUTH-BUGS list, please."])
def test_an_evicted_effort_returns_by_its_id_with_another_ending(
    talk: Conversation, said: str
) -> None:
    """The summary comes back as with the id itself."""
    talk.follow([[]] * 5)

    assert referenced(talk, said) == ["auth-bug"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Müller Vertrag", "Was it the mueller vertrag?"),
        ("ёлка", "Где елка?"),
        ("שלום", "שָׁלוֹם"),
        ("version ४", "version 4"),
        ("Rechnung prüfen", "Wer hat die Rechnungen prüfen wollen?"),
        ("ошибка входа", "Что с ошибкой входа?"),  # noqa: RUF001 (Russian, on purpose)
    ],
)
def test_an_id_is_compared_as_search_compares_words(
    talk: Conversation, name: str, said: str
) -> None:
    """Marks of any script, umlauts as two letters, digits, and endings of the text's language."""
    talk.effort(name, "Which soups are there?")
    effort = [*talk.state.summaries][-1]

    talk.turn(said)

    assert reasons(talk)[effort] == ("id", [effort])


@pytest.mark.parametrize("overlap", [1, 2, 3])
def test_the_overlap_is_how_many_keywords_are_a_reference(talk: Conversation, overlap: int) -> None:
    """One less is none."""
    talk.set(min_keyword_overlap=overlap)
    words = ["gateway", "certificate", "rotated"]

    assert referenced(talk, " ".join(words[: overlap - 1]) or OTHER) == []
    assert referenced(talk, " ".join(words[:overlap])) == ["auth-bug"]


@pytest.mark.parametrize(
    ("also", "found"),
    [([], {"night-shift": ("search", ["haproxy", "marta"])}), (["haproxy of Marta"], {})],
)
def test_an_answer_uses_a_search_by_two_words_that_were_not_asked_for(
    talk: Conversation, also: list[str], found: dict[str, Any]
) -> None:
    """However many keywords make a mention; other phrasings of a search are asked for too."""
    talk.set(min_keyword_overlap=50)
    talk.effort("night-shift", "The listener runs behind haproxy, and Marta watches it.")
    search = call("search_efforts", query="listener", also=also)

    talk.turn("Which one was it?", search, answer="I know of haproxy and of Marta.")

    assert reasons(talk) == found


@pytest.mark.parametrize(
    ("question", "answer", "found"),
    [
        ("Which one was it?", "It was 8443.", {"night-shift": ["8443"]}),
        ("Who was it?", "Marta.", {"night-shift": ["marta"]}),
        ("Which file?", "It was hosts.toml.", {"night-shift": ["hosts", "toml"]}),
        ("Is it 8443?", "It was 8443.", {}),  # asked for
        ("Which one was it?", "It was 2217.", {}),  # two results have it
        ("Which one was it?", "A listener.", {}),  # no value
        ("Which one was it?", "Nothing.", {}),
    ],
)
def test_an_answer_uses_a_search_by_one_value(
    talk: Conversation, question: str, answer: str, found: dict[str, list[str]]
) -> None:
    """A number, a name or an identifier that no other result has, and that was not asked for."""
    talk.effort("night-shift", "The gateway listener has 8443 from hosts.toml, says Marta: 2217.")
    talk.effort("day-shift", "The gateway listener has 9000, by ticket 2217.")
    talk.follow([[]] * 9)

    talk.turn(question, call("search_efforts", query="gateway"), answer=answer)

    assert {name: words for name, (_, words) in reasons(talk).items()} == found


CODE = """\
```python
#!/usr/bin/env python
from pathlib import Path
import fastapi
print(Path("notes/plan.txt").as_posix(), read_customs(rows))
```
"""
IMPORTS = "from pathlib import Path\nimport fastapi\nprint(read_customs(rows))"


@pytest.mark.parametrize(
    ("said", "answer", "found"),
    [
        # An identifier, a path, its file name and its parts are one keyword.
        ("Why as_posix?", "So.", []),
        ("And /usr/bin/env, or env?", "So.", []),
        ("Is notes/plan.txt the plan.txt of the notes?", "So.", []),
        ("Portable as_posix?", "So.", ["paths"]),
        ("Is plan.txt portable?", "So.", ["paths"]),
        # Of code, in a fence or not, the rarest identifier counts as one.
        (CODE, "So.", []),
        (IMPORTS, "So.", []),
        ("How?", CODE, []),
        (f"Portable?\n{CODE}", "So.", ["paths"]),
        ("How portable?", f"So:\n{IMPORTS}", []),
        (f"The auth bug?\n{CODE}", "So.", ["auth-bug"]),
        ("```\nauth-bug = True\n```", "So.", ["auth-bug"]),
    ],
)
def test_identifiers_and_code_count_once(
    talk: Conversation, said: str, answer: str, found: list[str]
) -> None:
    """One import is no reference, and pasted code has ids and its rarest identifier only."""
    talk.effort("paths", f"Make these portable, please.\n{CODE}", f"Rather:\n{CODE}")
    talk.follow([[], [], []])

    assert referenced(talk, said, answer=answer) == found


def test_code_refers_by_what_at_most_two_efforts_have(talk: Conversation) -> None:
    """An identifier of three is no evidence."""
    for name, part in (("upload", "Slow"), ("export", "Wrong"), ("sync", "Twice")):
        talk.effort(name, f"{part} rows of the harbour.\n```\nread_rows(harbour_{name})\n```")
    talk.follow([[], [], []])

    assert referenced(talk, "Twice?\n```\nread_rows(x)\n```") == []
    assert referenced(talk, "Twice?\n```\nread_rows(harbour_sync)\n```") == ["sync"]


def test_nothing_is_looked_for_beside_the_active_effort_alone(talk: Conversation) -> None:
    """It is active anyway."""
    talk.follow([[]] * 9)
    talk.turn("Now.", call("open_effort", name="trip", goal="Hotels beside the Danube"))
    before = len(talk.keywords)
    talk.turn("The Danube hotels.")

    assert talk.state.open["trip"]["last_referenced_turn"] == 15
    assert len(talk.keywords) == before


LONG = [f"Invoice {number} is for delivery {number + 500}." for number in range(100, 120)]
PAINTER = "Grandmother Hollis saw herons on the pantry door in Leiden."
ASKED = "Which birds did Hollis see on the pantry door, when, how large, and who paid?"


@pytest.mark.thorough
@pytest.mark.parametrize(("others", "found"), [(9, ["house"]), (2, [])])
def test_what_was_said_once_is_a_reference_among_many_efforts(
    others: int, found: list[str]
) -> None:
    """Of a long log it has a small share; among a few efforts one says most of anything."""
    with conversation(summary_eviction_threshold=200) as talk:
        talk.effort("house", *LONG, PAINTER, *LONG)
        for number in range(others):
            talk.effort(f"part-{number}", f"The valve {number} of pump {number} leaks oil.")
        talk.turn(OTHER)

        assert referenced(talk, ASKED) == found
        assert referenced(talk, "Which herring did the baker weigh in that shop?") == []
        assert referenced(talk, OTHER) == []
