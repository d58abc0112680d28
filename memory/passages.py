"""Passages: what a turn says in pieces of a few sentences, by which it is searched and quoted."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from .messages import Message
from .sayings import sayings

LONGEST = 800
"""Characters, about 200 tokens. On long answers 400 and 5,000 bring 4 and 2 % less into 1,000."""

MOST = (1 << 10) - 1
"""Passages of a turn; the last one has all the rest."""

_ENOUGH = LONGEST // 2
"""From here on a passage ends with its paragraph."""

_NAMED = re.compile(r"\s*([^\W\d_a-z][\w'’-]*(?: [^\W\d_a-z][\w'’-]*){0,2})[:：]\s")
_ASKS = re.compile(r"[?？][\"'”’)*]*$")
_ENDS = re.compile(r"(?<=[.!?。！？])\s+")


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of what the message with this number says, from `begin` on.

    `speaker` is the name of who says it, if one is given; `user` tells that the user does.
    """

    message: int
    begin: int
    text: str
    speaker: str = field(default="", kw_only=True)
    user: bool = field(default=False, kw_only=True)

    @property
    def asks(self) -> bool:
        """Tell whether the user only asks, so that it answers nothing."""
        said = self.text[len(self.speaker) + 1 :] if self._named else self.text
        parts = [one for one in _ENDS.split(said.strip()) if one]
        return self.user and bool(parts) and all(map(_ASKS.search, parts))

    @property
    def searched(self) -> str:
        """The text with the name of its speaker, who is not named again in what follows."""
        return self.text if self._named or not self.speaker else f"{self.speaker}: {self.text}"

    @property
    def _named(self) -> bool:
        return bool(self.speaker) and self.text.lstrip().startswith(self.speaker)


def passages(messages: Sequence[Message], most: int = MOST) -> list[Passage]:
    """Return what a turn says in pieces, at most so many: the last one has all the rest.

    >>> [one.text for one in passages([{"type": "human", "data": {"content": "Which port?"}}])]
    ['Which port?']
    """
    found = [one for at, message in enumerate(messages) for one in _of(at, message)]
    rest = "\n".join(one.text for one in found[most - 1 :])
    last = [Passage(one.message, one.begin, rest, user=one.user) for one in found[most - 1 : most]]
    return found if len(found) <= most else [*found[: most - 1], *last]


def placed(passage: Passage, log: str, offset: int) -> tuple[int, int] | None:
    """Return where a passage stands in its rendered turn; None if it stands otherwise there.

    Its message begins at `offset` there.
    """
    said = passage.text.strip()
    begin = log.find(said, offset)
    return (begin, begin + len(said)) if begin >= 0 else None


def _of(at: int, message: Message) -> Iterator[Passage]:
    user, name = message["type"] == "human", message["data"].get("name")
    for said in sayings([message]):
        named = _NAMED.match(said)
        told = name if isinstance(name, str) and message["type"] != "tool" else ""
        speaker = named[1] if named else told
        for begin, end in spans(said):
            if said[begin:end].strip():
                yield Passage(at, begin, said[begin:end], speaker=speaker, user=user)


def spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the sentences of a text, joined as far as they make no passage too long."""
    begin = end = 0
    for _, after in sentence_spans(text, LONGEST):
        whole = text[:end].endswith("\n\n", begin) and end - begin >= _ENOUGH
        if end > begin and (whole or after - begin > LONGEST):
            yield begin, end
            begin = end
        end = after
    if end > begin:
        yield begin, end


def sentence_spans(text: str, longest: int) -> Iterator[tuple[int, int]]:
    """Yield the sentences of a text with what closes each, together the whole text.

    A point within a number, a version or a file's name ends none; a sentence of more than `longest`
    characters is cut. The archive stores which passage was found, so this stays as it is; quotes
    are cut out of sentences as people read them (`sentences`).

    >>> [*sentence_spans("Use v1.2. Go!", 800)]
    [(0, 10), (10, 13)]
    """
    return (found.span() for found in _sentence(longest).finditer(text))


@cache
def _sentence(longest: int) -> re.Pattern[str]:
    return re.compile(
        rf"(?:[^\n.!?。！？]|(?<=\w)\.(?=\w)){{1,{longest}}}[\n.!?。！？\"'”’)*\s]*"
        r"|[\n.!?。！？]+\s*"
    )
