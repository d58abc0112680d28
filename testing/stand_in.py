"""The plain rules by which `ScriptedModel` answers if it has no script."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage, SystemMessage, ToolCall, ToolMessage

from ..memory.compressions import Kind
from ..memory.fences import NAME
from ..memory.names import hyphenated, is_qualified
from ..memory.salience.core import kind_of, sentences
from ..memory.search.terms import is_question, telling, terms, words
from ..memory.state_block import END, START
from ..memory.tool_names import MEMORY_TOOLS

_ENOUGH = 0.4
"""The share of the weight of a question's terms that an answer must have."""

_LONGEST = 400
"""Characters of a quotation, and of a sentence that may be a request."""

_LEAD = (
    r"(?:(?:ok|okay|so|now|then|well|great|please|thanks|can you|could you|let's|let us|we should|"
    r"i want to|i'd like to)\b[\s,]*)*"
)
_TAIL = r"(?:,? (?:now|please|thanks|thank you|once more|again))*"
_THIS = r"(?:that|this|it|(?:the|this|that) (?:active |current )?effort)"
_REQUESTS = {
    re.compile(f"{_LEAD}(?:{request}){_TAIL}", re.IGNORECASE): tool
    for request, tool in (
        (r"(?:work|start) on (?P<name>(?:[^:]|(?<=\d):(?=\d))+)(?::(?P<goal>.*))?", "open_effort"),
        (rf"(?:.*, so )?(?:{_THIS}(?:'s| is)|we're|i'm) (?:all|done|finished)", "close_effort"),
        (rf"(?:close|conclude|wrap up)(?: {_THIS}| (?P<effort_id>.+))?", "close_effort"),
        (r"(?:switch|go back|get back|back) to (?P<effort_id>.+)", "switch_effort"),
        (r"reopen (?P<effort_id>.+)", "reopen_effort"),
        (r"(?:expand|show me\b.* log of) (?P<effort_id>.+?)", "expand_effort"),
        (r"collapse (?P<effort_id>.+)", "collapse_effort"),
        (r"search for (?P<query>.+)", "search_efforts"),
        (r"status|what are we working on", "effort_status"),
    )
}
"""The sentences that ask for a tool of the memory; the groups are its arguments."""

_USE = re.compile(r"use (\w+) with (\w+=.+)", re.IGNORECASE)
_AROUND = re.compile(r"^(?:(?:the|an?|our|my) )+| effort$", re.IGNORECASE)
_MARKS = " \"'`“”.,;!?"
_GREETING = re.compile(r"(?:hello|hi|hey|good (?:morning|day))\b[^.?!,]{0,20}[.!]*", re.IGNORECASE)
_INTRODUCTION = (
    "Hello. I am Ebbtide's scripted model and follow rules: plain requests such as \"let's work on "
    '…", "that\'s done" or "expand …"; otherwise I quote what stands in my context.'
)
_DECISION = re.compile(
    r"\b(?:decid\w+|decision|chose|choose|agreed?|found|fix(?:ed|es)?|because|solved|caused?|"
    r"turned out|concluded?|must|never|always|result(?:ed)?|changed|instead)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_CONSTANT = re.compile(r"\b(?:port \d+|version \d+(?:\.\d+)*|\d+(?:\.\d+){3})\b", re.IGNORECASE)
"""What goes into the state block: ports, versions, addresses."""

_FENCE = re.compile(r'<(/?)\w+(?: \d+)?>|<\w+ \d+>(?:.*stored log of the effort "([^"]+)")?.*')
_TURN = re.compile(r"\[turn (\d+)\b.*\]")
_SPOKEN = re.compile(
    r"(user|assistant|system|tool)(?: ([\w-]+)| \([^()]+\))?(?:: (.*)| calls \w+ .*)"
)
_LISTED = re.compile(r"- (?:turn (?P<turn>\d+)|(?P<effort>\S+?)(?: \([^)]*\))?): (?P<text>.+)")
"""The lines of logs and lists in the memory's messages. What does not match is plain text."""


class _Sentence(NamedTuple):
    text: str
    speaker: str
    effort: str = ""
    turn: str = ""

    @property
    def quoted(self) -> str:
        source = {"user": "You said", "tool": "From a tool"}.get(self.speaker, "From the memory")
        if self.effort or self.turn:
            of = f" of {self.effort}" * bool(self.effort)
            source = f"From the log{of}, turn {self.turn}" if self.turn else f"From the summary{of}"
        return f'{source}: "{_clipped(self.text)}"'

    @property
    def states(self) -> bool:
        """Whether it states something: no question, no request without a goal."""
        call = _request(self.text)
        return not (is_question(self.text) or (call and not call["args"].get("goal")))


def stand_in(
    messages: Sequence[BaseMessage], tools: Mapping[str, Mapping[str, Any]], forced: str
) -> str | list[ToolCall]:
    """Return the answer to a prompt: a text, or calls of tools; `forced` must be called."""
    if forced:
        values = _summary(messages) | _salient(messages) | {"background": _background(messages)}
        wanted = tools[forced].get("properties", ())
        return [_call(forced, **{name: values[name] for name in wanted if name in values})]
    by_user = [at for at, message in enumerate(messages) if _speaker(message) == "user"]
    said = str(messages[by_user[-1]].text).strip() if by_user else ""
    if not said:
        return "I read only text, and there is no request in what I was given."
    if "<background" in said and not tools:
        return _background(messages)
    turn = messages[by_user[-1] + 1 :]
    results = [message for message in turn if isinstance(message, ToolMessage)]
    requests = {part: _request(part) for part in sentences(said)}
    calls = [call for call in requests.values() if call and call["name"] in tools]
    if calls and not results:
        return [call for at, call in enumerate(calls) if call not in calls[:at]]
    quotable = [*_sentences([*messages[: by_user[-1]], *turn])]
    questions = [part for part, call in requests.items() if not call and is_question(part)]
    answers = {question: _quotation(question, quotable) for question in questions}
    open_questions = [part for part in questions if not answers[part] and telling(part)]
    if look_up := _look_up(open_questions, turn, tools):
        return [look_up]
    missing = 'I do not find an answer to "{}" in my context.'
    outcomes = [] if answers and all(answers.values()) and not calls else map(_outcome, results)
    text = " ".join([*outcomes, *(found or missing.format(q) for q, found in answers.items())])
    if not text:
        best = _clipped(max(requests, key=_signals, default=said))
        text = _INTRODUCTION if _GREETING.fullmatch(said) else f"Noted: {best}"
    return text + _state_block(messages, [part for part in requests if not is_question(part)])


def _look_up(
    questions: Sequence[str], turn: Sequence[BaseMessage], tools: Mapping[str, Any]
) -> ToolCall | None:
    """Search for what has no answer, then expand the best effort that was found."""
    called = {call["name"] for message in turn for call in getattr(message, "tool_calls", ())}
    searches = [_json(m.text) for m in turn if m.type == "tool" and m.name == "search_efforts"]
    found = [one.get("id") for body in searches for one in body.get("results", ())]
    effort = next(filter(None, found), "")
    for question in questions:
        call = _call("search_efforts", query=question)
        if effort:  # what was found says too little
            call = _call("expand_effort", effort_id=effort, query=question)
        if call["name"] in {*tools} - called:
            return call
    return None


def _call(tool: str, /, **args: Any) -> ToolCall:
    return ToolCall(name=tool, args=args, id=None)


def _request(sentence: str) -> ToolCall | None:
    """Return the call that a sentence asks for; the name of an effort becomes its id."""
    request = sentence.replace("’", "'").rstrip(_MARKS)
    if len(request) > _LONGEST:
        return None
    if used := _USE.fullmatch(request):
        return _call(used[1], **dict(re.findall(r"(\w+)=([^\s,]+)", used[2])))
    for pattern, tool in _REQUESTS.items():
        if match := pattern.fullmatch(request):
            args = {name: value.strip(_MARKS) for name, value in match.groupdict("").items()}
            if "name" in args:
                args["name"] = _AROUND.sub("", args["name"])
            if name := args.pop("effort_id", ""):
                name = _AROUND.sub("", name)
                args["effort_id"] = name if is_qualified(name) else hyphenated(name)
            return _call(tool, **args)
    return None


def _quotation(question: str, quotable: Sequence[_Sentence]) -> str:
    """Quote the newest sentence that shares most terms with a question; rare ones weigh more."""
    own = {*terms(question)}
    shared = [own & {*terms(f"{one.effort} {one.text}")} for one in quotable]
    often = Counter(term for found in shared for term in found)
    weights = {term: math.log(1 + (1 + len(quotable)) / (1 + often[term])) for term in own}
    scores = [sum(map(weights.__getitem__, found)) for found in shared]
    enough = max(_ENOUGH * sum(weights.values()), min(weights.values(), default=1.0))
    good = [at for at, score in enumerate(scores) if score >= enough]
    # Of equal sentences a summary's is quoted first, then a log's.
    rank = [(not one.effort, bool(one.turn)) for one in quotable]
    best = sorted(good, key=lambda at: (-scores[at], rank[at], -at))
    stating = (quotable[at] for at in best if quotable[at].states)
    return next((one.quoted for one in stating if not _request(one.text)), "")


def _outcome(result: ToolMessage) -> str:
    body, name = _json(result.text), result.name or "The tool"
    if result.status == "error" or "error" in body:
        return f"{name} did not work: {_clipped(str(body.get('error', result.text)))}"
    if "effort_id" in body and "status" in body:
        summary = body.get("summary") or body.get("prior_summary")
        done = f"{str(body['status']).capitalize()} {body['effort_id']}"
        return f"{done}: {summary}" if summary else f"{done}."
    if "efforts" in body:
        return (
            "; ".join(f"{one['id']}: {one['status']}" for one in body["efforts"]) or "No efforts."
        )
    if "query" in body and "results" in body:
        found = [*map(_found, body["results"][:3])]
        return f"Found {'; '.join(found)}" if found else "The search found nothing."
    return f"{name} answered: {_clipped(result.text)}"


def _found(result: Mapping[str, Any]) -> str:
    """Tell one result of a search: its summary, else its best passage."""
    passages = result.get("passages") or [{}]
    place = result.get("id") or f"turn {passages[0].get('turn')}"
    told = str(result.get("summary") or passages[0].get("text") or "").split()
    return f"{place}: {_clipped(' '.join(told))}"


def _state_block(messages: Sequence[BaseMessage], stated: Sequence[str]) -> str:
    """Return a state block with the constants so far, if one is asked for and one is new."""
    notes = "\n".join(one.text for one in messages if _speaker(one) == "memory").casefold()
    new = [one for one in _CONSTANT.findall("\n".join(stated)) if one.casefold() not in notes]
    if not new or not any(isinstance(one, SystemMessage) and START in one.text for one in messages):
        return ""
    constants = "\n".join(dict.fromkeys([*_CONSTANT.findall(notes), *new]))
    return f"\n\n{START}\nTechnical Anchors: {constants}\n{END}"


def _summary(messages: Sequence[BaseMessage]) -> dict[str, Any]:
    """Summarise a log by quotes of its users: how it began, decisions and numbers."""
    log = [one for one in _sentences(messages) if one.turn and one.speaker == "user"]
    texts = [*dict.fromkeys(one.text for one in log)]
    signals = {one.text: _signals(one.text) for one in log if one.states}
    best = {*texts[:1], *sorted(filter(signals.get, signals), key=lambda t: -signals[t])[:4]}
    chosen = [_clipped(text) for text in texts if text in best]
    counted = Counter(word for one in log for word in words(one.text) if terms(word))
    told = " ".join(text if text[-1] in ".!?…。" else f"{text}." for text in chosen)
    return {
        "summary": told or "Nothing was said.",
        "keywords": [word for word, _ in counted.most_common() if len(word) > 1][:8],
        "importance": min(100, 50 + 5 * sum(map(_signals, chosen))) if chosen else 0,
    }


def _salient(messages: Sequence[BaseMessage]) -> dict[str, Any]:
    """Quote the sentences of a log with a goal, a constraint, a decision or a number."""
    items: dict[str, dict[str, Any]] = {}
    for one in _sentences(messages):
        kind = Kind.OUTPUT if one.speaker == "tool" else kind_of(one.text) or Kind.FACT
        says_something = _signals(one.text) or kind not in {Kind.OUTPUT, Kind.FACT}
        if one.turn and says_something:
            items[one.text] = {"quote": one.text, "kind": str(kind), "turn": int(one.turn)}
    return {"new": [*items.values()], "done": []}


def _background(messages: Sequence[BaseMessage]) -> str:
    """Go on from the old background with the first and the last request of the log."""
    log = [*_sentences(messages)]
    old = [one.text for one in log if one.speaker == "memory"][:1]
    requests = {one.turn: one.text for one in reversed(log) if one.turn and one.speaker == "user"}
    said = [*reversed(requests.values())]
    chosen = dict.fromkeys([*old, *said[:1], *said[-1:]])
    chosen.pop("nothing", None)  # so the request says where there is no background yet
    return " ".join(map(_clipped, chosen)) or "Nothing was said."


def _signals(text: str) -> int:
    """Score a sentence: 2 for each word of a decision, 1 for each number."""
    return 2 * len(_DECISION.findall(text)) + len(_NUMBER.findall(text))


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST].rpartition(' ')[0]}…"


def _speaker(message: BaseMessage) -> str:
    if message.type == "human":
        return "memory" if message.name == NAME else "user"
    return "tool" if message.type == "tool" else ""


def _sentences(messages: Iterable[BaseMessage]) -> Iterator[_Sentence]:
    """Yield the sentences of users, tools and the memory, but nothing that the model said."""
    for message in messages:
        said = _Sentence("", _speaker(message))
        body = _json(str(message.text)) if said.speaker == "tool" else {}
        for line in _texts(body, said) if body else _lines(str(message.text), said):
            if line.speaker:
                yield from (line._replace(text=text) for text in sentences(line.text))


def _lines(text: str, said: _Sentence) -> Iterator[_Sentence]:
    """Yield the lines of a text, each with its speaker, effort and turn if they can be read."""
    place = said
    for line in map(str.strip, text.splitlines()):
        if fence := _FENCE.fullmatch(line):
            place = said if fence[1] else said._replace(speaker="memory", effort=fence[2] or "")
        elif turn := _TURN.fullmatch(line):
            place = place._replace(turn=turn[1])
        elif spoken := _SPOKEN.fullmatch(line):
            place = place._replace(speaker=spoken[1] if spoken[1] != "assistant" else "")
            yield place._replace(text="" if spoken[2] in MEMORY_TOOLS else spoken[3] or "")
        elif listed := _LISTED.fullmatch(line):
            effort, number = listed["effort"] or place.effort, listed["turn"] or place.turn
            yield place._replace(text=listed["text"], effort=effort, turn=number)
        else:
            yield place._replace(text=line)


def _texts(value: Any, said: _Sentence) -> Iterator[_Sentence]:
    """Yield the texts in the result of a tool, with the effort and the turn that it names."""
    if isinstance(value, Mapping):
        named = (str(value[key]) for key in ("effort_id", "id") if value.get(key))
        turn = str(value.get("turn", said.turn))
        who = str(value.get("speaker")).split(" ")[0]
        speaker = {"assistant": "", "user": "user"}.get(who, said.speaker)
        place = _Sentence("", speaker, next(named, said.effort), turn)
        for part in value.values():
            yield from _texts(part, place)
    elif isinstance(value, str):
        yield from _lines(value, said) if " " in value else ()  # an id or a status says nothing
    elif isinstance(value, Sequence):
        for part in value:
            yield from _texts(part, said)


def _json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
