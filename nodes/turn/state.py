"""The graph's state: plain data and messages, small, so that checkpoints stay small."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from hashlib import blake2b
from itertools import takewhile
from typing import Annotated, Any, NotRequired, Required, TypeAlias, cast, get_type_hints

from langchain_core.messages import AnyMessage, BaseMessage
from langgraph.channels import UntrackedValue
from langgraph.graph import add_messages
from langgraph.types import Command, Overwrite
from ormsgpack import OPT_SORT_KEYS, packb
from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    GetPydanticSchema,
    JsonValue,
    TypeAdapter,
    ValidationError,
    with_config,
)
from typing_extensions import TypedDict

from ...memory.decay import counted_down
from ...memory.efforts import (
    ENTRIES,
    Efforts,
    ExpandedEffort,
    OpenEffort,
    Summary,
    TurnNumber,
)
from ...memory.errors import SettingsError
from ...memory.references import ReferenceKind
from ...memory.settings import resolve
from ...memory.turn import Tip
from .langchain_messages import messages_in_state
from .parts import AgentParts

Plain: TypeAlias = Annotated[Any, GetPydanticSchema(lambda _, handler: handler(JsonValue))]
"""What JSON can hold."""

_STRICT = ConfigDict(strict=True, extra="forbid")
"""Refuses what the nodes did not write, which is then left out."""

_OPEN = ConfigDict(strict=True, extra="ignore")
"""Ignores fields that are not ours: a note that somebody typed, a field of a newer version."""


def _valid_report(report: dict[str, Any]) -> dict[str, Any]:
    if {"system", "tools"} <= {*_REPORT.validate_python(report)["tokens"]}:
        return report
    raise ValueError("Input should be a report with the tokens of system message and tools")


def _valid_entry(entry: list[Any]) -> list[Any]:
    if [*map(type, entry)] != [str, str, int]:
        raise ValueError("Input should be the digests of an id and a message, and a turn")
    return entry


@with_config(_OPEN)
class Reference(TypedDict):
    """An effort that the turn mentioned, how, and the words, ids or tools that say so."""

    effort: Annotated[str, Field(description="Id of the effort")]
    kind: NotRequired[Annotated[ReferenceKind, Field(description="How it was mentioned")]]
    words: NotRequired[
        Annotated[list[str], Field(description="The words, ids or tools that mentioned it")]
    ]


@with_config(ConfigDict(strict=True, extra="allow"))
class _LeftOut(TypedDict, total=False):
    """What a prompt leaves out: among others how many quotes of which effort."""

    quotes: dict[str, int]


@with_config(ConfigDict(strict=True, extra="allow"))
class _ReportFields(TypedDict, total=False):
    """The figures of the last prompt's report that nodes read, in tokens."""

    total: Annotated[int, Field(ge=0)]
    budget: Annotated[int, Field(ge=0)]
    tokens: Required[dict[str, Annotated[int, Field(ge=0)]]]
    application: Annotated[int, Field(ge=0)]
    changed: dict[str, Any]
    left_out: _LeftOut


_REPORT = TypeAdapter(_ReportFields)


@with_config(_STRICT)
class Prompt(TypedDict, total=False):
    """An assembled prompt: its messages, and the place of the last one that a rebuild keeps."""

    messages: Required[list[BaseMessage]]
    steady: int


@with_config(_STRICT)
class Limit(TypedDict):
    """The tokens that a context may have in this thread, and the name of the model."""

    model: str
    tokens: Annotated[int, Field(ge=1)]


class Bookkeeping(TypedDict, total=False):
    """What only the nodes want, in a channel of its own.

    `archive` is the id of the archive that has the turns, `tip` that of the last committed one and
    `number` its number; `nonce` is the running turn's, `round` the newest part of it in the
    archive, "" if no round left `messages`. `command` is the nonce of a command by hand whose
    `events` are not committed yet, "" for none. `fixed` is a digest of the system message and the
    tools as they were archived last. `window` is the thread's ambient window, None for that of the
    settings. `limit` is the size to which a context was cut that the provider of a model refused.
    `plan` is what the context shows, None to make it anew. `due` tells that an open effort must be
    compressed. `known` has the newest messages in the state, as `history.entries` writes them.
    `memory` is a digest of what the nodes wrote, by which they know it again; see `digest_of`.
    """

    archive: str
    tip: Annotated[str, Field(pattern="^([0-9a-f]{32})?$")]
    number: TurnNumber
    nonce: Annotated[str, Field(pattern="^([0-9a-f]{2})*$")]
    round: Annotated[str, Field(pattern="^([0-9a-f]{32})?$")]
    command: Annotated[str, Field(pattern="^([0-9a-f]{2})*$")]
    plan: dict[str, Plain] | None
    due: bool
    sent: str
    fixed: str
    window: Annotated[int, Field(ge=0)] | None
    limit: Limit
    events: list[dict[str, Plain]]
    known: list[Annotated[list[Any], AfterValidator(_valid_entry)]]
    memory: str


class _Readable(TypedDict, total=False):
    turn: Annotated[TurnNumber, Field(description="Number of the turn, from 1")]
    active_effort: Annotated[
        str | None, Field(description="Id of the open effort that the turn belongs to")
    ]
    open_efforts: Annotated[dict[str, OpenEffort], Field(description="Open efforts by id")]
    expanded: Annotated[
        dict[str, ExpandedEffort],
        Field(description="Concluded efforts whose log is back in the context, by id"),
    ]
    summaries: Annotated[
        dict[str, Summary],
        Field(description="Concluded efforts whose summary is in the context, by id"),
    ]
    references: Annotated[
        list[Reference], Field(description="Efforts that this turn mentioned, and how")
    ]
    anchor: Annotated[dict[str, str], Field(description="The state block, field by field")]
    banners: Annotated[
        list[str], Field(description="What happened to the context in this turn, for the user")
    ]
    context_report: Annotated[
        dict[str, Plain],
        AfterValidator(_valid_report),
        Field(description="What was sent: tokens by part, what is left out, why the plan changed"),
    ]


@with_config(_OPEN)
class Memory(_Readable, total=False):
    """The memory of a thread as people read it."""


def merged(old: Any, new: Any) -> dict[str, Any]:
    """Merge an update into a channel, the keys in the order in which people read them.

    What a client writes is checked where it is read.
    """
    both: dict[str, Any] = {}
    for value in (old, new):
        both |= value if isinstance(value, Mapping) else {}
    in_order: dict[str, Any] = {}
    for key in _ORDER:
        if key in both:
            in_order[key] = both.pop(key)
    return in_order | both


Path: TypeAlias = tuple[str | int, ...]
"""Where a value stands in the memory: key, entry, field."""

_DEPTHS = {
    **dict.fromkeys(("open_efforts", "expanded", "summaries"), 3),
    **dict.fromkeys(("anchor", "references", "banners"), 2),
}
"""How deep the places of a key lie that are judged each by itself; a value of 1 is judged whole."""


def valid(value: Any, kind: type, turn: int = 0) -> tuple[dict[str, Any], tuple[Path, ...]]:
    """Return the values that the typed dictionary `kind` can have, and where others stood.

    A wrong field takes nothing else with it: its entry stays, and all others. The turns of an entry
    are no later than `turn`, which stands where one is wrong.

    >>> valid({"turn": 3, "active_effort": 7, "anchor": {"Goal": "Tea", "File": 5}}, Memory, 3)
    ({'turn': 3, 'anchor': {'Goal': 'Tea'}}, (('anchor', 'File'), ('active_effort',)))
    """
    if not isinstance(value, dict):
        return {}, ()
    adapter, context = _ADAPTERS[kind], {"turn": turn}
    try:
        return dict(adapter.validate_python(value, context=context)), ()
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
    wrong: dict[Path, None] = {}
    for fault in reversed(faults):  # an item that leaves a list moves those behind it
        path = tuple(takewhile(lambda place: place != "[key]", fault["loc"]))
        wrong[path[: _DEPTHS.get(str(path[0]), 1)]] = None
    right: Any = value
    for path in wrong:
        right = _without(right, path)
        if path[0] in ENTRIES and len(path) > 1 and isinstance(path[1], str):
            key, name = path[:2]
            needed: dict[str, Any] = dict.fromkeys(ENTRIES[key].__required_keys__, turn)
            needed |= {"turns": []} if "turns" in needed else {}
            right[key][name] = {**needed, **right[key].get(name, {})}
    return dict(adapter.validate_python(right, context=context)), tuple(wrong)


def _without(value: Any, path: Path) -> Any:
    place, *rest = path
    items = dict(value) if isinstance(value, dict) else {}
    if isinstance(value, list):
        items = dict(enumerate(value))
    if rest:
        items[place] = _without(items[place], tuple(rest))
    else:
        items.pop(place, None)
    return [*items.values()] if isinstance(value, list) else items


_ORDER = (*Memory.__annotations__, *Bookkeeping.__annotations__)

_UNCHECKED = ("plan", "events")
"""Keys of the bookkeeping whose values have no schema: only the nodes' own are taken."""

_ADAPTERS: Mapping[type, TypeAdapter[Any]] = {
    kind: TypeAdapter(kind) for kind in (Memory, Bookkeeping)
}


class InputState(TypedDict):
    """The input of a run: only messages, so that it cannot name another session or turn."""

    messages: Annotated[list[AnyMessage], add_messages]


class MemoryState(InputState, total=False):
    """The state that a run returns. Mix it into a parent graph's schema to embed the agent.

    `messages` has this turn and the last few, for chat pages. The context is not built from it.
    """

    memory: Annotated[Memory, merged]
    bookkeeping: Annotated[Bookkeeping, merged]


class AgentState(MemoryState, total=False):
    """The state inside the graph: what a run returns, and a key that it does not.

    `context` has the assembled `messages`, which are never checkpointed.
    """

    context: Annotated[Prompt, UntrackedValue]


def extended(schema: type, own: type | None) -> Any:
    """Return a state schema with the keys that only the application's own has."""
    if own is None:
        return schema
    hints = get_type_hints(own, include_extras=True)
    if "context" in hints:
        raise SettingsError("state_schema: 'context' is a key of the agent's own: choose another")
    fields = hints | get_type_hints(schema, include_extras=True)
    return TypedDict(schema.__name__, fields, total=False)  # type: ignore[operator]


_RESERVED = AgentState.__annotations__.keys() - InputState.__annotations__.keys()
"""Keys that only the nodes write."""


def without_reserved(value: Any, reserved: Collection[str] = _RESERVED) -> Any:
    """Return the input of a run, or a command, without the keys that only the nodes write."""
    if isinstance(value, Command):
        if not value.update:
            return value
        return replace(value, update=without_reserved(value.update, reserved))
    if isinstance(value, Mapping):
        return {key: item for key, item in value.items() if key not in reserved}
    return value


class TurnState(_Readable, Bookkeeping, total=False):
    """The state as nodes read it, in one dictionary, and keys of `begin_turn` alone.

    `adopted` counts the turns of a history that was just adopted. `unseen` is the newest archived
    turn of a thread whose messages do not continue it. `lost` tells that it took the place of one
    that the user does not have, `whole` that `known` lists all messages that are known. `put_right`
    is where somebody edited the memory in vain.
    """

    messages: list[AnyMessage]
    context: Prompt
    todos: Any
    adopted: int
    unseen: Tip
    lost: bool
    whole: bool
    put_right: tuple[Path, ...]


CHANNELS = AgentState.__annotations__.keys() - {"memory", "bookkeeping"}
"""Keys of the state beside the memory and the bookkeeping."""


_COUNTED = ("turn", "expanded", "summaries")
"""Keys of the state by which is counted how many turns logs and summaries have left."""


def efforts_of(state: Mapping[str, Any]) -> Efforts:
    """Return the part of the state that the memory tools change."""
    return Efforts(
        turn=state.get("turn", 0),
        active=state.get("active_effort"),
        open=state.get("open_efforts", {}),
        expanded=state.get("expanded", {}),
        summaries=state.get("summaries", {}),
        anchor=state.get("anchor", {}),
        events=tuple(state.get("events", ())),
        banners=tuple(state.get("banners", ())),
    )


def digests_of(state: Mapping[str, Any], secret: bytes) -> tuple[str, str]:
    """Return digests of the state without plan and events, and of these, "" for no plain data.

    A secret keys them, so that nobody else can write a state that the nodes do not check. A state
    with others is no error: the memory is checked and put right, and plan and events that are not
    the nodes' own are left out.
    """
    others = (key for key in _ORDER[:-1] if key not in _UNCHECKED)
    return _digest(state, others, secret), _digest(state, _UNCHECKED, secret)


def _digest(state: Mapping[str, Any], keys: Iterable[str], secret: bytes) -> str:
    try:
        own = {key: state[key] for key in keys if key in state}
        written = packb(own, option=OPT_SORT_KEYS)
    except TypeError:
        return ""
    return blake2b(written, key=secret, digest_size=8).hexdigest()


def unpacked(state: Mapping[str, Any], secret: bytes = b"") -> TurnState:
    """Return the state as nodes and commands read it, without the application's own keys.

    What the nodes themselves wrote, by its digest with a `secret`, is not checked again. Only such
    a state has a digest.

    >>> unpacked({"messages": [], "turn": 9, "memory": {"turn": 2}, "bookkeeping": {"due": True}})
    {'messages': [], 'turn': 2, 'due': True}
    """
    own: dict[str, Any] = {key: value for key, value in state.items() if key in CHANNELS}
    if "messages" in own:
        own["messages"] = messages_in_state(own["messages"])
    if "todos" in state:  # the application's, as LangChain's TodoListMiddleware keeps them
        own["todos"] = state["todos"]
    edited, kept = state.get("memory"), state.get("bookkeeping")
    edited = edited if isinstance(edited, dict) else {}
    is_own = not secret
    if secret and isinstance(kept, dict) and kept.get("memory"):
        both = {**edited, **kept}
        written = {key: both[key] for key in _ORDER if key in both}
        digests = digests_of(written, secret)
        if all(digests) and kept["memory"] == "".join(digests):
            return cast("TurnState", own | written)
        is_own = str(kept["memory"]).endswith(digests[1] or " ")
    left_out = {"memory", *(() if is_own else _UNCHECKED)}
    bookkeeping = {
        key: value for key, value in valid(kept, Bookkeeping)[0].items() if key not in left_out
    }
    wrong = list[Path]()
    turn, persisted = edited.get("turn", 0), bookkeeping.get("number")
    newest = max((number for *_, number in bookkeeping.get("known", ())), default=0)
    if persisted is not None:
        is_begun = newest > persisted or (not newest and turn == persisted + 1)
        # Whatever stands there, it is the running turn if that is known, else the last one.
        if turn and turn == newest and turn not in {persisted, persisted + 1}:
            bookkeeping["number"] = turn - 1
        elif turn != persisted + is_begun or type(turn) is not int:
            turn = persisted + is_begun
            edited, wrong = {**edited, "turn": turn}, [("turn",)]
    memory, faults = valid(edited, Memory, turn if type(turn) is int else 0)
    if memory.get("active_effort") not in {None, *memory.get("open_efforts", ())}:
        memory["active_effort"] = None
        wrong.append(("active_effort",))
    own |= {**memory, **bookkeeping}
    if wrong := [*wrong, *faults]:
        own["put_right"] = tuple(dict.fromkeys(wrong))
    return cast("TurnState", own)


def updated(state: Mapping[str, Any], update: Mapping[str, Any]) -> TurnState:
    """Return the state after an update of a node; the update's values replace the state's.

    >>> updated({"turn": 1, "tip": "ab"}, {"turn": 2})
    {'turn': 2, 'tip': 'ab'}
    """
    return cast("TurnState", {**state, **update})


def state_after(state: TurnState, update: Mapping[str, Any]) -> TurnState:
    """Return the state after an update that may overwrite the messages."""
    messages = update.get("messages")
    whole = {"messages": messages.value} if isinstance(messages, Overwrite) else {}
    return updated(state, {**update, **whole})


def repacked(
    update: Mapping[str, Any],
    parts: AgentParts,
    before: Mapping[str, Any] | None = None,
    context: object = None,
) -> dict[str, Any]:
    """Return a node's update for the graph, with the keys that differ from `before`.

    How many turns logs and summaries have left is by the settings of the run's `context`.
    """
    read: Mapping[str, Any] = before or {}
    wrong = {path[0] for path in read.get("put_right", ())}
    if wrong:  # it stands there as somebody edited it, and no banner says so yet
        wrong.add("banners")
        update = {**{key: read[key] for key in wrong if key in read}, **update}
    old = {key: value for key, value in read.items() if key not in wrong}
    if any(update.get(key, old.get(key)) != old.get(key) for key in _COUNTED):
        after = {**read, **update}
        counted = counted_down(efforts_of(after), resolve(context, parts.settings))
        left = {"expanded": dict(counted.expanded), "summaries": dict(counted.summaries)}
        update = {**update, **{key: value for key, value in left.items() if key in after}}
    new = {
        key: value
        for key, value in update.items()
        # The order of keys counts too: an anchor is shown in it.
        if key not in old
        or value != old[key]
        or (isinstance(value, dict) and [*value] != [*old[key]])
    }
    packed = {key: value for key, value in update.items() if key in CHANNELS}
    new["memory"] = "".join(digests_of({**read, **new}, parts.secret))
    if new["memory"] == read.get("memory"):
        del new["memory"]
    for channel, kind in (("memory", Memory), ("bookkeeping", Bookkeeping)):
        if changed := {key: new[key] for key in kind.__annotations__ if key in new}:
            packed[channel] = changed
    return packed
