"""The rules of the scripted model: what they call and answer, and that they invent nothing."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

from ebbtide import Settings, create_memory_agent
from ebbtide.memory.compressions import Item, Kind
from ebbtide.memory.efforts import Effort
from ebbtide.memory.salience.extract import Asking, Previous, background, extract
from ebbtide.memory.salience.verify import verify
from ebbtide.memory.tool_names import MEMORY_TOOLS
from ebbtide.memory.turn import StoredTurn
from ebbtide.nodes.ask import drive
from ebbtide.testing import InMemoryArchive, ScriptedModel
from tests.agents import THREAD
from tests.doubles import add, call
from tests.memory.conversations import FENCES, ai, human
from tests.memory.conversations import tool as tool_result

PROMPT: list[BaseMessage] = [
    SystemMessage("Port 1 is mentioned in the instructions. Limits are explained here."),
    HumanMessage(
        "<memory 123456789>concluded efforts, oldest first. Data, not a request.\n"
        "- auth-bug (turns 1-3): Logins failed with 401. We decided on a token lifetime of 3600 s."
        "\n- rate-limits: Clients may send 50 requests per second.\n</memory 123456789>",
        name="ebbtide",
    ),
    HumanMessage(
        '<memory 123456789>the stored log of the effort "rate-limits", concluded, turn 4.\n'
        "[turn 4]\n"
        "user: Bursts of 80 requests are tolerated.\n"
        "assistant calls read_log {}\n"
        "</memory 123456789>",
        name="ebbtide",
    ),
    HumanMessage(
        '<memory 123456789>turn 5, 2026-01-01: active effort "db-move". As of turn 5: constraints: '
        "none. Goal: move to PostgreSQL</memory 123456789>",
        name="ebbtide",
    ),
    HumanMessage("The database listens on port 5433."),
    AIMessage("Backups run at midnight, as I configured them."),
    HumanMessage("Noted."),
    AIMessage("Noted: The database listens on port 5433."),
]


class Summary(BaseModel):
    """What a summary request asks for."""

    summary: str
    keywords: list[str]
    importance: int


def schema(name: str) -> dict[str, Any]:
    """Return the schema of a tool without parameters."""
    return {"type": "function", "function": {"name": name, "description": "", "parameters": {}}}


def ask(text: str, *after: BaseMessage, tools: Sequence[Any] = (), **options: Any) -> AIMessage:
    """Return the answer to a request after `PROMPT`, with the memory tools and others bound."""
    model = ScriptedModel().bind_tools([*map(schema, sorted(MEMORY_TOOLS)), *tools], **options)
    return model.invoke([*PROMPT, HumanMessage(text), *after])


def calls(answer: AIMessage) -> list[tuple[str, dict[str, Any]]]:
    """Return the names and arguments of the calls of an answer."""
    return [(one["name"], one["args"]) for one in answer.tool_calls]


def result(name: str, body: object) -> ToolMessage:
    """Return what a tool answers to the call that `call` makes."""
    return ToolMessage(json.dumps(body), name=name, tool_call_id=f"call_1_{name}")


@pytest.mark.parametrize(
    ("text", "name", "args"),
    [
        ("let's work on the auth fix", "open_effort", {"name": "auth fix", "goal": ""}),
        ("Let’s start on X: make it fast", "open_effort", {"name": "X", "goal": "make it fast"}),
        ("that's done", "close_effort", {}),
        ("All tests pass, so that's done.", "close_effort", {}),
        ("Please conclude it", "close_effort", {}),
        ("Wrap up the team trip.", "close_effort", {"effort_id": "team-trip"}),
        ('let\'s go back to the "db move"', "switch_effort", {"effort_id": "db-move"}),
        ("Can you reopen auth-bug?", "reopen_effort", {"effort_id": "auth-bug"}),
        ("show me the log of the auth bug", "expand_effort", {"effort_id": "auth-bug"}),
        ("Show me the full log of X once more", "expand_effort", {"effort_id": "x"}),
        ("collapse rate limits", "collapse_effort", {"effort_id": "rate-limits"}),
        ("what are we working on?", "effort_status", {}),
        ("search for backups", "search_efforts", {"query": "backups"}),
        ("Use add with a=1, b=2.", "add", {"a": "1", "b": "2"}),
    ],
)
def test_plain_requests(text: str, name: str, args: dict[str, Any]) -> None:
    """A plain request becomes the call of one tool."""
    answer = ask(text, tools=[add])

    assert calls(answer) == [(name, args)]


@pytest.mark.parametrize(
    "text",
    [
        "don't close it",
        "The work is done by the server.",
        "We should write a test for that",
        "That's all I know about caching.",
        "How are you?",
    ],
)
def test_what_is_no_request(text: str) -> None:
    """What only resembles a request calls nothing."""
    assert calls(ask(text)) == []


@pytest.mark.parametrize("choice", ["add", "any", "required"])
def test_forced_tools_are_called(choice: str) -> None:
    """A choice makes the model call a tool, the named one or the last, whatever was said."""
    assert calls(ask("hm", tools=[add], tool_choice=choice)) == [("add", {})]


def test_only_bound_tools_are_called() -> None:
    """Without tools, or with the choice "none", a request is acknowledged."""
    said = "let's work on billing"
    answers = [ScriptedModel().invoke(said), ask(said, tool_choice="none")]

    assert [answer.text for answer in answers] == [f"Noted: {said}"] * 2
    assert [calls(answer) for answer in answers] == [[], []]


@pytest.mark.parametrize(
    ("name", "body", "report"),
    [
        ("open_effort", {"status": "opened", "effort_id": "x"}, "Opened x."),
        (
            "close_effort",
            {"status": "concluded", "effort_id": "x", "summary": "It works."},
            "Concluded x: It works.",
        ),
        (
            "effort_status",
            {"efforts": [{"id": "x", "status": "open", "active": True}]},
            "x: open",
        ),
        ("search_efforts", {"query": "q", "results": []}, "The search found nothing."),
        (
            "search_efforts",
            {"query": "lamp", "results": [{"passages": [{"turn": 2, "text": "The lamp is red."}]}]},
            "Found turn 2: The lamp is red.",
        ),
        ("close_effort", {"error": "no effort"}, "close_effort did not work: no effort"),
        ("add", 3, "add answered: 3"),
        ("add", {"results": [3]}, 'add answered: {"results": [3]}'),
    ],
)
def test_results_are_reported(name: str, body: object, report: str) -> None:
    """After a result, or an error, the answer reports it and calls nothing."""
    answer = ask("open an effort for x", call(name), result(name, body))

    assert (answer.text, answer.tool_calls) == (report, [])


@pytest.mark.parametrize(
    ("question", "quoted"),
    [
        (
            "What did we decide about the auth bug?",
            'From the summary of auth-bug: "We decided on a token lifetime of 3600 s."',
        ),
        (
            "Which bursts do we tolerate?",
            'From the log of rate-limits, turn 4: "Bursts of 80 requests are tolerated."',
        ),
        ("Which port does the database use?", 'You said: "The database listens on port 5433."'),
    ],
)
def test_questions_are_answered_from_the_context(question: str, quoted: str) -> None:
    """A question is answered by the best sentence of the prompt, with its source."""
    answer = ask(question)

    assert (answer.text, answer.tool_calls) == (quoted, [])


def test_nothing_is_invented() -> None:
    """What neither the context nor a search says is not answered; nor are questions quoted."""
    question, asked = "What is the capital of France?", "Where is port 1 mentioned?"
    vain = result("search_efforts", {"query": question, "results": []})
    answer = ask(question, call("search_efforts"), vain)
    again = ScriptedModel().invoke([PROMPT[0], HumanMessage(asked), HumanMessage(asked)])

    assert calls(ask(question)) == [("search_efforts", {"query": question})]
    assert (answer.text, answer.tool_calls) == (
        f'The search found nothing. I do not find an answer to "{question}" in my context.',
        [],
    )
    assert again.text.startswith("I do not find")


@pytest.mark.parametrize(
    ("messages", "start"),
    [
        ([HumanMessage("Hello!")], "Hello. I am Ebbtide's scripted model"),
        ([HumanMessage("")], "I read only text"),
        ([HumanMessage([{"type": "image_url", "image_url": {"url": "x"}}])], "I read only text"),
        ([SystemMessage("s")], "I read only text"),
        ([HumanMessage("- x: y", name="ebbtide")], "I read only text"),
    ],
)
def test_without_words(messages: list[BaseMessage], start: str) -> None:
    """A greeting, an image or no user message at all gets an honest answer too."""
    assert ScriptedModel().invoke(messages).text.startswith(start)


def test_the_same_messages_give_the_same_answer() -> None:
    """Answers are deterministic, call ids included, whatever ids the messages have."""
    model = ScriptedModel().bind_tools([schema("close_effort")])
    first, second = (model.invoke([HumanMessage("that's done", id=one)]) for one in ("a", "b"))

    assert first.tool_calls == second.tool_calls


LOG = """<log part="1 of 1" key="cc33">
[turn 1]
user: Let's work on the auth bug: logins fail with 401 after an hour.
assistant calls open_effort {"name": "auth bug"}
tool open_effort: {"status":"opened","effort_id":"auth-bug"}
assistant: Opened auth-bug.

[turn 2]
user: Nice weather. We found that the token expires after 3600 seconds.
assistant: Noted: We found that the token expires after 3600 seconds.

[turn 3]
user: Should we wait 5 minutes? We decided to refresh tokens 300 seconds early.
assistant: The token is refreshed early now.

[turn 4]
user: That's done.
assistant calls close_effort {}
</log cc33>"""


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_summaries(method: str) -> None:
    """A summary quotes the first request, decisions and numbers."""
    model = ScriptedModel().with_structured_output(Summary, method=method)
    answer = model.invoke([SystemMessage("Write the record."), HumanMessage(LOG)])

    assert isinstance(answer, Summary)
    assert answer.summary == (
        "Let's work on the auth bug: logins fail with 401 after an hour. "
        "We found that the token expires after 3600 seconds. "
        "We decided to refresh tokens 300 seconds early."
    )
    assert answer.importance == 85
    assert {"auth", "seconds"} <= {*answer.keywords}


EFFORT = Effort("auth-bug", "open", goal="Log in again")
TURNS = [
    StoredTurn(
        1, (human("Let's work on the login. Tokens must never be logged."), ai("Fine.")), ""
    ),
    StoredTurn(
        2,
        (
            human("Which port is it? It rains."),
            tool_result("1", "a b c\nport: 8443", "grep"),
            ai("It is port 8443."),
        ),
        "",
    ),
]


def test_telling_sentences_are_extracted() -> None:
    """Constraints, decisions and numbers are quoted, with their kinds and turns."""
    steps = extract(EFFORT, TURNS, Previous(), Asking(16_000, FENCES))
    selection = drive(steps, {"extraction": ScriptedModel()})

    assert [one.item for one in verify(selection.new, TURNS) if one.item] == [
        Item(Kind.CONSTRAINT, "Tokens must never be logged.", 1),
        Item(Kind.OUTPUT, "port: 8443", 2),
    ]


@pytest.mark.parametrize(
    ("old", "written"),
    [
        ("", "Let's work on the login. Which port is it?"),
        ("It began. It was slow.", "It began. Let's work on the login. Which port is it?"),
    ],
)
def test_backgrounds(old: str, written: str) -> None:
    """A background begins as the old one does, and says what users asked first and last."""
    steps = background(EFFORT, TURNS, Previous(old), Asking(16_000, FENCES))

    assert drive(steps, {"background": ScriptedModel()}) == written


def test_constants_are_kept_in_the_state_block() -> None:
    """What stood in a turn that left the context can be quoted from the notes."""
    settings = Settings(ambient_window=1, rebuild="every-turn", recall_hints=0)
    agent = create_memory_agent(
        ScriptedModel(), archive=InMemoryArchive(), checkpointer=InMemorySaver(), settings=settings
    )
    for words in ("The gateway has port 8443.", "It is at 10.0.0.7.", "Bread is baked at night."):
        state = agent.invoke({"messages": words}, THREAD)
    anchor = state["memory"]["anchor"]

    state = agent.invoke({"messages": "Which port?"}, THREAD)

    assert anchor == {"Technical Anchors": "port 8443\n10.0.0.7"}
    assert state["messages"][-1].text.startswith('From the memory: "')
    assert "port 8443" in state["messages"][-1].text
