"""Compute the metrics of a session from its events."""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any, NamedTuple, Self, cast

from langchain_core.messages import BaseMessage

from .blocks import kind_of
from .errors import SettingsError
from .messages import call_id, calls, speaks
from .recalled import result_of
from .state_block import as_users_see
from .tokens import TokenCounter, count_message
from .tokens import count as count_tokens
from .tool_names import MEMORY_TOOLS
from .turn import Event, StoredTurn

_SOON = 2  # turns after an automatic collapse in which a new expansion shows that it came too early

_MILLION = 1_000_000  # the tokens that a price is for

_ENDING = frozenset({"collapsed", "reopened", "evicted"})
"""The events after which a log is no longer in the context."""

_USING = frozenset({"expanded", "referenced", "returned", "reopened"})
"""The events that use what a search found."""

_FIXED = ("system", "tools")
"""The parts that a call has before anything is said."""


@dataclass(frozen=True, slots=True)
class _Expansion:
    """The turns during which a log was in the context; without an end if it still is.

    `auto` is True if the decay collapsed it, False if a tool did, else None.
    """

    effort: str
    start: int
    end: int | None = None
    auto: bool | None = None


class _Shown(NamedTuple):
    """The tokens of an expanded log, the turns of it that are shown, and when it was expanded."""

    tokens: int
    turns: frozenset[int]
    since: int


@dataclass(frozen=True, slots=True)
class CallTokens:
    """What a call of the model sent, in tokens by part, beside the always-expanded baseline.

    `always_expanded` is the same context with the log of each effort that decay has collapsed.
    """

    turn: int
    parts: Mapping[str, int]
    always_expanded: int

    @property
    def total(self) -> int:
        """The tokens of the whole context, instructions and tool schemas included.

        >>> CallTokens(1, {"system": 200, "turns": 50}, 250).total
        250
        """
        return sum(self.parts.values())


@dataclass(frozen=True, slots=True)
class TurnTokens:
    """The calls of a turn, and what an application without a memory would have sent in it.

    `full_history` is what all calls of such an application would have sent, `last_full_history`
    what its last one would: its instructions and tool schemas, and every message so far except
    calls and results of the memory's tools, for which it makes no calls.
    """

    turn: int
    calls: tuple[CallTokens, ...]
    full_history: int
    last_full_history: int

    @property
    def parts(self) -> Mapping[str, int]:
        """The tokens of the last call, by part."""
        return self.calls[-1].parts

    @property
    def total(self) -> int:
        """The tokens of the last call.

        >>> TurnTokens(1, (CallTokens(1, {"system": 200}, 200),), 1_000, 1_000).total
        200
        """
        return self.calls[-1].total

    @property
    def sent(self) -> int:
        """The tokens of all calls of the turn."""
        return sum(call.total for call in self.calls)

    @property
    def expanded(self) -> int:
        """The tokens of expanded logs in all calls of the turn."""
        return sum(call.parts.get("expanded", 0) for call in self.calls)

    @property
    def last_always_expanded(self) -> int:
        """The always-expanded baseline of the last call."""
        return self.calls[-1].always_expanded

    @property
    def savings(self) -> float | None:
        """The share of the full history that the last call saved; below 0 if it sent more.

        >>> TurnTokens(1, (CallTokens(1, {"system": 250}, 250),), 1_000, 1_000).savings
        0.75
        """
        full = self.last_full_history
        return _ratio(full - self.total, full)


PURPOSES = ("answer", "summary", "extraction", "background", "anchor")
"""What models are asked for, in the order of a report."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The calls for a purpose, and their tokens as the provider reported them.

    `read` are all tokens of the requests, the `cached` ones among them. `unreported` calls have no
    tokens here, because the provider sent no usage.
    """

    purpose: str
    calls: int
    unreported: int
    read: int
    cached: int
    written: int

    @classmethod
    def of(cls, purpose: str, usages: Iterable[Mapping[str, Any] | None]) -> Self:
        """Return what calls cost by LangChain's usage of each, None or empty if none was sent."""
        calls = [usage or {} for usage in usages]
        return cls(
            purpose,
            len(calls),
            sum(not usage for usage in calls),
            sum(usage.get("input_tokens", 0) for usage in calls),
            sum(map(cached_of, calls)),
            sum(usage.get("output_tokens", 0) for usage in calls),
        )

    def money(self, read: float, written: float, cached: float) -> float:
        """Return what the tokens cost at these prices of a million.

        >>> Cost("answer", 1, 0, read=2_000_000, cached=500_000, written=100_000).money(1, 5, 0.1)
        2.05
        """
        fresh = self.read - self.cached
        return (fresh * read + self.cached * cached + self.written * written) / _MILLION


@dataclass(frozen=True, slots=True)
class Report:
    """The metrics of a session; a ratio is None if its denominator is 0.

    `sent` and `full_history` sum the tokens of all calls, of this agent and of one that sends
    everything. Savings are None while the conversation is shorter than instructions and schemas.
    `costs` has an entry for each purpose of model calls.
    """

    auto_collapses: int
    manual_collapses: int
    manual_vs_auto_collapse: float | None
    avg_expansion_duration: float | None
    running_expansions: int
    false_decay_rate: float | None
    tokens_saved_by_decay: int
    expansion_overhead: float | None
    savings_vs_full_history: float | None
    savings_of_last_call: float | None
    sent: int
    always_expanded: int
    full_history: int
    evictions: int
    returns: int
    compressions: int
    fallbacks: int
    fabricated: int
    quotes_left_out: int
    tokens_compressed: int
    searches: int
    searches_used: int
    costs: tuple[Cost, ...]
    turns: tuple[TurnTokens, ...]


MEANINGS: Mapping[str, str] = {
    "auto_collapses": "expanded logs that collapsed because nobody referenced them",
    "manual_collapses": "expanded logs that a tool or a command collapsed",
    "manual_vs_auto_collapse": "manual collapses for each automatic one",
    "avg_expansion_duration": "turns from expansion to collapse, of those that ended",
    "running_expansions": "expanded logs that are still in the context",
    "false_decay_rate": "share of automatic collapses that an expansion undid within 2 turns",
    "tokens_saved_by_decay": "tokens of collapsed logs, for each call that was sent without them",
    "expansion_overhead": "share of expanded logs in the tokens of a turn, on average",
    "savings_vs_full_history": "share of the full history's tokens that all calls saved",
    "savings_of_last_call": "share of the full history's tokens that the last call saved",
    "sent": "tokens of all calls",
    "always_expanded": "tokens of all calls if no log had collapsed by itself",
    "full_history": "tokens of all calls if each had sent the whole history, without memory tools",
    "evictions": "summaries that left the context",
    "returns": "summaries that came back",
    "compressions": "times that an open effort was compressed",
    "fallbacks": "compressions in which rules replaced an answer of the model",
    "fabricated": "invented quotes (not in the log), which were dropped",
    "quotes_left_out": "quotes of compressed efforts that the newest call had no room for",
    "tokens_compressed": "tokens that compressions took out of the context",
    "searches": "calls of search_efforts",
    "searches_used": "searches with a result that this turn or the next used",
}
"""What each figure of a report means."""


def report(stored_turns: Sequence[StoredTurn], count: TokenCounter = count_tokens) -> Report:
    """Return the metrics of consecutive turns and the commands between them, oldest first.

    `count` counts the messages of turns that were committed without their cost.
    """
    events = [(stored.number, event) for stored in stored_turns for event in _in_order(stored)]
    kinds = Counter(event["type"] for _, event in events)
    expansions = [*_expansions(events)]
    ended = [log for log in expansions if log.end is not None]
    auto = sum(log.auto is True for log in ended)
    manual = sum(log.auto is False for log in ended)
    calls, saved = _calls(events)
    costs = [*_context(stored_turns, count)]
    turns = tuple(_turns(costs, calls))
    sent, full = sum(call.total for call in calls), sum(turn.full_history for turn in turns)
    compressed = [e["tokens"] for _, e in events if e["type"] == "compressed" and e.get("tokens")]
    newest = next((event for _, event in reversed(events) if _was_sent(event)), {})
    searches = [*_searches(events)]
    said = sum(event["said"] for _, event in costs)
    is_long = bool(turns) and said > sum(calls[-1].parts.get(part, 0) for part in _FIXED)
    return Report(
        auto_collapses=auto,
        manual_collapses=manual,
        manual_vs_auto_collapse=_ratio(manual, auto),
        avg_expansion_duration=_mean(log.end - log.start for log in ended if log.end is not None),
        running_expansions=len(expansions) - len(ended),
        false_decay_rate=_ratio(_premature(expansions), auto),
        tokens_saved_by_decay=saved,
        expansion_overhead=_mean(turn.expanded / turn.sent for turn in turns),
        savings_vs_full_history=_ratio(full - sent, full) if is_long else None,
        savings_of_last_call=turns[-1].savings if is_long else None,
        sent=sent,
        always_expanded=sum(call.always_expanded for call in calls),
        full_history=full,
        evictions=kinds["evicted"],
        returns=kinds["returned"],
        compressions=kinds["compressed"],
        fallbacks=sum("fallback" in event for _, event in events),
        fabricated=sum(event.get("fabricated", 0) for _, event in events),
        quotes_left_out=sum(newest.get("left_out", {}).get("quotes", {}).values()),
        tokens_compressed=sum(size["before"] - size["after"] for size in compressed),
        searches=len(searches),
        searches_used=sum(searches),
        costs=_costs(event for _, event in events),
        turns=turns,
    )


def _in_order(turn: StoredTurn) -> Iterator[Event]:
    """Yield the events of a turn in the order in which they happened.

    The archive has what the calls sent behind the others; the results of the memory's tools tell
    what happened between two calls.
    """
    sent = deque(event for event in turn.events if event["type"] == "sent")
    others = deque(event for event in turn.events if event["type"] != "sent")
    for message in turn.messages:
        if message.type == "ai" and sent:
            yield sent.popleft()
        elif message.type == "tool":
            result = result_of(message)
            cause = result.get("status"), result.get("effort_id")
            while cause in {(event["type"], event.get("effort")) for event in others}:
                event = others.popleft()
                yield event
                if (event["type"], event.get("effort")) == cause:
                    break
    yield from sent
    yield from others


def cost(
    messages: Iterable[BaseMessage], alone: int, count: TokenCounter, own: Collection[str] = ()
) -> Event:
    """Return the event with the tokens of a turn's messages, without calls of the memory's `own`.

    `before` are the tokens that stand before each answer, which its call would have sent. Those of
    a final `answer` are stored apart: no call of this turn sent it. `alone` are the tokens of the
    application's own instructions and tool schemas.

    >>> said = [HumanMessage("Is it?")]
    >>> answer = AIMessage("Yes.")
    >>> cost([*said, answer], 5, len)
    {'type': 'context', 'said': 18, 'answer': 8, 'alone': 5, 'before': [10]}
    """
    said, answer, before = 0, 0, list[int]()
    for message in without_calls(messages, own):
        tokens = count_message(message, count)
        is_answer = message.type == "ai"
        before += [said] if is_answer else []
        answer = tokens if is_answer else 0
        said += tokens
    return {"type": "context", "said": said, "answer": answer, "alone": alone, "before": before}


def without_calls(messages: Iterable[BaseMessage], names: Collection[str]) -> Iterator[BaseMessage]:
    """Yield messages without calls of these tools and their results, skipping empty ones.

    >>> asking = AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}])
    >>> [*without_calls([asking], {"f"})], len([*without_calls([asking], {"g"})])
    ([], 1)
    """
    removed_ids: set[Any] = set()
    for message in messages:
        called = calls(message)
        removed = [call for call in called if call.get("name") in names] if called else []
        if message.type == "ai":  # ids may repeat between rounds
            removed_ids = {call.get("id") for call in removed} if removed else set()
        if removed_ids and call_id(message) in removed_ids:
            continue
        remainder = _without(message, names) if removed else message
        if not removed or calls(remainder) or speaks(remainder.content):
            yield remainder


def _without(message: BaseMessage, names: Collection[str]) -> BaseMessage:
    """Return a message without calls of these tools.

    They go from content blocks and extras too, from which LangChain would read them again.
    """
    content, extra = cast("Any", message.content), message.additional_kwargs
    if isinstance(content, list):
        content = [b for b in content if not (kind_of(b) == "call" and b.get("name") in names)]
    new: dict[str, Any] = {
        key: [call for call in getattr(message, key) if call.get("name") not in names]
        for key in ("tool_calls", "invalid_tool_calls")
    }
    extra = {key: extra[key] for key in extra if key != "tool_calls"}
    return message.model_copy(update={**new, "content": content, "additional_kwargs": extra})


def _ratio(part: float, total: float) -> float | None:
    return part / total if total else None


def _expansions(events: Iterable[tuple[int, Event]]) -> Iterator[_Expansion]:
    """Yield the expansions that ended, in the order of their ends, then those that still last."""
    running: dict[str, _Expansion] = {}
    for turn, event in events:
        name = event.get("effort", "")
        if event["type"] == "expanded":
            running.setdefault(name, _Expansion(name, turn))
        elif event["type"] in _ENDING and name in running:
            yield replace(running.pop(name), end=turn, auto=event.get("auto"))
    yield from running.values()


def _premature(expansions: Sequence[_Expansion]) -> int:
    """Count the automatic collapses that an expansion of the same effort followed soon."""
    starts = {(log.effort, log.start) for log in expansions}
    return sum(
        any((log.effort, log.end + turns) in starts for turns in range(_SOON + 1))
        for log in expansions
        if log.auto and log.end is not None
    )


def _was_sent(event: Event) -> bool:
    """Tell whether an event is of a call that no other middleware answered."""
    return event["type"] == "sent" and event.get("total") != 0


def _calls(events: Iterable[tuple[int, Event]]) -> tuple[list[CallTokens], int]:
    """Return what each call sent, and the tokens that decay kept out of all of them.

    A log that collapses at the end of a turn is missing from the next call on,
    one that is expanded again is there from the call on that has the result.
    """
    shown, faded = dict[str, _Shown](), dict[str, int]()
    calls, saved = list[CallTokens](), 0
    for turn, event in events:
        name, kind = event.get("effort", ""), event["type"]
        if kind == "expanded":
            shown[name] = _with_parts(shown.get(name), turn, event)
            faded.pop(name, None)
        elif kind in _ENDING:
            log = shown.pop(name, None)
            if kind == "reopened":
                faded.pop(name, None)
            elif event.get("auto") and log:
                faded[name] = log.tokens
        elif _was_sent(event):
            missing = sum(faded.values())
            saved += missing
            tokens = {part: size for part, size in event["tokens"].items() if size}
            calls.append(CallTokens(turn, tokens, sum(tokens.values()) + missing))
    return calls, saved


def _with_parts(log: _Shown | None, turn: int, event: Event) -> _Shown:
    """Return a log after an expansion: calls of one turn add parts, a later one replaces them."""
    if log and event.get("again"):
        return log
    tokens, turns = event["tokens"], frozenset(event["turns"])
    if log and log.since == turn and not log.turns <= turns:
        tokens, turns = tokens + log.tokens, turns | log.turns
    return _Shown(tokens, turns, turn)


def _context(turns: Sequence[StoredTurn], count: TokenCounter) -> Iterator[tuple[int, Event]]:
    """Yield the cost of each turn.

    That of a turn which broke off, and of a history which was adopted, is counted here.
    """
    known = [[e for e in turn.events if e["type"] == "context"] for turn in turns]
    alone = next((found[-1]["alone"] for found in known if found), 0)
    for turn, found in zip(turns, known, strict=True):
        if found:
            alone = found[-1]["alone"]
            yield turn.number, found[-1]
        elif turn.messages:
            yield turn.number, cost(as_users_see(turn.messages), alone, count, MEMORY_TOOLS)


def _turns(costs: Iterable[tuple[int, Event]], calls: Iterable[CallTokens]) -> Iterator[TurnTokens]:
    by_turn: dict[int, list[CallTokens]] = {}
    for call in calls:
        by_turn.setdefault(call.turn, []).append(call)
    message_tokens = 0
    for turn, event in costs:
        fixed = event["alone"] + message_tokens
        message_tokens += event["said"]
        if turn in by_turn:
            last = event["before"][-1] if event["before"] else event["said"] - event["answer"]
            full = sum(fixed + before for before in event["before"])
            yield TurnTokens(turn, tuple(by_turn[turn]), full, fixed + last)


def _searches(events: Sequence[tuple[int, Event]]) -> Iterator[bool]:
    """Yield for each search whether an effort that it found was used by the next turn."""
    for at, (turn, event) in enumerate(events):
        if event["type"] == "searched":
            results = event["efforts"]
            soon = (later for later_turn, later in events[at:] if later_turn <= turn + 1)
            yield any(later["type"] in _USING and later["effort"] in results for later in soon)


def prices_of(text: str) -> tuple[float, float, float]:
    """Return the prices of a million tokens read, written and read from a cache.

    >>> prices_of("0.25,2.00")
    (0.25, 2.0, 0.25)
    """
    try:
        prices = [float(price) for price in text.split(",")]
    except ValueError:
        prices = []
    if len(prices) not in {2, 3} or not all(0 <= price < float("inf") for price in prices):
        raise SettingsError(
            f"prices: pass two or three numbers, 0.25,2.00 or 0.25,2.00,0.025 (got {text[:40]!r})"
        )
    return prices[0], prices[1], [*prices, prices[0]][2]


def cached_of(usage: Mapping[str, Any]) -> int:
    """Return the tokens of a call that the provider had in its cache, from LangChain's usage.

    >>> cached_of({"input_tokens": 900, "input_token_details": {"cache_read": 640}})
    640
    """
    details = usage.get("input_token_details")
    found = details.get("cache_read") if isinstance(details, Mapping) else None
    return found if isinstance(found, int) else 0


def _costs(events: Iterable[Event]) -> tuple[Cost, ...]:
    """Return what the calls of each purpose cost; a turn's own calls are answers."""
    asked: dict[str, list[Mapping[str, Any]]] = {}
    for event in events:
        if _was_sent(event) or event["type"] == "asked":
            usage = event.get("usage")
            known = usage if isinstance(usage, Mapping) else {}
            asked.setdefault(str(event.get("purpose", "answer")), []).append(known)
    return tuple(Cost.of(purpose, asked[purpose]) for purpose in PURPOSES if purpose in asked)


def _mean(values: Iterable[float]) -> float | None:
    numbers = [*values]
    return mean(numbers) if numbers else None
