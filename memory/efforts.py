"""Efforts, their state during a turn, and what each event changes in it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import repeat
from typing import Annotated, Any, Literal, NotRequired, TypeAlias, cast

from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo, with_config
from typing_extensions import TypedDict

from .banners import banner_of
from .turn import Event, StoredTurn

_Status: TypeAlias = Literal["open", "concluded"]

_STATUS: Mapping[str, _Status] = {
    "opened": "open",
    "goal_updated": "open",
    "constraints_updated": "open",
    "reopened": "open",
    "concluded": "concluded",
}
"""The events that write an effort anew, with the status it then has."""

_FIELDS = ("goal", "summary", "importance", "tokens", "stale")
"""Fields of an effort that such an event has; its lists are read apart."""

_BULLET = re.compile(r"^[-*•] ")  # the mark with which models begin an item of a list


@dataclass(frozen=True, slots=True)
class Effort:
    """An effort after its newest change of status.

    Attributes:
        id: Its name, such as `auth-bug`.
        status: `open` or `concluded`.
        goal: What it should achieve.
        constraints: What must hold.
        summary: The summary, if concluded.
        keywords: Words by which references are recognised.
        importance: 0 to 100, chosen by the summary's model.
        tokens: The size of its log when it was concluded.
        turn: The turn of the change.
        stale: Whether the summary was emptied because one of its turns was erased.
    """

    id: str
    status: _Status
    goal: str = ""
    constraints: tuple[str, ...] = ()
    summary: str = ""
    keywords: tuple[str, ...] = ()
    importance: int = 50
    tokens: int = 0
    turn: int = 0
    stale: bool = False

    @property
    def aims(self) -> dict[str, Any]:
        """The goal and the constraints as tool results have them."""
        return {"goal": self.goal, "constraints": [*self.constraints]}

    @property
    def purpose(self) -> dict[str, str]:
        """The goal and the constraints, each in one line as the context shows them.

        >>> Effort("a", "open", constraints=("- No downtime.",)).purpose
        {'goal': 'not stated', 'constraints': 'No downtime'}
        """
        goal = as_shown(self.goal) or "not stated"
        return {"goal": goal, "constraints": "; ".join(map(as_shown, self.constraints)) or "none"}

    def snapshot(self) -> dict[str, Any]:
        """Return the effort as the fields of an event; `stale` stands there only if it holds."""
        excluded = {"id", "status", "turn"} if self.stale else {"id", "status", "turn", "stale"}
        fields = {name: value for name, value in asdict(self).items() if name not in excluded}
        lists = {"constraints": [*self.constraints], "keywords": [*self.keywords]}
        return {**fields, **lists, "effort": self.id}

    def expansion(self, turns: Sequence[int], tokens: int) -> dict[str, Any]:
        """Return the event of an expanded log, with what `decay` reads of the effort."""
        return {"type": "expanded", "effort": self.id, "turns": [*turns], "tokens": tokens}


def changed(event: Event, turn: int) -> Effort | None:
    """Return the effort as this event wrote it, None for an event that writes none.

    >>> changed({"type": "opened", "effort": "auth-bug", "goal": "Fix it"}, 3).goal
    'Fix it'
    """
    status = _STATUS.get(event["type"])
    if status is None:
        return None
    fields: dict[str, Any] = {name: event[name] for name in _FIELDS if name in event}
    fields |= {name: tuple(event.get(name, ())) for name in ("constraints", "keywords")}
    return Effort(event["effort"], status, turn=turn, **fields)


def changes(events: Iterable[Event], turn: int) -> tuple[Effort, ...]:
    """Return the efforts as these events of one turn wrote them, oldest first."""
    return tuple(filter(None, map(changed, events, repeat(turn))))


def left_by(turn: StoredTurn) -> tuple[Effort, ...]:
    """Return the efforts whose status a turn changed, as each change left them, oldest first."""
    return changes(turn.events, turn.number)


def one_line(text: str) -> str:
    r"""Return a text without line breaks, so that it cannot fake a line of the memory.

    >>> one_line("a  b\nc")
    'a b c'
    """
    return " ".join(text.split())


def as_shown(purpose: str) -> str:
    """Return a goal or constraint as the context shows it, in one line.

    >>> as_shown("- No  downtime.")
    'No downtime'
    """
    return _BULLET.sub("", one_line(purpose)).rstrip(".")


_ENTRY = ConfigDict(strict=True, extra="allow")
"""Leaves fields that are not ours: a note that somebody typed, a field of a newer version."""

TurnNumber: TypeAlias = Annotated[int, Field(ge=0, lt=1 << 31)]
"""The number of a turn; the archive keeps it in an integer of PostgreSQL, which ends there."""


def _past(turn: int, info: ValidationInfo) -> int:
    if turn > cast("dict[str, int]", info.context)["turn"]:
        raise ValueError("Input should be a turn that has begun")
    return turn


_Past: TypeAlias = Annotated[TurnNumber, AfterValidator(_past)]

_LastReferenced: TypeAlias = Annotated[
    _Past, Field(description="Last turn that mentioned it; what decays is counted from here")
]


@with_config(_ENTRY)
class OpenEffort(TypedDict):
    """Goal and constraints of an open effort, and when it was opened, last active, referenced."""

    goal: NotRequired[Annotated[str, Field(description="What the effort is for")]]
    constraints: NotRequired[Annotated[list[str], Field(description="What must hold for it")]]
    opened_turn: Annotated[_Past, Field(description="Turn that opened it")]
    last_active_turn: Annotated[_Past, Field(description="Last turn in which it was active")]
    last_referenced_turn: _LastReferenced


@with_config(_ENTRY)
class ExpandedEffort(TypedDict):
    """When an effort was expanded and last referenced, the turns it shows, those it has left."""

    expanded_turn: Annotated[_Past, Field(description="Turn that expanded it")]
    last_referenced_turn: _LastReferenced
    turns: Annotated[list[TurnNumber], Field(description="Turns of its log that are shown")]
    collapses_in: NotRequired[
        Annotated[TurnNumber, Field(description="Turns until it collapses if nobody mentions it")]
    ]


@with_config(_ENTRY)
class Summary(TypedDict):
    """Goal and summary of an effort, when it was last referenced, in how many turns it is due.

    From then on it leaves with the next change of the plan.
    """

    status: NotRequired[Annotated[str, Field(description="Concluded")]]
    goal: NotRequired[Annotated[str, Field(description="What the effort was for")]]
    summary: NotRequired[Annotated[str, Field(description="The beginning of its text")]]
    last_referenced_turn: _LastReferenced
    leaves_in: NotRequired[
        Annotated[
            TurnNumber, Field(description="Turns until it is due to leave if nobody mentions it")
        ]
    ]
    due: NotRequired[Annotated[bool, Field(description="It leaves with the next change of plan")]]


ENTRIES: Mapping[Any, Any] = {
    "open_efforts": OpenEffort,
    "expanded": ExpandedEffort,
    "summaries": Summary,
}
"""The keys of the state whose values are entries of efforts; their required fields are stored."""


@dataclass(frozen=True, slots=True)
class Efforts:
    """The efforts that the context has in the running turn, and the turn's events and banners.

    By id, `open` has `OpenEffort`, most recently active last, `expanded` `ExpandedEffort`, and
    `summaries` `Summary`, oldest first. No rule depends on their `NotRequired` fields, which are
    for people. `anchor`: field -> text.
    """

    turn: int
    active: str | None
    open: Mapping[str, Mapping[str, Any]]
    expanded: Mapping[str, Mapping[str, Any]]
    summaries: Mapping[str, Mapping[str, Any]]
    anchor: Mapping[str, str] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    banners: tuple[str, ...] = ()

    def banners_since(self, before: "Efforts") -> tuple[str, ...]:
        """Return the banners that came after the state `before`."""
        return self.banners[len(before.banners) :]

    def activated(self, effort_id: str) -> "Efforts":
        """Return the state with this effort open, active, and the most recently active."""
        fresh = {"opened_turn": self.turn, "last_referenced_turn": self.turn}
        entry = {**fresh, **self.open.get(effort_id, {}), "last_active_turn": self.turn}
        remaining = _without(self.open, effort_id)
        return replace(self, active=effort_id, open={**remaining, effort_id: entry})

    def closed(self, effort_id: str) -> "Efforts":
        """Return the state without this open effort; if it was active, no effort is active."""
        active = None if self.active == effort_id else self.active
        return replace(self, open=_without(self.open, effort_id), active=active)


EMPTY = Efforts(turn=0, active=None, open={}, expanded={}, summaries={})


def _without(mapping: Mapping[str, Any], key: str) -> dict[str, Any]:
    rest = dict(mapping)
    rest.pop(key, None)
    return rest


def happened(state: Efforts, event: Event, line: str | None = None) -> Efforts:
    """Return the state after an event, with its banner, or with `line` in place of that.

    >>> happened(EMPTY, {"type": "opened", "effort": "auth-bug"}).banners
    ('--- Started effort: auth-bug ---',)
    """
    line = banner_of(event["type"], **event) if line is None else line
    banners = (*state.banners, line) if line else state.banners
    return replace(applied(state, event), events=(*state.events, event), banners=banners)


def applied(state: Efforts, event: Event) -> Efforts:
    """Return the state after an event, without recording it; unknown events change nothing.

    >>> applied(EMPTY, {"type": "opened", "effort": "auth-bug"}).active
    'auth-bug'
    """
    change = _TRANSITIONS.get(event["type"])
    return change(state, event.get("effort", ""), event) if change else state


MOST_SUMMARIES = 200
"""Summaries in the context: at some 30 tokens each they take 6,000 before the budget cuts them."""


def within_limit(state: Efforts) -> Efforts:
    """Return the state with at most `MOST_SUMMARIES`, without those referenced longest ago.

    Summaries of expanded efforts leave last.

    >>> entry = {"last_referenced_turn": 1}
    >>> state = replace(EMPTY, summaries=dict.fromkeys(map(str, range(203)), entry))
    >>> len(within_limit(state).summaries), len(within_limit(state).events)
    (200, 3)
    """
    if len(state.summaries) <= MOST_SUMMARIES:
        return state
    last_use = {
        name: (name in state.expanded, entry["last_referenced_turn"])
        for name, entry in state.summaries.items()
    }
    surplus = len(last_use) - MOST_SUMMARIES
    for name in sorted(last_use, key=last_use.__getitem__)[:surplus]:
        state = happened(state, {"type": "evicted", "effort": name})
    return state


def _hidden(state: Efforts, name: str) -> Efforts:
    expanded, summaries = _without(state.expanded, name), _without(state.summaries, name)
    return replace(state, expanded=expanded, summaries=summaries)


def _listed(state: Efforts, names: Sequence[str]) -> Efforts:
    older = {name: entry for name, entry in state.summaries.items() if name not in names}
    listed = {name: _used(state.summaries, name, state.turn) for name in names}
    return replace(state, summaries={**older, **listed})


def _used(entries: Mapping[str, Mapping[str, Any]], name: str, turn: int) -> dict[str, Any]:
    return {**entries.get(name, {}), "last_referenced_turn": turn}


def _expanded(state: Efforts, name: str, event: Event) -> Efforts:
    before = state.expanded.get(name, {})
    entry: dict[str, Any] = {"expanded_turn": state.turn, "turns": list(event["turns"])}
    if event.get("again"):
        entry |= before
    elif before.get("expanded_turn") == state.turn:  # both calls of this turn show their parts
        entry["turns"] = sorted({*before["turns"], *entry["turns"]})
    entry["last_referenced_turn"] = state.turn
    return replace(
        state,
        expanded={**state.expanded, name: entry},
        summaries={**state.summaries, name: _used(state.summaries, name, state.turn)},
    )


def _referenced(state: Efforts, name: str, _: Event) -> Efforts:
    def used(entries: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
        return {**entries, name: _used(entries, name, state.turn)} if name in entries else entries

    return replace(
        state,
        open=used(state.open),
        expanded=used(state.expanded),
        summaries=used(state.summaries),
    )


_TRANSITIONS: Mapping[str, Callable[[Efforts, str, Event], Efforts]] = {
    "opened": lambda state, name, _: state.activated(name),
    "switched": lambda state, name, _: state.activated(name),
    "paused": lambda state, *_: replace(state, active=None),
    "reopened": lambda state, name, _: _hidden(state, name).activated(name),
    "concluded": lambda state, name, _: _listed(state.closed(name), [name]),
    "expanded": _expanded,
    "collapsed": lambda state, name, _: replace(state, expanded=_without(state.expanded, name)),
    "evicted": lambda state, name, _: _hidden(state, name),
    "returned": lambda state, name, _: _listed(state, [name]),
    "surfaced": lambda state, _, event: _listed(state, event["efforts"]),
    "learned": lambda state, _, event: _listed(state, event["efforts"]),
    "referenced": _referenced,
    "anchored": lambda state, _, event: replace(state, anchor=dict(event["anchor"])),
}
"""What each type of event changes."""
