"""What the adapters of OpenAI, Anthropic and Gemini make of a context, and whether it is valid.

The requests are built by the providers' own packages, without a network. The rules are those that
the providers answer 400 for breaking.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_openai import ChatOpenAI
from langgraph.types import Command

from ebbtide import Settings
from tests.agents import THREAD, Talk, talk
from tests.doubles import Sent, approve, call, malformed, together
from tests.graph.shapes import SHAPES
from tests.provider_server import adapter

Complaints: TypeAlias = Iterator[str]
Story: TypeAlias = Callable[[Path, str], Talk]

PIXEL = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
KINDS = {
    "anthropic": "anthropic-chat",
    "gemini": "google-generative-ai",
    "gemini 3": "google-generative-ai",
}
LONG = "The refresh token expires after 3600 seconds, and nobody renews it."
SMALL = Settings(context_budget=3_000)


def look_up(word: str) -> str:
    """Look a word up."""
    return {"long": "a long line of the log\n" * 2_000, "nothing": ""}.get(word, f"{word}: a word")


def begin(root: Path, provider: str, answers: Any, **options: Any) -> Talk:
    """Return an agent on a model of the provider's kind, whose answers have the provider's form."""
    if provider in SHAPES:
        shape = SHAPES[provider]()
        answers = [shape(AIMessage(one) if isinstance(one, str) else one) for one in answers]
    chat = talk(root, answers, tools=[look_up, approve], **options)
    chat.model.kind = KINDS.get(provider, "openai-chat")
    return chat


def told(chat: Talk, *words: Any) -> Talk:
    """Say these things, a turn each."""
    for one in words:
        chat.say(one)
    return chat


def thinking(provider: str, answer: AIMessage) -> AIMessage:
    """Return an answer with what the model thought before it, as the provider's adapter has it."""
    if provider not in {"anthropic", "gemini"}:
        return answer  # it is made with what it thought
    thought = {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"}
    said = [{"type": "text", "text": answer.text}] if answer.text else []
    asked = [
        {"type": "tool_use", "id": one["id"], "name": one["name"], "input": one["args"]}
        for one in answer.tool_calls
        if provider == "anthropic"
    ]
    return answer.model_copy(update={"content": [thought, *said, *asked]})


def plain(root: Path, provider: str) -> Talk:
    """Say words alone, twice."""
    return told(begin(root, provider, ["one", "two"]), "first", "second")


def one_tool(root: Path, provider: str) -> Talk:
    """Call a tool, answer, and go on."""
    script = [call("look_up", word="tide"), "A tide.", "Yes."]
    return told(begin(root, provider, script), "What is a tide?", "Sure?")


def parallel(root: Path, provider: str) -> Talk:
    """Call tools of the application and of the memory in one answer, with words beside."""
    both = together(
        *(call("look_up", word="a"), call("open_effort", name="x"), call("look_up", word="b")),
        text="I look.",
    )
    return told(begin(root, provider, [both, "Both.", "Yes."]), "Look up a and b", "Sure?")


def efforts(root: Path, provider: str) -> Talk:
    """Have markers, summaries and hints beside the turns."""
    script = [
        *("hello", call("open_effort", name="auth bug"), "opened", "more", call("close_effort")),
        *("closed", call("open_effort", name="auth fix"), "opened", "yes", "yes"),
    ]
    said = ("hi", LONG, "and more", "done", "Now the auth fix", "the refresh token", "That's done")
    return told(begin(root, provider, script), *said)


def expanded(root: Path, provider: str) -> Talk:
    """Bring the log of a concluded effort back, and take it out again."""
    script = [
        *(call("open_effort", name="a"), "opened", call("close_effort"), "closed"),
        *(call("expand_effort", effort_id="a"), "shown", "yes"),
        *(call("collapse_effort", effort_id="a"), "gone", "yes"),
    ]
    return told(begin(root, provider, script), LONG, "done", "show it", "and?", "hide it", "so?")


def shortened(root: Path, provider: str) -> Talk:
    """Find and say what does not fit, in the running turn and in turns before it."""
    rounds = [call("look_up", word="long")] * 3
    chat = begin(root, provider, [*rounds, "read", "yes", "yes"], settings=SMALL)
    return told(chat, "Read the log", "word " * 20_000, "and now?")


def empty(root: Path, provider: str) -> Talk:
    """Say nothing, find nothing, answer nothing, and have blanks beside a call."""
    blank = call("look_up", word="nothing").model_copy(update={"content": "\n\n"})
    return told(begin(root, provider, [blank, "", " ", "yes"]), "", "   ", "Hello?")


def thoughts(root: Path, provider: str) -> Talk:
    """Think before calls and before words, and once do nothing else."""
    script = [
        thinking(provider, call("look_up", word="tide")),
        thinking(provider, AIMessage("A tide.")),
        thinking(provider, AIMessage("")),
        thinking(provider, call("effort_status")),
        "yes",
    ]
    return told(begin(root, provider, script), "What is a tide?", "Sure?", "And now?")


def images(root: Path, provider: str) -> Talk:
    """Show a picture, with and without words."""
    picture = {"type": "image_url", "image_url": {"url": f"data:image/gif;base64,{PIXEL}"}}
    words = {"type": "text", "text": "What is this?"}
    return told(begin(root, provider, ["a dot", "a dot", "yes"]), [words, picture], [picture], "ok")


def rebuilt(root: Path, provider: str) -> Talk:
    """Have the context cut more than once, with tools in each turn."""
    turns = [[call("look_up", word=f"w{n}"), f"It is word {n}."] for n in range(12)]
    chat = begin(root, provider, [one for turn in turns for one in turn], settings=SMALL)
    return told(chat, *(f"Number {n}: {LONG * 4}" for n in range(12)))


def long_calls(root: Path, provider: str) -> Talk:
    """Think and call with more than fits, words before it, in the running turn and before it."""
    asked = together(call("look_up", word="w" + " and more" * 4_000), text="I look it up. " * 900)
    script = [call("look_up", word="a"), thinking(provider, asked), call("look_up", word="b")]
    chat = begin(root, provider, [*script, "yes", "yes"], settings=SMALL)
    return told(chat, "Look it up", "ok?")


def left(root: Path, provider: str) -> Talk:
    """Wait for a person, who says something else."""
    script = [together(call("approve", what="pay"), call("look_up", word="a")), "so be it", "yes"]
    return told(begin(root, provider, script), "pay", "Forget it", "ok?")


def resumed(root: Path, provider: str) -> Talk:
    """Wait for a person, who answers."""
    script = [together(call("approve", what="pay"), call("look_up", word="a")), "paid", "yes"]
    chat = told(begin(root, provider, script), "pay")
    chat.agent.invoke(Command(resume="yes"), THREAD)
    return told(chat, "ok?")


def cut(root: Path, provider: str) -> Talk:
    """Go on calling tools after the last round."""
    script = [call("effort_status"), call("look_up", word="a"), "yes"]
    return told(begin(root, provider, script, settings=Settings(max_tool_rounds=1)), "go", "ok?")


def invalid(root: Path, provider: str) -> Talk:
    """Call with arguments that are not JSON, and by names that nobody has."""
    badly = together(malformed("read_log", "turn one"), call("functions.look up"), call(""))
    return told(begin(root, provider, [badly, "sorry", "yes"]), "go", "ok?")


def odd_ids(root: Path, provider: str) -> Talk:
    """Have ids as other providers give them: the same in each round, with dots, or very long."""
    ids = ("call_0", "call_0", "functions.look_up:0", "fc_" + "0" * 60, "call_0")
    script: list[Any] = []
    for one in ids:
        asked = {"name": "look_up", "args": {"word": one}, "id": one, "type": "tool_call"}
        script += [AIMessage("", tool_calls=[asked]), "yes"]
    return told(begin(root, provider, script), *("Look it up" for _ in ids))


def greeted(root: Path, provider: str) -> Talk:
    """Adopt a history that begins with what the assistant said."""
    chat = begin(root, provider, ["yes", "yes"])
    history = [AIMessage("Hello! How can I help?"), HumanMessage("hi"), AIMessage("hi")]
    chat.agent.invoke({"messages": [*history, HumanMessage("go on")]}, THREAD)
    return told(chat, "ok?")


def remembered(root: Path, provider: str) -> Talk:
    """Begin a second session, in whose context is what the first concluded."""
    script = [call("open_effort", name="a"), "opened", call("close_effort"), "closed", "hi", "yes"]
    chat = begin(root, provider, script)
    for thread, words in (("one", LONG), ("one", "done"), ("two", "hello"), ("two", "and?")):
        chat.say(words, {"configurable": {"thread_id": thread, "user_id": "ann"}})
    return chat


STORIES: tuple[Story, ...] = (
    *(plain, one_tool, parallel, efforts, expanded, shortened, empty, thoughts, images, rebuilt),
    *(long_calls, left, resumed, cut, invalid, odd_ids, greeted, remembered),
)
ALIKE = ("openai", "anthropic", "gemini")
"""Providers whose answers have the same form in these tests, but for what the model thought."""

DIFFERING = (thoughts, long_calls, cut)
"""Stories with thoughts, and the one in which the kind of the model decides how calls end."""


@cache
def adapting(provider: str) -> Any:
    """Return LangChain's model of a provider."""
    if provider == "anthropic":
        return adapter(provider)(model="claude-sonnet-4-5", api_key="x")
    if provider.startswith("gemini"):
        name = "gemini-3-pro-preview" if provider == "gemini 3" else "gemini-2.5-flash"
        return adapter("google")(model=name, google_api_key="x")
    return ChatOpenAI(model="gpt-5", api_key="x", use_responses_api=provider != "openai")


def requested(provider: str, sent: Sent) -> dict[str, Any]:
    """Return the request that the adapter of a provider makes."""
    model = adapting(provider)
    build = getattr(model, "_prepare_request", None) or model._get_request_payload
    bound = model.bind_tools(sent.tools, tool_choice=sent.tool_choice).kwargs
    body: dict[str, Any] = build(sent.messages, **bound)
    return body


def openai(sent: Sent) -> Complaints:
    """Yield what OpenAI would refuse in a request of its chat completions."""
    body = requested("openai", sent)
    messages: list[dict[str, Any]] = body["messages"]
    yield from _system([message["role"] for message in messages])
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            yield from _expected(message["tool_call_id"], waiting)
            continue
        yield from (f"no result of {one}" for one in waiting)
        asked = message.get("tool_calls") or []
        waiting = [one["id"] for one in asked]
        yield from (f"id {one!r}" for one in waiting if not 0 < len(one) <= 40)
        yield from _names(one["function"]["name"] for one in asked)
        if not (message["content"] or asked):
            yield f"an empty message of {message['role']}"
    yield from (f"no result of {one}" for one in waiting)


def anthropic(sent: Sent) -> Complaints:
    """Yield what Anthropic would refuse."""
    body = requested("anthropic", sent)
    messages: list[dict[str, Any]] = body["messages"]
    if not body["system"]:
        yield "no system"
    roles = [message["role"] for message in messages]
    if roles != [("user", "assistant")[at % 2] for at in range(len(roles))] or roles[-1] != "user":
        yield f"roles {roles}"
    waiting: list[str] = []
    known: list[str] = []
    for message in messages:
        blocks = _blocks(message["content"])
        yield from _empty(blocks)
        if message["role"] == "user":
            results = [one["tool_use_id"] for one in blocks if one["type"] == "tool_result"]
            if sorted(results) != sorted(waiting) or [
                one["type"] for one in blocks[: len(results)]
            ] != ["tool_result"] * len(results):
                yield f"results {results} of {waiting}"
            continue
        waiting = [one["id"] for one in blocks if one["type"] == "tool_use"]
        known += waiting
        yield from _names(one["name"] for one in blocks if one["type"] == "tool_use")
        if blocks[-1]["type"] == "thinking" or "thinking" in [one["type"] for one in blocks[1:]]:
            yield "a thought that is not the first block, or alone"
    yield from (f"id {one!r}" for one in known if not re.fullmatch("[a-zA-Z0-9_-]+", one))
    yield from (f"id {one!r} twice" for one in {*known} if known.count(one) > 1)


def responses(sent: Sent) -> Complaints:
    """Yield what OpenAI would refuse in a request of its Responses API.

    What was thought stands before what followed from it, and neither stands alone.
    """
    items: list[dict[str, Any]] = requested("responses", sent)["input"]
    yield from _system([one["role"] for one in items if one.get("type") == "message"])
    ids = [one["id"] for one in items if "id" in one]
    yield from (f"id {one!r} twice" for one in {*ids} if ids.count(one) > 1)
    kinds = [one.get("type", "message") for one in items]
    asked = [one["call_id"] for one in items if one.get("type") == "function_call"]
    told = [one["call_id"] for one in items if one.get("type") == "function_call_output"]
    if asked != told:
        yield f"calls {asked}, results {told}"
    yield from _names(one["name"] for one in items if one.get("type") == "function_call")
    for at, one in enumerate(items):
        follows = items[at + 1] if at + 1 < len(items) else {}
        number = str(one.get("id", "")).split("_")[1:2]
        if kinds[at] == "reasoning" and str(follows.get("id", "")).split("_")[1:2] != number:
            yield f"{one['id']} before {follows}"
        if (
            kinds[at] != "reasoning"
            and number
            and f"rs_{number[0]}" not in ids[: ids.index(one["id"])]
        ):
            yield f"{one['id']} without what was thought"
        if kinds[at] == "message" and not one["content"]:
            yield f"an empty message of {one['role']}"
        if kinds[at] == "function_call":
            json.loads(one["arguments"])


def gemini_3(sent: Sent) -> Complaints:
    """Yield what Gemini 3 would refuse, and which of its signatures are not sent back.

    In the running turn the first call of each answer needs the one that came with it; the adapter
    has another for calls that were shortened.
    """
    yield from gemini(sent)
    contents = requested("gemini 3", sent)["contents"]
    asked = max(at for at, one in enumerate(contents) if any(part.text for part in one.parts))
    for content in contents[asked + 1 :]:
        first = next((part for part in content.parts if part.function_call), None)
        cut = first is not None and "(shortened)" in (first.function_call.args or {})
        if first and not (cut or str(first.thought_signature).startswith("b'signature")):
            yield f"signature {first.thought_signature!r} of {first.function_call}"


def gemini(sent: Sent) -> Complaints:
    """Yield what Gemini would refuse."""
    body = requested("gemini", sent)
    if not body["config"].system_instruction:
        yield "no system"
    contents = body["contents"]
    if contents[0].role != "user" or contents[-1].role != "user":
        yield f"roles {[one.role for one in contents]}"
    asked: list[str] = []
    for at, content in enumerate(contents):
        if not content.parts:
            yield "an empty content"
        answered = [one.function_response.name for one in content.parts if one.function_response]
        if answered != asked:
            yield f"results of {answered} for calls of {asked}"
        asked = [one.function_call.name for one in content.parts if one.function_call]
        yield from _names(asked)
        if asked and contents[at - 1].role != "user":
            yield "calls that do not follow a user's turn"
        yield from (
            "an empty text" for one in content.parts if one.text is not None and not one.text
        )


def _system(roles: list[str]) -> Complaints:
    if roles[0] != "system" or roles.count("system") > 1:
        yield f"system messages {roles}"


def _expected(answered: str, waiting: list[str]) -> Complaints:
    if answered in waiting:
        waiting.remove(answered)
    else:
        yield f"a result of {answered!r}, which nobody called"


def _names(names: Any) -> Complaints:
    yield from (f"name {one!r}" for one in names if not re.fullmatch("[a-zA-Z0-9_-]{1,64}", one))


def _blocks(content: Any) -> list[Mapping[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _empty(blocks: list[Mapping[str, Any]]) -> Complaints:
    if not blocks:
        yield "an empty message"
    yield from (
        "a blank text" for one in blocks if one["type"] == "text" and not one["text"].strip()
    )


ADAPTERS: Mapping[str, Callable[[Sent], Complaints]] = {
    "openai": openai,
    "responses": responses,
    "responses v0": responses,
    "responses v1": responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "gemini 3": gemini_3,
}


@pytest.fixture(scope="module")
def tell(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Story, str, str], list[Sent]]:
    """Return what tells a story once for all whose model answers in the same form."""

    @cache
    def told(story: Story, provider: str, _entry: str) -> list[Sent]:
        return story(tmp_path_factory.mktemp("story"), provider).model.sent

    def tell(story: Story, provider: str, entry: str) -> list[Sent]:
        alike = provider in ALIKE and story not in DIFFERING
        return told(story, ALIKE[0] if alike else provider, entry)

    return tell


@pytest.mark.thorough
@pytest.mark.parametrize("entry", ["graph"], indirect=True)
@pytest.mark.parametrize("provider", ADAPTERS)
@pytest.mark.parametrize("story", STORIES, ids=lambda one: one.__name__)
def test_no_request_is_invalid(tell: Any, entry: str, story: Story, provider: str) -> None:
    """Each request of a conversation is one that the provider takes."""
    requests = tell(story, provider, entry)

    refused = [(at, *ADAPTERS[provider](sent)) for at, sent in enumerate(requests)]

    assert [one for one in refused if len(one) > 1] == []


@pytest.mark.parametrize("provider", ADAPTERS)
def test_what_is_shortened_is_short_in_the_request(tmp_path: Path, provider: str) -> None:
    """Whatever form an answer has, its long words and arguments are not sent beside previews."""
    chat = long_calls(tmp_path, provider)

    sizes = []
    for sent in chat.model.sent:
        body = requested(provider, sent)
        said = next(body[key] for key in ("messages", "input", "contents") if key in body)
        sizes.append(len(str(said)))

    assert max(sizes) < 12_000


def test_openai_is_left_no_context_of_its_own(tmp_path: Path) -> None:
    """With `use_previous_response_id` the context is sent, and not what the provider kept."""
    chat = one_tool(tmp_path, "responses")
    model = ChatOpenAI(
        model="gpt-5", api_key="x", use_responses_api=True, use_previous_response_id=True
    )

    body = model._get_request_payload(chat.model.sent[-1].messages)

    assert body["input"] == requested("responses", chat.model.sent[-1])["input"]
    assert "previous_response_id" not in body
