"""What the application says in the conversation: system messages, in effect until it removes them.

They are the last part of the system message, in one frame. What they take is taken off the room.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from langchain_core.messages import BaseMessage

from ..prompts.loader import render
from .fences import Fences
from .messages import compact, text
from .serialised import fingerprint

SHARE = 8
"""One in how many tokens of the room they may have together; the newest alone may have more."""

_DIGITS = 8  # of the digest of a text
_GAP = "\n\n"


@dataclass(frozen=True, slots=True)
class Application:
    """The texts that are shown, in their order, how many are not, and the tokens of the frame."""

    texts: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    tokens: int = 0

    @property
    def key(self) -> tuple[str, ...]:
        """What a plan notes of it: the digest of each text, and how many are left out."""
        more = [f"+{len(self.left_out)}"] if self.left_out else []
        return (*(fingerprint(one, _DIGITS) for one in self.texts), *more)

    def after(self, instructions: str, fences: Fences) -> str:
        """Return the system message: the instructions, then what the application says."""
        if not self.texts and not self.left_out:
            return instructions
        note = [render("application_left_out", count=len(self.left_out))] if self.left_out else []
        return f"{instructions}\n\n{fences.around('application', _GAP.join([*self.texts, *note]))}"


def in_effect(
    messages: Iterable[BaseMessage], room: int, least: int, fences: Fences
) -> Application:
    """Return what the system messages among these say, equal texts once.

    If all have over a share of the `room`, the newest that fit are shown, and the newest of all
    wherever it leaves the `least` room: a long one does not put the rules before it out of force.
    """
    if not (texts := _texts(messages)):
        return Application()

    def shown(chosen: set[int]) -> Application:
        left_out = tuple(one for at, one in enumerate(texts) if at not in chosen)
        made = Application(tuple(texts[at] for at in sorted(chosen)), left_out)
        return replace(made, tokens=fences.count(made.after("", fences)))

    last, share = len(texts) - 1, room // SHARE
    newest = shown({last}).tokens
    chosen = {last} if newest <= share or room - newest >= least else set[int]()
    free = share - (newest if newest <= share else shown(set()).tokens)
    for at in reversed(range(last)):
        if (cost := fences.count(texts[at]) + len(_GAP)) <= free:
            chosen, free = {*chosen, at}, free - cost
    return shown(chosen)


def noted(key: Sequence[str], messages: Iterable[BaseMessage]) -> Application:
    """Return what a plan notes, of the messages until then."""
    texts = {fingerprint(one, _DIGITS): one for one in _texts(messages)}
    left_out = next((int(one) for one in key if one.startswith("+")), 0)
    return Application(tuple(texts[one] for one in key if one in texts), ("",) * left_out)


def _texts(messages: Iterable[BaseMessage]) -> tuple[str, ...]:
    said = (text(message).strip() for message in messages if message.type == "system")
    return tuple(dict.fromkeys(filter(None, said)))


def open_todos(todos: object) -> str:
    """Return the to-dos that are not completed, as JSON; "" if there are none.

    >>> open_todos([{"content": "Sow", "status": "completed"}])
    ''
    >>> open_todos([{"content": "Reap", "status": "pending"}])
    '[{"content":"Reap","status":"pending"}]'
    """
    listed = todos if isinstance(todos, list) else ()
    left = [one for one in listed if isinstance(one, dict) and one.get("status") != "completed"]
    return compact(left) if left else ""
