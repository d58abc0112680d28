"""Contents as previews: head, pointer and tail; and what a cut turn says of its efforts."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage

from ...prompts.loader import render
from ..blocks import attachment, kind_of
from ..efforts import one_line
from ..fences import Fences
from ..messages import arguments, block_text, call_id, calls, compact, reworded, with_content
from ..messages import text as text_of
from ..recalled import recalled, result_of, shortened
from ..search.passages import word_begin, word_end
from ..search.terms import shared_terms
from ..tokens import TokenCounter, count_message, count_messages, fit, fit_end
from ..tool_names import DECIDING
from ..transcript import INDENT, Offsets, cleaned, offset_at, offsets, rendered, visible_text
from ..turn import StoredTurn
from ..valid_history import valid_history
from .budget import LEAST_PREVIEW, ladder

_HEAD_SHARE = 0.5  # share of a preview that its head has: errors and results stand at the end

_DEACTIVATING = frozenset({"concluded", "paused"})
"""The statuses of tool results that leave no effort active."""

COPIES = frozenset({"tool_calls", "function_call", "__openai_function_call_ids__", "reasoning"})
"""Keys of `additional_kwargs` with copies of the calls, and with thoughts bound to their ids."""

_LEAST_SAVED = 30  # tokens that a preview must save: its pointer takes 25, a cut tears a sentence

_LEAST_SAVED_UNREAD = 80
"""Tokens that a preview must save for a model that cannot read on: what left is lost to it."""

_DECISION_TOKENS = 400
"""Tokens that the result of a deciding tool keeps in any case: an effort's goal and constraints."""

_ALL_ARGUMENTS = "…"  # the name of the preview of very many arguments


@dataclass(frozen=True, slots=True)
class Limits:
    """The tokens above which a content is shown as a preview; None for no limit.

    Contents are `results` of tools, `texts` of the user and the assistant, images among them, and
    `arguments` of calls.
    """

    results: int | None = None
    texts: int | None = None
    arguments: int | None = None


UNLIMITED = Limits()

_HIDDEN = re.compile(r"\[… (\d{1,9}) tokens left out")
"""How many tokens a pointer of our own says that it stands for."""


Place: TypeAlias = int | Callable[[int], int]
"""Where a text begins in what its turn says, or a function from its places to those there."""


def preview(
    content: str, limit: int, *, turn: int | None, offset: Place | StoredTurn, count: TokenCounter
) -> str:
    """Return head, pointer and tail of a text of more than `limit` tokens, else the text.

    Head and tail have `limit` tokens together; `offset` is where the text begins in its turn as
    `read_log` gives it, in characters, or the turn whose log the text is. Without a `turn` no call
    is named that reads on.

    What an earlier cut left out between them counts too.

    >>> words = lambda text: len(text.split())
    >>> print(preview("a b c d e f", 4, turn=7, offset=100, count=words))
    a b
    [… 2 tokens left out; read_log(turns="7", offset=103) reads on …]
    e f
    """
    tokens = count(content)
    if tokens <= limit:
        return content
    end, begin = left_out(content, limit, count)
    # Only where a line of a log begins may its tail begin as one.
    within_line = isinstance(offset, StoredTurn) and begin > 0 and content[begin - 1] != "\n"
    tail = INDENT * within_line + content[begin:]
    hidden = max(1, tokens - count(content[:end]) - count(content[begin:]))
    hidden += sum(map(int, _HIDDEN.findall(content, end, begin)))
    if isinstance(offset, int):
        place = offset + len(cleaned(content[:end]))
    else:
        place = offset(end) if callable(offset) else offset_at(offset.messages, end)
    pointer = render("left_out_unread", tokens=hidden)
    if turn is not None:
        pointer = render("left_out", tokens=hidden, turn=turn, offset=place)
    return f"{content[:end]}\n{pointer}\n{tail}".rstrip("\n")


def unread(content: str, limit: int, count: TokenCounter) -> str:
    """Return the preview of a text for a model that cannot read on."""
    return preview(content, limit, turn=None, offset=0, count=count)


def left_out(content: str, limit: int, count: TokenCounter) -> tuple[int, int]:
    """Return from where to where a text is left out if head and tail have `limit` tokens."""
    head = max(1, int(limit * _HEAD_SHARE))
    end = word_end(content, fit(content, head, count))
    begin = max(end, fit_end(content, limit - head, count)) if limit > head else len(content)
    return end, word_begin(content, begin)


_Preview: TypeAlias = Callable[[str, int, Place], str]
"""Return the preview of a content, given its limit and its offset, if that saves enough."""


def previewed(
    turn: StoredTurn,
    messages: Sequence[BaseMessage],
    limits: Limits,
    count: TokenCounter,
    *,
    reads_on: bool = True,
) -> tuple[BaseMessage, ...]:
    """Return a turn's messages with previews of all contents over the limits.

    `messages` are those of the turn as the context shows them; pointers count in the turn itself.
    A model that has no tools cannot read on: no pointer names a call for it.
    """
    if limits == UNLIMITED:
        return tuple(messages)
    each = dict.fromkeys(range(len(messages)), limits)
    return previewed_each(turn, messages, each, count, reads_on=reads_on)


def previewed_each(
    turn: StoredTurn,
    messages: Sequence[BaseMessage],
    limits: Mapping[int, Limits],
    count: TokenCounter,
    *,
    reads_on: bool = True,
) -> tuple[BaseMessage, ...]:
    """Return a turn's messages with previews, those at some places with limits of their own."""
    least = _LEAST_SAVED if reads_on else _LEAST_SAVED_UNREAD
    where = turn.number if reads_on else None

    def short(content: str, limit: int, offset: Place) -> str:
        less = preview(content, limit, turn=where, offset=offset, count=count)
        return less if count(less) + least <= count(content) else content

    previews, places = [*messages], tuple[Offsets, ...]()
    for at, most in limits.items():
        message = messages[at]
        if most is UNLIMITED or _is_within(message, most, count):
            continue
        places = places or offsets(turn.messages)
        limit = most.results if message.type == "tool" else most.texts
        if limit is not None and has_files(message):
            if message.type == "human" and reads_on:
                previews[at] = _with_short_words(message, limit, places[at].text, short)
                continue
            if count_message(message, count) <= limit:
                limit = None
        if limit is not None and recalled(message):
            previews[at] = shortened(message, limit, count, shared_terms)
        else:
            previews[at] = _with_previews(message, limit, most.arguments, places[at], short)
    return tuple(previews)


def _is_within(message: BaseMessage, most: Limits, count: TokenCounter) -> bool:
    """Tell whether nothing of a message can be over its limits, which is true of most."""
    own = most.results if message.type == "tool" else most.texts
    if own is None or most.arguments is not None:
        return own is None and most.arguments is None
    content = message.content
    return isinstance(content, str) and not recalled(message) and count(content) <= own


def has_files(message: BaseMessage) -> bool:
    """Tell whether a message has attachments that are sent."""
    content = message.content
    return isinstance(content, list) and any(map(attachment, content))


def _with_short_words(message: BaseMessage, limit: int, place: int, short: _Preview) -> BaseMessage:
    """Return a user's message with previews of its words, beside the attachments that are sent."""
    blocks = [*message.content]
    texts = [at for at, block in enumerate(blocks) if kind_of(block) == "text"]
    for at in texts:
        said = block_text(blocks[at])
        whole = text_of(with_content(message, message.content[: at + 1]))
        offset = place + len(cleaned(whole.removesuffix(said)))
        cut = short(said, max(1, limit // len(texts)), offset)
        blocks[at] = blocks[at] if cut == said else {"type": "text", "text": cut}
    return with_content(message, blocks)


def _with_previews(
    message: BaseMessage, limit: int | None, arguments: int | None, place: Offsets, short: _Preview
) -> BaseMessage:
    new: dict[str, Any] = {}
    if limit is not None:
        least = _DECISION_TOKENS if message.name in DECIDING else 0
        content = visible_text(message)
        cut = short(content, max(limit, least), place.text)
        blocks = message.content if isinstance(message.content, list) else []
        images = any(kind_of(block) != "text" for block in blocks)
        if cut != content or (images and message.type != "ai"):
            new["content"] = reworded(message.content, cut) if message.type == "ai" else cut
    if arguments is not None:
        shorter = _short_calls(message, arguments, place.calls, short)
        if any(shorter[key] != getattr(message, key) for key in shorter):
            # Adapters keep copies of the calls elsewhere and would send those.
            said = message.model_copy(update=new)
            content, extra = reworded(said.content, text_of(said)), message.additional_kwargs
            extra = {key: value for key, value in extra.items() if key not in COPIES}
            new |= {**shorter, "content": content, "additional_kwargs": extra, "id": None}
    return message.model_copy(update=new)


def _short_calls(
    message: BaseMessage, limit: int, places: Sequence[int], short: _Preview
) -> dict[str, list[Any]]:
    offset = iter(places)
    calls: dict[str, list[Any]] = {}
    for key in ("tool_calls", "invalid_tool_calls"):
        for call in getattr(message, key, ()):
            place = next(offset)
            cut = short(content := arguments(call), limit, place)
            args = call.get("args")
            if cut != content:
                args = _short_args(args, cut, limit, place, short)
            calls.setdefault(key, []).append(call if cut == content else {**call, "args": args})
    return calls


def _short_args(args: Any, whole: str, limit: int, place: int, short: _Preview) -> Any:
    """Return arguments with their long values cut, so that they are still those of the call.

    Of very many arguments, none of which is long, `whole` is the preview of them all.
    """
    if not isinstance(args, Mapping):
        return whole
    values = {key: arguments({"args": value}) for key, value in args.items()}
    places = _places_of_values(args, place)
    for tokens in ladder(limit):
        cut = {key: short(value, tokens, places[key]) for key, value in values.items()}
        kept = {key: args[key] if cut[key] == values[key] else cut[key] for key in args}
        # A preview is as long as its limit and its pointer.
        if short(compact(kept), limit + _LEAST_SAVED * len(kept), place) == compact(kept):
            return kept
    return {_ALL_ARGUMENTS: whole}


def _places_of_values(args: Mapping[str, Any], begin: int) -> dict[str, Place]:
    """Return where places in the values of arguments stand in a log that has their JSON there."""
    content = arguments({"args": args})
    places: dict[str, Place] = {}
    start = 1
    for key, value in args.items():
        start += len(json.dumps(key, ensure_ascii=False)) + len(": ")
        places[key] = partial(_place_of_value, content, start, begin, value)
        start += len(json.dumps(value, ensure_ascii=False, default=str)) + len(", ")
    return places


def _place_of_value(content: str, start: int, begin: int, value: Any, place: int) -> int:
    """Return where a place in a value stands, whose JSON starts at `start` of the arguments."""
    if isinstance(value, str):
        place = len(json.dumps(value[:place], ensure_ascii=False)) - 1  # without the last quote
    return begin + len(cleaned(content[: start + place]))


def active_after(messages: Sequence[BaseMessage]) -> list[str] | None:
    """Return the effort that these messages left active, then its constraints and goal as lines.

    Empty if they left none active, None if they changed nothing.
    """
    active: list[str] | None = None
    arguments_of: dict[str, Any] = {}
    for message in messages:
        arguments_of |= {str(call.get("id")): call.get("args") for call in calls(message)}
        result = result_of(message) if _is_decision(message) else {}
        name = result.get("effort_id")
        if not isinstance(name, str):
            continue
        if str(result.get("status")) in _DEACTIVATING:
            is_other = active[0] != name if active else "active" in result
            active = active if is_other else []
        else:
            args = arguments_of.get(str(call_id(message)))
            purpose = result if "goal" in result else args
            active = [name, *_purpose_lines(purpose if isinstance(purpose, dict) else {})]
    return active


def _purpose_lines(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield the constraints and the goal in a call or its result, a line each."""
    value = fields.get("constraints") or ()
    constraints = [value] if isinstance(value, str) else value
    for constraint in constraints if isinstance(constraints, list | tuple) else ():
        yield f"constraint: {one_line(str(constraint))}"
    yield f"goal: {one_line(str(fields.get('goal') or 'not stated'))}"


def decisions(messages: Sequence[BaseMessage]) -> Iterator[Any]:
    """Yield what decides which effort is active: calls as they are shown, and their results."""
    for message in messages:
        deciding = (call for call in calls(message) if call.get("name") in DECIDING)
        yield from ((call["name"], call.get("args")) for call in deciding)
        if _is_decision(message):
            yield "done"


def _is_decision(message: BaseMessage) -> bool:
    return message.type == "tool" and message.name in DECIDING


def log_excerpt(
    turn: StoredTurn, messages: Sequence[BaseMessage], limit: int, fences: Fences
) -> tuple[BaseMessage, ...]:
    """Return head and tail of the log as a quote, and what the user said last, in half at most.

    Where they do not fit, a note says that the whole turn is left out.
    """
    said = [message for message in turn.messages if message.type != "system"]
    log, count = rendered(said), fences.count
    half = max(LEAST_PREVIEW, limit // 2)
    short = previewed(turn, messages, Limits(LEAST_PREVIEW, half, LEAST_PREVIEW), count)
    question = valid_history([one for one in short if one.type == "human"][-1:], fences)
    for tokens in ladder(limit):
        excerpt = preview(log, tokens, turn=turn.number, offset=turn, count=count)
        note = fences.note(render("turn_left_out", turn=turn.number, quote=excerpt))
        if count_messages([note, *question], count) <= limit:
            return (note, *question)
    notice = fences.note(render("whole_turn_left_out", turn=turn.number, tokens=count(log)))
    both = (notice, *question)
    return both if count_messages(both, count) <= limit else (notice,)
