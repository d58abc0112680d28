"""The passages of a turn, and what is shown of one that was found: sentences to be read alone."""

import json
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from .messages import Message
from .state_blocks import without_blocks
from .terms import is_question, terms
from .transcript import OWN_TOOLS, offsets, rendered, speaker

LONGEST = 800
"""Characters, about 200 tokens. On long answers 400 and 5,000 bring 4 and 2 % less into 1,000."""

_MOST = (1 << 10) - 1
"""Passages of a turn, as ten bits of their ids tell them apart; the last one has all the rest."""

_ENOUGH = LONGEST // 2
"""From here on a passage ends with its paragraph."""

_SPEAKER = re.compile(r"\s*([^\W\d_a-z][\w'’-]*(?: [^\W\d_a-z][\w'’-]*){0,2})[:：]\s")
"""A name of up to three words that do not begin with a small letter, as transcripts have it."""

_BLOB = re.compile(r"[\w+/=-]{400,}", re.ASCII)
"""Encoded data: no word is that long."""

_ENDS = re.compile(r"(?<=[.!?。！？])\s+")
"""What parts sentences of which each may be a question."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of what the message with this number says, from `begin` on, and the speaker's name.

    `user` tells that the user says it, `sought` that it is nothing but what its turn searched for.
    """

    message: int
    begin: int
    text: str
    speaker: str = field(default="", kw_only=True)
    user: bool = field(default=False, kw_only=True)
    sought: bool = field(default=False, kw_only=True)

    @property
    def asks(self) -> bool:
        """Tell whether the user only asks, so that it answers nothing."""
        words = self.text[len(self.speaker) + 1 :] if self._named else self.text
        sentences = [sentence for sentence in _ENDS.split(words.strip()) if sentence]
        return self.user and bool(sentences) and (self.sought or all(map(is_question, sentences)))

    @property
    def searched(self) -> str:
        """The text with the name of its speaker, who is not named again in what follows."""
        return self.text if self._named or not self.speaker else f"{self.speaker}: {self.text}"

    @property
    def _named(self) -> bool:
        return bool(self.speaker) and self.text.lstrip().startswith(self.speaker)


def passages(messages: Sequence[Message], most: int = _MOST) -> list[Passage]:
    """Return what a turn says in pieces, at most so many: the last one has all the rest.

    >>> [piece.text for piece in passages([{"type": "human", "data": {"content": "Which port?"}}])]
    ['Which port?']
    """
    wanted = _searched_for(messages)
    pieces = []
    for at, message in enumerate(messages):
        user, named, said = message["type"] == "human", message["data"].get("name"), _said(message)
        who = named if isinstance(named, str) and message["type"] != "tool" else ""
        if in_text := _SPEAKER.match(said):
            who = in_text[1]
        for begin, end in spans(said):
            piece = said[begin:end]
            if piece.strip():
                sought = user and bool(wanted) and wanted.issuperset(terms(piece))
                pieces.append(Passage(at, begin, piece, speaker=who, user=user, sought=sought))
    if len(pieces) <= most:
        return pieces
    last = pieces[most - 1]
    text = "\n".join(piece.text for piece in pieces[most - 1 :])
    return [*pieces[: most - 1], Passage(last.message, last.begin, text, user=last.user)]


def _calls(message: Message) -> list[Mapping[str, Any]]:
    """Return the calls of a message, of whatever form it was committed in."""
    listed = message["data"].get("tool_calls")
    calls = listed if isinstance(listed, list) else []
    return [call for call in calls if isinstance(call, Mapping)]


def _searched_for(messages: Sequence[Message]) -> frozenset[str]:
    """Return the terms that a turn searched for."""
    wanted = set[str]()
    for call in chain.from_iterable(map(_calls, messages)):
        args = call.get("args")
        query = args.get("query") if isinstance(args, Mapping) else None
        if call.get("name") == "search_efforts" and isinstance(query, str):
            wanted.update(terms(query))
    return frozenset(wanted)


def _said(message: Message) -> str:
    """Return the texts of a message, and its calls, without encoded data."""
    data = message["data"]
    if message["type"] == "tool" and data.get("name") in OWN_TOOLS:
        return ""
    content = without_blocks(message)["data"].get("content")
    blocks = content if isinstance(content, list) else [content]
    texts = [block.get("text") if isinstance(block, Mapping) else block for block in blocks]
    texts += [
        f"{call.get('name')} {json.dumps(call.get('args'), ensure_ascii=False)}"
        for call in _calls(message)
        if call.get("name") not in OWN_TOOLS
    ]
    return _BLOB.sub(" ", "\n".join(text for text in texts if isinstance(text, str)))


def spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the sentences of a text, joined as far as they make no passage too long."""
    begin = end = 0
    for _, after in _sentence_spans(text, LONGEST):
        whole = text[:end].endswith("\n\n", begin) and end - begin >= _ENOUGH
        if end > begin and (whole or after - begin > LONGEST):
            yield begin, end
            begin = end
        end = after
    if end > begin:
        yield begin, end


def _sentence_spans(text: str, longest: int) -> Iterator[tuple[int, int]]:
    """Yield the sentences of a text with what closes each, together the whole text.

    A point within a number, a version or a file's name ends none; a sentence of more than `longest`
    characters is cut. The archive stores which passage was found, so this stays as it is.

    >>> [*_sentence_spans("Use v1.2. Go!", 800)]
    [(0, 10), (10, 13)]
    """
    sentence = (
        rf"(?:[^\n.!?。！？]|(?<=\w)\.(?=\w)){{1,{longest}}}[\n.!?。！？\"'”’)*\s]*"
        r"|[\n.!?。！？]+\s*"
    )
    return (found.span() for found in re.finditer(sentence, text))


_BLOCK = re.compile(r"(?ms)(?:^|(?<=: ))---STATE---[ \t]*$.*?^---END STATE---[ \t]*$")
"""A state block, as texts that were put together of several messages have it."""

_SHOWN = 400
"""Characters of an excerpt, about 100 tokens."""

_WORD = 40
"""Characters by which a cut may be moved so that it cuts no word in two."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A range of a rendered turn, who speaks there if it does not say so, whether it only asks."""

    begin: int
    end: int
    speaker: str = ""
    asks: bool = False


def excerpt(messages: Sequence[Message], place: int) -> Excerpt | None:
    """Return what is shown of a turn for this passage of it; None if it is not there.

    A short passage is shown with what follows, a question with what may be its answer.
    """
    log, begins = rendered(messages), [offset.text for offset in offsets(messages)]
    begin, end = 0, 0
    shown: list[Passage] = []
    for piece in passages(messages)[place:]:
        said = piece.text.strip()
        at = log.find(said, begins[piece.message])
        room = 2 * LONGEST if shown and shown[-1].asks else _SHOWN
        if at < 0 or (shown and at + len(said) - begin > room):
            break
        begin, end = (begin if shown else at), at + len(said)
        shown.append(piece)
    if not shown:
        return None
    first, asks = shown[0], shown[-1].asks
    if first.begin:
        return Excerpt(begin, end, speaker(messages[first.message]), asks)
    return Excerpt(log.rfind("\n", 0, begins[first.message]) + 1, end, asks=asks)


def best_piece(text: str, wanted: Collection[str]) -> tuple[int, int]:
    """Return begin and end of the sentences, up to 400 characters, that say most wanted terms.

    State blocks are passed over. Of equals the one that begins latest, since what follows a match
    says more than what precedes it; the beginning if nothing matches.

    >>> best_piece("Hello there. The port is 8080. Bye.", {"port"})
    (13, 35)
    """
    seen = _BLOCK.sub(lambda block: " " * len(block[0]), text)
    whole = _sentence_spans(seen, _SHOWN)
    sentences = [(begin, end) for begin, end in whole if seen[begin:end].strip()] or [(0, 0)]
    hits = [[term for term in terms(seen[begin:end]) if term in wanted] for begin, end in sentences]
    ends = [end for _, end in sentences]

    def fitting(first: int) -> int:
        """Return up to where those from the first on fit together."""
        return max(first + 1, bisect_right(ends, sentences[first][0] + _SHOWN))

    def rank(first: int) -> tuple[int, int, int]:
        inside = [term for terms in hits[first : fitting(first)] for term in terms]
        return len(set(inside)), len(inside), first

    first = max((at for at, terms in enumerate(hits) if terms), key=rank, default=0)
    begin, end = sentences[first][0], ends[fitting(first) - 1]
    shown = text[begin:end]
    return end - len(shown.lstrip()), begin + len(shown.rstrip())


def word_end(said: str, end: int) -> int:
    """Return where the last whole word ends before a position, itself if no space is near.

    >>> word_end("one two three", 9), word_end("one two three", 7)
    (7, 7)
    """
    space = max(said.rfind(space, max(0, end - _WORD), end + 1) for space in " \n")
    return space if space > 0 else end


def word_begin(said: str, begin: int) -> int:
    """Return where the next whole word begins, the position itself if no space is near.

    >>> word_begin("one two three", 5), word_begin("one two three", 8)
    (8, 8)
    """
    near = [said.find(space, begin - 1, begin + _WORD) for space in " \n"] if begin else []
    return min((at + 1 for at in near if at >= 0), default=begin)
