"""Words of the language that is set: found in their forms, also once another one is set."""

from ebbtide.memory.archive.index import language_event
from ebbtide.memory.archive.search import find
from ebbtide.memory.archive.sql import SqlArchive
from ebbtide.memory.dates import When
from ebbtide.memory.turn import Tip
from tests.memory.turns import SESSION, turn


def test_a_turn_is_found_by_the_language_that_was_set_for_it(archive: SqlArchive) -> None:
    """What was indexed in a language can be found and erased whatever is set now."""
    tip = Tip()
    for number, language in ((1, "finnish"), (2, "english")):
        events = language_event(language)
        tip = archive.commit(SESSION, tip, turn(number, "Taloissa asuu.", events=events)).tip

    def found(language: str) -> set[int]:
        when = When(language=language)
        return {hit.turn for hit in find(archive.load(SESSION, tip), "taloista", 9, when=when)}

    before = found("finnish"), found("english")
    archive.erase(SESSION, tip, 1)

    assert before == ({1}, set())
    assert found("finnish") == set()
