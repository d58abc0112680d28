"""The memory in `create_agent`, beside other middleware; and messages that are not text alone.

Page 06, "Embedding"; page 03, "What is not text".
"""

import base64
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, PIIMiddleware
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES

import ebbtide
from ebbtide import DiskArchive, EbbtideMiddleware, Settings, transcript
from tests.acceptance.stage import (
    AUTH,
    EXACT,
    Said,
    Stage,
    log_in,
    recalled,
    stage,
    summaries_in,
    users,
)
from tests.agents import THREAD, Talk
from tests.doubles import ScriptedModel, call, together

MAIL = "Write to ada@example.org about the parcel, please."
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(300)).decode()
PDF = base64.b64encode(b"%PDF-1.7\n" + bytes(range(256)) * 900).decode()
PICTURE = {"type": "image", "base64": PIXEL, "mime_type": "image/png"}
FILE = {
    "type": "file",
    "base64": PDF,
    "mime_type": "application/pdf",
    "extras": {"filename": "report-of-march.pdf"},
}


def look_up(what: str) -> str:
    """Look something up."""
    return what


def beside(root: Path, *others: AgentMiddleware, first: bool = True, **options: Any) -> Stage:
    """Return an agent of `create_agent` with other middleware before the memory, or after it."""
    model, archive = ScriptedModel(), DiskArchive(root, durable=False)
    ours = EbbtideMiddleware(archive=archive, settings=options.pop("settings", None))
    chain: list[Any] = [*others, ours] if first else [ours, *others]
    agent: Any = create_agent(model, middleware=chain, checkpointer=InMemorySaver(), **options)
    return Stage(Talk(agent, model, archive), THREAD)


def test_decay_in_create_agent(tmp_path: Path) -> None:
    """06, Embedding; 02, the decay table: the middleware is the same memory."""
    here = stage(tmp_path, entry="middleware", settings=EXACT)
    here.work(AUTH)
    here.chat(2)
    expand = call("expand_effort", effort_id="auth-bug")
    said = [here.say("Show me everything.", expand, "Here."), here.say("What was the auth bug?")]
    said += [*here.chat(3), here.say("Go on."), here.say("Again auth-bug.", expand, "Here.")]

    silent = [one.silent_for.get("auth-bug") for one in said]
    assert silent == [0, 0, 1, 2, None, None, 0]
    assert [log_in(one.sent, AUTH) for one in said] == [1, 1, 1, 1, 1, 0, 1]


def test_tools_of_both(tmp_path: Path) -> None:
    """06, Embedding: the memory's tools run before the application's of the same message."""
    here = stage(tmp_path, entry="middleware", tools=[look_up])
    both = together(call("look_up", what="the lamp"), call("open_effort", name="one"))

    said = here.say("Go.", both, "Done.")

    results = [m for m in said.sent.messages if m.type == "tool"]
    assert [m.name for m in results] == ["look_up", "open_effort"]
    assert said.memory["active_effort"] == "one"


@pytest.mark.parametrize("first", [True, False])
def test_masked_text_is_not_sent(tmp_path: Path, *, first: bool) -> None:
    """06, What other middleware does holds: `PIIMiddleware` before and after the memory."""
    here = beside(tmp_path, PIIMiddleware("email", strategy="redact"), first=first)

    said = here.say(MAIL)

    assert "ada@example.org" not in said.sent.text
    assert "about the parcel" in said.sent.text


@pytest.mark.parametrize("first", [True, False])
def test_masked_text_comes_back_masked(tmp_path: Path, *, first: bool) -> None:
    """06: mask in turn 1; expand, search and close later: no raw text anywhere."""
    pii = PIIMiddleware("email", strategy="redact")
    here = beside(tmp_path, pii, first=first, settings=EXACT)
    here.talk.model.structured = lambda _: {"summary": "It was about mail.", "keywords": []}
    here.say(MAIL, call("open_effort", name="parcel"), "Opened.")
    here.use("close_effort")
    here.chat(4)

    here.use("expand_effort", effort_id="parcel")
    here.use("search_efforts", query="write about the parcel")
    here.use("read_log", turns="1")

    sent = [*here.talk.model.sent, *here.talk.model.asked]
    assert [one.text for one in sent if "ada@example.org" in one.text] == []
    assert "about the parcel" in here.talk.model.sent[-1].text


class Saying(AgentMiddleware):
    """Replaces the text of the last message, as it is sent."""

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Replace it in the request."""
        *before, last = request.messages
        told = last.model_copy(update={"content": last.text.replace("tea", "coffee")})
        return handler(request.override(messages=[*before, told]))


def test_replaced_request_is_sent_as_replaced(tmp_path: Path) -> None:
    """06, to the request: a message that was replaced is sent as replaced."""
    said = beside(tmp_path, Saying()).say("I drink tea.")

    assert "I drink coffee." in said.sent.text
    assert "I drink tea." not in said.sent.text


class PerUser(AgentMiddleware):
    """Gives each user a model of their own."""

    def __init__(self, models: dict[str, ScriptedModel]) -> None:
        """Take the models by user."""
        super().__init__()
        self.models = models

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Choose the model."""
        return handler(request.override(model=self.models[request.runtime.context["user_id"]]))


def test_log_of_one_user_is_not_read_by_the_model_of_another(tmp_path: Path) -> None:
    """06, The middleware keeps nothing of a request beyond it."""
    told = {"summary": "It was private.", "keywords": []}
    models = {name: ScriptedModel(structured=lambda _: told) for name in ("ann", "bob")}
    here = beside(tmp_path, PerUser(models), context_schema=dict)

    def say(user: str, words: str, *answers: Any) -> None:
        models[user].answers = [*["…"] * len(models[user].sent), *answers]
        config: Any = {"configurable": {"thread_id": f"of {user}", "user_id": user}}
        here.talk.agent.invoke({"messages": words}, config, context={"user_id": user})

    say("ann", AUTH.log, call("open_effort", name="mine"), "Opened.")
    say("bob", "Hello.", "Hello.")
    with suppress(ebbtide.EbbtideError):
        config: Any = {"configurable": {"thread_id": "of ann", "user_id": "ann"}}
        ebbtide.commands.close_effort(here.talk.agent, config, context={"user_id": "ann"})

    assert [one.text for one in models["bob"].asked if AUTH.log in one.text] == []


@pytest.mark.parametrize("wrapped", ["bind", "with_config"])
def test_wrapped_model(tmp_path: Path, wrapped: str) -> None:
    """06: nothing that `create_agent` takes is refused."""
    model = ScriptedModel(answers=lambda _: "Noted.")
    bound: Any = {"bind": model.bind(stop=["x"]), "with_config": model.with_config(tags=["x"])}
    ours = EbbtideMiddleware(archive=DiskArchive(tmp_path, durable=False))

    with suppress(ebbtide.EbbtideError, TypeError, AttributeError):
        agent: Any = create_agent(bound[wrapped], middleware=[ours])
        agent.invoke({"messages": "Hello."})

    assert len(model.sent) == 1


def test_cleared_chat_says_so(tmp_path: Path) -> None:
    """06: `REMOVE_ALL_MESSAGES` clears what is shown, not what is remembered: a banner says so."""
    here = stage(tmp_path, entry="middleware")
    here.chat(2)
    here.talk.model.answers = [*["…"] * 2, "Hello."]
    cleared = [RemoveMessage(REMOVE_ALL_MESSAGES), HumanMessage("Hello again.")]

    state = here.talk.agent.invoke({"messages": cleared}, THREAD)

    assert "delete_session" in " ".join(state["memory"]["banners"])


def test_result_that_a_client_sends(tmp_path: Path) -> None:
    """00, `begin_turn`; 08, row 35: results of waiting calls continue their turn."""
    here = stage(tmp_path, entry="middleware", tools=[look_up])
    here.talk.model.answers = [call("look_up", what="the lamp"), "It is lit."]
    here.talk.agent.invoke({"messages": "Is it lit?"}, THREAD, interrupt_before=["tools"])
    waiting = here.values["messages"][-1].tool_calls[0]["id"]
    result = ToolMessage("by the client", tool_call_id=waiting)

    with suppress(ebbtide.EbbtideError):
        here.talk.agent.invoke({"messages": [result]}, THREAD)

    assert here.asked() == ["Is it lit?"]
    assert "by the client" in here.talk.model.sent[-1].text
    assert here.values["messages"][-1].text == "It is lit."


def test_transcript_of_a_chat_page(tmp_path: Path) -> None:
    """06: `transcript` returns messages and whether there are more; of an unknown thread none."""
    here = stage(tmp_path)
    found: Any = []

    with suppress(ebbtide.EbbtideError):
        found = transcript(here.talk.agent, THREAD)

    assert found == ([], False)


def test_memory_calls_can_be_told_apart(tmp_path: Path) -> None:
    """06: the memory's results and calls are marked, so that a chat UI leaves them out."""
    said = stage(tmp_path).use("open_effort", name="one")

    results = [m for m in said.state["messages"] if m.type == "tool"]
    calling = next(m for m in said.state["messages"] if getattr(m, "tool_calls", None))

    assert [("ebbtide" in m.additional_kwargs) for m in results] == [True]
    assert calling.response_metadata.get("ebbtide_calls") == [calling.tool_calls[0]["id"]]


def attached(root: Path, *blocks: dict[str, Any], budget: int = 16_000) -> tuple[Stage, Said]:
    """Send a question with attachments."""
    settings = Settings(context_budget=budget, ambient_window=3, rebuild="every-turn")
    here = stage(root, settings=settings)
    return here, here.say([{"type": "text", "text": "What is this?"}, *blocks])


def kinds(said: Said) -> list[str]:
    """Return the kinds of blocks of the running question, as it was sent."""
    content: Any = users(said.first)[-1].content
    return [block["type"] for block in content] if isinstance(content, list) else ["text"]


def test_picture_is_sent(tmp_path: Path) -> None:
    """03, What is not text: the attachments of the running question are sent."""
    _, said = attached(tmp_path, PICTURE)

    assert kinds(said) == ["text", "image"]


def test_picture_of_a_past_turn_is_a_placeholder(tmp_path: Path) -> None:
    """03: in later turns an attachment is a placeholder with its turn."""
    here, _ = attached(tmp_path, PICTURE)

    sent = here.chat(2)[-1].sent

    assert PIXEL not in str(sent.messages)
    assert "What is this?" in sent.text


def test_file_that_does_not_fit_is_named(tmp_path: Path) -> None:
    """03: what is not sent is named to the model, with name and type, and to the user."""
    _, said = attached(tmp_path, FILE, budget=4_000)

    assert kinds(said) == ["text", "file"] or "report-of-march.pdf" in said.first.text
    assert kinds(said) == ["text", "file"] or said.banners != []


def test_attachment_comes_back(tmp_path: Path) -> None:
    """03: `read_log` brings the block itself back, through a message of the memory."""
    here, _ = attached(tmp_path, PICTURE)
    here.chat(6)

    said = here.use("read_log", turns="1")

    assert PIXEL not in str(said.first.messages)
    assert PIXEL in str(said.sent.messages)


def test_attachment_is_found_by_its_name(tmp_path: Path) -> None:
    """03: names are in the log and in the index."""
    here, _ = attached(tmp_path, FILE)
    here.chat(2)

    found = here.use("search_efforts", query="report of march").results[0]

    turns = [said["turn"] for one in found["results"] for said in one["passages"]]
    assert turns == [1]


def test_thoughts_of_a_finished_turn_leave(tmp_path: Path) -> None:
    """03; 08, row 33: thoughts belong to the turn that thought them."""
    here = stage(tmp_path, settings=EXACT)
    thought = {"type": "thinking", "thinking": "The cat sat on the mat.", "signature": "c2ln"}
    here.say("Think.", AIMessage([thought, {"type": "text", "text": "I thought."}]))
    here.chat(4)

    sent = here.chat(1)[0].sent

    assert "The cat sat on the mat." not in str(sent.messages)


def test_summary_is_seen_beside_a_prompt_of_the_application(tmp_path: Path) -> None:
    """06, Embedding: the application's prompt and the memory stand side by side."""
    prompt = SystemMessage("Answer like a pirate.")
    here = stage(tmp_path, entry="middleware", system_prompt=prompt, settings=EXACT)
    here.work(AUTH)

    sent = here.chat(1)[0].sent

    assert "Answer like a pirate." in sent.messages[0].text
    assert summaries_in(sent) == {"auth-bug"}
    assert recalled(sent).count(AUTH.summary) == 1
