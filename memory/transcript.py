"""Render turns as text, and store recalled text as references to turns.

Only `read_log` and `search_efforts` quote the log; no tool of the application can have their names.
The artifact of such a result is `{"recalled": [{"turn": 5, "offset": 0, "end": 4000}]}`: for each
quoted text its range of characters in a rendered turn, so that erasing a turn erases its quotes
too.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import takewhile
from typing import Any, TypeAlias

from ..prompts.loader import render
from .messages import Growing, Message, arguments, calls, compact, spoken, text, with_content
from .names import ranges
from .record import Group, Record
from .state_block import START, blocks, without_blocks
from .tokens import TokenCounter, fit, slices

Shared: TypeAlias = Callable[[str, str], int]
"""Returns how many terms of a query, which comes first, a text says."""

DECIDING = frozenset(
    {"open_effort", "close_effort", "switch_effort", "reopen_effort", "update_goal"}
)
"""The memory's tools that change efforts."""

OWN_TOOLS = DECIDING | {
    *("expand_effort", "collapse_effort", "effort_status", "search_efforts", "read_log")
}
"""The memory's tools, whose results repeat what efforts or other turns say."""

INDENT = "  "
"""What each line of a message but its first begins with in a log: so no message can add lines of
the log, as a turn or another speaker. Two spaces make code 3 % longer in tokens, `| ` 10 %.
"""

_BREAKS = "\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
"""The characters that `str.splitlines` takes for the end of a line."""

_LINE_END = re.compile(f"[{_BREAKS}](?=[^{_BREAKS}])")
"""The end of a line before one that is not empty."""

_UNPRINTABLE = re.compile(
    r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
"""Escape sequences of terminals, and control characters but tabs and line feeds."""

_SENTENCE_END = re.compile(r"[.!?;]['\")]*\s+(?=\S)|\n\s+(?=\S)")

_TURN = re.compile(r"\[turn \d+\]")
_SPEAKING = re.compile(r"((?:tool [\w.-]*|[\w.-]+?)(?: calls [\w.-]+(?= )|(?=: )))")
"""What begins a turn and a message in a log: no line of a message's words begins so."""

_NOT_IN_LABELS = re.compile(r"[^\w.-]")
_LONGEST_LABEL = 64  # characters of a tool's name before what it says

_LINE = 20  # tokens of a recalled text that is shrunk to one line: enough to see what it is about
_SPARE = 4  # tokens over that which are not worth an ellipsis
_FIELDS = frozenset({"turn", "offset", "end"})
_ELSEWHERE = frozenset({"session", "id"})
"""Fields of an item of an artifact: of each one, and of one that quotes another session."""

_QUOTING = {"read_log": "turns", "search_efforts": "results"}
"""By tool, the list in its result whose parts quote: turns, or results, which have `passages`.

The field of a part with the text is `text`.
"""


@dataclass(frozen=True, slots=True)
class Recalled:
    """A range of characters of a rendered turn, of this session if none is named.

    Of another session the turn is named by its `id`, since that session may have branches.
    With an `effort` it is the whole summary that this effort had after the turn. `score` is that of
    the search.
    """

    turn: int
    offset: int
    end: int
    session: str = ""
    id: str = ""
    effort: str = ""
    score: float | None = None

    def __str__(self) -> str:
        """Name the range, for logs that show it instead of the text.

        >>> str(Recalled(5, 0, 40)), str(Recalled(5, 0, 40, "t1", "9f3c", "auth-bug"))
        ('recalled turn 5, characters 0-40', 'recalled summary of t1/auth-bug')
        """
        if self.effort:
            return f"recalled summary of {self.session}/{self.effort}"
        of_session = f" of session {self.session}" if self.session else ""
        return f"recalled turn {self.turn}{of_session}, characters {self.offset}-{self.end}"

    @property
    def item(self) -> dict[str, Any]:
        """The range as an item of an artifact; the inverse of `recalled`."""
        return {key: value for key, value in asdict(self).items() if value not in {"", None}}


_Quotation: TypeAlias = tuple[Mapping[str, Any], Recalled]
"""A part of a tool result, and the range that it quotes."""


def recalled(message: Message) -> tuple[Recalled, ...]:
    """Return the ranges that a message quotes; only tool results quote any.

    >>> recalled({"type": "human", "data": {"content": "Which port?"}})
    ()
    """
    return tuple(quote for _, quote in quotations(message))


def quotations(message: Message) -> list[_Quotation]:
    """Return the parts of a tool result that quote a text, each with its range."""
    artifact = message["data"].get("artifact")
    if not isinstance(artifact, Mapping) or message["type"] != "tool":
        return []
    items = artifact.get("recalled")
    if message["data"].get("name") not in _QUOTING:
        return []
    if not isinstance(items, list) or not all(map(_is_range, items)):
        return []
    parts = [part for part in _parts(message) if _quotes(part)]
    ranges = [Recalled(**item) for item in items]
    return [*zip(parts, ranges, strict=True)] if len(parts) == len(ranges) else []


def stored(message: Message) -> Message:
    """Return the message as the archive stores it: without the texts that it quotes."""
    return restored(message, lambda _: "")


def restored(message: Message, read: Callable[[Recalled], str]) -> Message:
    """Return the message as it was sent, with texts from `read`; the inverse of `stored`."""
    if not (quotes := quotations(message)):
        return message
    return _with(message, [{**part, "text": read(quote)} for part, quote in quotes])


def printable(words: str) -> str:
    r"""Return a text without colour codes and control characters, as `read_log` gives it.

    >>> printable("\x1b[31mfailed\x1b[0m\r\n\tin 3 s\x07")
    'failed\n\tin 3 s'
    """
    return _UNPRINTABLE.sub("", words)


def repeats(message: Message) -> bool:
    """Tell whether a result says again what efforts or other turns say, and no more."""
    is_status = message["type"] == "tool" and message["data"].get("name") == "effort_status"
    return is_status or bool(recalled(message))


def as_reference(message: Message) -> Message:
    """Return a result that repeats what is stored with only the calls that read it again.

    >>> message = {"type": "tool", "data": {"name": "effort_status", "content": "{...}"}}
    >>> as_reference(message)["data"]["content"]
    '(efforts as they were then)'
    """
    quotes = recalled(message)
    read_again = render("recalled_then", calls="; ".join(_calls_for(quotes)))
    return with_content(message, f"({read_again if quotes else render('efforts_then')})")


def _calls_for(quotes: Sequence[Recalled]) -> Iterator[str]:
    """Yield the calls that read again what was recalled."""
    turns: dict[str, set[int]] = {}
    for quote in quotes:
        if quote.effort:
            yield f'expand_effort(effort_id="{quote.session}/{quote.effort}")'
        else:
            turns.setdefault(quote.session, set()).add(quote.turn)
    for session, numbers in turns.items():
        of_session = f', session="{session}"' if session else ""
        yield f'read_log(turns="{ranges(sorted(numbers))}"{of_session})'


def shortened(message: Message, limit: int, count: TokenCounter, shared: Shared) -> Message:
    """Return a message that quotes the log, with about `limit` tokens of quoted text.

    Its parts shrink to one line each, the worst first; the best is cut to the tokens that remain.
    """
    quotes = quotations(message)
    asked = partial(shared, str(result_of(message).get("query", "")))
    parts = [part for part, _ in quotes]
    sizes = [count(str(part["text"])) for part in parts]
    *worse, best = [place for _, place in _worst_first([quotes])]
    for place in worse:
        if sum(sizes) <= limit:
            break
        parts[place] = _line(*quotes[place], asked, count)
        sizes[place] = count(str(parts[place]["text"]))
    if sum(sizes) > limit:
        text, quote = str(parts[best]["text"]), quotes[best][1]
        end = fit(text, max(_LINE, limit - sum(sizes) + sizes[best]), count)
        cut = {**parts[best], "text": f"{text[:end]}…"}
        if quote.score is None:
            cut |= {"text": text[:end], **_reads_on(quote, end)}
        if count(compact(cut)) < count(compact(parts[best])):
            parts[best] = cut
    return _with(message, parts, count)


def _worst_first(quotes: Sequence[Sequence[_Quotation]]) -> list[tuple[int, int]]:
    """Return the places of quotations, (message, part), the first to shrink first.

    Of a search's with one score the later ones: each of its phrasings has a best one.
    """
    ranked = sorted(
        (quote.score is None, quote.score or 0.0, at, place if quote.score is None else -place)
        for at, quotations in enumerate(quotes)
        for place, (_, quote) in enumerate(quotations)
    )
    return [(at, abs(place)) for *_, at, place in ranked]


def _line(
    part: Mapping[str, Any], quote: Recalled, asked: Callable[[str], int], count: TokenCounter
) -> Mapping[str, Any]:
    """Return a part with one line of its text; names and numbers stay.

    Of what was read that is the beginning, of what was found the sentence that says most of the
    query.
    """
    text = str(part["text"])
    is_read = quote.score is None
    line = _head(text, count) if is_read else _telling_line(text, asked, count)
    if line == text:
        return part
    return {**part, "text": line, **(_reads_on(quote, len(line) - 1) if is_read else {})}


def _telling_line(text: str, asked: Callable[[str], int], count: TokenCounter) -> str:
    """Return about one line of a text, from the sentence on that says most of the query."""
    line = _head(text, count)
    if line == text:
        return line

    def said(at: int) -> int:
        return asked(text[at : at + len(line)])

    # Of equals the latest, as what stands after a word tells more than what stands before it.
    at = max([match.end() for match in _SENTENCE_END.finditer(text)][::-1], key=said, default=0)
    if said(at) <= said(0):
        return line
    speaking = [match[1] for one in text[:at].split("\n")[1:] if (match := _SPEAKING.match(one))]
    before = f"…\n{speaking[-1]}: " if speaking else "…"
    return f"{before}{_head(text[at:], count)}"


def _head(text: str, count: TokenCounter) -> str:
    """Return the beginning of a text, about one line; the text itself if it is no longer."""
    if count(text) <= _LINE + _SPARE:
        return text
    return f"{text[: fit(text, _LINE, count)].rstrip()}…"


def _reads_on(quote: Recalled, length: int) -> dict[str, Any]:
    """Return the arguments with which `read_log` continues after `length` characters."""
    place = {"session": quote.session} if quote.session else {}
    offset = min(quote.offset + length, quote.end - 1)  # what was cut may be a block at the end
    return {"left_out": {"turns": str(quote.turn), "offset": offset, **place}}


def _is_range(item: Any) -> bool:
    """Tell whether an item of an artifact is a range; one with a session has an id too."""
    if not isinstance(item, Mapping) or not item.keys() >= _FIELDS:
        return False
    place = item.keys() - _FIELDS - {"score"}
    return (
        (not place or place - {"effort"} == _ELSEWHERE)
        and all(type(item[name]) is int for name in _FIELDS)
        and all(isinstance(item[name], str) and item[name] for name in place)
        and type(item.get("score", 0)) in {int, float}
    )


def _with(
    message: Message, quoting: Sequence[Mapping[str, Any]], count: TokenCounter | None = None
) -> Message:
    """Return a result with these quoting parts; its `next` points behind the first one cut.

    With a `count` the summary of a result whose passages are all cut is cut too.
    """
    if not quoting:
        return message
    body, listed = result_of(message), _QUOTING[str(message["data"].get("name"))]
    replacements = iter(quoting)

    def replaced(part: Any) -> Any:
        if _quotes(part):
            return next(replacements)
        if not isinstance(part, Mapping) or not isinstance(part.get("passages"), list):
            return part
        passages = [replaced(passage) for passage in part["passages"]]
        cut = all(str(passage.get("text", "…")).endswith("…") for passage in passages)
        short = (
            {"summary": _head(str(part["summary"]), count)}
            if (count and cut and "summary" in part)
            else {}
        )
        return {**part, **short, "passages": passages}

    result = {**body, listed: [replaced(part) for part in body[listed]]}
    cut = next((part["left_out"] for part in quoting if "left_out" in part), None)
    return with_content(
        message, compact({**result, "next": cut} if cut and "next" in body else result)
    )


def _parts(message: Message) -> list[Any]:
    """Return the turns, or the passages of all results, in a result; empty if it has none."""
    listed = result_of(message).get(_QUOTING[str(message["data"].get("name"))])
    if not isinstance(listed, list):
        return []
    if message["data"].get("name") == "read_log":
        return listed
    passages = (part.get("passages") for part in listed if isinstance(part, Mapping))
    return [passage for some in passages if isinstance(some, list) for passage in some]


def _quotes(part: Any) -> bool:
    return isinstance(part, Mapping) and "text" in part


def result_of(message: Message) -> Mapping[str, Any]:
    """Return the JSON object in a tool's result, an empty one if it has none.

    >>> result_of({"type": "tool", "data": {"content": '{"status": "opened"}'}})
    {'status': 'opened'}
    """
    try:
        body = json.loads(message["data"]["content"])
    except (TypeError, ValueError):
        return {}
    return body if isinstance(body, dict) else {}


# Other types of messages speak by their own name.
_SPEAKERS = {"human": "user", "ai": "assistant"}

Logged: TypeAlias = Group | Record
"""A turn, stored or running."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """Offsets of a message's text, of the arguments of its calls, and of the message after it."""

    text: int
    calls: tuple[int, ...]
    end: int


def transcript(turns: Iterable[Logged]) -> str:
    r"""Render turns as text, each under a line with its number; erased ones have a notice.

    >>> turn = Group(3, ({"type": "human", "data": {"content": "Which port?"}},), at="")
    >>> transcript([turn])
    '[turn 3]\nuser: Which port?'
    """
    parts = []
    for turn in turns:
        log = render("erased_turn") if turn.status == "erased" else rendered(turn.messages)
        parts.append(f"[turn {turn.turn}]\n{log}")
    return "\n\n".join(parts)


def rendered(messages: Sequence[Message]) -> str:
    r"""Render the messages of one turn as text; contents stand unchanged but for `INDENT`.

    The model's state blocks are left out, since only the newest is valid. Recalled text is shown as
    a reference, so that logs do not grow by being read. New messages only append text, so offsets
    stay valid while a turn runs.

    >>> rendered([{"type": "human", "data": {"content": "Which\nport?"}}])
    'user: Which\n  port?'
    """
    lines = (line for message in messages for line in _lines(message))
    return "\n".join(f"{label}{words}" for label, words, _ in lines)


def _offsets_after(messages: Sequence[Message], before: Offsets | None) -> list[Offsets]:
    """Return the offsets of messages that follow another one.

    >>> messages = [{"type": "human", "data": {"content": "Hi"}}] * 2
    >>> [place.text for place in _offsets_after(messages, None)]
    [6, 15]
    """
    at, found = (before.end if before else 0), list[Offsets]()
    for message in messages:
        text_offset, call_offsets = at, list[int]()
        for label, words, is_call in _lines(message):
            begin = at + len(label)
            if is_call:
                call_offsets.append(begin)
            else:
                text_offset = begin
            at = begin + len(words) + 1
        found.append(Offsets(text_offset, tuple(call_offsets), at))
    return found


offsets = Growing(_offsets_after)
"""Return the offsets of each message in the rendered turn, in characters."""


def as_read(messages: Sequence[Message], begin: int, end: int) -> str:
    r"""Return a range of a rendered turn as `read_log` gives it.

    The state blocks of the answers that end in it follow, so that offsets do not count them.

    >>> answer = "Done.\n---STATE---\nGoal: ship\n---END STATE---"
    >>> print(as_read([{"type": "ai", "data": {"content": answer}}], 0, 16))
    assistant: Done.
    assistant's state block: Goal: ship
    """
    said = [rendered(messages)[begin:end]]
    for message, place in zip(messages, offsets(messages), strict=True):
        if message["type"] == "ai" and begin < place.end <= end + 1:
            found = blocks(message["data"].get("content") or "")
            said += [f"{speaker(message)}'s state block: {indented(one.strip())}" for one in found]
    return printable("\n".join(said))


def indented(words: str) -> str:
    r"""Return the words of a message as they stand in a log.

    >>> indented("a\n[turn 2]")
    'a\n  [turn 2]'
    """
    return _LINE_END.sub(lambda end: f"{end[0]}{INDENT}", words)


def place_in_log(words: str, place: int) -> int:
    r"""Return where a place in the words of a message is in the indented words.

    >>> place_in_log("a\nb", 1), place_in_log("a\nb", 2)
    (1, 4)
    """
    ends = takewhile(lambda end: end.end() <= place, _LINE_END.finditer(words))
    return place + len(INDENT) * sum(1 for _ in ends)


def speaker_at(messages: Sequence[Message], offset: int) -> str:
    """Return who speaks at an offset of a rendered turn, empty where the log itself says so.

    >>> speaker_at([{"type": "human", "data": {"content": "Hi"}}], 7)
    'user'
    """
    at = 0
    for message in messages:
        for label, words, _ in _lines(message):
            end = at + len(label) + len(words) + 1
            if at <= offset < end:
                return speaker(message) if offset > at else ""
            at = end
    return ""


def message_end(messages: Sequence[Message], offset: int) -> int:
    """Return where the message ends in which an offset of a rendered turn lies.

    >>> message_end([{"type": "human", "data": {"content": "Hi"}}] * 2, 3)
    9
    """
    at = 0
    for message in messages:
        at += sum(len(label) + len(words) + 1 for label, words, _ in _lines(message))
        if offset < at:
            break
    return at


def in_parts(log: str, limit: int, count: TokenCounter) -> list[str]:
    r"""Cut a log into parts of at most `limit` tokens; a later one first says what goes on in it.

    >>> in_parts("[turn 3]\nuser: one two\n  three four", 8, lambda text: len(text.split()))
    ['[turn 3]\nuser: one two\n  three four']
    """
    if count(log) <= limit:
        return [log]
    before = _longest_before(log, count) + count(INDENT)
    parts: list[str] = []
    place, is_line = ("", ""), True
    for part in slices(log, max(1, limit - before), count):
        words = part if is_line else f"{INDENT}{part}"
        parts.append("\n".join([*(_going_on(*place, words) if parts else ()), words]))
        place, is_line = _place_after(*place, words), part.endswith("\n")
    return parts


def _longest_before(log: str, count: TokenCounter) -> int:
    """Return the most tokens that the lines before a part of a log take."""
    lines = log.split("\n")
    turns = {count(line) for line in lines if _TURN.fullmatch(line)}
    names = {label[1] for label in map(_SPEAKING.match, lines) if label}
    speakers = {count(render("continued", speaker=name)) for name in names}
    return max(turns, default=0) + max(speakers, default=0)


def _going_on(turn: str, speaker: str, part: str) -> list[str]:
    """Return the lines that say which turn, and whose message, a part of a log goes on with."""
    first = part.lstrip("\n").partition("\n")[0]
    if not turn or _TURN.fullmatch(first):
        return []
    is_new = not speaker or _SPEAKING.match(first)
    return [turn] if is_new else [turn, render("continued", speaker=speaker)]


def _place_after(turn: str, speaker: str, part: str) -> tuple[str, str]:
    """Return the heading of the turn, and the speaker, in which a part of a log ends."""
    for line in part.split("\n"):
        if _TURN.fullmatch(line):
            turn, speaker = line, ""
        elif label := _SPEAKING.match(line):
            speaker = label[1]
    return turn, speaker


def in_one_line_each(messages: Sequence[Message]) -> list[tuple[str, str]]:
    r"""Return what each message says in one line, after who says it.

    >>> in_one_line_each([{"type": "human", "data": {"content": "Which\nport?"}}])
    [('user: ', 'Which port?')]
    """
    lines = (line for message in messages for line in _lines(message))
    return [(label, " ".join(words.split())) for label, words, _ in lines]


def visible_text(message: Message) -> str:
    r"""Return the text of a message without the model's state blocks.

    >>> block = "Done.\n---STATE---\nGoal: ship\n---END STATE---"
    >>> visible_text({"type": "ai", "data": {"content": block}})
    'Done.'
    """
    data = message["data"]
    content = data.get("content")
    if isinstance(content, str) and START not in content and (content or not spoken(message)):
        return content
    return text(without_blocks(message))


def countable(message: Message) -> list[str]:
    """Return the text of a message and the arguments of its calls, without the memory's tools.

    >>> call = {"name": "look_up", "args": {"id": 1}}
    >>> countable({"type": "ai", "data": {"content": "Well.", "tool_calls": [call]}})
    ['Well.', "{'id': 1}"]
    """
    is_own = message["type"] == "tool" and message["data"].get("name") in OWN_TOOLS
    texts = [] if is_own else [visible_text(message)]
    if called := calls(message):
        texts += [str(call.get("args")) for call in called if call.get("name") not in OWN_TOOLS]
    return texts


def _lines(message: Message) -> Iterator[tuple[str, str, bool]]:
    """Yield the lines of a message in a log as (label, indented words, whether it is a call)."""
    for label, words, is_call in _said(message, visible_text(message)):
        yield label, indented(words), is_call


def _said(message: Message, words: str) -> Iterator[tuple[str, str, bool]]:
    """Yield what a message says as (label, words, whether it is a call)."""
    name, references = speaker(message), recalled(message)
    if references:
        yield f"{name}: ", f"({'; '.join(map(str, references))})", False
        return
    data = message["data"]
    called = calls(message) if data.get("tool_calls") or data.get("invalid_tool_calls") else ()
    if words or not called:
        yield f"{name}: ", words, False
    for call in called:
        yield f"{name} calls {label(call['name'])} ", arguments(call), True


def speaker(message: Message) -> str:
    """Return the name of a message's speaker in logs.

    >>> speaker({"type": "ai", "data": {}}), speaker({"type": "tool", "data": {"name": "look_up"}})
    ('assistant', 'tool look_up')
    """
    if message["type"] == "tool":
        return f"tool {label(message['data'].get('name'))}".rstrip()
    return _SPEAKERS.get(message["type"]) or label(message["type"])


def label(name: object) -> str:
    """Return a name so that it cannot end the label that it stands in.

    >>> label("look up: found")
    'look_up__found'
    """
    return _NOT_IN_LABELS.sub("_", str(name or ""))[:_LONGEST_LABEL]
