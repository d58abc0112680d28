"""A chat model without a model: every command and example runs with no key and no network.

It reads only the messages it is given. It calls the memory tools on plain requests ("let's work
on …", "that's done", "expand …"), an application's on "use NAME with key=value", and otherwise
quotes the best matching sentence of its prompt. A question that nothing there answers is searched
for, once a turn, small talk aside. So what it can answer shows what the context holds and what the
search finds. It keeps ports, versions and addresses in a state block if it is told of one. It
understands nothing and invents nothing.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ToolMessage,
    message_to_dict,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from ..memory.efforts import one_line
from ..memory.messages import fingerprint
from ..memory.names import is_qualified
from ..memory.terms import is_pair, is_question, telling, terms, words
from ..memory.tokens import REPLY_OVERHEAD, count, count_message, count_tools
from .offline.prompt import (
    Sentence,
    efforts,
    is_memory,
    memory_result,
    sentences,
    split,
    turn_start,
)
from .offline.requests import Call, request, requested
from .offline.writing import background, clipped, extracted, signals, summarised, with_block

_WORDS = re.compile(r"\s*\S+\s*|\s+")
"""An answer in the pieces in which it is streamed."""

_ASKING = frozenset(terms("decide recall remember"))
"""What is said of remembering, not of what is remembered."""

_ENOUGH = 0.4
"""Share of the weight of a question's words that an answer needs."""

_ENOUGH_CJK = 0.15
"""The same for CJK text: a pair of characters says less than a word."""

_PREFERENCE = 0.1
"""What is added for sentences that the memory shows: of equals they come first."""

_LISTED = 3
"""Results of a search that are told."""

_GREETING = re.compile(
    r"(?:hello|hi|hey|good (?:morning|evening|day))\b[^.?!,]{0,20}[.!]*", re.IGNORECASE
)
"""A message that only greets."""

_INTRODUCTION = (
    "Hello. I am Ebbtide's offline model: I follow plain requests such as \"let's work on …\", "
    '"that\'s done" or "expand …", and otherwise quote what stands in my context.'
)
_OUTCOMES = {
    "opened": "Opened {effort_id}.",
    "concluded": "Concluded {effort_id}: {summary}",
    "switched": "Switched to {effort_id}.",
    "reopened": "Reopened {effort_id}: {prior_summary}",
    "expanded": "Expanded {effort_id}: {tokens_loaded} tokens of its log are back in view.",
    "collapsed": "Collapsed {effort_id}.",
}
"""What is told of a memory tool's result, by its status."""


class OfflineModel(BaseChatModel):
    """A rule-based chat model: deterministic, instant, with tools, streaming and structure."""

    @property
    def _llm_type(self) -> str:
        return "ebbtide-offline"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return the model with these tools.

        With the choice "none" it calls none of them, with "any" the last if nothing asks for one.
        """
        formatted = [convert_to_openai_tool(tool) for tool in tools]
        return self.bind(tools=formatted, tool_choice=tool_choice, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 (the base class's signature)
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        message = _answer(messages, kwargs.get("tools") or (), kwargs.get("tool_choice"))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        """Yield an answer word by word, then its calls and what it cost."""
        answer = self._generate(messages, stop, run_manager, **kwargs).generations[0].message
        for word in _WORDS.findall(answer.text):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))
        rest = answer.model_dump(exclude={"content", "type", "id"})
        yield ChatGenerationChunk(message=AIMessageChunk(content="", **rest, chunk_position="last"))


def _answer(
    messages: Sequence[BaseMessage], tools: Sequence[Mapping[str, Any]], choice: str | None
) -> AIMessage:
    schemas = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in tools}
    answer = background(messages) or _reply(messages, () if choice == "none" else schemas)
    if choice == "any" and isinstance(answer, str):  # a structured answer: fill the last schema
        name = [*schemas][-1]
        values = summarised(messages) | extracted(messages)
        wanted = schemas[name].get("properties", ())
        answer = [Call(name, {field: values[field] for field in wanted if field in values})]
    if isinstance(answer, str):
        message = AIMessage(with_block(answer, messages))
    else:
        prompt = [[message.type, message.content] for message in messages]
        calls = [
            # The ids follow from the prompt, so that the same prompt gives the same answer.
            tool_call(name=tool, args={**args}, id=f"call_{fingerprint([prompt, number, tool])}")
            for number, (tool, args) in enumerate(answer)
        ]
        message = AIMessage("", tool_calls=calls)
    message.response_metadata = {"model_name": "offline"}
    read = sum(count_message(message_to_dict(message), count) for message in messages)
    read += REPLY_OVERHEAD + count_tools(tools, count)
    written = count_message(message_to_dict(message), count)
    message.usage_metadata = UsageMetadata(
        input_tokens=read, output_tokens=written, total_tokens=read + written
    )
    return message


def _reply(messages: Sequence[BaseMessage], tools: Collection[str]) -> Sequence[Call] | str:
    """Return what a prompt is answered with: calls of `tools`, or a text."""
    start = turn_start(messages)
    before, turn = messages[:start], messages[start:]
    text = str(turn[0].text).strip() if turn else ""
    results = [message for message in turn if isinstance(message, ToolMessage)]
    known = efforts(before)
    requests = requested(text, known, tools)
    asked = [call for call in requests.values() if call]
    calls = [call for at, call in enumerate(asked) if call not in asked[:at]]  # said twice
    if calls and not results:
        return calls
    questions = [part for part, call in requests.items() if call is None and is_question(part)]
    view = sentences([*before, *results, *filter(is_memory, turn)]) if questions else ()
    answers = {question: _quotation(question, view) for question in questions}
    unanswered = [question for question in questions if not answers[question]]
    rounds = [message for message in turn if isinstance(message, AIMessage)]
    called = {call["name"] for message in rounds for call in message.tool_calls}
    lookups = _lookups(unanswered[0], known, results) if unanswered else []
    lookup = [call for call in lookups if call.tool in tools and call.tool not in called][:1]
    return lookup or _text(text, results, answers, beside=bool(calls))


def _lookups(
    question: str, known: Mapping[str, bool], results: Sequence[ToolMessage]
) -> list[Call]:
    """Return what may answer a question, best first: the log that it names, or a search.

    A log of another session is not shown by a search that found it, so it is expanded then.
    """
    asked = {*words(question)}
    logs = [name for name, hidden in known.items() if hidden and {*words(name)} <= asked][-1:]
    ids = (str(e.get("id")) for r in results for e in memory_result(r).get("results", ()))
    logs += filter(is_qualified, ids)
    lookups = [Call("expand_effort", {"effort_id": name, "query": question}) for name in logs[:1]]
    # Small talk has no words to search for.
    return lookups + [Call("search_efforts", {"query": question})] * bool(telling(question))


def _quotation(question: str, view: Sequence[Sentence]) -> str | None:
    """Quote the sentence with the best overlap, rare words weighing more; the newest of equals.

    The name of the effort that a sentence belongs to counts like its own words. Questions, requests
    and answers that repeat other text say nothing themselves. None if no sentence shares enough.
    """
    wanted = {*terms(question)} - _ASKING
    quotable = [s for s in view if not (s.own or is_question(s.text) or request(s.text))]
    word_sets = [{*terms(f"{sentence.effort} {sentence.text}")} for sentence in quotable]
    seen = Counter(term for own in word_sets for term in own)
    weights = {term: math.log(1 + (1 + len(word_sets)) / (1 + seen[term])) for term in wanted}
    least = (_ENOUGH_CJK if any(map(is_pair, wanted)) else _ENOUGH) * sum(weights.values())
    best, highest = None, 0.0
    for sentence, own in zip(quotable, word_sets, strict=True):
        score = sum(weights[term] for term in wanted & own)
        preferred = score + _PREFERENCE * (sentence.speaker == "memory")
        if score and score >= least and preferred >= highest:
            best, highest = sentence, preferred
    return f'{best.where}: "{clipped(best.text)}"' if best else None


def _text(
    text: str, results: Sequence[ToolMessage], answers: Mapping[str, str | None], *, beside: bool
) -> str:
    """Return what is said of results and questions, `beside` requests or alone."""
    if not text:
        return "I read only text, and there is no request in what I was given."
    # What was looked up for questions is not told where it answers all of them.
    looked_up = answers and all(answers.values()) and not beside
    parts = [] if looked_up else [_outcome(result) for result in results]
    bodies = [memory_result(result) for result in results]
    told_of = {body.get("query") for body in bodies if body.get("results")}
    for question, answer in answers.items():
        if answer or question not in told_of:
            missing = f'I do not find an answer to "{clipped(question)}" in my context.'
            parts.append(answer or missing)
    if parts:
        return " ".join(parts)
    most = max(split(text), key=signals)
    return _INTRODUCTION if _GREETING.fullmatch(text) else f"Noted: {clipped(most)}"


def _outcome(result: ToolMessage) -> str:
    """Tell in one sentence what a tool did."""
    text, name, body = str(result.text), result.name or "The tool", memory_result(result)
    if "error" in body or result.status == "error":
        return f"{name} did not work: {clipped(str(body.get('error', text)))}"
    if body.get("status") in _OUTCOMES:
        return _OUTCOMES[body["status"]].format_map(body)
    if "efforts" in body:
        states = [
            f"{effort['id']} ({effort['status']}{', active' * bool(effort.get('active'))})"
            for effort in body["efforts"]
        ]
        many = "" if len(states) == 1 else "s"
        return f"{len(states)} effort{many}: {', '.join(states) or 'none'}."
    if "results" not in body:
        return f"{name} answered: {clipped(text)}"
    lines = [
        f"{entry.get('id') or 'turn ' + str(entry.get('turn'))}: "
        + clipped(one_line(str(entry.get("summary") or entry.get("excerpt"))))
        for entry in body["results"][:_LISTED]
    ]
    return f"Found {'; '.join(lines)}" if lines else "The search found nothing."
