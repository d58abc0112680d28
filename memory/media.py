"""What the data of a file tell: its type, size and text.

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
from functools import lru_cache
from typing import Any

from cachetools import LRUCache, cached

from .locks import CACHES

_log = logging.getLogger("ebbtide.attachments")

_DATA_URL = re.compile("data:([^;,]*)[^,]*;base64,")

_MOST_PAGES = 500
"""Pages of a PDF whose text is read: of some thousand it takes a minute."""

_MOST = 1e12
"""Bytes, pages and seconds that a file has at most: more cannot be counted with."""

_MEASURED = 256
"""Files whose facts are cached: those of a few long conversations."""

_EXTRA = ("imagesize", "pypdf", "tinytag")


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
    return _facts(data) if isinstance(data, str) else {}


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


def data_type(data: Any) -> str:
    """Return the media type that a URL with data names, "" for anything else."""
    url = _DATA_URL.match(data[:200]) if isinstance(data, str) else None
    return url[1] if url else ""


def is_pdf(data: str) -> bool:
    """Tell whether base64, or a URL with it, is a PDF.

    >>> is_pdf("JVBERi0xLjc="), is_pdf("data:application/pdf;base64,JVBERi0"), is_pdf("QQ==")
    (True, True, False)
    """
    return data.startswith("JVBER") or ";base64,JVBER" in data[:100]


def is_reference_like(value: Mapping[str, Any]) -> bool:
    """Tell whether a value stands for data that are stored elsewhere."""
    return "ebbtide_attachment" in value


def decoded(data: str) -> bytes:
    """Return the bytes of base64 or of a URL with them; text that is neither as it stands."""
    url = _DATA_URL.match(data[:200])
    try:
        return base64.b64decode(data[url.end() :] if url else data, validate=True)
    except (binascii.Error, ValueError):
        return data.encode("utf-8", "replace")


@cached(LRUCache[bytes, Mapping[str, Any]](_MEASURED), _digest, CACHES)
def _facts(data: str) -> Mapping[str, Any]:
    content = decoded(data)
    facts: dict[str, Any] = {"bytes": len(content)}
    for read in (_pdf_facts, _image_facts, _sound_facts, _text_facts):
        try:
            found = dict(read(content))
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
