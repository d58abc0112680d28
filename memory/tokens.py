"""Counting tokens as o200k_base does, and cutting texts to a number of them.

The arithmetic is what OpenAI published and checked against its API: `num_tokens_for_tools` for
gpt-4o (OpenAI cookbook, "How to count tokens with tiktoken", section 7). It knows flat parameters
only: here what stands inside others counts as parameters do, and other keywords as compact JSON,
which is a bound. The vocabulary is shipped; nothing uses the network or a cache on disk.
"""

import base64
import hashlib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from threading import Lock
from typing import Any, TypeAlias

from tiktoken import Encoding

from .lately import Lately
from .messages import Message, arguments, calls, compact, is_call

_FUNCTION = 7
"""Tokens around the name and description of a function."""

_PROPERTIES = 3
"""Tokens around all the parameters of an object that has any."""

_PROPERTY = 3
"""Tokens around one parameter."""

_CHOICE = 3
"""Tokens between two values of an enumeration."""

_NESTED = 1
"""Tokens around an alternative or the items of an array: a bar, or brackets."""

# What holds schemas of its own, and all that is shown in a form of its own.
_INSIDE = ("items", "anyOf", "oneOf", "allOf")
_READ = frozenset({"type", "description", "enum", "properties", "required", *_INSIDE})


def pieces(schema: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield the texts of a tool, in OpenAI's form or the bare function, and the tokens around each.

    >>> size = {"type": "string", "description": "One of two.", "enum": ["S", "XL"]}
    >>> parameters = {"type": "object", "properties": {"size": size}}
    >>> list(pieces({"name": "order", "description": "Order it.", "parameters": parameters}))
    [(7, 'order:Order it'), (6, 'size:string:One of two'), (0, 'S'), (3, 'XL')]
    """
    function = schema.get("function", schema)
    yield _FUNCTION, f"{function.get('name') or ''}:{_description(function)}"
    yield from _inside(function.get("parameters"))


def _inside(schema: Any) -> Iterator[tuple[int, str]]:
    """Yield what stands in a schema beside its own type and description."""
    if not isinstance(schema, Mapping):
        return
    around, properties = _PROPERTIES, schema.get("properties")
    for name, value in properties.items() if isinstance(properties, Mapping) else ():
        yield around + _PROPERTY, f"{name}:{_shown(value)}"
        yield from _inside(value)
        around = 0
    for key in _INSIDE:
        value = schema.get(key, ())
        for part in value if isinstance(value, list | tuple) else [value]:
            yield _NESTED, _shown(part)
            yield from _inside(part)
    for number, value in enumerate(schema.get("enum") or ()):
        yield _CHOICE if number else 0, str(value)
    rest = {key: value for key, value in schema.items() if key not in _READ}
    if isinstance(rest.get("additionalProperties"), bool):
        del rest["additionalProperties"]
    if rest:
        yield 0, compact(rest)


def _shown(schema: Any) -> str:
    """Return the type and description of a schema; of `true` and `false`, the word."""
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

_NAME_OVERHEAD = 1
"""Tokens around the name of a message."""

_RESULT_OVERHEAD = 3
"""Tokens of the id that joins a tool's result to its call."""

REPLY_OVERHEAD = 3
"""Tokens that begin the reply, once in each request."""

_TOOLS_OVERHEAD = 12
"""Tokens around all the tools of a request that has any (source: `pieces`)."""

_IMAGE_TOKENS = 1_445
"""Tokens of one image at most, at OpenAI's high detail: 85 + 170 for each tile of 512 x 512.

An image is scaled to fit into 2048 x 2048 and then to a shorter side of 768, so it has at most
4 x 2 tiles (OpenAI, "Images and vision"; `langchain_openai`, `_count_image_tokens`). It is no bound
for models that are billed otherwise: Anthropic names about 1,600 tokens at most, some of OpenAI's
small models multiply. What a provider reports above the count becomes the thread's safety factor.
"""

_LOW_DETAIL_TOKENS = 85
"""Tokens of one image that is sent with `detail` "low", whatever its size (source as above)."""

# As published by OpenAI; another file would count otherwise.
_VOCABULARY = "o200k_base.tiktoken"
_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
_SPECIAL = {"<|endoftext|>": 199_999, "<|endofprompt|>": 200_018}
"""The numbers of the special tokens, as `tiktoken_ext.openai_public` has them."""

# How `tiktoken_ext.openai_public` divides a text before it is encoded.
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
_SLICE = 200_000
"""Characters that are encoded at once, so that no call of the encoder is long."""

_SEAM = re.compile(r"(?<=[^\W_])(?=[\s,.;:!?()，。、；：！？])")
"""Where a word ends before what belongs to no word: no token spans that."""

_HARD_CUT = 8
"""Tokens that a cut within a word can add, both sides taken together."""

_CACHED = 16_384
"""Texts whose counts are kept: those of some hundred turns."""

_IMAGES = frozenset({"image", "image_url", "input_image"})
"""Content blocks of images: LangChain's own, of OpenAI's chat, of its Responses API."""

_SENTENCE = re.compile(
    r"(?m:^[ \t]*\d+\.(?=\s))|"
    r"(?P<end>(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s|$)|[。！？｡]+[”’」』）】]*|\n)"
)
"""Marks that end no sentence, as in "...x", are passed as a whole, not from each of them anew."""

_WORD = re.compile(r"(?<=\S)(?=\s)")
"""Where a text is cut if it has no sentence that fits."""

_loading = Lock()  # else each of the threads that count first would read the vocabulary


def cached(count: TokenCounter, size: int = _CACHED) -> TokenCounter:
    """Return a counter that remembers the last `size` results by digest, not by text."""
    known: Lately[int] = Lately(size)

    def counter(text: str) -> int:
        key = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
        return known.once(key, partial(count, text))

    return counter


def exact(text: str) -> int:
    """Return the number of `o200k_base` tokens of `text`; names of special tokens are plain text.

    Texts over 200,000 characters are counted in slices, since tiktoken fails on long runs of white
    space. Slices end where a word does, which leaves the count exact; where none ends, eight tokens
    are added: twice what was measured (in 200,000 random cuts the parts had at most four tokens
    less than the whole), and under 1 % of any slice.

    >>> exact("Nothing is lost.")
    4
    """
    with _loading:
        encoding = _load()
    tokens = start = 0
    while start < len(text):
        end = start + _SLICE
        if end < len(text):
            seams = [match.start() for match in _SEAM.finditer(text, end - _SLICE // 10, end)]
            if seams:
                end = seams[-1]
            else:
                tokens += _HARD_CUT
        tokens += len(encoding.encode(text[start:end], disallowed_special=()))
        start = end
    return tokens


count: TokenCounter = cached(exact)
"""The counter in use where none is given: `exact`, remembered."""


def count_message(message: Message, count: TokenCounter = count) -> int:
    """Return the tokens of a message: text, name, tool calls, and what is around them.

    Source: OpenAI cookbook, "How to count tokens with tiktoken", section 6; for calls and results
    `langchain_openai`, `get_num_tokens_from_messages`: a call is its name and its arguments. Blocks
    that are no text or image (sound, files, reasoning) count as JSON, which is a bound. Ids of
    calls and names of tool results are not shown to a model.

    >>> count_message({"type": "human", "data": {"content": "one two"}}, lambda s: len(s.split()))
    6
    """
    data, called = message["data"], calls(message)
    content = data.get("content") or ()
    blocks = [content] if isinstance(content, str) else content
    tokens = MESSAGE_OVERHEAD
    tokens += sum(_count_block(block, count, called=bool(called)) for block in blocks)
    tokens += sum(count(str(call.get("name") or "")) + count(arguments(call)) for call in called)
    if message["type"] == "tool":
        tokens += _RESULT_OVERHEAD
    elif data.get("name"):
        tokens += _NAME_OVERHEAD + count(str(data["name"]))
    return tokens


def count_messages(messages: Iterable[Message], count: TokenCounter = count) -> int:
    """Return the tokens of messages together."""
    return sum(count_message(message, count) for message in messages)


def count_tools(schemas: Sequence[Mapping[str, Any]], count: TokenCounter = count) -> int:
    """Return the tokens of tool schemas as OpenAI shows them to a model (see `pieces`).

    >>> count_tools([{"name": "a"}, {"name": "b"}], lambda s: 1)
    28
    """
    shown = (piece for schema in schemas for piece in pieces(schema))
    tokens = sum(around + count(text) for around, text in shown)
    return _TOOLS_OVERHEAD + tokens if schemas else 0


def cut_at_sentence(text: str, limit: int, count: TokenCounter = count) -> str:
    """Return the longest prefix of whole sentences within `limit` tokens.

    Too long a first sentence is cut after a word, or inside the first word if that is too long, and
    ends in "…". If nothing fits the result is empty.

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
    """Return a text within `limit` tokens, or its beginning and an ellipsis."""
    if count(text) <= limit:
        return text
    cut = cut_at_sentence(text, limit, count)
    marked = f"{cut_at_sentence(text, limit - 1, count)} …" if limit > 1 else cut
    return cut if cut.endswith("…") or count(marked) > limit else marked


def _longest(text: str, ends: Sequence[int], fits: Callable[[str], bool]) -> int:
    """Return the last of `ends` whose prefix fits, 0 if none; long prefixes are tried last."""
    high = 1
    while high <= len(ends) and fits(text[: ends[high - 1]]):
        high *= 2
    low, high = high // 2, min(high, len(ends) + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(text[: ends[middle - 1]]) else (low, middle)
    return ends[low - 1] if low else 0


def _count_block(block: Any, count: TokenCounter, *, called: bool) -> int:
    if isinstance(block, str):
        return count(block)
    kind = block.get("type")
    if kind == "text":
        return count(str(block.get("text", "")))
    if kind in _IMAGES:  # those of type `image` are sent without a detail
        image = block if kind == "input_image" else block.get("image_url")
        low = isinstance(image, Mapping) and image.get("detail") == "low"
        return _LOW_DETAIL_TOKENS if low else _IMAGE_TOKENS
    return 0 if called and is_call(block) else count(compact(block))


@cache
def _load() -> Encoding:
    """Read the shipped vocabulary; `tiktoken.get_encoding` would download it."""
    data = files(__package__).joinpath(_VOCABULARY).read_bytes()
    if hashlib.sha256(data).hexdigest() != _SHA256:
        raise ValueError(f"the vocabulary is damaged (SHA-256 of {_VOCABULARY!r}): install again")
    lines = map(bytes.split, data.splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    return Encoding("o200k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens=_SPECIAL)


_GUESSES = 16
"""Counts by which a length is guessed: 10 were the most that any prose, code or data needed.

Where the density of tokens changes suddenly, guesses come close too slowly, by hundreds of counts.
"""

_TOKEN = 16
"""Characters of a long text that are looked at for each token: prose has four or five of them."""


def fit(text: str, limit: int, count: TokenCounter) -> int:
    """Return how many leading characters of `text` fit into `limit` tokens, at least one.

    It is guessed from how far the last guess was off; if that does not get there, it is searched.

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
    """Return where the end of `text` begins that fits into `limit` tokens, at least one character.

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
