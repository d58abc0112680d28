"""What the events of a session say of its memory, as figures."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any

from .messages import Message, calls, is_call, speaks
from .record import Event, Record
from .tokens import TokenCounter, count_messages

_SOON = 2
"""Turns after an automatic collapse in which an expansion says that it was wrong."""

_ENDING = frozenset({"collapsed", "reopened", "evicted"})
"""The events after which a log is no longer in the context."""


@dataclass(frozen=True, slots=True)
class _Expansion:
    """A log in the context: from which turn to which, the newest if it still is; its tokens.

    `auto` tells who ended it: the decay or a tool; None if it was reopened or evicted, or still is.
    """

    effort: str
    start: int
    tokens: int
    end: int = 0
    auto: bool | None = None


@dataclass(frozen=True, slots=True)
class TurnTokens:
    """What a turn's last call sent in tokens, by tier, beside the two baselines.

    `always_expanded` is the same context with the whole log of every concluded effort in it.
    `full_history` is what the application would send at this point without a memory: its own
    instructions and tool schemas, and every message so far but the memory's calls and results.
    """

    turn: int
    tiers: Mapping[str, int]
    always_expanded: int
    full_history: int

    @property
    def total(self) -> int:
        """The tokens of the whole context, instructions and tool schemas included."""
        return sum(self.tiers.values())

    @property
    def savings(self) -> float | None:
        """The share of the full history that was not sent; below 0 where more was sent."""
        return _ratio(self.full_history - self.total, self.full_history)


@dataclass(frozen=True, slots=True)
class Report:
    """The metrics of a session; a ratio with nothing below the line is None.

    `sent` and `full_history` are the tokens of the last calls of all turns, ours and those of an
    agent that sends everything; `savings_vs_full_history` is about the last turn.
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
    tokens_compressed: int
    compression_calls: int
    compression_tokens: int
    searches: int
    searches_expanded: int
    turns: tuple[TurnTokens, ...]

    @property
    def savings(self) -> float | None:
        """The share of the full history that was not sent, over all turns."""
        return _ratio(self.full_history - self.sent, self.full_history)


def report(records: Sequence[Record]) -> Report:
    """Fold the events of consecutive turns, oldest first."""
    events = [(record.turn, event) for record in records for event in record.events]
    kinds = Counter(event["type"] for _, event in events)
    last = records[-1].turn if records else 0
    expansions = [*_expansions(events, last)]
    auto = [log for log in expansions if log.auto]
    manual = sum(log.auto is False for log in expansions)
    wrong = saved = 0
    for log in auto:
        later = (other.start for other in expansions if other.effort == log.effort)
        again = next((start for start in later if start > log.end), None)
        wrong += again is not None and again - log.end <= _SOON
        saved += log.tokens * ((again or last + 1) - log.end - 1)
    compressed = [e["tokens"] for _, e in events if e["type"] == "compressed" and e.get("tokens")]
    turns = tuple(_turns(events))
    searches = [*_searches(events)]
    return Report(
        auto_collapses=len(auto),
        manual_collapses=manual,
        manual_vs_auto=_ratio(manual, len(auto)),
        avg_expansion_duration=_mean(log.end - log.start for log in expansions),
        false_decay_rate=_ratio(wrong, len(auto)),
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
    """Return the event that says what a turn cost: its context by tier, and what was said in it.

    `messages` are those of the turn, the memory's calls left out; the last of them, the `answer`,
    was sent to no call of it. `alone` are the tokens of the application's own instructions and
    tool schemas.
    """
    tokens = {tier: size for tier, size in tiers.items() if size}
    answer = [message for message in messages[-1:] if message["type"] == "ai"]
    said, last = (count_messages(part, count) for part in (messages, answer))
    return {"type": "context", "tokens": tokens, "said": said, "answer": last, "alone": alone}


def without_calls(messages: Iterable[Message], names: Collection[str]) -> Iterator[Message]:
    """Yield messages without calls of some tools and their results; silent ones are left out."""
    gone: set[Any] = set()
    for message in messages:
        left_out = [call for call in calls(message) if call.get("name") in names]
        if message["type"] == "ai":  # ids may repeat between rounds
            gone = {call.get("id") for call in left_out}
        if gone and message["data"].get("tool_call_id") in gone:
            continue
        rest = _without(message, names) if left_out else message
        if not left_out or calls(rest) or speaks(rest["data"].get("content")):
            yield rest


def _without(message: Message, names: Collection[str]) -> Message:
    """Return a message without calls; LangChain takes them from the blocks and extras as well."""
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


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _expansions(events: Iterable[tuple[int, Event]], last: int) -> Iterator[_Expansion]:
    """Yield every expansion: those that ended in the order of their ends, then the others."""
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
    """Yield the turns that have a context; what faded in a turn was still in that context."""
    logs: dict[str, int] = {}
    shown: dict[str, int] = {}
    faded: list[str] = []
    said = before = 0
    for turn, event in events:
        name = event.get("effort", "")
        if turn != before:
            shown = {effort: size for effort, size in shown.items() if effort not in faded}
            before, faded = turn, []
        if event["type"] == "concluded":
            logs[name] = event["tokens"]
        elif event["type"] == "expanded":
            shown[name] = event["tokens"]
        elif event["type"] == "evicted" or event.get("auto"):
            faded.append(name)
        elif event["type"] in {"collapsed", "reopened"}:
            shown.pop(name, None)
        if event["type"] == "reopened":
            logs.pop(name, None)
        if event["type"] == "context":
            tiers, said = event["tokens"], said + event["said"]
            more = sum(max(0, size - shown.get(effort, 0)) for effort, size in logs.items())
            full = event.get("alone", 0) + said - event.get("answer", 0)
            yield TurnTokens(turn, tiers, sum(tiers.values()) + more, full)


def _searches(events: Sequence[tuple[int, Event]]) -> Iterator[bool]:
    """Yield for each search whether an effort it found was expanded in that turn or the next."""
    for at, (turn, event) in enumerate(events):
        if event["type"] == "searched":
            listed = event.get("efforts", ())
            soon = (later for when, later in events[at:] if when <= turn + 1)
            yield any(later["type"] == "expanded" and later["effort"] in listed for later in soon)


def _mean(values: Iterable[float]) -> float | None:
    listed = [*values]
    return mean(listed) if listed else None
