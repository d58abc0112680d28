"""The state block of the offline model: ports, versions and addresses that the user has stated."""

import re
from collections.abc import Sequence

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from ..memory.anchor import parsed, rendered
from ..memory.state_blocks import END, FIELDS, START
from .offline_requests import is_question
from .offline_sentences import is_memory, split, turn_start

_CONSTANT = re.compile(
    r"\bport \d{2,5}\b|\bversion \d+(?:\.\d+)*\b|\bhttps?://[^\s<>\"')]*[^\s<>\"').,;:!?]|"
    r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{2,5})?\b",
    re.IGNORECASE,
)
_NOTED = re.compile(
    r'<state key="(?P<key>[0-9a-f]{16})">\n(?P<anchor>.*)\n</state (?P=key)>', re.DOTALL
)
_CONSTANTS = FIELDS[-1]
_KEPT = 20
"""The newest constants that the block holds."""


def with_block(text: str, messages: Sequence[BaseMessage]) -> str:
    """Return an answer with a state block at its end, if the user has stated a new constant.

    Only a model that was told of the block writes one. Other fields stay as they were.
    """
    told = any(isinstance(one, SystemMessage) and START in one.text for one in messages)
    anchor = _noted(messages) if told else {}
    known = list(filter(None, anchor.get(_CONSTANTS, "").split("\n")))
    folded = {one.casefold() for one in known}
    new = {one.casefold(): one for one in _stated(messages) if one.casefold() not in folded}
    if not told or not new:
        return text
    said = {**anchor, _CONSTANTS: "\n".join([*known, *new.values()][-_KEPT:])}
    return f"{text}\n\n{START}\n{rendered(said)}\n{END}"


def _noted(messages: Sequence[BaseMessage]) -> dict[str, str]:
    """Return the anchor that the memory's notes show."""
    notes = (_NOTED.search(one.text) for one in messages if is_memory(one))
    return next((parsed(note["anchor"]) for note in notes if note), {})


def _stated(messages: Sequence[BaseMessage]) -> list[str]:
    """Return the constants in what the user says, not asks, in the current turn."""
    said = [one.text for one in messages[turn_start(messages) :] if isinstance(one, HumanMessage)]
    stated = (part for text in said for part in split(text) if not is_question(part))
    return [found[0] for part in stated for found in _CONSTANT.finditer(part)]
