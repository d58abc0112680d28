"""Store recalled text as references to turns, and shorten it in the context.

Only `read_log` and `search_efforts` quote the log; no tool of the application can have their names.
The artifact of such a result is `{"recalled": [{"turn": 5, "offset": 0, "end": 4000}]}`: for each
quoted text its range of characters in what the turn says, so that erasing a turn erases its quotes
too.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage, ToolMessage

from .errors import ToolError
from .messages import compact, with_content
from .names import is_qualified, numbers, ranges
from .tokens import TokenCounter, fit

Shared: TypeAlias = Callable[[str, str], int]
"""Returns how many terms of a query, which comes first, a text says."""

_SENTENCE_END = re.compile(r"[.!?;]['\")]*\s+(?=\S)|\n\s+(?=\S)")

SPEAKING = re.compile(
    r"((?:tool [\w.-]*|[\w.-]+?(?: \([\w .@'-]+\))?)(?: calls [\w.-]+(?= )|(?=: )))"
)
"""What begins a message in a log: no line of a message's words begins so."""

_LINE = 20  # tokens of a recalled text that is shrunk to one line: enough to see what it is about
_SPARE = 4  # tokens over that which are not worth an ellipsis
_FIELDS = frozenset({"turn", "offset", "end"})
_ELSEWHERE = frozenset({"session", "id"})
"""Fields of an item of an artifact: of each one, and of one that quotes another session."""

_QUOTING = {"read_log": "turns", "search_efforts": "results"}
"""By tool, the list in its result whose parts quote: turns, or results, which have `passages`."""

_QUOTED = ("messages", "text")
"""The fields of a part with what it quotes: the entries of a turn, or the text of a passage."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """A range of characters of what a turn says, of this session if none is named.

    Of another session the turn is named by its `id`, since that session may have branches.
    With an `effort` it is the whole summary that this effort had after the turn, or the fact or
    rule with this id. `score` is that of the search.
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
            return f"recalled summary of {self.effort_id}"
        of_session = f" of session {self.session}" if self.session else ""
        return f"recalled turn {self.turn}{of_session}, characters {self.offset}-{self.end}"

    @property
    def is_read(self) -> bool:
        """Whether `read_log` read it, and no search found it."""
        return self.score is None and not self.effort

    @property
    def effort_id(self) -> str:
        """The id by which other sessions know the effort."""
        return self.effort if is_qualified(self.effort) else f"{self.session}/{self.effort}"

    @property
    def item(self) -> dict[str, Any]:
        """The range as an item of an artifact; the inverse of `recalled`."""
        return {key: value for key, value in asdict(self).items() if value not in {"", None}}


_Quotation: TypeAlias = tuple[Mapping[str, Any], Recalled]
"""A part of a tool result, and the range that it quotes."""


def recalled(message: BaseMessage) -> tuple[Recalled, ...]:
    """Return the ranges that a message quotes; only tool results quote any.

    >>> recalled(HumanMessage("Which port?"))
    ()
    """
    return tuple(quote for _, quote in quotations(message))


def quotations(message: BaseMessage) -> list[_Quotation]:
    """Return the parts of a tool result that quote a text, each with its range."""
    if not isinstance(message, ToolMessage) or message.name not in _QUOTING:
        return []
    items = message.artifact.get("recalled") if isinstance(message.artifact, Mapping) else None
    if not isinstance(items, list) or not all(map(_is_range, items)):
        return []
    parts = [part for part in _parts(message) if _quotes(part)]
    ranges = [Recalled(**item) for item in items]
    return [*zip(parts, ranges, strict=True)] if len(parts) == len(ranges) else []


def stored(message: BaseMessage) -> BaseMessage:
    """Return the message as the archive stores it: without the texts that it quotes."""
    parts = [part for part, _ in quotations(message)]
    blank: Mapping[str, Any] = {"messages": [], "text": ""}
    kept = [{**part, (field := _quoted_in(part)): blank[field]} for part in parts]
    return _with(message, kept)


def restored(message: BaseMessage, read: Callable[[Recalled], Any]) -> BaseMessage:
    """Return the message as it was sent, with what `read` reads; the inverse of `stored`."""
    if not (quotes := quotations(message)):
        return message
    return _with(message, [{**part, _quoted_in(part): read(quote)} for part, quote in quotes])


def shortened(message: BaseMessage, limit: int, count: TokenCounter, shared: Shared) -> BaseMessage:
    """Return a message that quotes the log, with about `limit` tokens of quoted text.

    Summaries of efforts shrink to one line each, and what was found may have their room, up to as
    much again. Then its parts shrink, the worst first; the best is cut to the tokens that remain.
    """
    quotes = quotations(message)
    asked = partial(shared, str(result_of(message).get("query", "")))
    parts = [part for part, _ in quotes]
    sizes = [_size(part, count) for part in parts]
    brief = _with_brief_summaries(message, count)
    freed = count(str(message.content)) - count(str(brief.content))
    if sum(sizes) + freed > limit:
        message, limit = brief, limit + min(freed, limit)
    *worse, best = [place for _, place in _worst_first([quotes])]
    for place in worse:
        if sum(sizes) <= limit:
            break
        parts[place] = _in_one_line(*quotes[place], asked, count)
        sizes[place] = _size(parts[place], count)
    if sum(sizes) > limit:
        part, quote = parts[best], quotes[best][1]
        most = max(_LINE, limit - sum(sizes) + sizes[best])
        if "messages" in part:
            cut = _read_to(part, quote, most, count)
        else:
            text = str(part["text"])
            cut = {**part, "text": f"{text[: fit(text, most, count)]}…"}
        if count(compact(cut)) < count(compact(part)):
            parts[best] = cut
    return _with(message, parts)


def _with_brief_summaries(message: BaseMessage, count: TokenCounter) -> BaseMessage:
    """Return a search with one line of each summary, as efforts have theirs elsewhere."""
    body = result_of(message)
    if "results" not in body:
        return message
    results = [
        {**part, "summary": _head(str(part["summary"]), count)} if "summary" in part else part
        for part in body["results"]
    ]
    return with_content(message, compact({**body, "results": results}))


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


def _in_one_line(
    part: Mapping[str, Any], quote: Recalled, asked: Callable[[str], int], count: TokenCounter
) -> Mapping[str, Any]:
    """Return a part with one line of its text; names and numbers stay.

    Of what was read that is the beginning, of what was found the sentence that says most of the
    query.
    """
    if "messages" in part:
        return _read_to(part, quote, _LINE, count) if _size(part, count) > _LINE + _SPARE else part
    return {**part, "text": _telling_line(str(part["text"]), asked, count)}


def _size(part: Mapping[str, Any], count: TokenCounter) -> int:
    quoted = part[_quoted_in(part)]
    return count(quoted if isinstance(quoted, str) else compact(quoted))


def _read_to(
    part: Mapping[str, Any], quote: Recalled, most: int, count: TokenCounter
) -> Mapping[str, Any]:
    """Return a turn that was read with the entries of at most `most` tokens, and how to read on."""
    kept: list[Mapping[str, Any]] = []
    length = 0
    for entry in part["messages"]:
        text = str(entry["text"])
        most -= count(str(entry["speaker"]))
        end = fit(text, max(1, most), count)
        kept.append({**entry, "text": text[:end]})
        length += end + 1
        most -= count(text[:end])
        if end < len(text) or most <= 0:
            break
    offset = min(quote.offset + length - 1, quote.end - 1)  # what was cut may be a block at the end
    place = {"session": quote.session} if quote.session else {}
    left_out = {"turns": str(quote.turn), "offset": offset, **place}
    return {**part, "messages": kept, "left_out": left_out}


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
    speaking = [match[1] for one in text[:at].split("\n")[1:] if (match := SPEAKING.match(one))]
    before = f"…\n{speaking[-1]}: " if speaking else "…"
    return f"{before}{_head(text[at:], count)}"


def _head(text: str, count: TokenCounter) -> str:
    """Return the beginning of a text, about one line; the text itself if it is no longer."""
    if count(text) <= _LINE + _SPARE:
        return text
    return f"{text[: fit(text, _LINE, count)].rstrip()}…"


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


def _with(message: BaseMessage, quoting: Sequence[Mapping[str, Any]]) -> BaseMessage:
    """Return a result with these quoting parts; its `next` points behind the first one cut."""
    if not quoting:
        return message
    body, listed = result_of(message), _QUOTING[str(message.name)]
    replacements = iter(quoting)

    def replaced(part: Any) -> Any:
        if _quotes(part):
            return next(replacements)
        if not isinstance(part, Mapping) or not isinstance(part.get("passages"), list):
            return part
        return {**part, "passages": [*map(replaced, part["passages"])]}

    result = {**body, listed: [replaced(part) for part in body[listed]]}
    cut = next((at for at, part in enumerate(quoting) if "left_out" in part), None)
    if cut is not None and "next" in body:
        result["next"] = _going_on(quoting[cut:], body["next"])
    return with_content(message, compact(result))


def _going_on(parts: Sequence[Mapping[str, Any]], then: Any) -> dict[str, Any]:
    """Return the arguments that read on in a turn that is cut, and after it, as far as was asked.

    >>> cut = {"turn": 3, "left_out": {"turns": "3", "offset": 90}}
    >>> _going_on([cut, {"turn": 5}], {"turns": "7-8"})
    {'turns': '3,5,7-8', 'offset': 90}
    """
    named = [str(then.get("turns", ""))] if isinstance(then, Mapping) else []
    named += [str(part.get("turn", "")) for part in parts]
    try:
        turns = sorted(numbers(",".join(named)))
    except ToolError:  # not as `read_log` wrote it
        return dict(parts[0]["left_out"])
    return {**parts[0]["left_out"], "turns": ranges(turns)}


def _parts(message: BaseMessage) -> list[Any]:
    """Return the turns, or the passages of all results, in a result; empty if it has none."""
    listed = result_of(message).get(_QUOTING[str(message.name)])
    if not isinstance(listed, list):
        return []
    if message.name == "read_log":
        return listed
    passages = (part.get("passages") for part in listed if isinstance(part, Mapping))
    return [passage for some in passages if isinstance(some, list) for passage in some]


def _quotes(part: Any) -> bool:
    return isinstance(part, Mapping) and any(field in part for field in _QUOTED)


def _quoted_in(part: Mapping[str, Any]) -> str:
    return next(field for field in _QUOTED if field in part)


def result_of(message: BaseMessage) -> Mapping[str, Any]:
    """Return the JSON object in a tool's result, an empty one if it has none.

    >>> result_of(ToolMessage('{"status": "opened"}', tool_call_id="1"))
    {'status': 'opened'}
    """
    try:
        body = json.loads(str(message.content))
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
