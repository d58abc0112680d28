"""The background: two or three sentences on what a log says beside its salient items."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..prompts.loader import text as prompt
from .context.preview import Limits, previewed
from .efforts import Effort
from .errors import AnswerError
from .extraction import MOST_PARTS, fenced_quotes, heading, readable
from .questions import Asks, Question
from .quotes import fenced
from .record import Group
from .settings import Settings
from .sources import legible, parts
from .tokens import TokenCounter, cut_at_sentence
from .transcript import Logged

WORDS = 90
"""Words that a model is asked for at most: two or three sentences."""


_PREVIEW = 150
"""Tokens that a long content of the log has for a call that writes the background."""


@dataclass(frozen=True, slots=True)
class Known:
    """What stands beside a background: the one so far, what is quoted, what holds no longer."""

    background: str = ""
    quoted: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


def background(
    effort: Effort,
    turns: Sequence[Logged],
    old: Known,
    settings: Settings,
    count: TokenCounter,
) -> Asks[str]:
    """Ask for a background that goes on from the old one, and tells as past what is gone.

    It is cut at a sentence end. Tools' outputs are shown as previews. A long log comes in parts,
    each of which goes on from the answer before; of one with more than `MOST_PARTS` all messages
    are previews, and the newest parts are read. Raises `AnswerError` if an answer is empty.
    """
    instructions = prompt("background", words=WORDS)
    limit, longest = settings.salience_max_tokens, settings.background_max_tokens
    known = fenced_quotes(old.quoted, limit, count)
    gone = fenced_quotes(old.gone, limit, count) if old.gone else "nothing"
    taken = count(instructions) + count(known) + count(gone) + 2 * longest
    logs = _logs(turns, readable(settings, taken), count)
    made = old.background
    for number, log in enumerate(logs, start=1):
        part = f"part {number} of {len(logs)}"
        named = prompt(
            "background_log",
            **heading(effort),
            background=fenced("background", made or "nothing"),
            quoted=known,
            gone=gone,
            part=part,
            log=fenced("log", log, part=part),
        )
        answer = yield Question("background", instructions, named, limit=longest)
        made = cut_at_sentence(answer, longest, count)
        if not made:
            raise AnswerError("the background that the model wrote is empty")
    return made


def _logs(turns: Sequence[Logged], limit: int, count: TokenCounter) -> list[str]:
    limits = Limits(results=_PREVIEW, arguments=_PREVIEW)
    whole = parts(_in_short(turns, limits, count), limit, count)
    if len(whole) <= MOST_PARTS:
        return whole
    return parts(_in_short(turns, replace(limits, texts=_PREVIEW), count), limit, count)[
        -MOST_PARTS:
    ]


def _in_short(turns: Sequence[Logged], limits: Limits, count: TokenCounter) -> list[Group]:
    return [
        Group(turn.turn, previewed(turn, turn.messages, limits, count), "")
        for turn in legible(turns)
    ]
