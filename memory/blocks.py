"""The kinds of content blocks, in one table: how each is known, what it costs, who refuses it.

The prices are upper ones for usual sizes, from the providers' public rules. No bill was compared
with them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, TypeAlias

from .media import data_type, facts_of, is_reference_like

_INSIDE = ("source", "file", "image_url", "input_audio", "resource", "extras", "metadata")
"""Fields of a block that may have further fields of the attachment."""

_DATA = ("base64", "data", "file_data", "blob", "result", "image_url", "url")
_URLS = ("url", "file_url", "file_uri", "uri", "image_url")
_NAMES = ("filename", "file_name", "name", "title")
_TYPES = ("mime_type", "media_type", "mimeType")

_LONGEST = 200  # characters of a name or an address that are shown


@dataclass(frozen=True, slots=True)
class Attachment:
    """An attachment of a message.

    `url` is its address, or the id under which the provider has it. `size` counts bytes. `pixels`
    (width and height), `pages`, `seconds` and `size` are 0 if they are not known. `text` is what it
    says, as far as that can be read.
    """

    kind: str
    mime: str = ""
    name: str = ""
    url: str = ""
    size: int = 0
    pixels: tuple[int, int] = (0, 0)
    pages: int = 0
    seconds: float = 0.0
    text: str = field(default="", repr=False)

    @property
    def is_pdf(self) -> bool:
        """Whether it is a PDF, or a document of a type that is not known, without a text."""
        return self.kind == "file" and (self.mime.endswith("/pdf") or not (self.mime or self.text))

    @property
    def input_kind(self) -> str:
        """The kind as the profile of a model has it, which says what the model takes."""
        return "pdf" if self.is_pdf else self.kind

    def __str__(self) -> str:
        """Name it in one line: kind, name, address, type and size.

        >>> str(Attachment("file", "application/pdf", "lease.pdf", size=20_480, pages=2))
        'file lease.pdf, application/pdf, 20 KB, 2 pages'
        """
        width, height = self.pixels
        said = [
            " ".join(filter(None, (self.kind, self.name or self.url))),
            self.url if self.name else "",
            self.mime,
            _size(self.size),
            f"{width} x {height} pixels" if width else "",
            f"{self.pages} page{'s' * (self.pages != 1)}" if self.pages else "",
            f"{self.seconds:.0f} seconds" if self.seconds else "",
        ]
        return ", ".join(filter(None, said))


AttachmentPrice: TypeAlias = Callable[[Attachment], int | None]
"""A function from an attachment to its tokens, None for those of the table."""

PRICES: Mapping[str, tuple[int, str]] = {
    "image": (1_600, "platform.claude.com/docs/en/build-with-claude/vision, November 2026"),
    "page": (2_000, "platform.claude.com/docs/en/build-with-claude/pdf-support, November 2026"),
    "second of audio": (32, "ai.google.dev/gemini-api/docs/tokens, November 2026"),
    "second of video": (300, "ai.google.dev/gemini-api/docs/tokens, November 2026"),
}
"""Tokens, and the source with its date. Any other file costs its text."""

_SMALL_IMAGE, _PIXELS_PER_TOKEN = 200_000, 750
"""Pixels below which an image costs its pixels, and those of a token (source: as of an image)."""

_BYTES_PER_PAGE = 50_000
"""Bytes of a page of a PDF: more in scans, fewer in text alone."""

_BYTES_PER_SECOND: Mapping[str, int] = {"audio": 16_000, "video": 125_000}
"""Bytes of a second of sound (128 kbit/s) and of video (1 Mbit/s)."""

_UNKNOWN_PAGES, _UNKNOWN_SECONDS = 2, 30.0
"""The size of what a message has by address or id alone."""


_Count: TypeAlias = Callable[[str], int]


def _of_image(one: Attachment, _: _Count) -> int:
    pixels = one.pixels[0] * one.pixels[1]
    is_small = 0 < pixels < _SMALL_IMAGE
    return ceil(pixels / _PIXELS_PER_TOKEN) if is_small else PRICES["image"][0]


def _of_file(one: Attachment, count: _Count) -> int:
    if one.text and not one.is_pdf:
        return count(one.text)
    pages = one.pages or ceil(one.size / _BYTES_PER_PAGE) or _UNKNOWN_PAGES
    return pages * PRICES["page"][0]


def _of_seconds(one: Attachment, _: _Count) -> int:
    usual = one.size / _BYTES_PER_SECOND[one.kind] or _UNKNOWN_SECONDS
    return max(1, ceil((one.seconds or usual) * PRICES[f"second of {one.kind}"][0]))


@dataclass(frozen=True, slots=True)
class BlockKind:
    """A kind of content blocks.

    `types` are those of its blocks in the forms of LangChain, OpenAI's chat and Responses,
    Anthropic, Gemini and MCP. `price` returns the tokens of an attachment, None: the block counts
    as its JSON. A model refuses it in a message by `asked`, in a tool's result by `in_results`:
    entries of the model's profile that are false. In a text stands `[type]` for a block, and what
    it says follows if it `speaks`.
    """

    types: tuple[str, ...] = ()
    price: Callable[[Attachment, _Count], int] | None = None
    asked: tuple[str, ...] = ()
    in_results: tuple[str, ...] = ()
    speaks: bool = True


KINDS: Mapping[str, BlockKind] = {
    "text": BlockKind(("text", "output_text")),
    "call": BlockKind(
        ("tool_use", "tool_call", "invalid_tool_call", "function_call"), speaks=False
    ),
    "thought": BlockKind(("thinking", "redacted_thinking", "reasoning"), speaks=False),
    "image": BlockKind(
        ("image", "image_url", "input_image", "image_generation_call"),
        *(_of_image, ("image_inputs",), ("image_tool_message",)),
    ),
    "file": BlockKind(
        (
            *("file", "input_file", "document", "text-plain", "resource"),
            *("resource_link", "media", "container_upload"),
        ),
        _of_file,
    ),
    "pdf": BlockKind((), None, ("pdf_inputs",), ("pdf_tool_message",)),  # a file, by its data
    "audio": BlockKind(("audio", "input_audio", "audio_url"), _of_seconds, ("audio_inputs",)),
    "video": BlockKind(("video", "video_url", "input_video"), _of_seconds, ("video_inputs",)),
    "other": BlockKind(),
}

_KIND_OF = {one: name for name, kind in KINDS.items() for one in kind.types}


def kind_of(block: Any) -> str:
    """Return the kind of a content block, whatever a client sent as its type.

    >>> kind_of({"type": "tool_use", "name": "look_up"}), kind_of("It works."), kind_of({})
    ('call', 'text', 'other')
    """
    if isinstance(block, str):
        return "text"
    return _KIND_OF.get(str(block.get("type")), "other") if isinstance(block, Mapping) else "other"


def may_have_file(block: Any) -> bool:
    """Tell whether a content block may be an attachment, also of a kind that nobody knows yet."""
    return kind_of(block) not in {"text", "thought", "call"}


def price(one: Attachment, count: _Count) -> int:
    """Return the tokens of an attachment; pages and seconds not known are guessed from its bytes.

    >>> price(Attachment("image", pixels=(300, 200)), len), price(Attachment("image"), len)
    (80, 1600)
    >>> price(Attachment("file", "application/pdf", pages=2), len)
    4000
    """
    of_kind = KINDS[one.kind].price
    return of_kind(one, count) if of_kind else 0


def refused_by(profile: Mapping[str, Any]) -> frozenset[str]:
    """Return the kinds of attachments that a model does not take, by its profile.

    >>> sorted(refused_by({"image_inputs": True, "image_tool_message": False}))
    ['image of a tool']
    """
    refusing = {key for key, value in profile.items() if value is False}
    asked = {name for name, kind in KINDS.items() if refusing & {*kind.asked}}
    in_results = {name for name, kind in KINDS.items() if refusing & {*kind.in_results}}
    return frozenset(asked | {f"{name} of a tool" for name in in_results})


def attachment(block: Any) -> Attachment | None:
    """Return the attachment that a content block is, None if it is none.

    >>> str(attachment({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}))
    'image https://example.org/a.png'
    """
    kind = kind_of(block)
    if not KINDS[kind].price:
        return None
    fields: dict[str, Any] = {**block}
    for inner in map(block.get, _INSIDE):  # what stands in a block comes first
        if isinstance(inner, Mapping) and not is_reference_like(inner):
            fields |= inner
    data = next((fields[key] for key in _DATA if _is_data(key, fields.get(key))), None)
    facts = facts_of(data)
    mime = _first(fields, _TYPES) or data_type(data) or str(facts.get("mime", ""))
    audio = fields.get("format")
    if not mime and kind == "audio" and isinstance(audio, str):
        mime = f"audio/{audio}"
    if kind == "file" and (main := mime.partition("/")[0]) in {"image", "audio", "video"}:
        kind = main
    said, parts = fields.get("text"), fields.get("content")
    if not isinstance(said, str) and isinstance(parts, list):  # Anthropic's source of blocks
        said = "\n".join(str(one.get("text", "")) for one in parts if isinstance(one, Mapping))
    elif not isinstance(said, str):
        said = str(facts.get("text", "")) if kind == "file" else ""
    return Attachment(
        kind,
        mime,
        _shown(_first(fields, _NAMES)),
        _shown(_address(fields)),
        int(facts.get("bytes", 0)) or len(said.encode("utf-8", "replace")),
        tuple(facts.get("pixels", (0, 0))),
        int(facts.get("pages", 0)),
        float(facts.get("seconds", 0.0)),
        said,
    )


def _is_data(key: str, value: Any) -> bool:
    if isinstance(value, Mapping):
        return is_reference_like(value)
    is_address = key in _URLS and isinstance(value, str) and not value.startswith("data:")
    return isinstance(value, str) and bool(value) and not is_address


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    values = (fields.get(name) for name in names)
    return next((value for value in values if isinstance(value, str) and value), "")


def _address(fields: Mapping[str, Any]) -> str:
    urls = (fields.get(name) for name in _URLS)
    found = (url for url in urls if isinstance(url, str) and not url.startswith("data:"))
    own_id = fields.get("id") if fields.get("source_type") == "id" else fields.get("file_id")
    return next((url for url in found if url), str(own_id or ""))


def _shown(text: str) -> str:
    """Return a name in one line, as it cannot end the brackets that it stands in."""
    line = " ".join(text.split()).replace("[", "(").replace("]", ")")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def _size(size: int) -> str:
    if not size:
        return ""
    kilobytes = size // 1_024
    return f"{kilobytes:,} KB" if kilobytes else f"{size:,} bytes"
