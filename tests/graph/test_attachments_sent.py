"""What is not text: how it is priced, sent, named, found and brought back."""

import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import DiskArchive, Settings, commands, create_memory_agent
from ebbtide.graph.agent import tool_parts
from ebbtide.memory.media import Attachment, attachment
from ebbtide.memory.prices import family, price
from ebbtide.memory.tokens import count, count_message
from tests.agents import THREAD, talk
from tests.doubles import call
from tests.files import pdf, png, wav
from tests.openai_server import Say
from tests.provider_server import PROVIDERS, provided

PHOTO = {"type": "image", "base64": png(800, 600), "mime_type": "image/png"}
LEASE = {
    "type": "file",
    "base64": pdf("The lease ends on 3 May 2031.", "The rent is 900."),
    "mime_type": "application/pdf",
    "filename": "lease-2026.pdf",
}
VOICE = {"type": "input_audio", "input_audio": {"data": wav(7), "format": "wav"}}


def asking(*blocks: dict[str, Any], words: str = "Here are my papers.") -> HumanMessage:
    """Return a question with attachments."""
    return HumanMessage([{"type": "text", "text": words}, *blocks])


def kinds(message: Any) -> list[str]:
    """Return the types of the blocks of a message."""
    return [block["type"] for block in message.content] if isinstance(message.content, list) else []


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (PHOTO, "image, image/png, "),
        (LEASE, "file lease-2026.pdf, application/pdf, 872 bytes, 2 pages"),
        (VOICE, "audio, audio/wav, 109 KB, 7 seconds"),
        ({"type": "file", "file": {"file_id": "file-abc"}}, "file file-abc"),
        (
            {"type": "document", "title": "a.txt", "source": {"type": "text", "data": "Hello."}},
            "file a.txt, 6 bytes",
        ),
        (
            {"type": "media", "file_uri": "gs://x/talk.mp4", "mime_type": "video/mp4"},
            "video gs://x/talk.mp4, video/mp4",
        ),
        (
            {"type": "input_file", "filename": "b.pdf", "file_url": "https://example.org/b.pdf"},
            "file b.pdf, https://example.org/b.pdf",
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///c.md", "text": "Hi."}},
            "file file:///c.md, 3 bytes",
        ),
    ],
)
def test_block_of_any_provider_is_named(block: dict[str, Any], said: str) -> None:
    """LangChain's blocks, OpenAI's, Anthropic's, Gemini's, and those of an MCP result."""
    assert str(attachment(block)).startswith(said)


@pytest.mark.parametrize(
    ("model", "pixels", "tokens"),
    [
        ("gpt-4o", (1_024, 1_024), 765),
        ("gpt-4o", (2_048, 4_096), 1_105),
        ("openai:gpt-4.1-2025-04-14", (1_024, 1_024), 765),
        ("gpt-5.4", (1_024, 1_024), 1_229),
        ("claude-sonnet-4-5", (4_000, 3_000), 1_568),
        ("eu.anthropic.claude-sonnet-4-20250514-v1:0", (4_000, 3_000), 1_568),
        ("claude-opus-4-7", (4_000, 3_000), 4_784),
        ("gemini-3-pro", (4_000, 3_000), 1_120),
    ],
)
def test_picture_is_priced_by_the_family_of_the_model(
    model: str, pixels: tuple[int, int], tokens: int
) -> None:
    """The examples of the providers' pages; of Anthropic the caps."""
    counted = price(Attachment("image", pixels=pixels), family(model))

    assert 0.95 * tokens <= counted <= tokens


def test_opaque_blocks_count_a_quarter_of_their_bytes() -> None:
    """What a provider encrypted is not counted as prose."""
    block = {"type": "reasoning", "encrypted_content": "Zx9+" * 1_000}

    counted = count_message({"type": "ai", "data": {"content": [block]}})

    assert 1_000 <= counted <= 1_040


def test_picture_without_a_known_size_costs_the_cap() -> None:
    """Nothing is downloaded."""
    unknown = Attachment("image", url="https://example.org/a.png")

    assert price(unknown, "claude") == 1_568
    assert price(unknown) == 12_000


def test_kind_that_a_family_has_no_price_for_costs_the_dearest() -> None:
    """So it does for a model that is not known."""
    tour = Attachment("video", seconds=60)

    assert price(tour, "claude") == price(tour, "gemini") == price(tour)
    assert price(Attachment("image", pixels=(2_048, 2_048), detail="low")) > 4_000


@pytest.mark.parametrize("provider", PROVIDERS)
def test_attachments_reach_the_provider_and_come_back(tmp_path: Path, provider: str) -> None:
    """Sent in their own turn, placeholders after it, sent again where `read_log` reads the turn."""
    with provided(
        Say("Seen."), Say("Yes."), Say(calls=[("read_log", {"turns": "1"})]), Say("It is grey.")
    ) as server:
        archive = DiskArchive(tmp_path, durable=False)
        model, saver = server.model(provider), InMemorySaver()
        agent = create_memory_agent(model, archive=archive, checkpointer=saver)
        for words in (asking(PHOTO), "Thanks.", "What colour was it?"):
            agent.invoke({"messages": [words]}, THREAD)

    sent = [str(body).replace("-", "+").replace("_", "/") for body in server.bodies]
    assert [PHOTO["base64"] in body for body in sent] == [True, False, False, True]


def test_document_is_found_by_name_and_words(tmp_path: Path) -> None:
    """Complaint row 28: names, addresses and texts are in the log and in the index."""
    chat = talk(tmp_path, ["Seen.", "Yes."])
    chat.agent.invoke({"messages": [asking(LEASE)]}, THREAD)
    chat.agent.invoke({"messages": "Thanks."}, THREAD)

    for query in ("lease-2026.pdf", "when does the lease end 2031"):
        results = commands.search(chat.agent, THREAD, query)["results"]
        assert [said["turn"] for one in results for said in one["passages"]] == [1]


def test_document_that_does_not_fit_is_read_like_text(tmp_path: Path) -> None:
    """Its words stand in its place, and a banner names it."""
    chat = talk(tmp_path, ["Seen."], settings=Settings(context_budget=4_000))

    state = chat.agent.invoke({"messages": [asking(LEASE)]}, THREAD)

    sent = chat.model.sent[-1]
    assert "The lease ends on 3 May 2031." in sent.text
    assert kinds(sent.messages[-1]) == ["text", "text"]
    assert "lease-2026.pdf" in state["memory"]["banners"][-1]


@pytest.mark.parametrize("many", [11, 40])
def test_photos_are_sent_as_far_as_the_budget_goes(tmp_path: Path, many: int) -> None:
    """Complaint row 27: one after the other; each left out is named to model and user."""
    photos = [
        {**PHOTO, "base64": png(800, 600 + at), "filename": f"{at}.png"} for at in range(many)
    ]
    chat = talk(tmp_path, ["Seen."], settings=Settings(context_budget=8_000))

    state = chat.agent.invoke({"messages": [asking(*photos)]}, THREAD)

    shown = kinds(chat.model.sent[-1].messages[-1])
    left_out = shown.count("text") - 1
    assert 2 <= shown.count("image") < 11
    assert shown == ["text", *["image"] * (many - left_out), *["text"] * left_out]
    assert len(state["memory"]["banners"]) == left_out
    needed = re.findall(r"context_budget of ([\d,]+)", " ".join(state["memory"]["banners"]))
    assert all(int(budget.replace(",", "")) > 8_000 for budget in needed)
    assert state["memory"]["context_report"]["total"] <= 8_000


def test_kind_that_the_model_does_not_take_is_named(tmp_path: Path) -> None:
    """By the model's profile; for another model it is sent again."""
    chat = talk(tmp_path, ["Seen."])
    chat.model.profile = {"audio_inputs": False}

    state = chat.agent.invoke({"messages": [asking(VOICE, PHOTO)]}, THREAD)

    assert kinds(chat.model.sent[-1].messages[-1]) == ["text", "text", "image"]
    assert "audio" in state["memory"]["banners"][-1]


def test_kind_that_the_model_does_not_take_is_not_offered_again(tmp_path: Path) -> None:
    """Reading its turn cannot help this model; a model that takes it is told to read the turn."""
    saver = InMemorySaver()
    chat = talk(tmp_path, ["Seen.", "Yes."], checkpointer=saver)
    chat.model.profile = {"audio_inputs": False}
    chat.agent.invoke({"messages": [asking(VOICE)]}, THREAD)
    chat.say("Thanks.")
    other = talk(tmp_path, ["Heard."], checkpointer=saver, archive=chat.archive)
    other.say("What did I say?")

    name = "[audio, audio/wav, 109 KB, 7 seconds; of turn 1"
    assert f"{name}; this model does not take it]" in chat.model.sent[-1].text
    assert f'{name}: read_log(turns="1") brings it back]' in other.model.sent[-1].text


def test_document_that_is_read_as_text_is_not_called_missing(tmp_path: Path) -> None:
    """Where `read_log` gives its words, no note says that it was not sent; a photo has one."""
    answers = ["Seen.", "Yes.", call("read_log", turns="1"), "Read."]
    chat = talk(tmp_path, answers, settings=Settings(context_budget=4_000))
    photo = {**PHOTO, "base64": png(4_000, 3_000), "filename": "plan.png"}
    chat.agent.invoke({"messages": [asking(LEASE, photo)]}, THREAD)
    chat.say_all(["Thanks.", "When does it end?"])

    note = chat.last[-1].text
    assert "The lease ends on 3 May 2031." in chat.last[-2].text
    assert "attachments of turn 1. Data" in note
    assert "- [image plan.png" in note
    assert "lease-2026.pdf" not in note


def test_price_of_the_application_comes_first(tmp_path: Path) -> None:
    """`attachment_price` overrides the table where it gives a number."""
    chat = talk(tmp_path, ["Seen."], attachment_price=lambda one: 99_000 if one.pixels[0] else None)

    chat.agent.invoke({"messages": [asking(VOICE, PHOTO)]}, THREAD)

    assert kinds(chat.model.sent[-1].messages[-1]) == ["text", "audio", "text"]


def test_results_of_a_provider_stay_with_their_answer(tmp_path: Path) -> None:
    """A picture that was drawn, and results of a search, are there in the next turn."""
    drawn = {"type": "image_generation_call", "id": "ig_1", "result": png(64, 64)}
    found = {"type": "web_search_tool_result", "content": [{"encrypted_content": "Zx9+" * 900}]}
    answer = AIMessage([drawn, found, {"type": "text", "text": "Here."}])
    chat = talk(tmp_path, [answer, "Redder."])

    chat.agent.invoke({"messages": "Draw a boat."}, THREAD)
    chat.agent.invoke({"messages": "Make it redder."}, THREAD)

    answers = [one for one in chat.model.sent[-1].messages if one.type == "ai"]
    assert kinds(answers[0]) == ["image_generation_call", "web_search_tool_result", "text"]


def test_expanded_log_brings_its_attachments(tmp_path: Path) -> None:
    """Complaint row 28: they stand after the log, in the turn that expands it."""
    opened = call("open_effort", name="lease")
    expanded = call("expand_effort", effort_id="lease")
    closed = [call("close_effort"), "Closed."]
    chat = talk(tmp_path, [opened, "Seen.", *closed, "Hm.", expanded, "It is grey.", "Yes."])
    for words in (asking(PHOTO), "that's done", "And?", "Show me the photo.", "Thanks."):
        chat.agent.invoke({"messages": [words]}, THREAD)

    sent = [PHOTO["base64"] in str(one.messages) for one in chat.model.sent]
    assert sent == [True, True, False, False, False, False, True, False]


@pytest.mark.parametrize(("provider", "sent"), [("anthropic", True), ("google_genai", False)])
def test_thoughts_of_another_provider_are_not_sent(
    tmp_path: Path, provider: str, sent: bool
) -> None:
    """Complaint row 33: they are refused there, signatures hold for the model that thought."""
    thought = {"type": "thinking", "thinking": "The cat sat.", "signature": "c2ln"}
    by = {"model_provider": provider}
    answer = AIMessage([thought, {"type": "text", "text": "I thought."}], response_metadata=by)
    saver = InMemorySaver()
    chat = talk(tmp_path, [answer], checkpointer=saver)
    chat.say("Think.")
    with provided(Say("Yes.")) as server:
        model = server.model("anthropic")
        agent = create_memory_agent(model, archive=chat.archive, checkpointer=saver)
        agent.invoke({"messages": "And?"}, THREAD)

    assert "I thought." in str(server.bodies[0])
    assert ("The cat sat." in str(server.bodies[0])) is sent


SPOKEN = {"audio": {"id": "audio_1", "data": wav(1), "transcript": "The parcel waits in Lyon."}}


@pytest.mark.parametrize("beside", [SPOKEN, {"refusal": "The parcel waits in Lyon."}])
def test_spoken_answer_is_its_transcript(tmp_path: Path, beside: dict[str, Any]) -> None:
    """Complaint row 36: it is sent in the next turn, and searched; so is a refusal."""
    chat = talk(tmp_path, [AIMessage("", additional_kwargs=beside), "Yes."])
    chat.say("Where is it?")
    chat.say("Thanks.")

    answers = [message.text for message in chat.model.sent[-1].messages if message.type == "ai"]
    assert answers == ["The parcel waits in Lyon."]
    assert "Lyon" in str(commands.search(chat.agent, THREAD, "parcel waits in lyon")["results"])


def test_deferred_tools_are_not_counted() -> None:
    """Complaint row 30: the provider does not read them before a search for tools finds them."""
    read = {"name": "add", "description": "Add numbers. " * 20, "parameters": {"type": "object"}}
    deferred = {**read, "name": "subtract", "defer_loading": True}

    assert (
        tool_parts([read, deferred], count)["schema_tokens"]
        == tool_parts([read], count)["schema_tokens"]
    )
