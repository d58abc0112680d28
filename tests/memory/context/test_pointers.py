"""Wherever the context says that something was left out, `read_log` reads exactly that."""

import re
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from langchain_core.messages import BaseMessage

from ebbtide.memory.messages import calls, text
from ebbtide.memory.recalled import SPEAKING
from ebbtide.memory.transcript import INDENT, log_text, rendered
from tests.draws import examples
from tests.memory.contexts import take
from tests.memory.conversations import Conversation, conversation
from tests.memory.drawn import ABOVE_THE_FLOOR, TURNS, Turns, held

READS_ON = re.compile(
    r"(?P<head>[^\n]*)\n\[(?:… )?(?P<left>\d+) tokens left out; "
    r"read_log\(turns=\"(?P<turn>\d+)\", offset=(?P<offset>\d+)\) "
    r"reads on(?:\]| …\](?:\n(?P<tail>.+))?)"
)
"""A pointer: within a preview (with an ellipsis, and a tail below it), or where a log was cut."""
LABEL = re.compile(rf"^(?:{INDENT}|{SPEAKING.pattern}:? ?)")
READS_THEM = re.compile(r"read_log\(turns=\"(\d+)\", offset=(\d+)\) reads them and what they found")
READS_IT = re.compile(r"read_log\(turns=\"(\d+)\"\) reads it")


def written(messages: tuple[BaseMessage, ...]) -> Iterator[str]:
    """Yield what stands in messages: texts, and arguments that are previews."""
    for message in messages:
        yield text(message)
        for asked in calls(message):
            args = asked["args"]
            yield from [args] if isinstance(args, str) else map(str, args.values())


def misleading(talk: Conversation) -> list[str]:
    """Return the pointers of the context that do not read what is missing where they stand."""
    read = talk.work.view.messages_of
    said = "\n\0\n".join(written(talk.context.messages))
    wrong = []
    for found in READS_ON.finditer(said):
        messages, offset = read(int(found["turn"])), int(found["offset"])
        words, log = log_text(messages), rendered(messages)
        head, tail = found["head"], (found["tail"] or "").strip("\0").removeprefix(INDENT)
        # Who says it stands in the log alone, where a cut may be as well.
        is_read = words[:offset].endswith(LABEL.sub("", head, count=1))
        is_read |= any(label.startswith(head) for label in ("assistant calls ", "tool look_up: "))
        if offset >= len(words) or not is_read or (tail not in words[offset:] and tail not in log):
            wrong.append(found[0])
    wrong += [
        f[0]
        for f in READS_THEM.finditer(said)
        if " calls " not in rendered(read(int(f[1])), int(f[2]))
    ]
    return wrong + [f[0] for f in READS_IT.finditer(said) if not read(int(f[1]))]


@pytest.mark.thorough
@settings(max_examples=examples(4))
@given(TURNS, ABOVE_THE_FLOOR)
@example(
    [
        ({}, [("open", "d"), ("fill question", -1)]),
        ({}, [("close", None), ("say", "alpha"), ("expand", "d")]),
    ],
    0,
)
def test_every_pointer_resolves(turns: Turns, above: int) -> None:
    """In any context, of earlier turns and of the running one, in contents and in arguments."""
    with conversation(anchor="off") as talk:
        for _ in held(talk, turns, above):
            assert misleading(talk) == []


@pytest.mark.thorough
def test_each_kind_of_pointer_resolves() -> None:
    """Previews and folded rounds both occur in a full turn, and are right."""
    kinds = {"reads on", "reads them"}
    found = set()
    with conversation(context_budget=2_000) as talk:
        talk.set(context_budget=1_030)
        for size in (5, 60):
            talk.ask("word " * size * 5)
            for _ in range(6):
                take(talk, "look", ["alpha beta " * size] * 3)
                assert misleading(talk) == []
                said = str(talk.context.messages)
                found |= {kind for kind in kinds if f") {kind}" in said}
            talk.answer("word " * size * 5)

    assert found == kinds
