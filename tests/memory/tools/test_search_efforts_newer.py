"""Which of two statements of one fact comes first in the results of a search."""

import pytest

from ebbtide.memory.search.newer import asks_for_older
from tests.memory.conversations import Conversation


def in_order(talk: Conversation, query: str, *said: str) -> list[int]:
    """Say this, and return the numbers of what the query finds in it, in their order."""
    for text in (*said, "The dog sleeps all day.", "I bought bread and a lamp."):
        talk.turn(text, answer="Noted.")
    talk.ask("What was it?")
    results = talk.call("search_efforts", query=query)["results"]
    turns = [passage["turn"] for result in results for passage in result["passages"]]
    return [turn for turn in dict.fromkeys(turns) if turn <= len(said)]


@pytest.mark.parametrize(
    ("query", "old", "new"),
    [
        (
            "What is the deploy window?",
            "The deploy window is Tuesday.",
            "The deploy window is Thursday now, from two to four.",
        ),
        (
            "how many retries does the upload client do",
            "The upload client does three retries.",
            "Actually, the upload client should do five retries before it gives up.",
        ),
        (
            "Where do I live?",
            "I live in Bonn.",
            "We gave up the flat, and I no longer live in Bonn.",
        ),
        (
            "Wer ist unser Arzt?",
            "Unser Arzt ist Dr. Wolf.",
            "Unser Arzt ist jetzt Dr. Anders in Köln.",
        ),
        ("谁负责支付团队?", "支付团队由李娜负责。", "支付团队现在由王强负责,从下周开始。"),
    ],
)
def test_a_change_comes_before_what_was_so(
    talk: Conversation, query: str, old: str, new: str
) -> None:
    """It does although the older statement is shorter, and so scores more."""
    assert in_order(talk, query, old, new) == [2, 1]


def test_of_several_changes_the_last_one_comes_first(talk: Conversation) -> None:
    """And what was so in the beginning comes last."""
    said = [
        "The deploy window is Tuesday.",
        "The deploy window moved to Wednesday, they say.",
        "The deploy window is Thursday now, as everybody has agreed.",
    ]

    assert in_order(talk, "What is the deploy window?", *said) == [3, 2, 1]


@pytest.mark.parametrize(
    ("query", "new"),
    [
        ("What was the deploy window originally?", "The deploy window is Thursday now, they say."),
        ("What is the deploy window?", "I was late for lunch, the deploy window took forever."),
        (
            "What is the deploy window?",
            "The deploy window was long, and now I am hungry and tired.",
        ),
    ],
)
def test_an_older_statement_stays_first(talk: Conversation, query: str, new: str) -> None:
    """It does if it is asked for, or if the newer one only mentions what it is about."""
    assert in_order(talk, query, "The deploy window is Tuesday.", new) == [1, 2]


@pytest.mark.parametrize(
    "query",
    [
        "the very first deploy window",
        "the deploy window in the beginning",
        "das bisherige Fenster",
        "der ehemalige Arzt",
        "la fenêtre précédente",
        "l'ancien médecin",
        "le port d'origine",
        "¿cuál era el puerto inicialmente?",
        "el médico anterior",
        "il vecchio medico",
        "la porta precedente",
        "最早的端口是什么",
    ],
)
def test_what_was_before_is_asked_for_in_many_words(query: str) -> None:
    """In each of the languages of changes."""
    assert asks_for_older(query)
