"""The passages of a turn, which search finds, and the excerpts that show them."""

import json
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, takewhile
from math import ceil
from typing import Any, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage

from ..blocks import kind_of
from ..messages import block_text, spoken
from ..state_block import without_blocks
from ..tool_names import MEMORY_TOOLS
from ..transcript import cleaned, log_text, offsets
from .literal import Literal
from .terms import is_question, query_terms, terms

LONGEST = 800
"""Characters of a passage at most, about 200 tokens.

In searches of long answers, 400 and 5,000 characters found 4 and 2 % less within 1,000 tokens.
"""

_MAX_PASSAGES = (1 << 10) - 1  # passages of a turn at most: ten bits of an id hold their number
_ENOUGH = LONGEST // 2  # characters from which on a passage ends with its paragraph

_Spans: TypeAlias = list[tuple[int, int]]

_SPEAKER = re.compile(r"\s*([^\W\d_a-z][\w'’-]*(?: [^\W\d_a-z][\w'’-]*){0,2})[:：]\s")
"""A speaker in a transcript: up to three words that do not begin with a small letter, a colon."""

_BLOB = re.compile(r"[\w+/=-]{400,}", re.ASCII)  # encoded data: no word is that long
_ENDS = re.compile(r"(?<=[.!?。！？])\s+")  # the space after a sentence


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of the text of message number `message`, from character `begin` on.

    `user`: the user wrote it. `only_query`: it has no terms but those that its turn searched for.
    """

    message: int
    begin: int
    text: str
    speaker: str = field(default="", kw_only=True)
    user: bool = field(default=False, kw_only=True)
    only_query: bool = field(default=False, kw_only=True)

    @property
    def asks(self) -> bool:
        """Whether the user only asks here, so that the passage answers no question."""
        words = self.text[len(self.speaker) + 1 :] if self._begins_with_speaker else self.text
        sentences = [*filter(None, _ENDS.split(words.strip()))]
        only_asks = self.only_query or all(map(is_question, sentences))
        return self.user and bool(sentences) and only_asks

    @property
    def searched(self) -> str:
        """The text to index: a later passage of a message needs the name of its speaker too."""
        if self._begins_with_speaker or not self.speaker:
            return self.text
        return f"{self.speaker}: {self.text}"

    @property
    def _begins_with_speaker(self) -> bool:
        return bool(self.speaker) and self.text.lstrip().startswith(self.speaker)


def passages(messages: Sequence[BaseMessage]) -> list[Passage]:
    """Return at most 1,023 passages of a turn; of a larger one results have longer passages.

    >>> [piece.text for piece in passages([HumanMessage("Which port?")])]
    ['Which port?']
    """
    queries = set[str]()
    for call in chain.from_iterable(map(_calls, messages)):
        args = call.get("args")
        query = args.get("query") if isinstance(args, Mapping) else None
        if call.get("name") == "search_efforts" and isinstance(query, str):
            queries.update(terms(query))
    texts = [_searchable(message) for message in messages]
    results = [message.type == "tool" for message in messages]
    pieces = []
    for number, places in enumerate(_few([[*passage_spans(text)] for text in texts], results)):
        message, text = messages[number], texts[number]
        user, name = message.type == "human", message.name
        author = name if isinstance(name, str) and not results[number] else ""
        if prefix := _SPEAKER.match(text):
            author = prefix[1]
        for begin, end in places:
            piece = text[begin:end]
            if piece.strip():
                only = user and bool(queries) and queries.issuperset(terms(piece))
                passage = Passage(number, begin, piece, speaker=author, user=user, only_query=only)
                pieces.append(passage)
    if len(pieces) <= _MAX_PASSAGES:
        return pieces
    last = pieces[_MAX_PASSAGES - 1]
    text = "\n".join(piece.text for piece in pieces[_MAX_PASSAGES - 1 :])
    return [*pieces[: _MAX_PASSAGES - 1], Passage(last.message, last.begin, text, user=last.user)]


def _few(places: list[_Spans], results: Sequence[bool]) -> list[_Spans]:
    """Return the spans of each message, joined until they are 1,023 if possible.

    Those of results first: what people and the assistant say, and the calls, keep theirs.
    """
    for joins in (results, [True] * len(places)):
        there = sum(map(len, places))
        own = sum(len(one) for one, joined in zip(places, joins, strict=True) if not joined)
        room = _MAX_PASSAGES - own - sum(joins)
        if there > _MAX_PASSAGES and room > 0:
            size = ceil((there - own) / room)
            places = [
                [(one[at][0], one[at : at + size][-1][1]) for at in range(0, len(one), size)]
                if joined
                else one
                for one, joined in zip(places, joins, strict=True)
            ]
    return places


def _calls(message: BaseMessage) -> list[Mapping[str, Any]]:
    return [*message.tool_calls] if isinstance(message, AIMessage) else []


def _searchable(message: BaseMessage) -> str:
    """Return the texts and calls of a message without encoded data and the memory's own tools."""
    if message.type == "tool" and message.name in MEMORY_TOOLS:
        return ""
    content = without_blocks(message).content
    if isinstance(content, str) and content and not _calls(message):
        return _BLOB.sub(" ", content)
    blocks = content if isinstance(content, list) else [content or spoken(message)]
    texts = [block_text(one) for one in blocks if kind_of(one) not in {"thought", "call"}]
    texts += [
        f"{call.get('name')} {json.dumps(call.get('args'), ensure_ascii=False)}"
        for call in _calls(message)
        if call.get("name") not in MEMORY_TOOLS
    ]
    return _BLOB.sub(" ", "\n".join(texts))


def passage_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the passages of a text: sentences up to `LONGEST` characters.

    >>> [*passage_spans("It works. Is it fast?")], len([*passage_spans("It works. " * 100)])
    ([(0, 21)], 2)
    """
    begin = end = 0
    for _, next_end in _sentence_spans(text, LONGEST):
        paragraph_ends = text.endswith("\n\n", begin, end) and end - begin >= _ENOUGH
        if end > begin and (paragraph_ends or next_end - begin > LONGEST):
            yield begin, end
            begin = end
        end = next_end
    if end > begin:
        yield begin, end


def _sentence_spans(text: str, longest: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each sentence with the marks and space after it.

    A point within a number, a version or a file name ends no sentence; one longer than `longest`
    characters is cut. Do not change the rule: the archive refers to passages by their number.

    >>> [*_sentence_spans("Use v1.2. Go!", 800)]
    [(0, 10), (10, 13)]
    """
    sentence = (
        rf"(?:[^\n.!?。！？]|(?<=\w)\.(?=\w)){{1,{longest}}}[\n.!?。！？\"'”’)*\s]*"
        r"|[\n.!?。！？]+\s*"
    )
    for match in re.finditer(sentence, text):
        yield match.span()


_EXCERPT = 400  # characters of an excerpt, about 100 tokens
_WORD = 40  # characters by which a cut may be moved so that it cuts no word in two


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A range of what a turn says."""

    begin: int
    end: int


def excerpt(
    messages: Sequence[BaseMessage], number: int, cut: Sequence[Passage] = ()
) -> Excerpt | None:
    """Return the excerpt that shows passage `number` of a turn; None if the log has no such text.

    `cut`: the passages, where they are known.

    A short passage is shown with the next ones, a question with its likely answer; what a tool
    returned ends with its message.

    >>> excerpt([HumanMessage("It works.")], 0)
    Excerpt(begin=0, end=9)
    """
    log, begins = log_text(messages), [offset.text for offset in offsets(messages)]
    begin, end = 0, 0
    pieces: list[Passage] = []
    for piece in (cut or passages(messages))[number:]:
        text = cleaned(piece.text.strip())
        start = log.find(text, max(end, begins[piece.message]))  # the same text may stand before
        room = 2 * LONGEST if pieces and pieces[-1].asks else _EXCERPT
        if start < 0 or (pieces and start + len(text) - begin > room):
            break
        last = pieces[-1].message if pieces else piece.message
        if last != piece.message and messages[last].type == "tool":
            break
        begin, end = (begin if pieces else start), start + len(text)
        pieces.append(piece)
    if not pieces:
        return None
    begin = begin if pieces[0].begin else begins[pieces[0].message]
    return Excerpt(begin, end)


def shown_excerpt(
    messages: Sequence[BaseMessage],
    number: int,
    query: Collection[str],
    cut: Sequence[Passage] = (),
) -> Excerpt:
    """Return the excerpt that shows a passage.

    A passage that the log has in other words, as without encoded data, is shown by what says most
    of the query in one of these messages: its own, and the results that follow.

    >>> calls = [{"name": "look_up", "args": {"key": key}, "id": key} for key in ("host", "port")]
    >>> shown_excerpt([AIMessage("", tool_calls=calls)], 0, {"port"})
    Excerpt(begin=0, end=47)
    """
    if part := excerpt(messages, number, cut):
        return part
    found = (cut or passages(messages))[number : number + 1]
    if not found:
        return best_excerpt(messages, query)
    log, ends, at = log_text(messages), [place.end for place in offsets(messages)], found[0].message
    results = takewhile(lambda n: messages[n].type == "tool", range(at + 1, len(messages)))
    searched = [n for n in results if messages[n].name not in MEMORY_TOOLS]
    best = [
        best_excerpt(messages, query, ends[n - 1] if n else 0, ends[n] - 1) for n in (at, *searched)
    ]
    return max(best, key=lambda one: len({*query}.intersection(terms(log[one.begin : one.end]))))


def best_excerpt(
    messages: Sequence[BaseMessage], query: Collection[str], begin: int = 0, end: int | None = None
) -> Excerpt:
    """Return the excerpt with most terms of a query of a turn, or of a range of it.

    >>> best_excerpt([HumanMessage("Hello. It works.")], {"work"})
    Excerpt(begin=7, end=16)
    """
    first, last = best_piece(log_text(messages)[begin:end], query)
    return Excerpt(begin + first, begin + last)


def best_piece(text: str, query: Collection[str]) -> tuple[int, int]:
    """Return begin and end of the sentences, up to 400 characters, with most terms of a query.

    Of equals the latest wins, since the text after a match tells more than the text before it; if
    nothing matches, the first sentences.

    >>> best_piece("Hello there. The port is 8080. Bye.", {"port"})
    (13, 35)
    """
    found = _Sentences.of(text, query)

    def rank(first: int) -> tuple[int, int, int]:
        said = found.said(first, found.stops[first])
        return len(set(said)), len(said), first

    first = max(found.telling, key=rank, default=0)
    return found.place(text, first, found.stops[first])


def first_piece(text: str, query: str) -> tuple[int, int] | None:
    """Return the first place that says most of a query, None if nothing matches.

    What is said literally counts first, then how many of its terms.

    >>> first_piece("Port 81. Port 80. Now to port 80.", "port 80")
    (9, 17)
    """
    found, literal = _Sentences.of(text, frozenset(query_terms(query))), Literal(query)

    def rank(first: int, stop: int) -> tuple[float, int]:
        begin, end = found.place(text, first, stop)
        return literal.share(text[begin:end]), len(set(found.said(first, stop)))

    ranks = {first: rank(first, found.stops[first]) for first in found.telling}
    if not ranks:
        return None
    most = max(ranks.values())
    first = next(first for first, one in ranks.items() if one == most)
    # From the last sentence from which on a piece says it all, to the first one with which it does.
    stops = range(first + 1, found.stops[first] + 1)
    stop = next(stop for stop in stops if rank(first, stop) == most)
    first = max(first for first in ranks if first < stop and rank(first, stop) == most)
    return found.place(text, first, stop)


@dataclass(frozen=True, slots=True)
class _Sentences:
    """The sentences of a text, the terms of a query in each, and where a piece from each on stops.

    A piece has at most 400 characters, or is one sentence.
    """

    spans: _Spans
    hits: list[list[str]]
    stops: list[int]

    @classmethod
    def of(cls, text: str, query: Collection[str]) -> "_Sentences":
        every = _sentence_spans(text, _EXCERPT)
        spans = [(begin, end) for begin, end in every if text[begin:end].strip()] or [(0, 0)]
        said = (terms(text[begin:end]) for begin, end in spans)
        ends = [end for _, end in spans]
        stops = [
            max(at, bisect_right(ends, begin + _EXCERPT)) for at, (begin, _) in enumerate(spans, 1)
        ]
        return cls(spans, [[term for term in one if term in query] for one in said], stops)

    @property
    def telling(self) -> Iterator[int]:
        """The numbers of the sentences that say a term of the query."""
        return (number for number, said in enumerate(self.hits) if said)

    def said(self, first: int, stop: int) -> list[str]:
        return [*chain.from_iterable(self.hits[first:stop])]

    def place(self, text: str, first: int, stop: int) -> tuple[int, int]:
        """Return begin and end of sentences without the space around them."""
        begin, end = self.spans[first][0], self.spans[stop - 1][1]
        words = text[begin:end]
        return end - len(words.lstrip()), begin + len(words.rstrip())


def word_end(text: str, end: int) -> int:
    """Return where the last whole word ends at or before a position; the position if none is near.

    >>> word_end("one two three", 9), word_end("one two three", 7)
    (7, 7)
    """
    space = max(text.rfind(space, max(0, end - _WORD), end + 1) for space in " \n")
    return space if space > 0 else end


def word_begin(text: str, begin: int) -> int:
    """Return where the next whole word begins at or after a position; the position if none is near.

    >>> word_begin("one two three", 5), word_begin("one two three", 8)
    (8, 8)
    """
    spaces = [text.find(space, begin - 1, begin + _WORD) for space in " \n"] if begin else []
    return min((space + 1 for space in spaces if space >= 0), default=begin)
