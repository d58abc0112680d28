"""The terms of a text, by which texts are compared."""

from time import process_time

import pytest

from ebbtide.memory.search.terms import content, further_terms, indexed, query_terms, terms, words
from tests.memory.conversations import Conversation


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fixed 401 errors", ["fix", "401", "error"]),
        ("auth-bug, auth_bug!", ["auth", "bug", "auth", "bug"]),
        ("STRASSE straße", ["strass", "strass"]),
        ("\uff14\uff10\uff11", ["401"]),
        ("数据库", ["数据", "据库"]),
        ("fix数据库now好", ["fix", "数据", "据库", "好"]),
        ("データ 서버", ["デー", "ータ", "서버"]),
        ("go on, yes, continue", []),
        ("au\u200bth au\u00adth \ufeffauth\u2060 \u202eauth", ["auth"] * 4),
        ("İstanbul cafe\u0301 ❤\ufe0f", ["istanbul", "cafe"]),
        ("हिन्दी السَّلام", ["हिन्दी", "السلام"]),
    ],
)
def test_terms_are_normalised(text: str, expected: list[str]) -> None:
    """Case, width, punctuation, endings, stop words and invisible characters do not count."""
    # Text without spaces between words becomes pairs of characters.
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("ﬁne auth_bug", ["fine", "auth", "bug"]), ("a 数据库", ["a", "数据", "据库"])],
)
def test_words_are_whole(text: str, expected: list[str]) -> None:
    """Words keep their endings, and stop words are among them."""
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("an API v2", ["api"]), ("401 ok", ["401"]), ("好 数据", ["数据"])]
)
def test_short_terms_are_no_keywords(text: str, expected: list[str]) -> None:
    """Keywords have three characters and more, CJK pairs aside."""
    assert content(text) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("OK, please search our notes for the retry budget.", ["retri", "budget"]),
        ("Could you remind me when the audit is?", ["audit"]),
        ("Which way did you look for Ann?", ["look", "ann"]),
        ("recall benchmark", ["recal", "benchmark"]),
    ],
)
def test_the_request_in_a_query_gives_no_terms(query: str, expected: list[str]) -> None:
    """The words that introduce a request are no terms, unless they are the topic."""
    assert query_terms(query) == expected


@pytest.mark.parametrize(
    "spellings",
    [
        "favourite favorite favourites",
        "organise organize organising organisation organizational",
        "surprise surprising surprisingly",
        "centre centers",
        "dialogue dialogs",
        "licence license licensed",
        "travelling traveling traveller traveled",
        "jewellery jewelry",
    ],
)
def test_spellings_meet(spellings: str) -> None:
    """British and American spellings of a word are one term, and so are its endings."""
    assert len({*terms(spellings)}) == 1


@pytest.mark.parametrize(
    "family",
    [
        "auth authentication authenticated authorization authorised authorize",
        "config configuration configured",
        "DB databases",
        "admin administrator",
        "k8s Kubernetes",
    ],
)
def test_families_meet(family: str) -> None:
    """A short form and what it stands for are one term, and one that can be a keyword."""
    assert len({*terms(family)}) == 1
    assert content(family) == terms(family)


@pytest.mark.parametrize(
    "different",
    [
        "authority authorize",
        "hour four tour our pour flour floor",
        "organ organise",
        "parade paradise",
        "initial init",
        "log logic",
    ],
)
def test_look_alikes_stay_apart(different: str) -> None:
    """Words that only look like a spelling or a short form of another are different terms."""
    found = terms(different)

    assert len({*found}) == len(found)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("We meet in Besançon.", "Besancon"),
        ("Frau Müller rief an.", "Mueller"),
        ("Łukasz fährt nach Łódź, Ёлка, ΑΘΗΝΑ.", "Lodz елка Αθηνα"),
        ("إلغاء ٤٠١", "401"),
        ("maxRetryCount ignores idle_connection_ttl.", "max retry count idleConnectionTtl"),
        ("At most 25 MB and 48,211,903 rows.", "25MB 48211903"),
        ("Broken since 4f2a9c81d0e7b6a5.", "4f2a9c8"),
        ("Call +49 30 901820.", "4930901820"),
        ("Call +49 30 901 8204.", "0309018204"),
        ("Reception is (030) 555-74210.", "03055574210"),
        ("It fails with 0x80070643 on M-XR 4082.", "80070643 M-XR4082"),
        ("Die Kindergartenanmeldung läuft.", "Kindergarten Anmeldung"),
        ("May wants a mouse. Will's is broken.", "May mice Will"),
        ("The daemon is written in Go.", "Who uses Go for it?"),
        ("I met Will, he writes C++ for the IT of plan B.", "Will C++ IT B"),
    ],
)
def test_words_as_people_type_them_meet(text: str, query: str) -> None:
    """Each word of the query has a term that the text is indexed by."""
    is_one = " " not in query or "retry" in query or "?" in query
    words = [query] if is_one else query.split()

    assert all(
        {*query_terms(word, any_name=True), *further_terms(word)} & {*indexed(text)}
        for word in words
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [("10.20.1.7", "10.1.20.7"), ("má", "mà"), ("दान", "दिन"), ("schön", "schon"), ("мой", "мои")],
)
def test_words_that_differ_are_told_apart(one: str, other: str) -> None:
    """What is typed with its marks, or in its order, has a term that the other one lacks."""
    assert {*query_terms(one), *further_terms(one)} - {*indexed(other)}


def test_the_digits_of_a_hash_are_no_words() -> None:
    """In capitals, as some tools write it, it does not find every text with one of its digits."""
    assert not {*further_terms("4F2A9C8")}.intersection(indexed("number 8 of 9"))
    assert "4f2a9c8" in indexed("Broken since 4f2a9c81d0e7b6a5.")


@pytest.mark.parametrize("text", ["OK, go on", "Please Go on.", "Well, Go ahead!", "So Go!"])
def test_go_on_names_nothing(text: str) -> None:
    """The language Go is a name, and the request to continue is none."""
    assert "go" not in {*query_terms(text), *indexed(text)}


def test_encoded_data_is_read_once() -> None:
    """A query of 20,000 letters and digits has thousands of parts, and takes no seconds for it."""
    began = process_time()
    found = further_terms("".join(f"{number}Ab" for number in range(4_000)))

    assert len(found) > 4_000
    assert process_time() - began < 3  # 0.2, and 12 with a look at the query for each part


def test_a_question_in_other_words_finds(talk: Conversation) -> None:
    """A search finds a short form by its long one, and one spelling by the other."""
    talk.effort("auth-bug", "The login fails with a 401.", "It works now.")
    talk.turn("My favourite colour is blue.", answer="Noted.")
    talk.ask("What was it?")
    (effort,) = talk.call("search_efforts", query="authentication problem")["results"]
    (turn,) = talk.call("search_efforts", query="favorite color")["results"]

    assert (effort["id"], turn["passages"][0]["turn"]) == ("auth-bug", 3)
