"""What attachments cost in tokens, by the family of the model that reads them.

From the providers' public rules; no provider's bill was compared with them. Where the pixels, the
pages or the seconds are not known they are guessed from the bytes, or a usual size is taken.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil, sqrt
from typing import TypeAlias

from .media import Attachment

AttachmentPrice: TypeAlias = Callable[[Attachment], int | None]
"""A function from an attachment to its tokens, None for those of the table."""

_PIXELS_PER_BYTE = 10
"""Pixels of a photo for each of its bytes: JPEG of middle quality."""

_BYTES_PER_PAGE = 50_000
"""Bytes of a page of a PDF: more in scans, fewer in text alone."""

_BYTES_PER_SECOND: Mapping[str, int] = {"audio": 16_000, "video": 125_000}
"""Bytes of a second of sound (128 kbit/s) and of video (1 Mbit/s)."""

_UNKNOWN_PAGES, _UNKNOWN_SECONDS = 2, 30.0
"""The size of what a message has by address or id alone."""

_LOW_DETAIL = 85
"""Tokens of an image that OpenAI is sent with `detail` "low" (its guide "Images and vision")."""

Pixels: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Rate:
    """What one family of models charges: a row of the table.

    `image` gives the tokens of an image by its pixels, `cap` are those of the largest one. A page
    of a PDF costs `page` tokens of text and `picture` tokens of its picture. `audio` and `video`
    are tokens for each second. `models` matches the names of models. `source` says where the rule
    was found, and when.
    """

    models: str
    image: Callable[[Pixels], float]
    cap: int
    page: int
    picture: int
    audio: float
    video: float
    source: str


def _fitted(pixels: Pixels, edge: float) -> Pixels:
    """Return pixels scaled down so that the longer side has `edge` at most."""
    scale = min(1.0, edge / max(*pixels, 1.0))
    return pixels[0] * scale, pixels[1] * scale


def _patches(pixels: Pixels, side: int, most: int) -> int:
    """Return the squares that cover an image, which is scaled down to at most so many."""
    width, height = (ceil(length / side) for length in pixels)
    if width * height <= most:
        return max(1, width * height)
    scale = sqrt(most * side * side / (pixels[0] * pixels[1]))
    width, height = (max(1, ceil(length * scale / side)) for length in pixels)
    return min(most, width * height)


def _tiles(base: int, tile: int) -> Callable[[Pixels], float]:
    """Return OpenAI's price by tiles: into 2048 pixels, the shorter side to 768, tiles of 512."""

    def price(pixels: Pixels) -> float:
        width, height = _fitted(pixels, 2048)
        scale = min(1.0, 768 / max(min(width, height), 1.0))
        return base + tile * ceil(width * scale / 512) * ceil(height * scale / 512)

    return price


def _by_patches(side: int, most: int, factor: float, edge: float) -> Callable[[Pixels], float]:
    return lambda pixels: _patches(_fitted(pixels, edge), side, most) * factor


_OPENAI = "developers.openai.com/api/docs/guides/images-vision, November 2026"
_CLAUDE = "platform.claude.com/docs/en/build-with-claude/vision and pdf-support, November 2026"
_GOOGLE = "ai.google.dev/gemini-api/docs/tokens and media-resolution, November 2026"

RATES: Mapping[str, Rate] = {
    "openai-tiles": Rate(
        r"gpt-4o|gpt-4\.1(?!-[mn])|gpt-4-turbo|chatgpt-4o|gpt-4\.5|^o1|^o3|gpt-5(?=$|-chat|-20)",
        *(_tiles(85, 170), 1_445, 800, 1_445, 10, 0, _OPENAI),
    ),
    "openai-small": Rate(
        r"gpt-4\.1-(mini|nano)|o4-mini|gpt-5(\.\d)?-(mini|nano)",
        *(_by_patches(32, 1_536, 2.46, 2_048), 3_779, 800, 1_600, 10, 0, _OPENAI),
    ),
    "openai": Rate(
        r"gpt-|^o\d|codex",
        *(_by_patches(32, 10_000, 1.2, 6_000), 12_000, 800, 1_600, 10, 0, _OPENAI),
    ),
    "claude": Rate(
        r"claude-(3|(opus|sonnet|haiku)-4(?!-[789]))",
        *(_by_patches(28, 1_568, 1.0, 1_568), 1_568, 3_000, 1_568, 0, 0, _CLAUDE),
    ),
    "claude-large": Rate(
        r"claude", *(_by_patches(28, 4_784, 1.0, 2_576), 4_784, 3_000, 1_568, 0, 0, _CLAUDE)
    ),
    "gemini": Rate(r"gemini", lambda _: 1_120, 1_120, 560, 0, 32, 263 + 32, _GOOGLE),
}
"""The table of prices; the first row whose `models` match the name of a model is its family.

gpt-4o-mini reads the tiles of gpt-4o, and bills 33 of its own tokens for each of theirs: those
would be more than most budgets, and are no measure of what it reads.
"""

_DEAREST = Rate(
    *("", lambda pixels: max(rate.image(pixels) for rate in RATES.values()), 12_000, 3_000),
    *(1_600, 32, 263 + 32, "the dearest of all rows"),
)
"""The price for a model of a family that is not known."""


def family(model: str) -> str:
    """Return the row of the table for a model of this name, empty if there is none.

    >>> family("claude-sonnet-5"), family("gpt-5.4"), family("openai:gpt-4o"), family("llama")
    ('claude-large', 'openai', 'openai-tiles', '')
    >>> family("us.anthropic.claude-sonnet-4-20250514-v1:0")
    'claude'
    """
    names = re.split("[:/]", model.casefold())  # of a provider, a model, a version
    rows = (row for row, rate in RATES.items() if any(re.search(rate.models, n) for n in names))
    return next(rows, "")


def price(one: Attachment, row: str = "") -> int:
    """Return the tokens of an attachment for a model of a family, "" for an unknown one.

    >>> price(Attachment("image", pixels=(1_024, 1_024)), "openai-tiles")
    765
    >>> price(Attachment("file", "application/pdf", pages=2), "gemini")
    1120
    """
    rate = RATES.get(row, _DEAREST)
    if one.kind == "image":
        return _image(one, rate)
    if one.kind in _BYTES_PER_SECOND:
        usual = one.size / _BYTES_PER_SECOND[one.kind] or _UNKNOWN_SECONDS
        each = [r.audio if one.kind == "audio" else r.video for r in (rate, _DEAREST)]
        return max(1, ceil((one.seconds or usual) * (each[0] or each[1])))
    if one.text and not one.is_pdf:
        return ceil(len(one.text.encode("utf-8", "replace")) / 3)
    pages = one.pages or (ceil(one.size / _BYTES_PER_PAGE) if one.size else _UNKNOWN_PAGES)
    return pages * (rate.page + rate.picture)


def _image(one: Attachment, rate: Rate) -> int:
    if one.detail == "low" and rate is RATES["openai-tiles"]:
        return _LOW_DETAIL
    width, height = one.pixels
    if not width and one.size:
        width = height = ceil(sqrt(one.size * _PIXELS_PER_BYTE))
    return ceil(rate.image((width, height))) if width else rate.cap
