"""Ids in a text with other endings."""

from random import Random
from time import process_time

import pytest

from ebbtide.memory.search.inflected import inflected
from ebbtide.memory.search.languages import stemmed
from ebbtide.memory.search.terms import stem

LETTERS = "ابتجحدرسصطعفقكلمنهوي"

WORDS = {
    "arabic": "الأخطاء والأخطاء خطاء سيستخدم يستخدم استخدم وبالكتاب كتابنا للكتب أأكتب كتب يكتبون",
    "danish": "dying die rejser rejse aede",
    "dutch": "gebeurde beuren gegeven geven ogenblikken oven ovens omen genatie statie",
    "english": "dying dies die tying ties skies sky tries try authorised authorize yying yie",
    "finnish": "laivat laivassa satamassa lliuai liuai",
    "german": "rechnungen rechnung oecd ocd ueber uber aeehrei prufen",
    "greek": "πακι βακι μεστε λαθη λαθος ιδιο",
    "indonesian": "menyelimuti selimut membereskan beres berhati hati",
    "russian": "ошибки ошибку ошибкой вход входа",
    "turkish": "bunda buna dini dinde icleri evler evde",
}


@pytest.mark.parametrize("language", WORDS)
def test_all_words_with_the_stem_of_an_id_are_found(language: str) -> None:
    """Also where stems change the beginning of a word."""
    words = WORDS[language].split()
    stems = {word: stem(stemmed(word, language)) for word in words}
    name = "{0}-{0}".format

    found = {
        (one, other)
        for one in words
        for other in words
        if inflected([name(one)], f"{other} {other}", language)
    }

    assert found >= {(one, other) for one in words for other in words if stems[one] == stems[other]}
    assert len(found) < len(words) ** 2


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("로그인-버그", "로그인버그를 고쳤어?", True),
        ("ログイン-バグ", "昨日のログインバグです", True),
        ("修复-login", "请看修复login。", True),
        ("修复login", "修复 login 好了", True),
        ("修复-log", "修复login了", False),
        ("修复-登录", "修复了登录", False),
    ],
)
def test_scripts_without_spaces_have_an_id_with_one_or_none(
    name: str, text: str, found: bool
) -> None:
    """Between two words of it, but a word of another script is a whole one."""
    assert inflected([name], text, "english") == ({name} if found else set())


@pytest.mark.parametrize("letters", ["abcdefghiklmnoprstuv", LETTERS])
def test_a_page_of_distinct_words_takes_no_time(letters: str) -> None:
    """Only words that begin as those of the ids are stemmed."""
    random = Random(1)
    words = ["".join(random.choices(letters, k=6)) for _ in range(20_200)]
    names = {"-".join(words[at : at + 2]) for at in range(0, 200, 2)}

    begun = process_time()
    found = inflected(names, " ".join([*words[200:], *words[:2]]), "english")

    assert "-".join(words[:2]) in found
    assert process_time() - begun < 1


def test_ids_that_begin_alike_take_no_time() -> None:
    """However often the first word is said."""
    names = {f"fix-{number}x" for number in range(2_000)}

    begun = process_time()
    found = inflected(names, "fixes 7x and fixing all " * 5_000, "english")

    assert found == {"fix-7x"}
    assert process_time() - begun < 1


def test_ids_of_one_repeated_word_take_no_time() -> None:
    """Each run of words is looked up once, not at each place of it."""
    names = {"-".join("a" * number) for number in range(2, 32)}

    begun = process_time()
    found = inflected(names, "a " * 20_000, "english")

    assert found == names
    assert process_time() - begun < 1
