"""The background: two or three sentences on what a log says beside its salient items."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from ..prompts.loader import text as prompt
from .efforts import Effort
from .errors import SalienceError
from .extraction import fenced_quotes, heading, readable
from .preview import Limits, previewed
from .quotes import fenced
from .record import Group
from .salience import Compression
from .settings import Settings
from .sources import legible, parts
from .tokens import TokenCounter, cut_at_sentence
from .transcript import Logged

WORDS = 90
"""Words that a model is asked for at most: two or three sentences."""


@dataclass(frozen=True, slots=True)
class BackgroundRequest:
    """One call to the model that writes the background: its instructions and the log."""

    instructions: str
    log: str


def background(
    effort: Effort,
    turns: Sequence[Logged],
    old: Compression,
    settings: Settings,
    count: TokenCounter,
) -> Generator[BackgroundRequest, str, str]:
    """Ask for a background that goes on from that of `old`, whose items are quoted beside it.

    Yields requests, is sent the answers, returns the background, cut at a sentence end. Tools'
    outputs are shown as previews. A long log comes in parts, each of which goes on from the answer
    before. Raises `SalienceError` if an answer is empty.
    """
    instructions = prompt("background", words=WORDS)
    known = fenced_quotes(old.items, settings.salience_max_tokens, count)
    taken = count(instructions) + count(known) + 2 * settings.background_max_tokens
    logs = parts(_in_short(turns, settings, count), readable(settings, taken), count)
    made = old.background
    for number, log in enumerate(logs, start=1):
        part = f"part {number} of {len(logs)}"
        named = prompt(
            "background_log",
            **heading(effort),
            background=fenced("background", made or "nothing"),
            quoted=known,
            part=part,
            log=fenced("log", log, part=part),
        )
        answer = yield BackgroundRequest(instructions, named)
        made = cut_at_sentence(answer, settings.background_max_tokens, count)
        if not made:
            raise SalienceError("the background that the model wrote is empty")
    return made


def _in_short(turns: Sequence[Logged], settings: Settings, count: TokenCounter) -> list[Group]:
    limits = Limits(results=settings.preview_tokens, arguments=settings.preview_tokens)
    return [
        Group(turn.turn, previewed(turn, turn.messages, limits, count), "")
        for turn in legible(turns)
    ]
