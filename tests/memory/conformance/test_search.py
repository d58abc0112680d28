"""Search: what is found, in which order, and what is not."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from langchain_core.messages import ToolMessage

from ebbtide.memory.archive.branches import Branches
from ebbtide.memory.archive.protocol import Archive
from ebbtide.memory.archive.query import RAREST, Found, pointing
from ebbtide.memory.archive.search import find
from ebbtide.memory.turn import Session, StoredTurn, Tip
from tests.memory.turns import (
    SESSION,
    START,
    answer,
    best_of_each,
    commit_all,
    concluded,
    elsewhere,
    human,
    opened,
    turn,
)

OTHER = Session("ann", "t2")
SUMMARY = "Fixed 401 errors: refresh tokens never auto-called. Added axios interceptor."
OTHERS = {
    "invoices": "The PDF of an invoice broke its table after 20 lines. Set a page break.",
    "rapid-import": "Imported the capitals of all counties of Ireland from a CSV file.",
    "dark-mode": "Added a switch for dark colours to the settings page.",
    "db-upgrade": "Moved from PostgreSQL 14 to 16 with logical replication.",
    "api": "Documented the endpoints, with an example for each.",
    "flaky-test": "The test of the scheduler failed at midnight. Froze the clock.",
    "登录": "修复了登录页面的刷新令牌错误。",
    "翻訳": "メニューの翻訳を日本語で確認しました。",
}


def effort(number: int, name: str, summary: str) -> list[StoredTurn]:
    """Return two turns in which an effort is opened, and concluded with a summary."""
    return [
        turn(number, f"Let us begin with {name}.", [name], [opened(name, goal="")]),
        turn(number + 1, "That is it.", [name], [concluded(name, summary)]),
    ]


def populate(archive: Archive) -> Tip:
    """Write nine efforts, each of two turns."""
    named = [("auth-bug", SUMMARY), *OTHERS.items()]
    turns = [
        turn
        for at, (name, summary) in enumerate(named)
        for turn in effort(2 * at + 1, name, summary)
    ]
    return commit_all(archive, turns)


def search(archive: Archive, tip: Tip, query: str, session: Session = SESSION) -> list[str | None]:
    """Return the efforts that a query finds, best first, None for an ambient turn."""
    return [found.effort for found in best_of_each(archive.load(session, tip), query, 5)]


def names_of(hits: Sequence[Found]) -> list[str]:
    """Return the efforts that were found from another session."""
    return [hit.effort for hit in hits if hit.effort]


def test_the_effort_that_is_meant_comes_first(archive: Archive) -> None:
    """Plurals, endings, punctuation, case and width do not matter, words of the id count."""
    tip = populate(archive)
    queries = (
        *("auth fix", "What was the fix for the auth thing?", "refresh token", "401 error"),
        *("AUTH-BUG", "interceptors", "(axios)", "the 401s, and the tokens' refreshing!"),
        "ＡＸＩＯＳ",  # noqa: RUF001 (full width, on purpose)
        "ax\u200bi\u00ados",
    )

    found = {query: search(archive, tip, query)[:1] for query in queries}

    assert found == {query: ["auth-bug"] for query in queries}


def test_what_is_not_meant_is_not_found(archive: Archive) -> None:
    """A word inside of another is no match: neither `api` in capital nor `auth` in unauthorised."""
    tip = commit_all(archive, [*effort(1, "auth-bug", "Fixed it."), *effort(3, "api", "Done.")])
    queries = ("capital of France", "unauthorised", "token ring axi")

    assert [search(archive, tip, query) for query in queries] == [[], [], []]


def test_scripts_without_spaces_are_found(archive: Archive) -> None:
    """Chinese and Japanese are found by any part, even by one character."""
    tip = populate(archive)
    wanted = {
        "刷新令牌": ["登录"],
        "登录页面怎么了": ["登录"],
        "日本語の翻訳": ["翻訳"],
        "メニュー": ["翻訳"],
        "牌": ["登录"],
    }

    assert {query: search(archive, tip, query)[:1] for query in wanted} == wanted
    wanted = {query: names for query, names in wanted.items() if len(query) > 1}
    assert {query: names_of(elsewhere(archive, OTHER, query, 1)) for query in wanted} == wanted


def test_unknown_words_of_a_run_count_once(archive: Archive) -> None:
    """A run of Chinese has many pairs of characters: what it says beside is no chance."""
    tip = commit_all(archive, [turn(1, "数据库的密码在保险箱里。"), *map(turn, range(2, 8))])
    query = "数据库 请告诉我关于宇宙飞船发射时间表的所有信息"

    (found,) = best_of_each(archive.load(SESSION, tip), query, 5)

    assert (found.turn, found.weak) == (1, False)


def test_a_query_without_content_finds_nothing(archive: Archive) -> None:
    """Stop words and stop phrases are not looked for, although turns say them."""
    tip = commit_all(archive, [turn(1, "continue"), turn(2, "Go on, what was that about?")])
    queries = ("", " ", "?!", "continue", "go on", "the thing", "What was that about?", "Carry on!")

    assert {query: search(archive, tip, query) for query in queries} == {
        query: [] for query in queries
    }
    assert {elsewhere(archive, OTHER, query, 5) for query in queries} == {()}


def test_odd_queries_are_answered(archive: Archive) -> None:
    """Nothing in a query has a meaning of its own; signs say nothing, and no length is an error."""
    tip = populate(archive)
    wanted = {
        **{query: ["auth-bug"] for query in ("axios*", "(axios)", "-axios^", '"axios" OR')},
        "a:b AND (": [],
        "'; -- axios": ["auth-bug"],
        "\x00axios\\ %_": ["auth-bug"],
        "🙂 axios 🙂": ["auth-bug"],
        "axios 登录": ["auth-bug", "登录"],
        "axios " * 10_000: ["auth-bug"],
        " ".join(f"word{number}" for number in range(10_000)): [],
        "x" * 100_000: [],
        "🙂": [],
    }

    found = {query: sorted(map(str, search(archive, tip, query))) for query in wanted}
    there = {query: elsewhere(archive, OTHER, query, 5) for query in wanted}

    assert found == wanted
    assert {query: sorted(names_of(hits)) for query, hits in there.items()} == wanted
    assert {elsewhere(archive, SESSION, query, 5) for query in wanted} == {()}
    assert all(len(pointing(archive.load(SESSION, tip), query).rare) <= RAREST for query in wanted)


def test_an_ambient_turn_is_found(archive: Archive) -> None:
    """A turn of no effort is found as such, by its number."""
    tip = commit_all(archive, [turn(1), turn(2, "My cat is called Minka."), turn(3)])
    (found,) = best_of_each(archive.load(SESSION, tip), "the name of the cat", 5)

    assert (found.effort, found.turn) == (None, 2)
    assert found.said == {"cat"}


def test_the_turn_that_says_it_is_named(archive: Archive) -> None:
    """Of an effort the best matching turn is given, and which terms of the query it says."""
    said = ["The port is 8080.", "The certificate expires in May.", "And the rest."]
    turns = [turn(at, text, ["a"]) for at, text in enumerate(said, 1)]
    tip = commit_all(archive, turns)
    (found,) = best_of_each(archive.load(SESSION, tip), "When do certificates expire?", 5)

    assert (found.effort, found.turn) == ("a", 2)
    assert found.said == {"certif", "expir"}
    assert found.score > 0


def test_tools_of_the_application_are_found(archive: Archive) -> None:
    """What a tool was asked and what it answered is found as what was said is."""
    asked = {"name": "read_file", "args": {"path": "src/login.ts"}, "id": "1", "type": "tool_call"}
    result = ToolMessage("ECONNREFUSED", tool_call_id="1")
    said = (human("Look."), answer("", tool_calls=[asked]), result, answer("I see."))
    tip = commit_all(archive, [StoredTurn(1, said, "2026-01-01", ("a",))])

    assert [search(archive, tip, query) for query in ("login", "econnrefused")] == [["a"], ["a"]]


def test_what_the_memory_quotes_is_not_found_again(archive: Archive) -> None:
    """The result of a memory tool stands elsewhere already: the turn that asked is no answer."""
    result = ToolMessage("Minka", tool_call_id="1", name="search_efforts")
    tip = commit_all(
        archive, [StoredTurn(1, (human("Look."), result, answer("Yes.")), "2026-01-01")]
    )

    assert search(archive, tip, "Minka") == []


def test_a_branch_does_not_find_its_siblings(archive: Archive) -> None:
    """After a fork each side finds what it sees itself, common past included."""
    first = commit_all(archive, effort(1, "past", "The cat is called Minka."))
    left = commit_all(archive, effort(3, "left", "The cat is grey."), first)
    right = commit_all(archive, effort(3, "right", "The cat is old."), first)

    assert set(search(archive, left, "cat")) == {"past", "left"}
    assert set(search(archive, right, "cat")) == {"past", "right"}


def test_an_effort_of_one_name_on_two_branches(archive: Archive) -> None:
    """The same name on two branches is two efforts, each found by its own words."""
    left = commit_all(archive, effort(1, "pet", "The cat is grey."))
    right = archive.commit(SESSION, START, turn(1, "The dog is old.", ["pet"], [opened("pet")])).tip

    assert [search(archive, tip, "cat") for tip in (left, right)] == [["pet"], []]
    assert [search(archive, tip, "dog") for tip in (left, right)] == [[], ["pet"]]


@pytest.mark.parametrize("session", [Session("bob", "t1"), Session("", "t1")])
def test_another_owner_finds_nothing(archive: Archive, session: Session) -> None:
    """Neither another user, nor another thread, nor another namespace sees what is stored."""
    tip = populate(archive)

    assert search(archive, tip, "axios", session) == []


def test_many_siblings_hide_nothing(archive: Archive) -> None:
    """However many branches say it better, what the tip sees is found."""
    tip = commit_all(archive, [turn(1, "A cat, and much else besides that is of no importance.")])
    for number in range(60):
        archive.commit(SESSION, START, turn(1, f"cat {number} tree"))

    assert search(archive, tip, "cat tree") == [None]


@pytest.mark.parametrize("said", [["x"] * 300, ["x" * 100_000], ["\x00\ud800 x", "é\u0301"]])
def test_odd_turns_are_found(archive: Archive, said: Sequence[str]) -> None:
    """Very many messages, very long words and odd characters break neither commit nor search."""
    messages = (*(human(text) for text in said), answer("It was the zebra."))
    tip = commit_all(archive, [StoredTurn(1, messages, "2026-01-01")])

    assert search(archive, tip, "zebras \ud800") == [None]


def test_the_rare_words_of_a_long_text_count(archive: Archive) -> None:
    """Of a text whose words mostly stand in many turns, the word is found that few have."""
    common = " ".join(f"word{number}" for number in range(50))
    tip = commit_all(archive, [*(turn(at, common) for at in (1, 2, 3)), turn(4, "Zebra.", ["zoo"])])

    assert "zoo" in search(archive, tip, f"{common} zebra")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("auth fix", ["auth-bug"]),
        ("refresh token", ["auth-bug"]),
        ("recipe for pancakes", []),
    ],
)
@pytest.mark.parametrize("vain", ['Nothing is known of "{}".'])
def test_questions_asked_in_vain_hide_nothing(
    archive: Archive, query: str, found: list[str], vain: str
) -> None:
    """However often something was asked, and beside work alike, its effort still comes first."""
    # So it does where each answer repeats the question. Who asks for something else does not get
    # it, and what nobody spoke of is not found.
    tip = populate(archive)
    perf = effort(19, "perf-fix", "Fixed the slow start: the cache was never filled.")
    said = [
        "What was the fix for the auth thing?",
        "The auth fix and the perf fix?",
        "Find what we said about the auth fix.",
        "Which refresh token was it?",
        "And the 401 error?",
    ] * 8
    asked = [
        StoredTurn(at, (human(text), answer(vain.format(text))), "2026-01-02T00:00:00Z")
        for at, text in enumerate(said, 21)
    ]
    tip = commit_all(archive, [*perf, *asked], tip)

    assert search(archive, tip, query)[:1] == found


@pytest.mark.thorough
@pytest.mark.parametrize("asked", ["auth?", "auth", "tell me about the auth"])
def test_a_single_word_finds_the_effort_that_is_named_by_it(archive: Archive, asked: str) -> None:
    """However many turns said only that word since, the effort with it in its id comes first."""
    vain = [turn(at, asked) for at in range(19, 27)]
    tip = commit_all(archive, vain, populate(archive))

    assert search(archive, tip, "auth")[:1] == ["auth-bug"]


def test_what_was_only_searched_for_hides_nothing(archive: Archive) -> None:
    """A query that was said, and searched for, does not stand before the effort that it means."""
    query = {"name": "search_efforts", "args": {"query": "authentication problem"}, "id": "1"}
    said = (human("authentication problem"), answer("", tool_calls=[query]), answer("No."))
    vain = [StoredTurn(at, said, "2026-01-02T00:00:00Z") for at in range(19, 27)]
    tip = commit_all(archive, vain, populate(archive))

    assert search(archive, tip, "authentication problem")[:1] == ["auth-bug"]


def test_a_speaker_and_a_month(archive: Archive) -> None:
    """What somebody said in a month comes first, whatever others said, or he in another one."""
    said = [
        ("James: The garden is full of weeds.", "2026-03-07T10:00:00Z"),
        ("James: The garden has a new fence.", "2026-04-08T10:00:00Z"),
        ("Ann: James has a garden, has he not?", "2026-04-09T10:00:00Z"),
        ("James: The garden is sold.", "2026-05-01T10:00:00Z"),
    ]
    turns = [StoredTurn(at, (human(text),), day) for at, (text, day) in enumerate(said, 1)]
    tip = commit_all(archive, turns)

    branch = archive.load(SESSION, tip)
    assert find(Branches(branch), "What did James say in April?", 5)[0].turn == 2
    assert find(Branches(branch), "James on the garden, on 7 March 2026", 5)[0].turn == 1


def test_what_was_said_then_comes_before_what_says_more(archive: Archive) -> None:
    """If a query names a date, a turn of another date does not win by one more word of it."""
    said = {"2023-05-10": "Ann: I pay for the piano.", "2023-07-10": "Ann: It cost 900."}
    turns = [replace(turn(at, text), at=day) for at, (day, text) in enumerate(said.items(), 1)]
    branch = archive.load(SESSION, commit_all(archive, [*turns, turn(3)]))

    assert find(Branches(branch), "What did Ann pay in July 2023?", 5)[0].turn == 2
    assert find(Branches(branch), "What did Ann pay?", 5)[0].turn == 1


def test_a_passage_is_named(archive: Archive) -> None:
    """Of a long turn the passage that says it is found, and of an effort each that does."""
    filler = "Nothing else is said here at all. " * 40
    turns = [turn(1, f"The zebra eats. {filler}", ["zoo"]), turn(2, f"{filler}A zebra!", ["zoo"])]
    tip = commit_all(archive, turns)
    found = find(Branches(archive.load(SESSION, tip)), "zebra", 9)

    assert {(one.turn, one.passage) for one in found[:2]} == {(1, 0), (2, 1)}


def test_what_most_say_tells_nothing(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a message the terms that few passages say are searched for; all others are left out."""
    monkeypatch.setattr("ebbtide.memory.archive.query.TELLING", 3)
    said = [turn(at, f"common talk {'zebra' * (at == 1)}") for at in range(1, 6)]
    tip = commit_all(archive, [*said, turn(6, "So.", ["zoo"], [opened("zoo", goal="")])])
    found = pointing(archive.load(SESSION, tip), "common zebra giraffe")

    assert found.rare.keys() == {"zebra", "giraff"}
    assert found.said == {1: [frozenset({"zebra"})]}
    assert not pointing(archive.load(SESSION, tip), "common talk").said


def test_a_long_effort_is_found_by_what_is_around_the_best(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an effort is too long to be read as a whole, the turn that says it still leads."""
    monkeypatch.setattr("ebbtide.memory.archive.search._LONG", 4)
    turns = [turn(at, f"word{at} {'zebra' * (at == 3)}", ["long"]) for at in range(1, 10)]
    short = turn(10, "A zebra crossing, and much else besides.", ["short"])
    tip = commit_all(archive, [*turns, short])
    found = find(Branches(archive.load(SESSION, tip)), "word3 zebra", 9)

    assert (found[0].effort, found[0].turn) == ("long", 3)
    assert {one.turn for one in found} == {2, 3, 4, 10}
