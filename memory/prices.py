"""What attachments cost in tokens: one price for each kind, whatever the model.

The prices are upper ones for usual sizes, from the providers' public rules. No bill was compared
with them.
"""

from collections.abc import Callable, Mapping
from math import ceil
from typing import TypeAlias

from .media import Attachment

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


def price(one: Attachment) -> int:
    """Return the tokens of an attachment; pages and seconds not known are guessed from its bytes.

    >>> price(Attachment("image", pixels=(300, 200))), price(Attachment("image"))
    (80, 1600)
    >>> price(Attachment("file", "application/pdf", pages=2)), price(Attachment("audio", seconds=9))
    (4000, 288)
    """
    if one.kind == "image":
        pixels = one.pixels[0] * one.pixels[1]
        is_small = 0 < pixels < _SMALL_IMAGE
        return ceil(pixels / _PIXELS_PER_TOKEN) if is_small else PRICES["image"][0]
    if one.kind in _BYTES_PER_SECOND:
        usual = one.size / _BYTES_PER_SECOND[one.kind] or _UNKNOWN_SECONDS
        return max(1, ceil((one.seconds or usual) * PRICES[f"second of {one.kind}"][0]))
    pages = one.pages or ceil(one.size / _BYTES_PER_PAGE) or _UNKNOWN_PAGES
    return pages * PRICES["page"][0]
