"""A long conversation with photos, documents and a recording, over HTTP, in a small budget."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import DiskArchive, Settings, commands, create_memory_agent, transcript
from tests.agents import THREAD
from tests.doubles import ScriptedModel, call
from tests.files import pdf, png, wav
from tests.openai_server import Say
from tests.provider_server import provided

BUDGET, TURNS = 8_000, 20
TALK = "We talk about what is to be done in the flats. " * 4
PHOTOS = {
    turn: {
        "type": "image",
        "base64": png(640, 480 + turn),
        "mime_type": "image/png",
        "filename": f"photo-of-turn-{turn}.png",
    }
    for turn in range(3, TURNS, 5)
}
DOCUMENTS = {
    turn: {
        "type": "file",
        "base64": pdf(*(f"Page {n} of the lease of flat {turn}." for n in range(1, pages + 1))),
        "mime_type": "application/pdf",
        "filename": f"lease-of-flat-{turn}.pdf",
    }
    for turn, pages in ((9, 2), (17, 8))
}
RECORDING = {14: {"type": "audio", "base64": wav(9), "mime_type": "audio/wav", "filename": "v.wav"}}
ATTACHED = {**PHOTOS, **DOCUMENTS, **RECORDING}
WORDS = {17: "Page 8 of the lease of flat 17."}
"""What is sent of a document that needs more than the budget has."""


def plain(bodies: list[dict[str, Any]]) -> str:
    """Return requests as text, with the usual letters of base64."""
    return json.dumps(bodies).replace("-", "+").replace("_", "/")


def answer(body: dict[str, Any]) -> Say:
    """Read the turn that the question names; say something to all else, as to a result."""
    asked = re.search(r"Show me turn (\d+)", body["contents"][-1]["parts"][-1].get("text", ""))
    return Say(calls=[("read_log", {"turns": asked[1]})]) if asked else Say("I see. " + TALK)


@pytest.mark.thorough
def test_many_turns_with_attachments(tmp_path: Path) -> None:
    """All calls are in the budget, nothing is lost, each attachment is found and comes back."""
    with provided(by=answer) as server:
        archive = DiskArchive(tmp_path, durable=False)
        agent = create_memory_agent(
            server.model("google"),
            archive=archive,
            checkpointer=InMemorySaver(),
            settings=Settings(context_budget=BUDGET),
        )

        def say(words: str, *blocks: Any) -> tuple[dict[str, Any], str]:
            begin = len(server.bodies)
            content = [{"type": "text", "text": words}, *blocks]
            state = agent.invoke({"messages": [HumanMessage(content)]}, THREAD)
            return state["memory"]["context_report"], plain(server.bodies[begin:])

        files = {turn: [ATTACHED[turn]] if turn in ATTACHED else [] for turn in range(1, TURNS + 1)}
        sent = {turn: say(f"Turn {turn}. " + TALK, *files[turn]) for turn in files}
        back = {turn: say(f"Show me turn {turn}.") for turn in ATTACHED}

    assert max(report["total"] for report, _ in (*sent.values(), *back.values())) <= BUDGET
    for turn, block in ATTACHED.items():
        data = WORDS.get(turn, block["base64"])
        assert [number for number, (_, body) in sent.items() if data in body] == [turn]
        assert data in back[turn][1]
        found = commands.search(agent, THREAD, block["filename"]).results
        assert turn in {passage.turn for one in found for passage in one.passages}
    newest, more = transcript(agent, THREAD, limit=20)
    oldest, no_more = transcript(agent, THREAD, before=len(sent) + len(back) - 19)
    said = [json.dumps(m.content) for m in (*oldest, *newest) if m.type == "human"]
    assert (len(said), more, no_more) == (len(sent) + len(back), True, False)
    assert all(f"Turn {turn}. " in said[turn - 1] for turn in sent)
    assert all(block["base64"] in said[turn - 1] for turn, block in ATTACHED.items())


def test_a_document_is_searched_in_its_own_turn(tmp_path: Path) -> None:
    """Its middle is in no prompt: a search that finds nothing would deny what the user sent."""
    pages = [f"Page {n}. " + "The tenant keeps it in good order. " * 60 for n in range(1, 31)]
    pages[16] += "Torque of the drum bolts: 38 Nm."
    manual = {
        "type": "file",
        "base64": pdf(*pages),
        "mime_type": "application/pdf",
        "filename": "manual.pdf",
    }
    model = ScriptedModel(answers=[call("search_efforts", query="drum bolts torque"), "38 Nm."])
    agent = create_memory_agent(
        model,
        archive=DiskArchive(tmp_path, durable=False),
        checkpointer=InMemorySaver(),
        settings=Settings(context_budget=BUDGET),
    )

    agent.invoke({"messages": [HumanMessage([{"type": "text", "text": "Which?"}, manual])]}, THREAD)

    first, second = model.sent
    assert "38 Nm" not in first.text
    assert "Torque of the drum bolts: 38 Nm." in second.text
