"""Compute the metrics of a session from its events."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any

from .messages import Message, calls, is_call, speaks
from .record import Event, Record
from .tokens import TokenCounter, count_messages

_SOON = 2  # turns after an automatic collapse in which a new expansion shows that it came too early

_ENDING = frozenset({"collapsed", "reopened", "evicted"})
"""The events after which a log is no longer in the context."""


@dataclass(frozen=True, slots=True)
class _Expansion:
    """The turns during which a log was in the context, up to the newest if it still is.

    `auto` is True if the decay collapsed it, False if a tool did, else None.
    """

    effort: str
    start: int
    tokens: int
    end: int = 0
    auto: bool | None = None


@dataclass(frozen=True, slots=True)
class TurnTokens:
    """The tokens that a turn's last call sent, by tier, beside two baselines.

    `always_expanded` is the same context with the whole log of every concluded effort in it.
    `full_history` is what the application would have sent without a memory: its instructions and
    tool schemas, and every message so far except calls and results of the memory's tools.
    """

    turn: int
    tiers: Mapping[str, int]
    always_expanded: int
    full_history: int

    @property
    def total(self) -> int:
        """The tokens of the whole context, instructions and tool schemas included.

        >>> TurnTokens(1, {"system": 200, "turns": 50}, 250, 1_000).total
        250
        """
        return sum(self.tiers.values())

    @property
    def savings(self) -> float | None:
        """The share of the full history that was saved; below 0 if more than it was sent.

        >>> TurnTokens(1, {"system": 200, "turns": 50}, 250, 1_000).savings
        0.75
        """
        return _ratio(self.full_history - self.total, self.full_history)


@dataclass(frozen=True, slots=True)
class Report:
    """The metrics of a session; a ratio to nothing is None.

    `sent` and `full_history` sum the tokens of the last calls of all turns, of this agent and of
    one that sends everything; `savings_vs_full_history` is about the last turn.
    """

    auto_collapses: int
    manual_collapses: int
    manual_vs_auto: float | None
    avg_expansion_duration: float | None
    false_decay_rate: float | None
    tokens_saved_by_decay: int
    expansion_overhead: float | None
    savings_vs_full_history: float | None
    sent: int
    full_history: int
    evictions: int
    returns: int
    compressions: int
    fallbacks: int
    fabricated: int
    quotes_left_out: int
    tokens_compressed: int
    compression_calls: int
    compression_tokens: int
    searches: int
    searches_expanded: int
    turns: tuple[TurnTokens, ...]

    @property
    def savings(self) -> float | None:
        """The share of the full history that was saved, over all turns."""
        return _ratio(self.full_history - self.sent, self.full_history)


def report(records: Sequence[Record]) -> Report:
    """Return the metrics of consecutive turns and the commands between them, oldest first."""
    events = [(record.turn, event) for record in records for event in record.events]
    kinds = Counter(event["type"] for _, event in events)
    last = records[-1].turn if records else 0
    expansions = [*_expansions(events, last)]
    auto = [log for log in expansions if log.auto]
    manual = sum(log.auto is False for log in expansions)
    premature = saved = 0
    for log in auto:
        starts = (later.start for later in expansions if later.effort == log.effort)
        restart = next((start for start in starts if start > log.end), None)
        premature += restart is not None and restart - log.end <= _SOON
        saved += log.tokens * ((restart or last + 1) - log.end - 1)
    compressed = [e["tokens"] for _, e in events if e["type"] == "compressed" and e.get("tokens")]
    turns = tuple(_turns(events))
    searches = [*_searches(events)]
    return Report(
        auto_collapses=len(auto),
        manual_collapses=manual,
        manual_vs_auto=_ratio(manual, len(auto)),
        avg_expansion_duration=_mean(log.end - log.start for log in expansions),
        false_decay_rate=_ratio(premature, len(auto)),
        tokens_saved_by_decay=saved,
        expansion_overhead=_mean(turn.tiers.get("expanded", 0) / turn.total for turn in turns),
        savings_vs_full_history=turns[-1].savings if turns else None,
        sent=sum(turn.total for turn in turns),
        full_history=sum(turn.full_history for turn in turns),
        evictions=kinds["evicted"],
        returns=kinds["returned"],
        compressions=kinds["compressed"],
        fallbacks=sum("fallback" in event for _, event in events),
        fabricated=sum(event.get("fabricated", 0) for _, event in events),
        quotes_left_out=sum(e.get("left_out", 0) for _, e in events if e["type"] == "compressed"),
        tokens_compressed=sum(size["before"] - size["after"] for size in compressed),
        compression_calls=sum(event.get("calls", 0) for _, event in events),
        compression_tokens=sum(event.get("spent", 0) for _, event in events),
        searches=len(searches),
        searches_expanded=sum(searches),
        turns=turns,
    )


def cost(
    tiers: Mapping[str, int], messages: Sequence[Message], alone: int, count: TokenCounter
) -> Event:
    """Return the event with the tokens of a turn: of its context, by tier, and of its messages.

    `messages` are those of the turn without the memory's calls. The tokens of a final `answer` are
    stored apart: no call of this turn sent it. `alone` are the tokens of the application's own
    instructions and tool schemas.

    >>> answer = {"type": "ai", "data": {"content": "Yes."}}
    >>> cost({"system": 9, "hints": 0}, [answer], 5, len)
    {'type': 'context', 'tokens': {'system': 9}, 'said': 8, 'answer': 8, 'alone': 5}
    """
    tokens = {tier: size for tier, size in tiers.items() if size}
    answer = [message for message in messages[-1:] if message["type"] == "ai"]
    sizes = {"said": count_messages(messages, count), "answer": count_messages(answer, count)}
    return {"type": "context", "tokens": tokens, **sizes, "alone": alone}


def without_calls(messages: Iterable[Message], names: Collection[str]) -> Iterator[Message]:
    """Yield messages without calls of these tools and their results, skipping empty ones.

    >>> asking = {"type": "ai", "data": {"content": "", "tool_calls": [{"name": "f", "id": "1"}]}}
    >>> [*without_calls([asking], {"f"})], len([*without_calls([asking], {"g"})])
    ([], 1)
    """
    removed_ids: set[Any] = set()
    for message in messages:
        removed = [call for call in calls(message) if call.get("name") in names]
        if message["type"] == "ai":  # ids may repeat between rounds
            removed_ids = {call.get("id") for call in removed}
        if removed_ids and message["data"].get("tool_call_id") in removed_ids:
            continue
        remainder = _without(message, names) if removed else message
        if not removed or calls(remainder) or speaks(remainder["data"].get("content")):
            yield remainder


def _without(message: Message, names: Collection[str]) -> Message:
    """Return a message without calls of these tools.

    They go from content blocks and extras too, from which LangChain would read them again.
    """
    data = dict(message["data"])
    for key in ("tool_calls", "invalid_tool_calls"):
        data[key] = [call for call in data.get(key) or () if call.get("name") not in names]
    if isinstance(data.get("content"), list):
        blocks = data["content"]
        data["content"] = [b for b in blocks if not (is_call(b) and b.get("name") in names)]
    if "additional_kwargs" in data:
        extra = data["additional_kwargs"]
        data["additional_kwargs"] = {key: extra[key] for key in extra if key != "tool_calls"}
    return {**message, "data": data}


def _ratio(part: float, total: float) -> float | None:
    return part / total if total else None


def _expansions(events: Iterable[tuple[int, Event]], last: int) -> Iterator[_Expansion]:
    """Yield the expansions that ended, in the order of their ends, then those that still last."""
    running: dict[str, _Expansion] = {}
    for turn, event in events:
        name = event.get("effort", "")
        if event["type"] == "expanded":
            first = running.get(name) or _Expansion(name, turn, 0, last)
            running[name] = replace(first, tokens=event["tokens"])
        elif event["type"] in _ENDING and name in running:
            yield replace(running.pop(name), end=turn, auto=event.get("auto"))
    yield from running.values()


def _turns(events: Iterable[tuple[int, Event]]) -> Iterator[TurnTokens]:
    """Yield the tokens of each turn that has a context event.

    A log that decayed in a turn was still in the context of its last call.
    """
    logs: dict[str, int] = {}
    in_context: dict[str, int] = {}
    faded: list[str] = []
    message_tokens = previous = 0
    for turn, event in events:
        name = event.get("effort", "")
        if turn != previous:
            in_context = {log: size for log, size in in_context.items() if log not in faded}
            previous, faded = turn, []
        if event["type"] == "concluded":
            logs[name] = event["tokens"]
        elif event["type"] == "expanded":
            in_context[name] = event["tokens"]
            faded = [log for log in faded if log != name]  # brought back by hand at once
        elif event["type"] == "evicted" or event.get("auto"):
            faded.append(name)
        elif event["type"] in {"collapsed", "reopened"}:
            in_context.pop(name, None)
        if event["type"] == "reopened":
            logs.pop(name, None)
        if event["type"] == "context":
            tiers = event["tokens"]
            message_tokens += event["said"]
            missing = sum(max(0, size - in_context.get(log, 0)) for log, size in logs.items())
            full = event["alone"] + message_tokens - event["answer"]
            yield TurnTokens(turn, tiers, sum(tiers.values()) + missing, full)


def _searches(events: Sequence[tuple[int, Event]]) -> Iterator[bool]:
    """Yield for each search whether an effort that it found was expanded by the next turn."""
    for at, (turn, event) in enumerate(events):
        if event["type"] == "searched":
            results = event["efforts"]
            soon = (later for later_turn, later in events[at:] if later_turn <= turn + 1)
            yield any(later["type"] == "expanded" and later["effort"] in results for later in soon)


def _mean(values: Iterable[float]) -> float | None:
    numbers = [*values]
    return mean(numbers) if numbers else None
