"""Attachments in messages, whatever provider's form they have: kind, name, size, text.

Pixels, pages and seconds are read from the file itself, with the packages of the extra `files`.
Nothing is downloaded: of what a message has by reference alone they are unknown.
"""

import base64
import binascii
import hashlib
import importlib
import io
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from cachetools import LRUCache, cached

from .locks import CACHES

_log = logging.getLogger("ebbtide.attachments")

Kind: TypeAlias = Literal["image", "file", "audio", "video"]

_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("image", "image_url", "input_image", "image_generation_call"), "image"),
    **dict.fromkeys(("file", "input_file", "document", "text-plain", "resource"), "file"),
    **dict.fromkeys(("resource_link", "media", "container_upload"), "file"),
    **dict.fromkeys(("audio", "input_audio", "audio_url"), "audio"),
    **dict.fromkeys(("video", "video_url", "input_video"), "video"),
}
"""The kinds of blocks: of LangChain, OpenAI's chat and Responses, Anthropic, Gemini and MCP."""

_INSIDE = ("source", "file", "image_url", "input_audio", "resource", "extras", "metadata")
"""Fields of a block that may have further fields of the attachment."""

_DATA = ("base64", "data", "file_data", "blob", "result", "image_url", "url")
_URLS = ("url", "file_url", "file_uri", "uri", "image_url")
_NAMES = ("filename", "file_name", "name", "title")
_TYPES = ("mime_type", "media_type", "mimeType")

_DATA_URL = re.compile("data:([^;,]*)[^,]*;base64,")
_LONGEST = 200  # characters of a name or an address that are shown

_MOST_PAGES = 500
"""Pages of a PDF whose text is read: of some thousand it takes a minute."""

_MOST = 1e12
"""Bytes, pages and seconds that a file has at most: more cannot be counted with."""

_MEASURED = 256
"""Files whose facts are cached: those of a few long conversations."""

_EXTRA = ("imagesize", "pypdf", "tinytag")


@dataclass(frozen=True, slots=True)
class Attachment:
    """An attachment of a message.

    `url` is its address, or the id under which the provider has it. `size` counts bytes. `pixels`
    (width and height), `pages`, `seconds` and `size` are 0 if they are not known. `text` is what it
    says, as far as that can be read.
    """

    kind: Kind
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


def attachment(block: Any) -> Attachment | None:
    """Return the attachment that a content block is, None if it is none.

    >>> str(attachment({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}))
    'image https://example.org/a.png'
    """
    if not isinstance(block, Mapping) or not (kind := _KINDS.get(str(block.get("type")))):
        return None
    fields = _fields(block)
    data = next((fields[key] for key in _DATA if _is_data(key, fields.get(key))), None)
    facts = facts_of(data)
    mime = _first(fields, _TYPES) or _data_type(data) or str(facts.get("mime", ""))
    audio = fields.get("format")
    if not mime and kind == "audio" and isinstance(audio, str):
        mime = f"audio/{audio}"
    if kind == "file" and (main := mime.partition("/")[0]) in {"image", "audio", "video"}:
        kind = main  # type: ignore[assignment]  # one of the three
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


def facts_of(data: Any) -> Mapping[str, Any]:
    """Return what is known of the data of a file: bytes, pixels, pages, seconds, text.

    `data` are base64, a URL with them, or a reference that has the facts; facts in a form that
    nothing writes are left out, as a state may have been edited.
    """
    if isinstance(data, Mapping):
        size = data.get("size")
        known = {"bytes": size * 3 // 4} if type(size) is int else {}
        facts = data.get("facts")
        given = facts.items() if isinstance(facts, Mapping) else ()
        return {**known, **{name: value for name, value in given if _is_fact(name, value)}}
    if not isinstance(data, str):
        return {}
    return _measured(data)


def _is_fact(name: str, value: Any) -> bool:
    if name == "pixels":
        sides = value if isinstance(value, list) else []
        return len(sides) == len("xy") and all(
            type(side) is int and 0 < side < _MOST for side in sides
        )
    if name in {"mime", "text"}:
        return isinstance(value, str)
    return type(value) in {int, float} and 0 < value < _MOST


def _digest(data: str) -> bytes:
    return hashlib.blake2b(data.encode("utf-8", "replace"), digest_size=16).digest()


@cached(LRUCache[bytes, Mapping[str, Any]](_MEASURED), _digest, CACHES)
def _measured(data: str) -> Mapping[str, Any]:
    return _facts(_decoded(data))


def is_pdf(data: str) -> bool:
    """Tell whether base64, or a URL with it, is a PDF.

    >>> is_pdf("JVBERi0xLjc="), is_pdf("data:application/pdf;base64,JVBERi0"), is_pdf("QQ==")
    (True, True, False)
    """
    return data.startswith("JVBER") or ";base64,JVBER" in data[:100]


def _fields(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a block, and those of what stands in it, which come first."""
    fields: dict[str, Any] = {**block}
    for key in _INSIDE:
        inner = block.get(key)
        if isinstance(inner, Mapping) and not is_reference_like(inner):
            fields = {**fields, **inner}
    return fields


def is_reference_like(value: Mapping[str, Any]) -> bool:
    """Tell whether a value stands for data that are stored elsewhere."""
    return "ebbtide_attachment" in value


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


def _data_type(data: Any) -> str:
    url = _DATA_URL.match(data[:200]) if isinstance(data, str) else None
    return url[1] if url else ""


def _shown(text: str) -> str:
    """Return a name in one line, as it cannot end the brackets that it stands in."""
    line = " ".join(text.split()).replace("[", "(").replace("]", ")")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def _size(size: int) -> str:
    if not size:
        return ""
    kilobytes = size // 1_024
    return f"{kilobytes:,} KB" if kilobytes else f"{size:,} bytes"


def _decoded(data: str) -> bytes:
    """Return the bytes of base64 or of a URL with them; text that is neither as it stands."""
    url = _DATA_URL.match(data[:200])
    try:
        return base64.b64decode(data[url.end() :] if url else data, validate=True)
    except (binascii.Error, ValueError):
        return data.encode("utf-8", "replace")


def _facts(data: bytes) -> dict[str, Any]:
    facts: dict[str, Any] = {"bytes": len(data)}
    for read in (_pdf_facts, _image_facts, _sound_facts, _text_facts):
        try:
            found = dict(read(data))
        except Exception as error:  # noqa: BLE001 (the packages raise anything for a damaged file)
            _log.debug("an attachment cannot be read: %s: %s", type(error).__name__, error)
            continue
        if found:
            return {**facts, **found}
    return facts


def _pdf_facts(data: bytes) -> Iterator[tuple[str, Any]]:
    if not data.startswith(b"%PDF") or (pypdf := _package("pypdf")) is None:
        return
    yield "mime", "application/pdf"
    pages = pypdf.PdfReader(io.BytesIO(data)).pages
    yield "pages", len(pages)
    texts = (page.extract_text() for _, page in zip(range(_MOST_PAGES), pages, strict=False))
    text = "\n\n".join(f"page {number}: {said}" for number, said in enumerate(texts, 1) if said)
    if text.strip():
        yield "text", text.encode("utf-8", "replace").decode()


def _image_facts(data: bytes) -> Iterator[tuple[str, Any]]:
    if data.startswith(b"%PDF") or (imagesize := _package("imagesize")) is None:
        return
    width, height = imagesize.get(io.BytesIO(data))
    if width > 0 and height > 0:
        yield "pixels", [width, height]


def _sound_facts(data: bytes) -> Iterator[tuple[str, Any]]:
    if data.startswith(b"%PDF") or (tinytag := _package("tinytag")) is None:
        return
    found = tinytag.TinyTag.get(file_obj=io.BytesIO(data), tags=False)
    if found.duration:
        yield "seconds", round(float(found.duration), 1)


def _text_facts(data: bytes) -> Iterator[tuple[str, Any]]:
    if not data.startswith(b"%PDF") and b"\0" not in data:
        yield "text", data.decode()


@lru_cache(maxsize=len(_EXTRA))
def _package(name: str) -> Any:
    """Return a package of the extra `files`, None without it, which is said once."""
    try:
        return importlib.import_module(name)
    except ImportError:
        _log.warning(
            "%s is not installed, so attachments are counted by kilobyte: "
            "pip install 'ebbtide[files]'",
            name,
        )
        return None
