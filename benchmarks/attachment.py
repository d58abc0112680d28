"""What a large document costs the turns after it: CPU of a turn with it and without it.

Two conversations that differ in the first question alone, which has a PDF of 5 MB or none, are held
side by side, turn by turn, so that what else the machine does hits both alike. The PDF has 80 pages
of words, which do not fit the budget, and an embedded file. A cell is a median of some turns; a
ratio that of their medians, with the 5th and 95th percentile of the ratios turn by turn.
"""

import base64
import gc
import io
import os
import random
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from report import argument_parser, ranged, write

from ebbtide import DiskArchive, EbbtideMiddleware, create_memory_agent
from ebbtide.testing import ScriptedModel

try:
    import pypdf
except ImportError:
    sys.exit("attachment.py makes a PDF with pypdf, which is missing: pip install '.[files]'")

BYTES, PAGES, WORDS = 5_000_000, 80, 500
CONFIG: Any = {"configurable": {"thread_id": "t"}}
SPANS = ((1, 5), (6, 30), (31, 60))
"""Turns after the document over which the medians are taken."""


def document(size: int) -> str:
    """Return the base64 of a PDF of so many bytes, most of them in a file that it has inside."""
    chance = random.Random(1)
    writer = pypdf.PdfWriter()
    for _ in range(PAGES):
        words = " ".join("".join(chance.choices("abcdefghij", k=7)) for _ in range(WORDS))
        page = writer.add_blank_page(612, 792)
        font = pypdf.generic.DictionaryObject()
        for key, value in (("Type", "Font"), ("Subtype", "Type1"), ("BaseFont", "Helvetica")):
            font[pypdf.generic.NameObject(f"/{key}")] = pypdf.generic.NameObject(f"/{value}")
        name = pypdf.generic.NameObject
        fonts = pypdf.generic.DictionaryObject({name("/F1"): font})
        page[name("/Resources")] = pypdf.generic.DictionaryObject({name("/Font"): fonts})
        stream = pypdf.generic.DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 72 720 Td ({words}) Tj ET".encode())
        page[name("/Contents")] = writer._add_object(stream)  # noqa: SLF001 (it has no other way)
    writer.add_attachment("photos.bin", os.urandom(max(1, size - PAGES * WORDS * 8)))
    writer.write(file := io.BytesIO())
    return base64.b64encode(file.getvalue()).decode()


def agent(entry: str, root: Path, connection: sqlite3.Connection) -> Any:
    """Return an agent with the memory, as a graph or as a middleware."""
    model, saver = ScriptedModel(), SqliteSaver(connection)
    archive = DiskArchive(root)
    if entry == "create_memory_agent":
        return create_memory_agent(model, archive=archive, checkpointer=saver)
    return create_agent(model, middleware=[EbbtideMiddleware(archive=archive)], checkpointer=saver)


def seconds(one: Any, content: Any) -> float:
    """Return the CPU time of a turn."""
    start = time.process_time()
    one.invoke({"messages": [HumanMessage(content)]}, CONFIG)
    return time.process_time() - start


def row(entry: str, data: str, root: Path) -> dict[str, Any]:
    """Hold both conversations with one entry, and return what their turns took."""
    block = {"type": "file", "base64": data, "mime_type": "application/pdf", "filename": "book.pdf"}
    files = {"with": [block], "without": []}
    text = {"type": "text", "text": "Read this, please."}
    taken: dict[str, list[float]] = {name: [] for name in files}
    connect = {name: sqlite3.connect(root / name, check_same_thread=False) for name in files}
    with closing(connect["with"]), closing(connect["without"]):
        agents = {name: agent(entry, root / f"{name}.d", connect[name]) for name in files}
        for name, blocks in files.items():
            taken[name].append(seconds(agents[name], [text, *blocks]))
        for number in range(SPANS[-1][1]):
            gc.collect()  # a collection of all objects takes as long as ten turns
            order = [*agents.items()]
            for name, one in order if number % 2 else order[::-1]:
                taken[name].append(seconds(one, f"The ferry of day {number} leaves at nine."))
    cells: dict[str, Any] = {"entry": entry, "MB": round(len(data) * 3 / 4 / 1e6, 1)}
    for begin, end in SPANS:
        own, other = (taken[name][begin : end + 1] for name in files)
        cells |= ranged(f"ms of turns {begin}-{end}", [1_000 * one for one in own])
        ratio = f"ratio of turns {begin}-{end}"
        cells |= ranged(
            ratio, [with_it / without for with_it, without in zip(own, other, strict=True)], 2
        )
        cells[ratio] = round(median(own) / median(other), 2)
    return cells


def main() -> None:
    """Measure both entries."""
    options = argument_parser(__doc__, bytes=BYTES).parse_args()
    data = document(options.bytes)
    rows = []
    for entry in ("create_memory_agent", "EbbtideMiddleware"):
        with TemporaryDirectory() as folder:
            rows.append(row(entry, data, Path(folder)))
    write(options.out, "attachment", "What a large document costs later turns", rows)


if __name__ == "__main__":
    main()
