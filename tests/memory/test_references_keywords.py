"""The keywords of an effort."""

from collections.abc import Iterator

import pytest

from ebbtide.memory.efforts import Effort
from ebbtide.memory.references import KeywordCache, Keywords, count_terms, keywords, keywords_of
from tests.memory.conversations import Conversation, conversation


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
    return frozenset(keywords_of(talk.work, effort, talk.keywords))


def test_heading_comes_before_what_the_log_repeats() -> None:
    """Within the limit stand the heading's terms, then those of most messages."""
    found = keywords(["css"], [count_terms(["grid blue css", "grid", "colour grid blue"])], 3)

    assert [*found] == ["css", "grid", "blue"]


def test_what_only_the_log_says_counts_less() -> None:
    """Beside a heading of 25 terms those of the log count less; with a shorter one it has more."""
    said = [f"w{n}" for n in range(10, 35)]

    log = [count_terms(["grid"])]
    assert keywords(said, log, 50)["grid"] < keywords(said[1:], log, 50)["grid"] == 1


def test_id_summary_and_log_give_keywords(talk: Conversation) -> None:
    """The words of id, summary and messages count."""
    assert {"auth", "bug", "work", "gateway", "401", "certif"} <= of(talk, "auth-bug")


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


def test_the_newest_turns_are_read(talk: Conversation) -> None:
    """Of a long log as many turns count as the setting says."""
    talk.set(KEYWORD_TURNS=1)

    assert "certif" in of(talk, "auth-bug")
    assert "gateway" not in of(talk, "auth-bug")


def test_the_cache_holds_those_used_last(talk: Conversation) -> None:
    """Over its limit the cache drops what was used longest ago, and makes it again."""
    cache, made = KeywordCache(limit=2), list[str]()
    keys = {name: (talk.work.view.owner, "main", Effort(name, "open"), 1, (1, 1)) for name in "abc"}

    def get(name: str) -> None:
        def make() -> Keywords:
            made.append(name)
            return {name: 1.0}

        cache.get_or_make(keys[name], make)

    for name in "abaca" + "b":
        get(name)

    assert made == ["a", "b", "c", "b"]
