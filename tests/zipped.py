"""What an archive has packed, found in the bytes of files and columns."""

import zlib

from ebbtide.memory.archive.rows import unzipped, zipped

_HEAD = zipped("")[:2]
"""What all of it begins with: zlib's header."""


def revealed(data: bytes) -> bytes:
    """Return bytes, and after them what stands packed in them, as far as it can be unpacked."""
    found, at = [data], data.find(_HEAD)
    while at >= 0:
        found.append(_unpacked(data[at:]))
        at = data.find(_HEAD, at + 1)
    return b"\0".join(found)


def changed(data: bytes, old: str, new: str) -> bytes:
    """Return packed text with something else in it."""
    return zipped(unzipped(data).replace(old, new))


def _unpacked(data: bytes) -> bytes:
    """Return what can be read of packed data, byte by byte, since pages of a file may part it."""
    unpacking, found = zlib.decompressobj(), b""
    try:
        for one in data:
            found += unpacking.decompress(bytes([one]))
            if unpacking.eof:
                break
    except zlib.error:
        pass
    return found
