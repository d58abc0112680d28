"""Render turns as text, and find places in it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from langchain_core.messages import BaseMessage

from ..prompts.loader import render
from .fences import LONGEST_NAME, NAME, role_of
from .messages import Growing, arguments, calls, spoken, text
from .recalled import SPEAKING, recalled
from .state_block import START, blocks, without_blocks
from .tokens import TokenCounter, slices
from .tool_names import MEMORY_TOOLS
from .turn import StoredTurn

INDENT = "  "
"""What each line of a message but its first begins with in a log: so no message can add lines of
the log, as a turn or another speaker. Two spaces make code 3 % longer in tokens, `| ` 10 %.
"""

_BREAKS = "\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
"""The characters that `str.splitlines` takes for the end of a line."""

_LINE_END = re.compile(f"[{_BREAKS}](?=[^{_BREAKS}])")
"""The end of a line before one that is not empty."""

_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"
    r"(?:(?<=\x1b)(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)))?"
)
"""Escape sequences of terminals, and control characters but tabs and line feeds.

Of a sequence that does not end in its line only the control characters go: no word is lost.
"""

_TURN = re.compile(r"\[turn \d+\]")
"""What begins a turn in a log: no line of a message's words begins so."""

_NOT_IN_LABELS, _NOT_IN_NAMES = re.compile(r"[^\w.-]"), re.compile(r"[^\w .@'-]")


@dataclass(frozen=True, slots=True)
class Offsets:
    """Offsets of a message's text, of the arguments of its calls, and of the message after it."""

    text: int
    calls: tuple[int, ...]
    end: int


def transcript(turns: Iterable[StoredTurn]) -> str:
    r"""Render turns as text, each under a line with its number; erased ones have a notice.

    >>> turn = StoredTurn(3, (HumanMessage("Which port?"),), at="")
    >>> transcript([turn])
    '[turn 3]\nuser: Which port?'
    """
    parts = []
    for turn in turns:
        log = render("erased_turn") if turn.status == "erased" else rendered(turn.messages)
        parts.append(f"[turn {turn.number}]\n{log}")
    return "\n\n".join(parts)


def rendered(messages: Sequence[BaseMessage], begin: int = 0, end: int | None = None) -> str:
    r"""Render the messages of one turn as text, or a range of what they say.

    Each speaker's words are cleaned alone, so that none of them reach those of another.
    The model's state blocks are left out, since only the newest is valid. Recalled text is shown as
    a reference, so that logs do not grow by being read.

    >>> rendered([HumanMessage("Which\nport?")])
    'user: Which\n  port?'
    """
    pieces = _pieces(messages, begin, end)
    return "\n".join(f"{label}{indented(words)}" for _, label, words in pieces)


def excerpted(messages: Sequence[BaseMessage], begin: int, end: int) -> str:
    r"""Render a range of what a turn says for somebody who is told who says its first words.

    >>> excerpted([HumanMessage("Hi")] * 2, 0, 5)
    'Hi\nuser: Hi'
    """
    (_, label, words), *others = [*_pieces(messages, begin, end, named=True)] or [(0, ": ", "")]
    said = rendered(messages, begin, end).removeprefix(label)
    is_told = label.endswith(": ") and not (others and SPEAKING.match(words))
    return said if is_told else f"{label}{said}"


def entries(
    messages: Sequence[BaseMessage], begin: int = 0, end: int | None = None
) -> list[dict[str, str]]:
    r"""Return a range of what a turn says as `read_log` gives it: who says it, and the words.

    Offsets count the characters of these words, with one newline between two. The state blocks of
    the answers that end in the range follow, and are not counted.

    >>> answer = "Done.\n---STATE---\nGoal: ship\n---END STATE---"
    >>> for one in entries([AIMessage(answer)]):
    ...     print(one["speaker"], one["text"], sep=": ")
    assistant: Done.
    assistant's state block: Goal: ship
    """
    said = [
        {"speaker": label.removesuffix(": ").strip(), "text": words}
        for _, label, words in _pieces(messages, begin, end, named=True)
    ]
    for message, place in zip(messages, offsets(messages), strict=True):
        if message.type == "ai" and begin < place.end and (end is None or place.end <= end + 1):
            found = blocks(message.content)
            name = f"{speaker(message)}'s state block"
            said += [{"speaker": name, "text": cleaned(one.strip())} for one in found]
    return said


def _pieces(
    messages: Sequence[BaseMessage], begin: int, end: int | None, *, named: bool = False
) -> Iterator[tuple[int, str, str]]:
    """Yield the pieces of a range as (offset, label, words).

    One that begins within a message has no label, unless each is `named`.
    """
    at = 0
    for message in messages:
        for label, words, _ in _said(message):
            stop = at + len(words)
            if (begin < stop or begin <= at) and (end is None or at < end or begin == at):
                first = max(0, begin - at)
                last = None if end is None else end - at
                yield at + first, "" if first and not named else label, words[first:last]
            at = stop + 1


def log_text(messages: Sequence[BaseMessage]) -> str:
    r"""Return what the messages of a turn say as offsets count it: the words alone.

    >>> log_text([HumanMessage("Hi")] * 2)
    'Hi\nHi'
    """
    return "\n".join(words for _, _, words in _pieces(messages, 0, None))


def _offsets_after(messages: Sequence[BaseMessage], before: Offsets | None) -> list[Offsets]:
    """Return the offsets of messages that follow another one.

    >>> messages = [HumanMessage("Hi")] * 2
    >>> [place.text for place in _offsets_after(messages, None)]
    [0, 3]
    """
    at, found = (before.end if before else 0), list[Offsets]()
    for message in messages:
        text_offset, call_offsets = at, list[int]()
        for _, words, is_call in _said(message):
            if is_call:
                call_offsets.append(at + words.index(" ") + 1)
            else:
                text_offset = at
            at += len(words) + 1
        found.append(Offsets(text_offset, tuple(call_offsets), at))
    return found


offsets = Growing(_offsets_after)
"""Return the offsets of each message in what the turn says, in characters."""


def cleaned(words: str) -> str:
    r"""Return a speaker's words without colour codes and control characters.

    >>> cleaned("\x1b[31mfailed\x1b[0m\r\n\tin 3 s\x07 \x1b]0;title")
    'failed\n\tin 3 s ]0;title'
    """
    return _UNPRINTABLE.sub("", words)


def indented(words: str) -> str:
    r"""Return the words of a message as they stand in a log.

    >>> indented("a\n[turn 2]")
    'a\n  [turn 2]'
    """
    return _LINE_END.sub(lambda end: f"{end[0]}{INDENT}", words)


def offset_at(messages: Sequence[BaseMessage], place: int, begin: int = 0) -> int:
    r"""Return the offset of a place in the log of a turn, rendered from `begin` on.

    >>> offset_at([HumanMessage("a\nbc")], len("user: a\n  b"))
    3
    """
    offset = begin
    for start, label, words in _pieces(messages, begin, None):
        line = f"{label}{indented(words)}"
        within = min(max(0, place - len(label)), len(line) - len(label))
        ends = _LINE_END.findall(line[len(label) :], 0, within + 1)
        offset = start + max(0, within - len(INDENT) * len(ends))
        if place <= len(line):
            break
        place -= len(line) + 1
    return offset


def speakers(messages: Sequence[BaseMessage], begin: int, end: int) -> str:
    """Return who speaks in a range of a turn, each once, in order.

    >>> speakers([HumanMessage("Hi"), AIMessage("Hello"), HumanMessage("So")], 1, 5)
    'user, assistant'
    """
    ends = [place.end for place in offsets(messages)]
    spans = zip(messages, [0, *ends], ends, strict=False)
    return ", ".join(dict.fromkeys(speaker(m) for m, a, b in spans if a < end and begin < b))


def speaker_at(messages: Sequence[BaseMessage], offset: int) -> str:
    """Return who speaks at an offset of a turn.

    >>> speaker_at([HumanMessage("Hi")], 1)
    'user'
    """
    at = next((at for at, place in enumerate(offsets(messages)) if offset < place.end), -1)
    return speaker(messages[at]) if messages else ""


def message_end(messages: Sequence[BaseMessage], offset: int) -> int:
    """Return where the message ends in which an offset of a turn lies.

    >>> message_end([HumanMessage("Hi")] * 2, 1)
    3
    """
    ends = [place.end for place in offsets(messages)]
    return next((end for end in ends if offset < end), ends[-1])


def in_parts(log: str, limit: int, count: TokenCounter) -> list[str]:
    r"""Cut a log into parts of at most `limit` tokens; a later one first says what goes on in it.

    >>> in_parts("[turn 3]\nuser: one two\n  three four", 8, lambda text: len(text.split()))
    ['[turn 3]\nuser: one two\n  three four']
    """
    if count(log) <= limit:
        return [log]
    lines = log.split("\n")
    turns = {count(line) for line in lines if _TURN.fullmatch(line)}
    names = {label[1] for label in map(SPEAKING.match, lines) if label}
    speakers = {count(render("continued", speaker=name)) for name in names}
    before = max(turns, default=0) + max(speakers, default=0) + count(INDENT)
    parts: list[str] = []
    place, is_line = ("", ""), True
    for part in slices(log, max(1, limit - before), count):
        words = part if is_line else f"{INDENT}{part}"
        parts.append("\n".join([*(_going_on(*place, words) if parts else ()), words]))
        place, is_line = _place_after(*place, words), part.endswith("\n")
    return parts


def _going_on(turn: str, speaker: str, part: str) -> list[str]:
    """Return the lines that say which turn, and whose message, a part of a log goes on with."""
    first = part.lstrip("\n").partition("\n")[0]
    if not turn or _TURN.fullmatch(first):
        return []
    is_new = not speaker or SPEAKING.match(first)
    return [turn] if is_new else [turn, render("continued", speaker=speaker)]


def _place_after(turn: str, speaker: str, part: str) -> tuple[str, str]:
    """Return the heading of the turn, and the speaker, in which a part of a log ends."""
    for line in part.split("\n"):
        if _TURN.fullmatch(line):
            turn, speaker = line, ""
        elif label := SPEAKING.match(line):
            speaker = label[1]
    return turn, speaker


def visible_text(message: BaseMessage, between: str = "") -> str:
    r"""Return the text of a message without the model's state blocks; `between` as in `text`.

    >>> block = "Done.\n---STATE---\nGoal: ship\n---END STATE---"
    >>> visible_text(AIMessage(block))
    'Done.'
    """
    content = message.content
    if isinstance(content, str) and START not in content and (content or not spoken(message)):
        return content
    return text(without_blocks(message), between)


def first_words(messages: Sequence[BaseMessage], most: int) -> str:
    r"""Return the beginning of what the user said in a turn, in one line of `most` characters.

    >>> first_words([HumanMessage("Is it\nraining?")], 8)
    'Is it ra…'
    """
    users = (m for m in messages if m.type == "human" and m.name != NAME)
    return clipped(next(map(text, users), ""), most)


def clipped(words: str, most: int) -> str:
    """Return a text in one line of `most` characters."""
    line = " ".join(words.split())
    return line if len(line) <= most else f"{line[:most]}…"


def countable(message: BaseMessage) -> list[str]:
    """Return the text of a message and the arguments of its calls, without the memory's tools.

    >>> call = {"name": "look_up", "args": {"id": 1}, "id": "1"}
    >>> countable(AIMessage("Well.", tool_calls=[call]))
    ['Well.', "{'id': 1}"]
    """
    is_own = message.type == "tool" and message.name in MEMORY_TOOLS
    texts = [] if is_own else [visible_text(message, "\n")]
    if called := calls(message):
        texts += [str(call.get("args")) for call in called if call.get("name") not in MEMORY_TOOLS]
    return texts


def _said(message: BaseMessage) -> Iterator[tuple[str, str, bool]]:
    """Yield what a message says as (label, cleaned words, whether it is a call)."""
    name, references = speaker(message), recalled(message)
    if references:
        yield f"{name}: ", f"({'; '.join(map(str, references))})", False
        return
    called = calls(message)
    words = cleaned(visible_text(message))
    if words or not called:
        yield f"{name}: ", words, False
    for call in called:
        yield f"{name} calls ", f"{label(call['name'])} {cleaned(arguments(call))}", True


def speaker(message: BaseMessage) -> str:
    """Return who says a message, with the name that it has.

    >>> speaker(AIMessage("")), speaker(ToolMessage("", tool_call_id="1", name="look_up"))
    ('assistant', 'tool look_up')
    >>> speaker(HumanMessage("", name="Ann Lee"))
    'user (Ann Lee)'
    """
    kind = message.type
    if kind == "tool":
        return f"tool {label(message.name)}".rstrip()
    said_by = label(role_of(message) if kind == "chat" else role(message))
    name = _NOT_IN_NAMES.sub("_", message.name or "")[:LONGEST_NAME]
    return f"{said_by} ({name})" if name else said_by


def role(message: BaseMessage) -> str:
    """Return the role of a message: user, assistant, or its type.

    >>> role(HumanMessage("Hi")), role(ToolMessage("", tool_call_id="1"))
    ('user', 'tool')
    """
    return {"human": "user", "ai": "assistant"}.get(message.type, message.type)


def label(name: object) -> str:
    """Return a name so that it cannot end the label that it stands in.

    >>> label("look up: found")
    'look_up__found'
    """
    return _NOT_IN_LABELS.sub("_", str(name or ""))[:LONGEST_NAME]
