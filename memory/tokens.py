"""Counting tokens as o200k_base does, and cutting texts to a number of them.

Tools are counted as OpenAI checked against its API (OpenAI cookbook, "How to count tokens with
tiktoken", section 7: `num_tokens_for_tools`, gpt-4o). That handles flat parameters only: here
nested ones count like flat ones and other keywords as compact JSON, an upper bound. The vocabulary
is shipped: nothing uses the network or a cache on disk.
"""

import hashlib
import re
from binascii import a2b_base64
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import chain, repeat
from typing import Any, TypeAlias

import cachetools
from cachetools import LRUCache
from langchain_core.messages import AIMessage, BaseMessage
from tiktoken import Encoding

from .attachments import references, without_facts
from .blocks import AttachmentPrice, attachment, kind_of, price
from .errors import EbbtideError
from .locks import CACHES
from .messages import arguments, compact, thoughts_beside

_FUNCTION = 7  # tokens around the name and description of a function
_PROPERTIES = 3  # tokens around all the parameters of an object that has any
_PROPERTY = 3  # tokens around one parameter
_CHOICE = 3  # tokens between two values of an enumeration
_NESTED = 1  # tokens around an alternative or the items of an array: a bar, or brackets

# The keywords that hold further schemas, and all keywords that are not counted as JSON.
_NESTING = ("items", "anyOf", "oneOf", "allOf")
_RENDERED = frozenset({"type", "description", "enum", "properties", "required", *_NESTING})


def pieces(schema: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield each text of a tool, a bare function or OpenAI's envelope, after the tokens around it.

    >>> size = {"type": "string", "description": "One of two.", "enum": ["S", "XL"]}
    >>> parameters = {"type": "object", "properties": {"size": size}}
    >>> list(pieces({"name": "order", "description": "Order it.", "parameters": parameters}))
    [(7, 'order:Order it'), (6, 'size:string:One of two'), (0, 'S'), (3, 'XL')]
    """
    function = schema.get("function", schema)
    yield _FUNCTION, f"{function.get('name') or ''}:{_description(function)}"
    yield from _nested(function.get("parameters"))


def _nested(schema: Any) -> Iterator[tuple[int, str]]:
    if not isinstance(schema, Mapping):
        return
    around, properties = _PROPERTIES, schema.get("properties")
    for name, value in properties.items() if isinstance(properties, Mapping) else ():
        yield around + _PROPERTY, f"{name}:{_type_and_description(value)}"
        yield from _nested(value)
        around = 0
    for key in _NESTING:
        value = schema.get(key, ())
        for part in value if isinstance(value, list | tuple) else [value]:
            yield _NESTED, _type_and_description(part)
            yield from _nested(part)
    for number, value in enumerate(schema.get("enum") or ()):
        yield _CHOICE if number else 0, str(value)
    others = {key: value for key, value in schema.items() if key not in _RENDERED}
    if isinstance(others.get("additionalProperties"), bool):  # OpenAI renders no such flag
        del others["additionalProperties"]
    if others:
        yield 0, compact(others)


def _type_and_description(schema: Any) -> str:
    """Return the type and description of a schema; a boolean schema as that word."""
    if not isinstance(schema, Mapping):
        return str(schema)
    kind = schema.get("type") or ""
    kinds = kind if isinstance(kind, str) else " | ".join(map(str, kind))
    return f"{kinds}:{_description(schema)}"


def _description(schema: Mapping[str, Any]) -> str:
    return str(schema.get("description") or "").removesuffix(".")


TokenCounter: TypeAlias = Callable[[str], int]
"""Any function from a text to a number of tokens."""

MESSAGE_OVERHEAD = 4
"""Tokens around each message: three and the role, which is one token (source: `count_message`)."""

_NAME_OVERHEAD = 1  # tokens around the name of a message
_RESULT_OVERHEAD = 3  # tokens of the id that joins a tool's result to its call

REPLY_OVERHEAD = 3
"""Tokens that begin the reply, once in each request."""

_TOOLS_OVERHEAD = 12  # tokens around all the tools of a request that has any (source: `pieces`)

# As published by OpenAI; the digest is checked since another file would count differently.
_VOCABULARY = "o200k_base.tiktoken"
_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
_SPECIAL = {"<|endoftext|>": 199_999, "<|endofprompt|>": 200_018}
"""The numbers of the special tokens, as `tiktoken_ext.openai_public` has them."""

# The pattern by which `tiktoken_ext.openai_public` splits a text before encoding it.
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_UPPER, _LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_PATTERN = "|".join(
    (
        rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]*[{_LOWER}]+{_CONTRACTION}",
        rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]+[{_LOWER}]*{_CONTRACTION}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
_SLICE = 200_000  # characters encoded at once: tiktoken fails on longer runs of white space

_SEAM = re.compile(r"(?<=[^\W_])(?=[\s,.;:!?()，。、；：！？])")
"""The end of a word before space or punctuation: no token spans it."""

_HARD_CUT = 8  # tokens added for a cut within a word: twice the most that 200,000 random cuts hid
_CACHED = 16_384  # texts whose counts are cached: those of some hundred turns

_OPAQUE = re.compile(r"[A-Za-z0-9+/=_-]{256,}")
"""What nobody reads as prose: ciphertext, signatures, data."""

_BYTES_PER_TOKEN = 4
"""Bytes of an opaque block for each of its tokens: no provider says more, and prose has as many."""

_SENTENCE = re.compile(
    r"(?m:^[ \t]*\d+\.(?=\s))|"
    r"(?P<end>(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s|$)|[。！？｡]+[”’」』）】]*|\n)"
)
"""A sentence's end, or a list number, which is none; possessive, so a run of marks is read once."""

_WORD = re.compile(r"(?<=\S)(?=\s)")  # the end of a word, where a text is cut if no sentence fits


def cached(count: TokenCounter, size: int = _CACHED) -> TokenCounter:
    """Return a counter that caches its last `size` results, by digest since texts may be long.

    >>> asked: list[str] = []
    >>> counter = cached(lambda text: asked.append(text) or 3)
    >>> counter("It rains."), counter("It rains."), asked
    (3, 3, ['It rains.'])
    """

    def digest(text: str) -> bytes:
        return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()

    results = LRUCache[bytes, int](size)
    return cachetools.cached(results, digest, CACHES)(count)


@dataclass(frozen=True, slots=True)
class PricedCounter:
    """A counter of texts with the application's own price of attachments."""

    count: TokenCounter
    price: AttachmentPrice

    def __call__(self, text: str) -> int:
        """Return the tokens of a text."""
        return self.count(text)


def price_of(block: Mapping[str, Any], count: TokenCounter) -> int | None:
    """Return the tokens of a block that is an attachment, None if it is none."""
    one = attachment(block)
    if one is None:
        return None
    own = count.price(one) if isinstance(count, PricedCounter) else None
    return price(one, count) if own is None else own


def exact(text: str) -> int:
    """Return the number of `o200k_base` tokens of `text`; names of special tokens are plain text.

    Texts over 200,000 characters are counted in slices. Slices end after a word, which leaves the
    count exact; where no word ends, `_HARD_CUT` is added, under 1 % of any slice.

    >>> exact("Nothing is lost.")
    4
    """
    with CACHES:  # so that threads which count at once read the vocabulary once
        encoding = _load()
    tokens = start = 0
    while start < len(text):
        end = start + _SLICE
        if end < len(text):
            seams = [match.start() for match in _SEAM.finditer(text, end - _SLICE // 10, end)]
            end, extra = (seams[-1], 0) if seams else (end, _HARD_CUT)
            tokens += extra
        tokens += len(encoding.encode(text[start:end], disallowed_special=()))
        start = end
    return tokens


count: TokenCounter = cached(exact)
"""The default counter: `exact`, cached."""


def count_message(message: BaseMessage, count: TokenCounter = count) -> int:
    """Return the tokens of a message: text, name, tool calls and overhead.

    Source: OpenAI cookbook, "How to count tokens with tiktoken", section 6; for calls and results
    `langchain_openai`, `get_num_tokens_from_messages`: a call is its name and its arguments.
    Attachments have a price by kind (`memory/blocks.py`), other blocks, and reasoning beside the
    content, count as JSON, and what is opaque in them by its bytes. A model sees no ids of calls
    and no names of tool results.

    >>> count_message(HumanMessage("one two"), lambda s: len(s.split()))
    6
    """
    content, tokens = message.content or (), MESSAGE_OVERHEAD
    called: Sequence[Mapping[str, Any]] = ()
    if isinstance(message, AIMessage):
        called = (*message.tool_calls, *message.invalid_tool_calls)
    for block in [content] if isinstance(content, str) else content:
        if isinstance(block, str):
            tokens += count(block)
        elif not (called and kind_of(block) == "call"):  # providers repeat calls as blocks
            tokens += _count_block(block, count)
    for call in called:
        tokens += count(str(call.get("name") or "")) + count(arguments(call))
    for thought in thoughts_beside(message) if message.additional_kwargs else ():
        tokens += _count_json(thought, count)
    if message.type == "tool":
        tokens += _RESULT_OVERHEAD
    elif message.name:
        tokens += _NAME_OVERHEAD + count(message.name)
    return tokens


def count_messages(messages: Iterable[BaseMessage], count: TokenCounter = count) -> int:
    """Return the sum of the tokens of messages.

    >>> count_messages([HumanMessage("Hello.")] * 2, len)
    20
    """
    return sum(map(count_message, messages, repeat(count)))


def count_tools(schemas: Sequence[Mapping[str, Any]], count: TokenCounter = count) -> int:
    """Return the tokens of tool schemas as OpenAI renders them for a model (see `pieces`).

    >>> count_tools([{"name": "a"}, {"name": "b"}], lambda s: 1)
    28
    """
    if not schemas:
        return 0
    texts = chain.from_iterable(map(pieces, schemas))
    return _TOOLS_OVERHEAD + sum(around + count(text) for around, text in texts)


def cut_at_sentence(text: str, limit: int, count: TokenCounter = count) -> str:
    """Return the longest prefix of whole sentences within `limit` tokens.

    A first sentence that is too long is cut after a word, a first word that is too long inside it,
    and ends in "…". If nothing fits the result is empty.

    >>> cut_at_sentence("It works. It is fast. It is small.", 5, lambda s: len(s.split()))
    'It works. It is fast.'
    """
    text = text.strip()
    sentences = [*(end.end() for end in _SENTENCE.finditer(text) if end["end"]), len(text)]
    if end := _longest(text, sentences, lambda prefix: count(prefix) <= limit):
        return text[:end].rstrip()
    first = text[: sentences[0]]
    words = [match.end() for match in _WORD.finditer(first)]
    for ends in (words, range(1, len(first) + 1)):
        if end := _longest(first, ends, lambda prefix: count(prefix + "…") <= limit):
            return first[:end] + "…"
    return ""


def cut_marked(text: str, limit: int, count: TokenCounter) -> str:
    """Return the text if it has at most `limit` tokens, else its beginning and an ellipsis.

    >>> cut_marked("It rains. It snows.", 3, lambda text: len(text.split()))
    'It rains. …'
    """
    if count(text) <= limit:
        return text
    cut = cut_at_sentence(text, limit, count)
    marked = f"{cut_at_sentence(text, limit - 1, count)} …" if limit > 1 else cut
    return cut if cut.endswith("…") or count(marked) > limit else marked


def _longest(text: str, ends: Sequence[int], fits: Callable[[str], bool]) -> int:
    """Return the last of `ends` whose prefix fits, 0 if none."""
    number = 1  # doubled before it is bisected, so that no prefix counted is much too long
    while number <= len(ends) and fits(text[: ends[number - 1]]):
        number *= 2
    low, high = number // 2, min(number - 1, len(ends))
    number = bisect_left(ends, 1, low, high, key=lambda end: not fits(text[:end]))
    return ends[number - 1] if number else 0


def _count_block(block: Any, count: TokenCounter) -> int:
    """Return the tokens of a content block: of a text, an attachment, or its JSON."""
    kind = block.get("type")
    if kind == "text":
        return count(str(block.get("text", "")))
    priced = price_of(block, count)
    if priced is not None:
        return priced
    return _count_json(without_facts([block])[0], count) + (
        sum(references([[block]]).values()) // _BYTES_PER_TOKEN
    )


def _count_json(value: Any, count: TokenCounter) -> int:
    """Return the tokens of a value as JSON; a quarter of the bytes of what is opaque in it."""
    readable = _OPAQUE.split(said := compact(value))
    opaque = len(said) - sum(map(len, readable))
    return count(" ".join(readable)) + opaque // _BYTES_PER_TOKEN


@cache
def _load() -> Encoding:
    """Read the shipped vocabulary; `tiktoken.get_encoding` would download it.

    Each line has a token and its rank, which is the number of the line; the digest ensures it.
    """
    data = files(__package__).joinpath(_VOCABULARY).read_bytes()
    if hashlib.sha256(data).hexdigest() != _SHA256:
        raise EbbtideError(f"the vocabulary {_VOCABULARY!r} is damaged: install ebbtide again")
    ranks = {token: rank for rank, token in enumerate(map(a2b_base64, data.split()[::2]))}
    return Encoding("o200k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens=_SPECIAL)


_GUESSES = 16
"""Guesses of a length before it is bisected: prose, code and data needed 10 at most.

Where the density of tokens changes suddenly, guesses alone would need hundreds of counts.
"""

_TOKEN = 16  # characters tried first for each token allowed: prose has four or five


def fit(text: str, limit: int, count: TokenCounter) -> int:
    """Return how many leading characters of `text` fit into `limit` tokens, at least one.

    Each guess is scaled by how far the last one was off; after `_GUESSES` the rest is bisected.

    >>> fit("one two three", 2, lambda text: len(text.split()))
    8
    """
    size = min(len(text), limit * _TOKEN)
    for _ in range(_GUESSES):
        if size <= 1 or (counted := count(text[:size])) <= limit:
            return max(size, 1)
        size = max(1, min(size - 1, size * limit // counted))
    return max(1, bisect_right(range(1, size + 1), limit, key=lambda end: count(text[:end])))


def fit_end(text: str, limit: int, count: TokenCounter) -> int:
    """Return where the longest end of `text` within `limit` tokens begins, at least one character.

    >>> fit_end("one two three", 2, lambda text: len(text.split()))
    5
    """
    return len(text) - fit(text[::-1], limit, lambda backwards: count(backwards[::-1]))


def slices(text: str, limit: int, count: TokenCounter) -> list[str]:
    r"""Cut `text` into slices of at most `limit` tokens, at line ends or else between words.

    >>> slices("a b\nc d e", 3, lambda text: len(text.split()))
    ['a b\n', 'c d e']
    """
    parts = []
    while text:
        end = fit(text, limit, count)
        if end < len(text):
            line = text.rfind("\n", end // 2, end) + 1
            end = line or max(text.rfind(" ", end // 2, end + 1), 0) or end
        parts.append(text[:end])
        text = text[end:]
    return parts
