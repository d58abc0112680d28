"""Answers of models in a file, by their requests: recorded, replayed, or kept as a cache."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from langchain_core.caches import RETURN_VAL_TYPE, BaseCache
from langchain_core.messages import message_to_dict, messages_from_dict
from langchain_core.outputs import ChatGeneration
from pydantic_core import to_jsonable_python
from typing_extensions import override

from .lines import append, read_lines
from .template import EvaluationError, Strict

_MILLION = 1_000_000
"""The tokens that a price is for."""

_RANDOM = re.compile(
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
    r"|(?<![0-9A-Za-z])(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{8,}(?![0-9A-Za-z])"
    r"|(?<=[a-z] )\d{9}(?=>)|(?<=the key )\d{9}(?=\.)"
    r"|(?<=it is )\d{4}-\d\d-\d\d(?: \d\d:\d\d)?(?=\.)|(?<=, )\d{4}-\d\d-\d\d(?=: )"
)
"""Ids, keys of fences and days of notes, which change: a request is known without them."""


class RecordedAnswer(Strict):
    """The digest of a request, and the answer to it: a message as plain JSON, or a verdict."""

    request: str
    answer: Any


class Answers:
    """A file of recorded answers; of two answers to one request the later counts."""

    def __init__(self, path: Path, *, replayed: bool = False) -> None:
        """Read the file; raises `EvaluationError` if it holds something else.

        If it is `replayed` it must exist, and a request without an answer is an error.
        """
        if replayed:
            path.stat()  # raises `FileNotFoundError`
        self._path, self.replayed = path, replayed
        entries = read_lines(path, RecordedAnswer)
        self._answers = {entry.request: entry.answer for entry in entries}

    def get(self, request: str) -> Any:
        """Return the answer to a request, None if a model has to be asked."""
        answer = self._answers.get(_digest(request))
        if answer is None and self.replayed:
            raise EvaluationError(
                f"{str(self._path)!r} has no answer to a request: replay with the options of the "
                "recording, or record it again"
            )
        return answer

    def put(self, request: str, answer: Any) -> None:
        """Keep the answer to a request: when this returns it is on the disk."""
        entry = RecordedAnswer(request=_digest(request), answer=answer)
        append(self._path, entry)
        self._answers[entry.request] = answer


def _digest(request: str) -> str:
    text = _RANDOM.sub("", request)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


class Calls(BaseCache):
    """The calls of a model in one trial; it is the model's cache, which LangChain asks first.

    `kept` are to get the answers of the model, or to give them in its place if they are replayed.
    """

    def __init__(self, kept: Answers | None = None) -> None:
        """Begin with no call; `missing` counts those without a recorded answer."""
        self._kept = kept
        self.answers: list[Mapping[str, Any]] = []
        self.missing = 0

    @override
    def lookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        """Return the recorded answer to a call, None if the model has to answer."""
        if self._kept is None or not self._kept.replayed:
            return None
        try:
            answer = self._kept.get(_request(prompt))
        except EvaluationError:
            self.missing += 1
            raise
        self.answers.append(answer)
        return [ChatGeneration(message=messages_from_dict([answer])[0])]

    @override
    def update(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        """Note the answer of the model as plain JSON, parsed objects in it too."""
        messages = [choice.message for choice in return_val if isinstance(choice, ChatGeneration)]
        answer = to_jsonable_python(message_to_dict(messages[0]), fallback=str)
        self.answers.append(answer)
        if self._kept is not None:
            self._kept.put(_request(prompt), answer)

    @override
    def clear(self, **kwargs: Any) -> None:
        """Clear nothing: the calls are those of one trial."""

    def usage(self, begin: int, prices: tuple[float, float] | None) -> dict[str, Any]:
        """Return tokens and dollars of the answers from index `begin` on.

        They are unknown, and the result empty, if an answer does not report its tokens.
        """
        usages = [answer["data"].get("usage_metadata") for answer in self.answers[begin:]]
        if not all(usages):
            return {}
        sent = sum(usage["input_tokens"] for usage in usages)
        received = sum(usage["output_tokens"] for usage in usages)
        cost = (sent * prices[0] + received * prices[1]) / _MILLION if prices else None
        return {"model_read": sent, "model_written": received, "cost": cost}


def _request(prompt: str) -> str:
    """Return what a request says: of each message in LangChain's JSON kind, content and calls."""
    messages = [message.get("kwargs", message) for message in json.loads(prompt)]
    said = [
        (m.get("type"), m.get("content"), [(c["name"], c["args"]) for c in m.get("tool_calls", ())])
        for m in messages
    ]
    return json.dumps(said)
