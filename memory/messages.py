"""What LangChain's messages say: their text and calls, and what is made of each but once.

Messages are values here: they are copied, never changed.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import is_
from typing import Any, Generic, TypeVar

from cachetools import LRUCache
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from .blocks import KINDS, attachment, kind_of
from .locks import CACHES

T = TypeVar("T")
M = TypeVar("M", bound=BaseMessage)


def text(message: BaseMessage, between: str = "") -> str:
    r"""Return the text of a message; blocks that are not text become a placeholder.

    That of an attachment has lines of its own: it names it, and what it says follows. `between`
    stands between two blocks without a space: what is compared by its words needs one there.

    >>> text(HumanMessage([{"type": "image"}, "hello"]))
    '[image]\nhello'
    >>> text(HumanMessage(["auth-bug", "The"]), "\n")
    'auth-bug\nThe'
    """
    content = message.content or spoken(message)
    if isinstance(content, str):
        return content
    said, ended = "", False
    for block in content:
        words, is_attachment = block_text(block), attachment(block) is not None
        starts = said and words and (ended or is_attachment) and not said.endswith("\n")
        touches = said and words and not (said[-1].isspace() or words[0].isspace())
        said += ("\n" if starts else between if touches else "") + words
        ended = is_attachment
    return said


def spoken(message: BaseMessage) -> str:
    """Return what an answer says beside its content: a transcript, or a refusal, empty if nothing.

    >>> audio = {"id": "audio_1", "transcript": "It works."}
    >>> spoken(AIMessage("", additional_kwargs={"audio": audio}))
    'It works.'
    """
    extra = message.additional_kwargs if message.type == "ai" else {}
    audio = extra.get("audio")
    said = audio.get("transcript") if isinstance(audio, Mapping) else extra.get("refusal")
    return said if isinstance(said, str) else ""


def speaks(content: Any) -> bool:
    """Tell whether the content of an answer has more than reasoning.

    Providers answer 400 if it has not. Anthropic: "all messages must have non-empty content", "The
    final block in an assistant message cannot be `thinking`". OpenAI: "Item of type 'reasoning' was
    provided without its required following item".

    >>> speaks("Yes."), speaks(" "), speaks([{"type": "thinking", "thinking": "Well"}])
    (True, False, False)
    """
    if not isinstance(content, list):
        return bool((content or "").strip())
    return any(block_text(part).strip() for part in content if kind_of(part) != "thought")


def reworded(content: Any, words: str) -> Any:
    """Return the content of an answer with other words and without its calls.

    Adapters add the calls again. Reasoning with an id goes too: OpenAI refuses it without the words
    and calls that belong to it by id. Reasoning without an id stays: Anthropic refuses calls of the
    running turn without it.

    >>> thoughts = [{"type": "thinking", "thinking": "Well"}, {"type": "reasoning", "id": "rs_1"}]
    >>> reworded([*thoughts, "No, never."], "[reasoning]No…")
    [{'type': 'thinking', 'thinking': 'Well'}, {'type': 'text', 'text': 'No…'}]
    """
    if not isinstance(content, list):
        return words
    blocks = [block for block in content if isinstance(block, Mapping)]
    for block in blocks:
        if kind_of(block) in {"thought", "call"}:  # of which `text` makes a placeholder
            words = words.replace(f"[{block['type']}]", "")
    thoughts = [one for one in blocks if kind_of(one) == "thought" and "id" not in one]
    return [*thoughts, {"type": "text", "text": words}] if words.strip() else thoughts


_THOUGHTS_BESIDE = frozenset(
    {
        *("reasoning", "reasoning_content", "reasoning_details"),
        *("__gemini_function_call_thought_signatures__", "__openai_function_call_ids__"),
    }
)
"""Keys of `additional_kwargs` with thoughts, and with ids that bind an answer to them."""


def thoughts_beside(message: BaseMessage) -> list[Any]:
    """Return the reasoning that an answer has beside its content, which adapters send back.

    >>> extra = {"reasoning_content": "Well, no."}
    >>> thoughts_beside(AIMessage("No.", additional_kwargs=extra))
    ['Well, no.']
    """
    extra = message.additional_kwargs if message.type == "ai" else {}
    return [extra[key] for key in extra if key in _THOUGHTS_BESIDE and extra[key]]


def without_thoughts(message: BaseMessage) -> BaseMessage:
    """Return an answer of a finished turn without its reasoning, in blocks or beside its content.

    Its words and calls lose the ids that OpenAI would look up reasoning by. An answer with results
    of a provider's own tools keeps its reasoning, since these belong to it.

    >>> thoughts = {"type": "reasoning", "id": "rs_1", "summary": []}
    >>> content = [thoughts, {"type": "text", "text": "No.", "id": "msg_1"}]
    >>> without_thoughts(AIMessage(content)).content
    [{'type': 'text', 'text': 'No.'}]
    """
    if not isinstance(message, AIMessage):
        return message
    content, extra, new = message.content, message.additional_kwargs, dict[str, Any]()
    if not _THOUGHTS_BESIDE.isdisjoint(extra):
        rest = {key: value for key, value in extra.items() if key not in _THOUGHTS_BESIDE}
        new["additional_kwargs"] = rest
    if isinstance(content, list) and "thought" in map(kind_of, content):
        # Adapters add the calls again.
        blocks = [block for block in content if kind_of(block) not in {"thought", "call"}]
        if all(kind_of(block) == "text" for block in blocks):
            new["content"] = [*map(without_id, blocks)]
    return message.model_copy(update=new) if new else message


def with_content(message: M, content: Any) -> M:
    """Return the message with its content replaced.

    >>> with_content(HumanMessage("hi", id="1"), "hello").content
    'hello'
    """
    if content is message.content:
        return message
    return message.model_copy(update={"content": content})


def calls(message: BaseMessage) -> tuple[Mapping[str, Any], ...]:
    """Return the tool calls of a message, the invalid ones last.

    >>> (call,) = calls(AIMessage("", tool_calls=[{"name": "look_up", "args": {}, "id": "1"}]))
    >>> call["name"]
    'look_up'
    """
    if not isinstance(message, AIMessage):
        return ()
    return (*message.tool_calls, *message.invalid_tool_calls)


def call_id(message: BaseMessage) -> str | None:
    """Return the id of the call that a message answers, None if it is no result."""
    return message.tool_call_id if isinstance(message, ToolMessage) else None


def arguments(call: Mapping[str, Any]) -> str:
    """Return the arguments of a call as they are sent; invalid ones are text.

    >>> arguments({"args": {"id": 1}}), arguments({"args": "{broken"})
    ('{"id": 1}', '{broken')
    """
    args = call.get("args")
    return args if isinstance(args, str) else json.dumps(args, ensure_ascii=False, default=str)


def compact(value: Any) -> str:
    """Return the compact JSON in which tools answer.

    >>> compact({"turns": "3-5", "next": None})
    '{"turns":"3-5","next":null}'
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def unanswered(messages: Sequence[BaseMessage]) -> tuple[Mapping[str, Any], ...]:
    """Return the calls without a result; models may use an id again in a later answer.

    >>> asking = AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": id} for id in "ab"])
    >>> [call["id"] for call in unanswered([asking, ToolMessage("", tool_call_id="a")])]
    ['b']
    """
    waiting: list[Mapping[str, Any]] = []
    missed: list[Mapping[str, Any]] = []
    for message in messages:
        if message.type == "ai":
            missed += waiting
            waiting = list(calls(message))
        elif message.type == "tool":
            waiting = [call for call in waiting if call.get("id") != call_id(message)]
    return (*missed, *waiting)


def answered(messages: Sequence[BaseMessage]) -> bool:
    """Tell whether the messages end in a final answer: an assistant message without calls.

    >>> answered([AIMessage("Yes.")]), answered([])
    (True, False)
    """
    return bool(messages) and messages[-1].type == "ai" and not calls(messages[-1])


def length(value: Any) -> int:
    """Return the characters of all texts in a value, which tell how much memory it takes.

    >>> length([HumanMessage([{"text": "Hi."}])])
    8
    """
    if isinstance(value, str):
        return len(value)
    if isinstance(value, BaseMessage):
        value = [*filter(None, vars(value).values())]
    if isinstance(value, Mapping):
        return sum(map(length, value.values()))
    return sum(map(length, value)) if isinstance(value, list | tuple) else 0


def without_id(item: Any) -> Any:
    """Return a content block without its id."""
    return {k: v for k, v in item.items() if k != "id"} if isinstance(item, Mapping) else item


def block_text(block: Any) -> str:
    """Return the text of a content block, or its placeholder and the texts in it.

    >>> block_text({"type": "file", "file": {"filename": "a.pdf"}}), block_text({"type": "search"})
    ('[file a.pdf]', '[search]')
    """
    if isinstance(block, str):
        return block
    kind = block.get("type", "content") if isinstance(block, Mapping) else "content"
    if kind_of(block) == "text" or kind == "refusal":
        return str(block.get("refusal" if kind == "refusal" else "text", ""))
    one = attachment(block)
    if one is None or kind == "image_generation_call":
        speaks = one is None and KINDS[kind_of(block)].speaks
        return "\n".join([f"[{kind}]", *(_texts(block) if speaks else ())])
    return f"[{one}]\n{one.text}" if one.text else f"[{one}]"


_NO_WORDS = re.compile("type|data|signature|.*_?(id|index)|encrypted_.*|cache_control|extras")
"""Fields of a block that say nothing: names of other things, and what only a provider reads."""

_ENCODED = re.compile("[!-~]{200}")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value and not _ENCODED.search(value):
        yield value
    items = value.items() if isinstance(value, Mapping) else ()
    named = [item for key, item in items if not _NO_WORDS.fullmatch(str(key))]
    for item in value if isinstance(value, list) else named:
        yield from _texts(item)


_LONG = 32  # a shorter turn is gone through faster than it is looked up


class Growing(Generic[T]):
    """A function of the messages of a turn that grows, made once for each message.

    A turn of a thousand rounds asks for each of its messages several times in every round. `make`
    is given the messages that are new, and what was made of the one before them; None if there is
    none. The messages must not change.

    >>> lengths = Growing[int](lambda messages, before: [len(one) for one in messages])
    >>> lengths(["a", "bc"])
    (1, 2)
    """

    def __init__(self, make: Callable[[Sequence[Any], T | None], Sequence[T]]) -> None:
        """Take the function; the newest 16 turns are kept, by their first message."""
        self._make = make
        self._kept = LRUCache[int, tuple[tuple[Any, ...], tuple[T, ...]]](16)

    def __call__(self, messages: Sequence[Any]) -> tuple[T, ...]:
        """Return what is made of each message."""
        given = tuple(messages)
        if len(given) < _LONG:
            return tuple(self._make(given, None))
        # The messages are kept too, so that no other one gets the id of the first meanwhile.
        with CACHES:
            known, values = self._kept.get(id(given[0])) or ((), ())
        if not all(map(is_, known, given)):
            known, values = (), ()
        if len(known) < len(given):
            new = self._make(given[len(known) :], values[-1] if values else None)
            values = (*values, *new)
            with CACHES:
                self._kept[id(given[0])] = given, values
        return values[: len(given)]
