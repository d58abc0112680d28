"""What a turn says, as it is looked for elsewhere."""

from ebbtide.memory.wording import (
    LONGEST,
    MOST,
    figures,
    held,
    leaves,
    said,
    sought,
    text_fields,
    without_text,
)
from tests.memory.turns import answer


def test_said_is_every_text_of_a_message() -> None:
    """Content, blocks, arguments and artifacts count; ids, names and kinds do not."""
    called = {"name": "look_up", "id": "call_1_look_up", "args": {"name": "Marion", "n": 1}}
    messages = [
        {"type": "human", "data": {"content": [{"type": "text", "text": "a block", "id": "b-1"}]}},
        answer("an answer", tool_calls=[called], id="message-id"),
        {"type": "tool", "data": {"content": "found", "name": "look_up", "artifact": {"a": ["b"]}}},
    ]

    assert [*said(messages)] == ["a block", "Marion", "an answer", "found", "b"]


def test_results_of_the_memory_say_nothing_new() -> None:
    """What the memory's tools answer is left out, and so are the names in calls to them."""
    called = {"name": "open_effort", "args": {"name": "gate", "goal": "Open it"}}
    result = {"type": "tool", "data": {"content": '{"effort_id": "gate"}', "name": "open_effort"}}

    assert [*said([answer("", tool_calls=[called]), result])] == ["Open it", ""]


def test_short_sentences_are_not_looked_for() -> None:
    """Sentences and lines count from 16 bytes on, so that Chinese ones are shorter."""
    texts = ["Yes. Thank you!\nThe port is 8080. 钥匙在门垫下。好。"]

    assert sought(texts) == ("The port is 8080.", "钥匙在门垫下。")


def test_what_is_looked_for_is_bounded() -> None:
    """Of very much text the longest sentences are looked for, each by its beginning."""
    texts = [f"This is sentence number {n}." for n in range(1000)]

    found = sought([*texts, "x" * 9999])

    assert (len(found), len(found[0])) == (MOST, LONGEST)


def test_texts_of_ours_are_not_looked_for() -> None:
    """What the memory itself puts in place of a text is nobody's words."""
    assert sought(["(redacted: a turn of this effort was erased)"]) == ()


def test_lone_surrogates_are_looked_for_without_an_error() -> None:
    """Text that is no Unicode is no error."""
    assert held("ab", sought(["\ud800 is no character at all"])) == frozenset()


def test_fields_of_events_that_are_text() -> None:
    """Fields with text in them count at any depth; names of efforts and numbers do not."""
    event = {"type": "searched", "effort": "a", "efforts": ["b"], "query": "q", "n": [1], "x": [""]}

    assert text_fields({**event, "deep": {"of": ["text"]}}) == {"query", "deep"}


def test_text_is_taken_out_at_any_depth() -> None:
    """Every text that holds a piece is emptied; numbers, keys and other texts stay."""
    value = {"a": [{"b": "it is mine"}, 3, None], "it is mine": "yours"}

    assert without_text(value, ("is mine",)) == {"a": [{"b": ""}, 3, None], "it is mine": "yours"}


def test_figures_are_numbers_versions_and_addresses() -> None:
    """What has a digit and four characters tells; short numbers stand everywhere."""
    assert figures(["v1.2.3 on 10.0.0.7:8080, 12 times, port 80."]) == {"v1.2.3", "10.0.0.7:8080"}


def test_leaves_of_other_values_are_none() -> None:
    """Numbers and nothing have no text."""
    assert [*leaves([1, None, {"a": True}])] == []
