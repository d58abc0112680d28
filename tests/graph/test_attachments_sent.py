"""What is not text: how it is priced, sent, named, found and brought back."""

import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import DiskArchive, Settings, commands, create_memory_agent
from ebbtide.graph.agent import tool_parts
from ebbtide.memory.blocks import Attachment
from ebbtide.memory.tokens import count, count_message
from tests.agents import THREAD, talk
from tests.doubles import call
from tests.files import pdf, png, wav
from tests.openai_server import Say
from tests.provider_server import PROVIDERS, ProviderServer, provided

PHOTO = {"type": "image", "base64": png(800, 600), "mime_type": "image/png"}
LEASE = {
    "type": "file",
    "base64": pdf("The lease ends on 3 May 2031.", "The rent is 900."),
    "mime_type": "application/pdf",
    "filename": "lease-2026.pdf",
}
LINKED = {"type": "image", "url": "https://example.org/plans/kestrel-attic.png"}
VOICE = {"type": "input_audio", "input_audio": {"data": wav(7), "format": "wav"}}


def asking(*blocks: dict[str, Any], words: str = "Here are my papers.") -> HumanMessage:
    """Return a question with attachments."""
    return HumanMessage([{"type": "text", "text": words}, *blocks])


def kinds(message: Any) -> list[str]:
    """Return the types of the blocks of a message."""
    return [block["type"] for block in message.content] if isinstance(message.content, list) else []


@pytest.mark.parametrize(
    ("block", "tokens"),
    [
        ({"type": "image", "base64": png(300, 200)}, 80),
        ({**PHOTO, "text": "The old one."}, 1_600),
        ({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, 1_600),
        (LEASE, 2 * 2_000),
        ({"type": "file", "file": {"file_id": "file-abc"}}, 2 * 2_000),
        ({"type": "file", "base64": "A" * 200_000, "mime_type": "application/pdf"}, 3 * 2_000),
        (VOICE, 7 * 32),
        ({"type": "media", "file_uri": "gs://x/talk.mp4", "mime_type": "video/mp4"}, 30 * 300),
        ({"type": "document", "source": {"type": "text", "data": "Hello there."}}, 3),
        ({"type": "resource", "resource": {"uri": "file:///c.md", "text": "Hello there."}}, 3),
    ],
)
def test_kinds_have_one_price(block: dict[str, Any], tokens: int) -> None:
    """By the sizes that are in the file, else by its bytes, else a usual size; text as text."""
    assert count_message(HumanMessage([block])) == 4 + tokens


def test_opaque_blocks_count_a_quarter_of_their_bytes() -> None:
    """What a provider encrypted is not counted as prose."""
    block = {"type": "reasoning", "encrypted_content": "Zx9+" * 1_000}

    counted = count_message(AIMessage([block]))

    assert 1_000 <= counted <= 1_040


@pytest.mark.thorough
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


@pytest.mark.parametrize(
    ("block", "queries"),
    [
        (LEASE, ["lease-2026.pdf", "when does the lease end 2031"]),
        (LINKED, ["https://example.org/plans/kestrel-attic.png", "kestrel attic"]),
    ],
)
def test_document_is_found_by_name_and_words(
    tmp_path: Path, block: dict[str, Any], queries: list[str]
) -> None:
    """Complaint row 28: names, addresses and texts are in the log and in the index."""
    chat = talk(tmp_path, ["Seen.", "Yes."])
    chat.agent.invoke({"messages": [asking(block)]}, THREAD)
    chat.agent.invoke({"messages": "Thanks."}, THREAD)

    for query in queries:
        results = commands.search(chat.agent, THREAD, query).results
        assert [said.turn for one in results for said in one.passages] == [1]


def test_document_that_does_not_fit_is_read_like_text(tmp_path: Path) -> None:
    """Its words stand in its place, and a banner names it."""
    chat = talk(tmp_path, ["Seen."], settings=Settings(context_budget=4_000))

    state = chat.agent.invoke({"messages": [asking(LEASE)]}, THREAD)

    sent = chat.model.sent[-1]
    assert "The lease ends on 3 May 2031." in sent.text
    assert str(sent.messages[-1].content).startswith("Here are my papers.\n[file lease-2026.pdf, ")
    assert "lease-2026.pdf" in state["memory"]["banners"][-1]


@pytest.mark.thorough
@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize("provider", [*PROVIDERS, ""])
@pytest.mark.parametrize("before", [3, 8])
def test_files_of_the_question_stay_when_history_leaves(
    tmp_path: Path, provider: str, before: int
) -> None:
    """Invariant 10: kinds that the profile of the model refuses are named, all others are sent."""
    chat = talk(tmp_path, lambda _: "Seen.")
    if provider:
        model = ProviderServer([]).model(provider, "claude-sonnet-4-5")
        chat.model.profile = model.profile
    for turn in range(before):
        chat.say(" ".join(f"w{turn}x{word}" for word in range(300)))

    state = chat.agent.invoke({"messages": [asking(PHOTO, LEASE, VOICE)]}, THREAD)

    is_heard = provider in {"google", ""}
    banners = state["memory"]["banners"]
    shown = kinds(chat.model.sent[-1].messages[-1])
    assert shown[:-1] == ["text", "image", "file"]
    assert shown[-1].endswith("audio" if is_heard else "text")
    assert ["audio" in banner for banner in banners] == [True] * (not is_heard)
    assert state["memory"]["context_report"]["total"] <= 16_000


@pytest.mark.thorough
@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize(("many", "budget"), [(8, 12_000), (40, 8_000)])
def test_photos_are_sent_as_far_as_the_budget_goes(tmp_path: Path, many: int, budget: int) -> None:
    """Complaint row 27: one after the other; one banner names those left out, and a budget."""
    photos = [
        {**PHOTO, "base64": png(800, 600 + at), "filename": f"{at}.png"} for at in range(many)
    ]
    chat = talk(tmp_path, lambda _: "Seen.")
    chat.say_all(["word " * 900] * 3)

    state = chat.agent.invoke(
        {"messages": [asking(*photos)]}, THREAD, context=Settings(context_budget=budget)
    )

    message: Any = chat.model.sent[-1].messages[-1]
    shown = kinds(message)
    (banner,) = state["memory"]["banners"]
    left_out = [photo["filename"] for photo in photos[shown.count("image") :]]
    free = budget - state["memory"]["context_report"]["total"]
    assert shown == ["text", *["image"] * (many - len(left_out)), "text"]
    assert 0 <= free < 2_400
    assert [name in banner for name in left_out] == [True] * len(left_out)
    named = re.findall(r"\[image (\d+\.png), ", message.content[-1]["text"])
    assert named == left_out if many == 8 else {*named} < {*left_out}
    (needed,) = re.findall(r"context_budget of ([\d,]+)", banner)
    larger = Settings(context_budget=int(needed.replace(",", "")))
    state = chat.agent.invoke({"messages": [asking(*photos)]}, THREAD, context=larger)
    assert state["memory"]["banners"] == []


@pytest.mark.thorough
@pytest.mark.usefixtures("entry")
def test_files_of_the_question_stay_when_tools_return_much(tmp_path: Path) -> None:
    """They leave as far as the newest result needs its share, and are named then."""
    photos = [{**PHOTO, "base64": png(800, 600 + at)} for at in range(8)]
    looks = [call("look_up", what=str(n)) for n in range(6)]
    chat = talk(tmp_path, [*looks, "Seen."], tools=[look_up])

    state = chat.agent.invoke({"messages": [asking(*photos)]}, THREAD)

    sent = [one.messages[1:] for one in chat.model.sent]
    pictures = [sum(kinds(message).count("image") for message in one) for one in sent]
    newest = [len(one[-1].text) for one in sent[1:]]
    assert pictures[0] == 8
    assert pictures == sorted(pictures, reverse=True)
    assert min(pictures) >= 5
    assert min(newest) > 2_000
    assert len(state["memory"]["banners"]) == (pictures[-1] < 8)


def look_up(what: str) -> str:
    """Look something up."""
    return f"{what} is one of many words. " * 400


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

    def priced(one: Attachment) -> int | None:
        return 12_000 if one.kind == "image" else None

    answers = ["Seen.", "Yes.", call("read_log", turns="1"), "Read."]
    chat = talk(tmp_path, answers, settings=Settings(context_budget=4_000), attachment_price=priced)
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


@pytest.mark.thorough
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
    assert "Lyon" in str(commands.search(chat.agent, THREAD, "parcel waits in lyon").results)


def test_deferred_tools_are_not_counted() -> None:
    """Complaint row 30: the provider does not read them before a search for tools finds them."""
    read = {"name": "add", "description": "Add numbers. " * 20, "parameters": {"type": "object"}}
    deferred = {**read, "name": "subtract", "defer_loading": True}

    assert (
        tool_parts([read, deferred], count)["schema_tokens"]
        == tool_parts([read], count)["schema_tokens"]
    )
