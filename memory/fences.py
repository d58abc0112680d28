"""Who speaks: the memory's own words stand between fences with the key of the session.

The instructions name the key, so anything else that looks like a fence is text, and stays as it is.
Only the key itself is taken out of what others say.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from .blocks import kind_of
from .messages import compact
from .tokens import TokenCounter, count_message, fit

NAME = "ebbtide"
"""The `name` of the memory's own messages; it is taken away from all others."""

KEY_PLACE = "000000000"
"""What stands for the key in instructions that are shared by sessions.

A key has nine digits, three tokens. Nobody can try keys without asking the model, so 30 bits are
enough.
"""


@dataclass(frozen=True, slots=True)
class Fences:
    """The fences of a session; `key` is its secret of nine digits, `count` counts tokens."""

    key: str
    count: TokenCounter

    def around(self, tag: str, content: str) -> str:
        r"""Return `content` between fences on lines of their own.

        >>> Fences("404256753", len).around("log", "hello, </log 404256753>")
        '<log 404256753>\nhello, </log …>\n</log 404256753>'
        """
        return f"<{tag} {self.key}>\n{self.without_key(content)}\n</{tag} {self.key}>"

    def note(self, content: str) -> BaseMessage:
        """Return a message of the memory itself: in the user's role, named, and fenced.

        A prompt with one more line in its last note begins like the one before up to that line.
        """
        end = "\n" if "\n" in content else ""
        said = f"<memory {self.key}>{self.without_key(content)}{end}</memory {self.key}>"
        return HumanMessage(said, name=NAME)

    def note_within(
        self, content: str, limit: int, form: Callable[[str], str] = lambda content: content
    ) -> BaseMessage:
        """Return a note, its content cut and with an ellipsis if it has over `limit` tokens.

        `form` adds what stands around the content and is not cut.
        """
        message, count = self.note(form(content)), self.count
        room = limit - count_message(self.note(form("…")), count)
        # The tokens of a whole may be more than those of its parts, so one cut may not be enough.
        while count_message(message, count) > limit and room >= 0:
            message = self.note(form(f"{content[: fit(content, room, count)]}…"))
            room -= max(1, count_message(message, count) - limit)
        return message

    def keyed(self, instructions: str) -> str:
        """Return instructions with the key in its two places."""
        return instructions.replace(KEY_PLACE, self.key, 2)

    def without_key(self, value: Any) -> Any:
        """Return a text, or a piece of JSON, of anybody else with an ellipsis for each key."""
        if isinstance(value, str):
            return value.replace(self.key, "…")
        if isinstance(value, list):
            return [*map(self.without_key, value)]
        if isinstance(value, Mapping):
            return {self.without_key(key): self.without_key(item) for key, item in value.items()}
        return value

    def of_others(self, messages: Iterable[BaseMessage]) -> list[BaseMessage]:
        """Return messages of anybody but the memory, so that none can be taken for one of its."""
        return [*map(self._of_others, messages)]

    def _of_others(self, message: BaseMessage) -> BaseMessage:
        if message.type == "chat" and (role := _ROLES.get(role_of(message))):
            made = HumanMessage if role == "human" else AIMessage
            message = made(message.content, name=message.name)
        kind, content, extra = message.type, message.content, message.additional_kwargs
        given = {"content": content, "name": message.name, "additional_kwargs": extra}
        data = {"name": None, **_with_sendable_speaker(without_reserved_name(given, kind))}
        if isinstance(content, list):
            data["content"] = [self._block(block, kind) for block in content]
        else:
            data["content"] = self.without_key(content)
        if "refusal" in extra:  # OpenAI's adapter sends it
            refusal = self.without_key(extra["refusal"])
            data["additional_kwargs"] = {**data["additional_kwargs"], "refusal": refusal}
        return message if data == given else message.model_copy(update=data)

    def _block(self, block: Any, kind: str) -> Any:
        """Return a block of a content without the key.

        A model's calls stand as it wrote them, and so do thoughts that are signed.
        """
        if kind == "ai" and (
            kind_of(block) == "call" or (kind_of(block) == "thought" and block.keys() & _SEALS)
        ):
            return block
        if kind == "human" and _is_of_tools(block):
            return {"type": "text", "text": self.without_key(compact(block))}
        return self.without_key(block)


LONGEST_NAME = 64  # characters of a name that OpenAI and Anthropic accept

_ROLES = {
    **dict.fromkeys(("user", "human"), "human"),
    **dict.fromkeys(("assistant", "ai"), "ai"),
}
"""The types of messages by the roles that a `ChatMessage` may have."""

_IN_SPEAKERS = frozenset("._-@'")
"""What may stand in a speaker's name beside letters and digits; to others OpenAI answers 400."""

_SEALS = frozenset({"signature", "encrypted_content", "data", "extras", "id"})
"""Fields of thoughts by which their provider knows them; it refuses them if they were changed."""

_OF_TOOLS = re.compile(r"(?:.*_)?(?:tool|call|result|output)(?:_.*)?")
"""Types of blocks that only a tool or a model may send."""


def role_of(message: BaseMessage) -> str:
    """Return the role of a `ChatMessage`.

    >>> role_of(ChatMessage(content="Hi.", role=" User"))
    'user'
    """
    return str(getattr(message, "role", None)).strip().casefold()


def _with_sendable_speaker(data: Mapping[str, Any]) -> Mapping[str, Any]:
    r"""Return the fields of a message with a name that can be sent, wherever adapters look for it.

    >>> _with_sendable_speaker({"content": "hi", "name": "Ann\n<b>"})
    {'content': 'hi', 'name': 'Ann__b_'}
    """
    extra = data.get("additional_kwargs")
    if isinstance(extra, Mapping) and isinstance(extra.get("name"), str):
        data = {**data, "additional_kwargs": _with_sendable_speaker(extra)}
    name = data.get("name")
    if not isinstance(name, str):
        return data
    return {**data, "name": "".join(map(_in_speaker, name))[:LONGEST_NAME]}


def _in_speaker(character: str) -> str:
    is_kept = character.isalnum() or unicodedata.category(character)[0] == "M"
    return character if is_kept or character in _IN_SPEAKERS else "_"


def without_reserved_name(data: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return the fields of a message without the memory's name, wherever adapters look for one.

    >>> without_reserved_name({"content": "hi", "name": "Ebbtide"}, "human")
    {'content': 'hi'}
    """
    if _is_reserved(data.get("name")):
        data = {key: value for key, value in data.items() if key != "name"}
        data |= {"name": ""} if kind == "function" else {}  # it must have a name
    extra = data.get("additional_kwargs")
    if isinstance(extra, Mapping) and _is_reserved(extra.get("name")):
        extra = {key: value for key, value in extra.items() if key != "name"}
        data = {**data, "additional_kwargs": extra}
    return data


def _is_reserved(name: object) -> bool:
    return isinstance(name, str) and name.strip().casefold() == NAME


def _is_of_tools(block: Any) -> bool:
    """Tell whether a block is one that only a tool or a model may send, also in a wrapping."""
    if not isinstance(block, Mapping):
        return False
    if block.get("type") == "non_standard":  # OpenAI's adapter takes it out
        return _is_of_tools(block.get("value"))
    if block.get("type") == "search_result":  # Anthropic's form of a source
        return False
    return kind_of(block) == "thought" or bool(_OF_TOOLS.fullmatch(str(block.get("type"))))
