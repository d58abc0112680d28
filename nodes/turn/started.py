"""What the model was sent, as it stood when the model started."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage

from ...memory.messages import calls, fingerprint, is_call, is_thought
from .langchain_messages import to_dicts


class Started(BaseCallbackHandler):
    """Keeps the messages that the model starts with: other middleware may have changed them."""

    run_inline = True

    def __init__(self, assembled: Sequence[BaseMessage]) -> None:
        """Take the messages that were assembled for the call."""
        self._assembled, self._final = assembled, list[BaseMessage]()

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], **_: Any
    ) -> None:
        """Keep the messages; of a call that is repeated those of the last time."""
        del serialized
        self._final = messages[0]

    def report(self, sent: str) -> Mapping[str, Any]:
        """Return a digest of what was sent, given that of what was assembled.

        `by_middleware` marks a request that is not what was assembled, and one that another
        middleware answered without the model.
        """
        is_same = [*self._final] == [*self._assembled]
        if is_same or _compared(self._final) == _compared(self._assembled):
            return {"digest": fingerprint([sent])}
        digest = fingerprint(to_dicts(self._final)) if self._final else ""
        return {"digest": digest, "by_middleware": True}


def _compared(messages: Sequence[BaseMessage]) -> list[Any]:
    """Return what two requests are compared by.

    Ids are left out, and the form of files, which callbacks see in another one than the model. A
    system message in blocks has no blank lines between them.
    """
    compared: list[Any] = []
    for message in to_dicts(messages):
        content = message["data"].get("content") or ""
        blocks = [content] if isinstance(content, str) else content
        words = "".join(block if isinstance(block, str) else _words(block) for block in blocks)
        if message["type"] == "system":
            words = "".join(words.split())
        asked = [(call.get("name"), call.get("args")) for call in calls(message)]
        compared.append((message["type"], words, sum(map(_is_file, blocks)), asked))
    return compared


def _words(block: Mapping[str, Any]) -> str:
    return str(block.get("text") or "")


def _is_file(block: Any) -> bool:
    return isinstance(block, Mapping) and not (
        block.get("type") == "text" or is_call(block) or is_thought(block)
    )
