"""A chat model without a model: every command and example runs with no key and no network.

It reads only its messages. It calls the memory tools on plain requests ("let's work on …",
"that's done", "expand …"), an application's tool on "use NAME with key=value", and otherwise quotes
the best matching sentence of its prompt. If none answers a question, it searches, once a turn. So
its answers show what the context holds and what the search finds. If the instructions ask for a
state block, it writes ports, versions and addresses that the user states into one.
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
    SystemMessage,
    ToolMessage,
    message_to_dict,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from ..memory.anchor import parsed, rendered
from ..memory.compressions import Kind
from ..memory.efforts import one_line
from ..memory.messages import fingerprint
from ..memory.names import is_qualified
from ..memory.salience.core import kind_of, sentences
from ..memory.state_blocks import END, FIELDS, START
from ..memory.terms import is_pair, is_question, telling, terms, words
from ..memory.tokens import REPLY_OVERHEAD, count, count_message, count_tools
from .offline_prompt import Call, Prompt

_ASKING = frozenset(terms("decide recall remember"))
"""Words about remembering, which are left out of the terms of a question."""

_ENOUGH = 0.4
"""The share of the weight of a question's terms that an answer must have."""

_ENOUGH_CJK = 0.15
"""The same for CJK text: a pair of characters says less than a word."""

_PREFERENCE = 0.1
"""Added to the score of sentences from the memory, so that they win over equal ones."""

_LONGEST = 400
"""Characters of a quotation: a sentence or two."""

_GREETING = re.compile(r"(?i)(?:hello|hi|hey|good (?:morning|evening|day))\b[^.?!,]{0,20}[.!]*")
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
"""The answer to a memory tool's result, by its status."""

_DECISION = re.compile(
    r"\b(?:decid\w+|decision|chose|choose|agreed?|found|fix(?:ed|es)?|because|solved|caused?|"
    r"turned out|concluded?|must|never|always|result(?:ed)?|changed|instead)\b",
    re.IGNORECASE,
)
"""Words of decisions, causes and rules."""

_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
"""A number, date, time or version."""

_CONSTANT = re.compile(
    r"\bport \d{2,5}\b|\bversion \d+(?:\.\d+)*\b|\bhttps?://[^\s<>\"')]*[^\s<>\"').,;:!?]|"
    r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{2,5})?\b",
    re.IGNORECASE,
)
"""Ports, versions, addresses."""

_STATE = re.compile(r'<state key="(?P<key>\w+)">\n(?P<anchor>.*)\n</state (?P=key)>', re.DOTALL)
"""The state block in the memory's messages."""

_BACKGROUND = re.compile(
    r'^<background key="(?P<key>\w+)">\n(?P<old>.*?)\n</background (?P=key)>$',
    re.DOTALL | re.MULTILINE,
)
"""The old background in a request for a new one."""

_PICKED = 40
"""Quotes from one log; `MOST_QUOTED` tokens hold about as many."""

_OUTPUTS = 10
"""Lines of tool output among the quotes of a log, the newest."""

_SALIENT = 4
"""Sentences of a summary."""

_KEYWORDS = 8
"""Keywords of a summary."""

_IMPORTANCE = 50
"""The importance of a log without numbers and decisions; such a memory fades after 20 days."""

_SILENCE = "Nothing was said."


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
        """Return the model with these tools; by the choice "any" the last one is the default."""
        formatted = [convert_to_openai_tool(tool) for tool in tools]
        return self.bind(tools=formatted, tool_choice=tool_choice, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 (the base class's signature)
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 (as above)
        **kwargs: Any,
    ) -> ChatResult:
        prompt, tools = Prompt(messages), kwargs.get("tools") or ()
        choice = kwargs.get("tool_choice")
        schemas = {t["function"]["name"]: t["function"].get("parameters", {}) for t in tools}
        answer = _background(prompt) or _reply(prompt, () if choice == "none" else schemas)
        if choice == "any" and isinstance(answer, str):  # a structured answer: fill the last schema
            name = [*schemas][-1]
            values = _summary(prompt) | _salient(prompt)
            properties = schemas[name].get("properties", ())
            answer = [Call(name, {field: values[field] for field in properties if field in values})]
        if isinstance(answer, str):
            message = AIMessage(_with_block(answer, prompt))
        else:
            # The ids are derived from the prompt, so that the same prompt gives the same answer.
            contents = [[message.type, message.content] for message in messages]
            calls = [
                tool_call(
                    name=tool, args={**args}, id=f"call_{fingerprint([contents, number, tool])}"
                )
                for number, (tool, args) in enumerate(answer)
            ]
            message = AIMessage("", tool_calls=calls)
        message.response_metadata = {"model_name": "offline"}
        sent = sum(count_message(message_to_dict(message), count) for message in messages)
        sent += REPLY_OVERHEAD + count_tools(tools, count)
        answered = count_message(message_to_dict(message), count)
        message.usage_metadata = UsageMetadata(
            input_tokens=sent, output_tokens=answered, total_tokens=sent + answered
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        answer = self._generate(messages, stop, run_manager, **kwargs).generations[0].message
        for word in re.findall(r"\s*\S+\s*|\s+", answer.text):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))
        metadata = answer.model_dump(exclude={"content", "type", "id"})
        last = AIMessageChunk(content="", **metadata, chunk_position="last")
        yield ChatGenerationChunk(message=last)


def _reply(prompt: Prompt, tools: Collection[str]) -> Sequence[Call] | str:
    """Return the answer to a prompt: calls of `tools`, or a text."""
    requests = prompt.requests(tools)
    calls: list[Call] = []
    for call in requests.values():
        if call and call not in calls:
            calls.append(call)
    if calls and not prompt.results:
        return calls
    questions = [part for part, call in requests.items() if call is None and is_question(part)]
    answers = _quotations(questions, prompt) if questions else {}
    unanswered = [question for question in questions if not answers[question]]
    lookups: list[Call] = []
    for question in unanswered[:1]:
        # A log that the question names comes first; a search does not show logs of other sessions.
        hidden = [effort for effort, is_hidden in prompt.efforts.items() if is_hidden]
        logs = [effort for effort in hidden if {*words(effort)} <= {*words(question)}][-1:]
        results = (str(e.get("id")) for _, body in prompt.results for e in body.get("results", ()))
        logs += filter(is_qualified, results)
        lookups += (Call("expand_effort", {"effort_id": e, "query": question}) for e in logs[:1])
        if telling(question):  # small talk has no words to search for
            lookups.append(Call("search_efforts", {"query": question}))
    lookup = [call for call in lookups if call.tool in {*tools} - prompt.called][:1]
    return lookup or _text(prompt, answers, has_requests=bool(calls))


def _quotations(questions: Sequence[str], prompt: Prompt) -> dict[str, str | None]:
    """Quote for each question the sentence that shares most of its terms, None below a threshold.

    Rare terms weigh more. Of equal sentences the newest is quoted. The name of its effort counts
    like a sentence's own words.
    """
    quotable = [(s, {*terms(f"{s.effort} {s.text}")}) for s in prompt.quotable]
    frequency = Counter(term for _, sentence_terms in quotable for term in sentence_terms)
    quotations: dict[str, str | None] = {}
    for question in questions:
        question_terms = {*terms(question)} - _ASKING
        weights = {
            t: math.log(1 + (1 + len(quotable)) / (1 + frequency[t])) for t in question_terms
        }
        share = _ENOUGH_CJK if any(map(is_pair, question_terms)) else _ENOUGH
        threshold = share * sum(weights.values())
        quotations[question], best_score = None, 0.0
        for sentence, sentence_terms in quotable:
            score = sum(weights[term] for term in question_terms & sentence_terms)
            preferred = score + _PREFERENCE * (sentence.speaker == "memory")
            if score and score >= threshold and preferred >= best_score:
                quotations[question] = f'{sentence.where}: "{_clipped(sentence.text)}"'
                best_score = preferred
    return quotations


def _text(prompt: Prompt, answers: Mapping[str, str | None], *, has_requests: bool) -> str:
    """Return the text that reports results and answers questions."""
    if not prompt.text:
        return "I read only text, and there is no request in what I was given."
    # Results of lookups are not reported if the answers quote them.
    looked_up = answers and all(answers.values()) and not has_requests
    parts = [] if looked_up else [_outcome(*result) for result in prompt.results]
    reported_queries = {body.get("query") for _, body in prompt.results if body.get("results")}
    for question, answer in answers.items():
        if answer or question not in reported_queries:
            missing = f'I do not find an answer to "{_clipped(question)}" in my context.'
            parts.append(answer or missing)
    if parts:
        return " ".join(parts)
    if _GREETING.fullmatch(prompt.text):
        return _INTRODUCTION
    return f"Noted: {_clipped(max(prompt.parts, key=_signals, default=prompt.text))}"


def _outcome(result: ToolMessage, body: Mapping[str, Any]) -> str:
    """Report the result of a tool in one sentence."""
    text, name = str(result.text), result.name or "The tool"
    if "error" in body or result.status == "error":
        return f"{name} did not work: {_clipped(str(body.get('error', text)))}"
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
        return f"{name} answered: {_clipped(text)}"
    lines = [
        f"{entry.get('id') or 'turn ' + str(entry.get('turn'))}: "
        + _clipped(one_line(str(entry.get("summary") or entry.get("excerpt"))))
        for entry in body["results"][:3]
    ]
    return f"Found {'; '.join(lines)}" if lines else "The search found nothing."


def _signals(text: str) -> int:
    """Score a sentence: 2 for each word of a decision, 1 for each number.

    >>> _signals("We chose port 8080 because of the proxy.")
    5
    """
    return 2 * len(_DECISION.findall(text)) + len(_NUMBER.findall(text))


def _clipped(text: str) -> str:
    """Return the text, cut after a word and with "…" if it is too long for a quotation."""
    if len(text) <= _LONGEST:
        return text
    return (text[:_LONGEST].rpartition(" ")[0] or text[:_LONGEST]) + "…"


def _summary(prompt: Prompt) -> dict[str, Any]:
    """Summarise a log by quotes: the first request, decisions and numbers, the last answer."""
    everything = prompt.sentences
    log = [sentence for sentence in everything if sentence.source == "the log"] or everything
    # Text of tools and of the offline model itself repeats other text.
    log = [sentence for sentence in log if not sentence.repeats and sentence.speaker != "tool"]
    texts = list(dict.fromkeys(sentence.text for sentence in log))
    requests = [sentence.text for sentence in log if sentence.speaker == "user"]
    answers = [sentence.text for sentence in log if sentence.speaker == "assistant"]
    ends = {*requests[:1], *answers[-1:]} or {*texts[:1], *texts[-1:]}
    statements = dict.fromkeys(s.text for s in log if s.states and s.text not in ends)
    best = sorted(filter(_signals, statements), key=_signals, reverse=True)[:_SALIENT]
    chosen = [_clipped(text) for text in texts if text in {*ends, *best}]
    counted = Counter(word for sentence in log for word in words(sentence.text) if terms(word))
    ranked = sorted(counted, key=lambda word: (-counted[word], -len(word), word))
    return {
        "summary": " ".join(t if t[-1] in ".!?…。" else f"{t}." for t in chosen) or _SILENCE,
        "keywords": [word for word in ranked if len(word) > 1][:_KEYWORDS],
        "importance": min(100, _IMPORTANCE + 5 * sum(map(_signals, chosen))) if chosen else 0,
    }


def _salient(prompt: Prompt) -> dict[str, Any]:
    """Quote the sentences of a log with a goal, a constraint, a decision or a number."""
    # A further request for quotes lists the earlier ones.
    listed = prompt.messages[-1].text.partition("<log")[0]
    quoted = {*re.findall(r"^\d+\. (.+)$", listed, re.MULTILINE)}
    items: dict[str, dict[str, Any]] = {}
    for sentence in prompt.sentences:
        text = sentence.text
        if not sentence.turn or text in quoted or not sentence.states:
            continue
        kind = Kind.OUTPUT if sentence.speaker == "tool" else kind_of(text) or Kind.FACT
        if _signals(text) or kind not in {Kind.OUTPUT, Kind.FACT}:
            items[text] = {"quote": text, "kind": str(kind), "turn": int(sentence.turn)}
    outputs = [quote for quote, item in items.items() if item["kind"] == Kind.OUTPUT]
    candidates = [quote for quote in items if quote not in outputs[:-_OUTPUTS]]
    best = sorted(candidates, key=_signals, reverse=True)[:_PICKED]
    return {"new": [items[quote] for quote in candidates if quote in best], "done": []}


def _background(prompt: Prompt) -> str | None:
    """Return a background, None if not asked: first of the old one, first and last user message."""
    request = _BACKGROUND.search(prompt.messages[-1].text) if prompt.messages else None
    if request is None:
        return None
    old = [] if request["old"] == "nothing" else [*sentences(request["old"])][:1]
    first_by_turn: dict[str, str] = {}
    for sentence in prompt.sentences:
        if sentence.turn and sentence.speaker == "user":
            first_by_turn.setdefault(sentence.turn, sentence.text)
    requests = [*first_by_turn.values()]
    chosen = dict.fromkeys([*old, *requests[:1], *requests[-1:]])
    return " ".join(map(_clipped, chosen)) or _SILENCE


def _with_block(text: str, prompt: Prompt) -> str:
    """Return an answer, with a state block at its end if the user has stated a new constant.

    There is no block unless the instructions ask for one.
    """
    if not any(isinstance(m, SystemMessage) and START in m.text for m in prompt.messages):
        return text
    blocks = (_STATE.search(note.text) for note in prompt.notes)
    anchor = next((parsed(state["anchor"]) for state in blocks if state), {})
    field = FIELDS[-1]
    old_constants = anchor.get(field, "").splitlines()
    constants = [*old_constants]
    statements = "\n".join(part for part in prompt.parts if not is_question(part))
    for constant in _CONSTANT.findall(statements):
        if constant.casefold() not in map(str.casefold, constants):
            constants.append(constant)
    if constants == old_constants:
        return text
    block = rendered({**anchor, field: "\n".join(constants)})
    return f"{text}\n\n{START}\n{block}\n{END}"
