"""Every kind of block in every provider's form: counted, sent, named, found, brought back."""

from pathlib import Path
from typing import Any, cast

import pytest
from langchain_core.messages import HumanMessage

from ebbtide import commands
from ebbtide.memory.blocks import attachment
from tests.agents import THREAD, talk
from tests.doubles import call
from tests.files import pdf, png, wav

LEASE = pdf("The lease ends on 3 May 2031.")
PAGE = "https://example.org"

_LEAST = {"image": 1_600, "file": 4_000, "audio": 200, "video": 8_000}
"""Tokens that a turn with one of these counts at least, where its text is not counted instead."""

BLOCKS: dict[str, dict[str, Any]] = {
    "text": {"type": "text", "text": "The lease ends in May."},
    "image, data": {"type": "image", "base64": png(800, 600), "mime_type": "image/png"},
    "image, URL": {"type": "image", "url": f"{PAGE}/plan.png"},
    "image, id": {"type": "image", "file_id": "file-plan", "mime_type": "image/png"},
    "image, OpenAI chat": {
        "type": "image_url",
        "image_url": {"url": f"data:image/png;base64,{png(640, 480)}", "detail": "high"},
    },
    "image, OpenAI Responses": {"type": "input_image", "image_url": f"{PAGE}/plan.png"},
    "image, Anthropic": {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": png(640, 400)},
    },
    "image, Gemini": {"type": "media", "mime_type": "image/png", "data": png(640, 440)},
    "image, MCP result": {"type": "image", "data": png(990, 990), "mimeType": "image/png"},
    "file, data": {
        "type": "file",
        "base64": LEASE,
        "mime_type": "application/pdf",
        "filename": "lease.pdf",
    },
    "file, URL": {"type": "file", "url": f"{PAGE}/lease.pdf", "mime_type": "application/pdf"},
    "file, OpenAI chat": {"type": "file", "file": {"file_id": "file-lease"}},
    "file, OpenAI Responses": {
        "type": "input_file",
        "filename": "lease.pdf",
        "file_url": f"{PAGE}/lease.pdf",
    },
    "file, Anthropic": {
        "type": "document",
        "title": "lease.txt",
        "source": {"type": "text", "media_type": "text/plain", "data": "The lease ends in May."},
    },
    "file, MCP result": {
        "type": "resource",
        "resource": {"uri": "file:///lease.md", "text": "The lease ends in May."},
    },
    "audio, data": {"type": "audio", "base64": wav(7), "mime_type": "audio/wav"},
    "audio, OpenAI chat": {
        "type": "input_audio",
        "input_audio": {"data": wav(7), "format": "wav"},
    },
    "video, URL": {"type": "video", "url": f"{PAGE}/tour.mp4", "mime_type": "video/mp4"},
    "video, Gemini": {"type": "media", "file_uri": "gs://x/tour.mp4", "mime_type": "video/mp4"},
}


def stands(block: dict[str, Any], message: Any) -> bool:
    """Tell whether a message has a block, be it in LangChain's form of it."""
    if block["type"] == "text":
        return block["text"] in message.text
    content = message.content if isinstance(message.content, list) else []
    return str(attachment(block)) in {str(attachment(one)) for one in content}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", BLOCKS)
def test_block(tmp_path: Path, kind: str) -> None:
    """In its own turn whole, then by its name; a search finds that, `read_log` brings it back."""
    block, known = BLOCKS[kind], attachment(BLOCKS[kind])
    name = str(known).partition(",")[0] if known else block["text"]
    chat = talk(tmp_path, ["Seen.", "Yes.", call("read_log", turns="1"), "It is there."])
    question = HumanMessage([{"type": "text", "text": "Here is what you wanted."}, block])

    for said in (question, "And so on?", "What was in it?"):
        state = chat.agent.invoke(cast("Any", {"messages": [said]}), THREAD)

    own, later, _, back = (sent.messages for sent in chat.model.sent)
    turn, *_ = chat.turns(state)
    counted = next(event["tokens"]["turn"] for event in turn.events if event["type"] == "sent")
    found = commands.search(chat.agent, THREAD, name.split()[-1]).results
    assert counted >= (_LEAST[known.kind] if known and not known.text else 20)
    assert any(stands(block, message) for message in own)
    assert known is None or not any(stands(block, message) for message in later)
    assert any(name in message.text for message in later)
    assert any(stands(block, message) for message in back)
    assert [one.turn for result in found for one in result.passages] == [1]
    assert state["memory"]["banners"] == []
