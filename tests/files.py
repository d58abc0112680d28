"""Small real files: a PDF with words, a PNG, a recording."""

import base64
import io
import struct
import wave
import zlib


def pdf(*pages: str) -> str:
    """Return the base64 of a PDF with these words on its pages."""
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for at, words in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 720 Td ({words}) Tj ET"
        fonts = f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * at} 0 R"
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] {fonts} >>",
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n{body}\nendobj\n".encode()
    start = len(data)
    data += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    data += b"".join(f"{place:010} 00000 n \n".encode() for place in places)
    data += (
        f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF".encode()
    )
    return base64.b64encode(data).decode()


def png(width: int, height: int) -> str:
    """Return the base64 of a grey PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x80" * width) * height)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + parts).decode()


def wav(seconds: int) -> str:
    """Return the base64 of a silent recording."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8_000)
        sound.writeframes(bytes(16_000 * seconds))
    return base64.b64encode(file.getvalue()).decode()
