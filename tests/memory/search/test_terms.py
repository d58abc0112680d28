"""The terms of a text, by which texts are compared."""

from time import process_time

import pytest

from ebbtide.memory.search.terms import further_terms, indexed, query_terms


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
        ("It is written in c#, with slow i/o, says r&d.", "C# I/O R&D"),
        ("Pay to DE89 3704 0044 0532 0130 00.", "DE89370400440532013000"),
        ("שָׁלוֹם", "שלום"),
        ("รหัสผ่านอยู่ในตู้เซฟ", "รหัสผ่าน"),
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


def test_encoded_data_is_read_once() -> None:
    """A query of 20,000 letters and digits has thousands of parts, and takes no seconds for it."""
    began = process_time()
    found = further_terms("".join(f"{number}Ab" for number in range(4_000)))

    assert len(found) > 4_000
    assert process_time() - began < 3  # 0.2, and 12 with a look at the query for each part
