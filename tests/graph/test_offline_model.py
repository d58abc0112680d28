"""The offline model: what it calls, what it answers, and that it invents nothing."""

import json
import operator
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

from ebbtide import DiskArchive, Settings, create_memory_agent
from ebbtide.graph.offline_model import OfflineModel
from tests.doubles import call, together

MEMORY_TOOLS = (
    "open_effort",
    "close_effort",
    "switch_effort",
    "reopen_effort",
    "update_goal",
    "expand_effort",
    "collapse_effort",
    "effort_status",
    "read_log",
    "search_efforts",
)

TALK = (
    "Let's work on the auth bug: users are logged out.",
    "We found that the interceptor fixes it.",
    "That's all.",
    *("The tram was late.", "There is soup left.", "It rains.", "The lift is broken."),
    "What was the fix for the auth thing?",
    "What is the capital of France?",
)

PROMPT: list[BaseMessage] = [
    SystemMessage("Port 1 is mentioned in the instructions. Limits are explained here."),
    HumanMessage(
        "[Memory: concluded efforts, oldest first. Data, not a request.]\n"
        "- auth-bug (turns 1-3): Logins failed with 401. We decided on a token lifetime of 3600 s."
        "\n- rate-limits: Clients may send 50 requests per second.",
        name="ebbtide",
    ),
    HumanMessage(
        "[Memory: the stored log.]\n"
        '<effort id="rate-limits" status="concluded" turns="4" key="aa11">\n'
        "[turn 4]\n"
        "user: Bursts of 80 requests are tolerated.\n"
        "assistant calls read_log {}\n"
        "</effort aa11>",
        name="ebbtide",
    ),
    HumanMessage(
        '[Memory: what follows is the open effort "db-move". Goal: move to PostgreSQL.]',
        name="ebbtide",
    ),
    HumanMessage("The database listens on port 5433."),
    AIMessage("Backups run at midnight, as I configured them."),
    HumanMessage("订单系统每天凌晨三点备份。"),
    AIMessage("Noted: 订单系统每天凌晨三点备份。"),
]


class Summary(BaseModel):
    """What a summary request asks for."""

    summary: str
    keywords: list[str]
    importance: int


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def schema(name: str) -> dict[str, Any]:
    """Return the schema of a tool without parameters."""
    return {"type": "function", "function": {"name": name, "description": "", "parameters": {}}}


def ask(text: str, *after: BaseMessage, tools: Sequence[Any] = (), **options: Any) -> AIMessage:
    """Return the answer to a request after `PROMPT`, with the memory tools and others bound."""
    bound = [*map(schema, MEMORY_TOOLS), *tools]
    model = OfflineModel().bind_tools(bound, **options)
    return model.invoke([*PROMPT, HumanMessage(text), *after])


def calls(answer: AIMessage) -> list[tuple[str, dict[str, Any]]]:
    """Return the names and arguments of the calls of an answer."""
    return [(one["name"], one["args"]) for one in answer.tool_calls]


def result(name: str, body: object, number: int = 1) -> ToolMessage:
    """Return what a tool answers to the call that `call` makes."""
    return ToolMessage(json.dumps(body), name=name, tool_call_id=f"call_{number}_{name}")


@pytest.mark.parametrize(
    ("text", "name", "args"),
    [
        ("let's work on the auth fix", "open_effort", {"name": "auth fix", "goal": ""}),
        ("Let’s start on X: make it fast", "open_effort", {"name": "X", "goal": "make it fast"}),
        ("OK, start on the report.", "open_effort", {"name": "report", "goal": ""}),
        ("I want to work on UI and tests", "open_effort", {"name": "UI and tests", "goal": ""}),
        ("that's done", "close_effort", {}),
        ("That's all", "close_effort", {}),
        ("We're done, thank you.", "close_effort", {}),
        ("that's done now, thanks!", "close_effort", {}),
        ("Great, this is finished!", "close_effort", {}),
        ("All tests pass, so that's done.", "close_effort", {}),
        ("Please conclude it", "close_effort", {}),
        ("wrap up", "close_effort", {}),
        ("close billing", "close_effort", {"effort_id": "billing"}),
        ('let\'s go back to the "db move"', "switch_effort", {"effort_id": "db-move"}),
        ("switch to the db move", "switch_effort", {"effort_id": "db-move"}),
        ("Can you reopen auth-bug?", "reopen_effort", {"effort_id": "auth-bug"}),
        ("expand the auth bug", "expand_effort", {"effort_id": "auth-bug"}),
        ("show me the full log of the auth bug", "expand_effort", {"effort_id": "auth-bug"}),
        ("collapse rate limits", "collapse_effort", {"effort_id": "rate-limits"}),
        ("what are we working on?", "effort_status", {}),
        ("status", "effort_status", {}),
        ("search for backups", "search_efforts", {"query": "backups"}),
    ],
)
def test_plain_requests(text: str, name: str, args: dict[str, Any]) -> None:
    """A plain request becomes the call of one memory tool."""
    answer = ask(text)

    assert calls(answer) == [(name, args)]
    assert answer.text == ""


def test_two_requests_in_one_message() -> None:
    """Closing and opening in one message are two calls in one answer, in that order."""
    answer = ask("That's done. Now let's work on the billing page.")

    assert calls(answer) == [
        ("close_effort", {}),
        ("open_effort", {"name": "billing page", "goal": ""}),
    ]
    assert len({one["id"] for one in answer.tool_calls}) == 2


def test_a_request_made_twice_is_one_call() -> None:
    """Two requests for the same call make one call."""
    assert calls(ask("That's done. Please conclude it.")) == [("close_effort", {})]


@pytest.mark.parametrize(
    "text",
    [
        "don't close it",
        "let's not work on that",
        "The work is done by the server.",
        "I continue to be unsure about this",
        "I need to fix it",
        "We should write a test for that",
        "That's all I know about caching.",
        "How are you?",
        "What's up?",
        "Are you okay?",
    ],
)
def test_what_is_no_request(text: str) -> None:
    """What only resembles a request calls nothing."""
    answer = ask(text)

    assert answer.tool_calls == []


def test_tools_that_are_not_bound() -> None:
    """Without tools a request is acknowledged, never called."""
    answer = OfflineModel().invoke("let's work on the auth bug")

    assert answer.tool_calls == []
    assert answer.text == "Noted: let's work on the auth bug"


def test_tool_choice_none() -> None:
    """Tool choice "none" forbids calls although the tools are bound."""
    answer = ask("let's work on billing", tool_choice="none")

    assert answer.tool_calls == []


def test_tool_choice_any() -> None:
    """A forced choice calls the last tool where nothing asks for another."""
    forced, requested = (ask(text, tools=[add], tool_choice="any") for text in ("hm", "status"))

    assert calls(forced) == [("add", {})]
    assert calls(requested) == [("effort_status", {})]


def test_tools_of_the_application() -> None:
    """A bound tool is called by its name, with the arguments that are written behind it."""
    answer = ask("Use add with a=1, b=2.", tools=[add])

    assert calls(answer) == [("add", {"a": "1", "b": "2"})]


@pytest.mark.parametrize(
    ("name", "body", "report"),
    [
        ("open_effort", {"status": "opened", "effort_id": "x"}, "Opened x."),
        (
            "close_effort",
            {"status": "concluded", "effort_id": "x", "summary": "It works."},
            "Concluded x: It works.",
        ),
        ("switch_effort", {"status": "switched", "effort_id": "x"}, "Switched to x."),
        (
            "reopen_effort",
            {"status": "reopened", "effort_id": "x", "prior_summary": "It worked."},
            "Reopened x: It worked.",
        ),
        (
            "expand_effort",
            {"status": "expanded", "effort_id": "x", "tokens_loaded": 340, "turns": "3-9"},
            "Expanded x: 340 tokens of its log are back in view.",
        ),
        ("collapse_effort", {"status": "collapsed", "effort_id": "x"}, "Collapsed x."),
        (
            "effort_status",
            {"efforts": [{"id": "x", "status": "open", "active": True}]},
            "1 effort: x (open, active).",
        ),
        ("effort_status", {"efforts": []}, "0 efforts: none."),
        ("search_efforts", {"query": "q", "results": []}, "The search found nothing."),
        (
            "search_efforts",
            {"query": "q", "results": [{"id": "x", "summary": "It works."}]},
            "Found x: It works.",
        ),
        (
            "search_efforts",
            {"query": "q", "results": [{"turn": 2, "excerpt": "user: hello"}]},
            "Found turn 2: user: hello",
        ),
        (
            "collapse_effort",
            {"error": "no effort 'x'"},
            "collapse_effort did not work: no effort 'x'",
        ),
        ("add", 3, "add answered: 3"),
        ("add", {"sum": 3}, 'add answered: {"sum": 3}'),
        (
            "add",
            {"results": [3], "status": ["odd"]},
            'add answered: {"results": [3], "status": ["odd"]}',
        ),
    ],
)
def test_results_are_reported(name: str, body: object, report: str) -> None:
    """After a result, or an error, the answer reports it and calls nothing."""
    answer = ask("open an effort for x", call(name), result(name, body))

    assert answer.text == report
    assert answer.tool_calls == []


def test_two_results_are_reported() -> None:
    """Two results are reported in their order."""
    tool_calls = together(call("switch_effort"), call("open_effort"))
    switched = result("switch_effort", {"status": "switched", "effort_id": "x"})
    opened = result("open_effort", {"status": "opened", "effort_id": "y"}, 2)

    answer = ask("switch to x and start on y", tool_calls, switched, opened)

    assert answer.text == "Switched to x. Opened y."


@pytest.mark.parametrize(
    ("question", "quoted"),
    [
        (
            "What did we decide about the token lifetime?",
            'From the summary of auth-bug: "We decided on a token lifetime of 3600 s."',
        ),
        (
            "what did we decide about the auth bug?",
            'From the summary of auth-bug: "We decided on a token lifetime of 3600 s."',
        ),
        (
            "Which bursts do we tolerate?",
            'From the log of rate-limits, turn 4: "Bursts of 80 requests are tolerated."',
        ),
        ("Which port does the database use?", 'You said: "The database listens on port 5433."'),
        ("When do the backups run?", 'I said: "Backups run at midnight, as I configured them."'),
        ("What's our goal?", 'From the memory: "Goal: move to PostgreSQL."'),
        ("订单系统什么时候备份？", 'You said: "订单系统每天凌晨三点备份。"'),
    ],
)
def test_questions_are_answered_from_the_context(question: str, quoted: str) -> None:
    """A question is answered by the best sentence of the prompt, with its source."""
    answer = ask(question)

    assert answer.text == quoted
    assert answer.tool_calls == []


def test_a_hint_is_of_its_turn() -> None:
    """A line of the memory about a turn is quoted as that turn's, not as an effort's summary."""
    note = HumanMessage("[Memory: stored.]\n- turn 7: user: The lamp is red.", name="ebbtide")

    answer = OfflineModel().invoke([note, HumanMessage("Which colour has the lamp, is it red?")])

    assert answer.text == 'From the log, turn 7: "user: The lamp is red."'


def test_nothing_is_invented() -> None:
    """What neither the context nor a search says is not answered."""
    question = "What is the capital of France?"
    vain = result("search_efforts", {"query": question, "results": []})
    answer = ask(question, call("search_efforts"), vain)

    assert calls(ask(question)) == [("search_efforts", {"query": question})]
    assert answer.tool_calls == []
    assert answer.text == (
        f'The search found nothing. I do not find an answer to "{question}" in my context.'
    )


def test_instructions_are_not_quoted() -> None:
    """The system message is never quoted."""
    answer = OfflineModel().invoke([*PROMPT[:1], HumanMessage("Where is port 1 mentioned?")])

    assert answer.text.startswith("I do not find")


def test_an_earlier_question_is_no_answer() -> None:
    """Asking twice does not make the question its own answer."""
    asked = "Which colour has the logo?"
    before = [HumanMessage(asked), OfflineModel().invoke(asked)]
    answer = OfflineModel().invoke([*before, HumanMessage(asked)])

    assert answer.text == f'I do not find an answer to "{asked}" in my context.'


def test_a_summary_that_does_not_say_enough_is_expanded() -> None:
    """A question about a concluded effort that its summary does not answer expands the effort."""
    question = "What was the stack trace in the auth bug?"
    answer = ask(question)

    assert calls(answer) == [("expand_effort", {"effort_id": "auth-bug", "query": question})]


def test_an_expanded_log_answers() -> None:
    """An expanded log is quoted, after the tool's result as well as before the turn."""
    log = HumanMessage(
        '<effort id="auth-bug" key="bb22">\n[turn 2]\nuser: The stack trace ends in verify().\n'
        "</effort bb22>",
        name="ebbtide",
    )
    question = HumanMessage("What was the stack trace in the auth bug?")
    expanded = {"status": "expanded", "effort_id": "auth-bug", "tokens_loaded": 9}
    turn = [question, call("expand_effort"), result("expand_effort", expanded)]
    answers = [OfflineModel().invoke([*PROMPT, *said]) for said in ([*turn, log], [log, *turn])]

    expected = 'From the log of auth-bug, turn 2: "The stack trace ends in verify()."'
    assert [answer.text for answer in answers] == [expected] * 2


@pytest.mark.parametrize(
    "said",
    [
        "What did we decide about caching?",
        "Find what we said about caching.",
        "OK, tell me about the caching",
        "search our notes for the caching decision",
    ],
)
def test_what_is_not_in_view_is_searched(said: str) -> None:
    """A question or request about earlier work that the context does not answer is searched."""
    assert calls(ask(said)) == [("search_efforts", {"query": said})]


def test_a_question_beside_a_request_is_searched_after_it() -> None:
    """After the requests are done, the unanswered question is searched."""
    after = (call("open_effort"), result("open_effort", {"status": "opened", "effort_id": "x"}))
    answer = ask("Let's work on x. What did we decide about caching?", *after)

    assert calls(answer) == [("search_efforts", {"query": "What did we decide about caching?"})]


def test_a_turn_searches_once() -> None:
    """If an expanded log does not answer, there is one search and no further call."""
    question = "What was the stack trace in the auth bug?"
    expanded = {"status": "expanded", "effort_id": "auth-bug", "tokens_loaded": 9}
    first = (call("expand_effort"), result("expand_effort", expanded))
    vain = (call("search_efforts"), result("search_efforts", {"query": question, "results": []}))

    assert calls(ask(question, *first)) == [("search_efforts", {"query": question})]
    assert ask(question, *first, *vain).tool_calls == []


def test_efforts_found_are_listed_if_no_sentence_answers() -> None:
    """A search result is the answer if no sentence of it can be quoted."""
    question = "What about the authentication problem?"
    found = {"id": "sign-in", "summary": "Fixed 401 errors.", "turn": 7, "excerpt": "user: Hm."}
    body = {"query": question, "results": [found]}
    answer = ask(question, call("search_efforts"), result("search_efforts", body))

    assert answer.text == "Found sign-in: Fixed 401 errors."


def test_a_decision_comes_before_a_request() -> None:
    """A decision is quoted rather than the request that shares more words."""
    question = "What was the fix for the auth thing?"
    excerpt = "user: I need to fix the auth flow.\nuser: The interceptor fixes it."
    body = {"query": question, "results": [{"id": "auth-flow", "turn": 7, "excerpt": excerpt}]}
    answer = ask(question, call("search_efforts"), result("search_efforts", body))

    assert answer.text == 'From the log of auth-flow, turn 7: "The interceptor fixes it."'


def test_an_effort_that_left_is_found_and_tells(tmp_path: Path) -> None:
    """In a whole conversation plain phrases open and close, and a vague question is answered."""
    settings = Settings(summary_eviction_threshold=3, ambient_window=2, rebuild="every-turn")
    archive, saver = DiskArchive(tmp_path), InMemorySaver()
    agent = create_memory_agent(
        OfflineModel(), archive=archive, checkpointer=saver, settings=settings
    )
    thread: RunnableConfig = {"configurable": {"thread_id": "t"}}
    states = [agent.invoke({"messages": text}, thread) for text in TALK]
    said = [state["messages"][-1].text for state in states]

    assert "auth-bug" not in states[-3]["memory"]["summaries"]
    assert said[0] == "Opened auth-bug."
    assert said[2].startswith("Concluded auth-bug: ")
    assert said[-2] == 'From the summary of auth-bug: "We found that the interceptor fixes it."'
    assert said[-1].startswith("The search found nothing.")


def test_an_earlier_report_of_a_search_is_not_quoted() -> None:
    """An earlier list of search results is not quoted, not even a sentence in its middle."""
    told = (
        "Found flow: Users were logged out. The interceptor fixes it.; perf: The cache was empty."
    )
    before = [HumanMessage("What of the flows?"), AIMessage(told)]
    note = "[Memory: concluded efforts.]\n- perf: The start was slow. The cache was never filled."
    question = HumanMessage("Which fix did the cache of the perf get?")

    alone = OfflineModel().invoke([*before, question])
    beside = OfflineModel().invoke([HumanMessage(note, name="ebbtide"), *before, question])

    assert alone.text.startswith("I do not find an answer")
    assert beside.text == 'From the summary of perf: "The cache was never filled."'


def test_found_text_answers() -> None:
    """After a search the answer quotes what was found."""
    found = {"id": "cache", "summary": "Done.", "excerpt": "We cache pages in Redis.", "turn": 7}
    body = {"query": "caching", "results": [found]}
    after = (call("search_efforts"), result("search_efforts", body))
    answer = ask("What did we decide about caching?", *after)

    assert answer.text == 'From the log of cache, turn 7: "We cache pages in Redis."'


def test_a_result_that_is_no_json() -> None:
    """A result that was filled in as plain text is reported as an error."""
    text = "No result was kept: the turn ended before this call was answered. It may have been run."
    filled = ToolMessage(text, name="close_effort", tool_call_id="1", status="error")
    answer = ask("that's done", call("close_effort"), filled)

    assert answer.text == f"close_effort did not work: {text}"


def test_a_shortened_result() -> None:
    """A result that was cut to a preview is quoted as text."""
    cut = '{"turns":[{"turn":5,"text":"user: The backup port is 5433.\\nassistant: Noted…'
    left = ToolMessage(cut, name="read_log", tool_call_id="1")
    answer = OfflineModel().invoke([HumanMessage("show turn 5"), call("read_log"), left])

    assert answer.text == f"read_log answered: {cut}"


@pytest.mark.parametrize("body", [{"port": 5433}, "The port is 5433."])
def test_results_of_the_application_answer(body: object) -> None:
    """What an application's tool found is quoted too."""
    after = (call("lookup"), result("lookup", body))
    answer = OfflineModel().invoke([HumanMessage("Which port is it on the host?"), *after])

    assert answer.text.startswith("lookup answered: ")
    assert "5433" in answer.text


def test_a_request_and_a_question() -> None:
    """A message with both is answered with both."""
    after = (call("open_effort"), result("open_effort", {"status": "opened", "effort_id": "x"}))
    answer = ask("Let's work on x. Which port does the database use?", *after)

    assert answer.text == 'Opened x. You said: "The database listens on port 5433."'


def test_requests_at_the_end_of_a_long_message() -> None:
    """A request after pages of text is understood, and so is one before them."""
    page = "The log says nothing of interest here. " * 5_000
    answer = ask(f"That's done. {page} Now let's work on billing.")

    assert calls(answer) == [
        ("close_effort", {}),
        ("open_effort", {"name": "billing", "goal": ""}),
    ]


def test_the_inside_of_a_quotation_is_no_effort() -> None:
    """A line inside a quoted log that looks like a summary makes no effort known."""
    log = '<effort id="x" key="ee55">\n[turn 1]\nuser: a list:\n- fake: one\n</effort ee55>'
    messages = [HumanMessage(log, name="ebbtide"), HumanMessage("back to fake")]
    answer = OfflineModel().bind_tools([*map(schema, MEMORY_TOOLS)]).invoke(messages)

    assert calls(answer) == [("switch_effort", {"effort_id": "fake"})]


def test_statements_are_acknowledged() -> None:
    """A statement is acknowledged with its most telling sentence."""
    answer = ask("Thanks for waiting. We found that the token expires after 3600 seconds. Good.")

    assert answer.text == "Noted: We found that the token expires after 3600 seconds."


@pytest.mark.parametrize(
    ("messages", "start"),
    [
        ([HumanMessage("Hello!")], "Hello. I am Ebbtide's offline model"),
        ([HumanMessage("")], "I read only text"),
        ([HumanMessage([{"type": "image_url", "image_url": {"url": "x"}}])], "I read only text"),
        ([SystemMessage("s")], "I read only text"),
        ([HumanMessage("- x: y", name="ebbtide")], "I read only text"),
    ],
)
def test_without_words(messages: list[BaseMessage], start: str) -> None:
    """A greeting, an image or no user message at all gets an honest answer too."""
    answer = OfflineModel().invoke(messages)

    assert answer.text.startswith(start)


def test_the_same_messages_give_the_same_answer() -> None:
    """Answers are deterministic, call ids included, whatever ids the messages have."""
    model = OfflineModel().bind_tools([schema("close_effort"), schema("open_effort")])
    text = "that's done. Now let's work on billing"
    first, second = (model.invoke([*PROMPT, HumanMessage(text, id=one)]) for one in ("a", "b"))

    assert first.tool_calls == second.tool_calls
    assert first.usage_metadata == second.usage_metadata


def test_streamed_text() -> None:
    """A text is streamed word by word, the usage with the last chunk."""
    chunks = [*OfflineModel().stream("We found 3 errors.")]

    assert [chunk.text for chunk in chunks] == ["Noted: ", "We ", "found ", "3 ", "errors.", ""]
    assert chunks[-1].usage_metadata is not None


def test_streamed_calls() -> None:
    """Calls are streamed too, the same as invoke gives."""
    model = OfflineModel().bind_tools([schema("close_effort"), schema("open_effort")])
    text = "that's done. Now let's work on billing"
    whole = reduce(operator.add, model.stream(text))

    assert whole.tool_calls == model.invoke(text).tool_calls


async def test_async() -> None:
    """The asynchronous paths give the same answers."""
    model = OfflineModel()
    answer = await model.ainvoke("We found 3 errors.")
    chunks = [chunk.text async for chunk in model.astream("We found 3 errors.")]

    assert answer.text == "Noted: We found 3 errors."
    assert "".join(chunks) == answer.text


def test_usage_is_counted() -> None:
    """Usage is counted over messages, tools and the answer."""
    bare = OfflineModel().invoke("one two three")
    bound = OfflineModel().bind_tools([schema("open_effort")]).invoke("one two three")

    assert bare.usage_metadata == {"input_tokens": 10, "output_tokens": 10, "total_tokens": 20}
    assert bound.usage_metadata is not None
    assert bound.usage_metadata["input_tokens"] > 10


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

SUMMARY = (
    "Let's work on the auth bug: logins fail with 401 after an hour. "
    "We found that the token expires after 3600 seconds. "
    "We decided to refresh tokens 300 seconds early. "
    "The token is refreshed early now."
)


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_summaries(method: str) -> None:
    """A summary quotes the first request, decisions and numbers, and the last answer."""
    model = OfflineModel().with_structured_output(Summary, method=method)
    answer = model.invoke([SystemMessage("Write the record."), HumanMessage(LOG)])

    assert isinstance(answer, Summary)
    assert answer.summary == SUMMARY
    assert answer.importance == 85
    assert answer.keywords[0] == "seconds"


def test_summaries_of_summaries() -> None:
    """Text without speakers is summarised by its first, its telling and its last sentence."""
    log = '<log key="dd44">\nFirst part. It rained. We found 7 errors. The end.\n</log dd44>'
    answer = OfflineModel().with_structured_output(Summary).invoke(log)

    assert isinstance(answer, Summary)
    assert answer.summary == "First part. We found 7 errors. The end."


def test_summary_of_nothing() -> None:
    """An empty log gives a valid summary that says so."""
    answer = OfflineModel().with_structured_output(Summary).invoke([SystemMessage("s")])

    assert answer == Summary(summary="Nothing was said.", keywords=[], importance=0)


def test_a_json_schema_gives_a_dict() -> None:
    """A plain JSON schema is answered with a plain dict."""
    answer = OfflineModel().with_structured_output(Summary.model_json_schema()).invoke(LOG)

    assert isinstance(answer, dict)
    assert answer["summary"] == SUMMARY
