"""The plan: what the next model call shows, a small value from which the same bytes are made."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

from sqlalchemy.util import memoized_property

from ..names import numbers, ranges

_LISTS = ("summaries", "older", "open", "application")

Why: TypeAlias = Literal[
    "new",
    "concluded",
    "collapsed",
    "reopened",
    "returned",
    "expanded",
    "compressed",
    "due",
    "window",
    "state-blocks",
    "high-water",
    "cold-cache",
    "settings",
    "edited",
    "application",
    "command",
    "every-turn",
]
"""Why a plan was made; "new" if the state had none: at first, after erasing or restoring."""


HINTS, INDEX, BLOCK, CONSTRAINTS = 1, 2, 3, 4
"""What leaves for a newest round that is too large, in this order.

That is hints and logs in the turn, the index but for a line, three quarters of the state block, and
the constraints of efforts that are not active, which `effort_status` lists.
"""


@dataclass(frozen=True, slots=True)
class Rounds:
    """How much of a turn of many rounds is shown; a place is how many messages come before it."""

    until: int = 0
    """The place up to which it is cut; later messages stand as they came."""
    left: int = 0
    """The place up to which rounds are lines of an index."""
    gone: tuple[tuple[str, int, int], ...] = ()
    """Efforts that the turn concluded, with their rounds, from place to place."""
    limits: tuple[tuple[int, int, int | None], ...] = ()
    """Places, and the tokens that results and other contents before them may have; None for all."""
    request: int | None = None
    """The tokens that a message of the user may have beside its attachments; None for all."""
    files: int | None = None
    """The tokens that the attachments may have that are sent; None for all."""
    bare: int = 0
    """The last of `HINTS`, `INDEX`, `BLOCK` and `CONSTRAINTS` that left for the newest round."""
    excerpt: int = 0
    """The tokens of an excerpt that stands for the turn, 0 for none."""

    def limited(self, end: int, results: int, others: int | None) -> "Rounds":
        """Return it with contents before a place limited, which never lifts another limit.

        >>> Rounds().limited(4, 150, 150).limited(9, 64, None).limits
        ((4, 150, 150), (9, 64, None))
        >>> Rounds().limited(4, 150, 150).limited(9, 64, 64).limits
        ((9, 64, 64),)
        """
        lower = [
            (place, tokens, words)
            for place, tokens, words in self.limits
            if place > max(end, self.left)
            or (place > self.left and tokens < results)
            or (place > self.left and words is not None and (others is None or words < others))
        ]
        return replace(self, limits=(*lower, (end, results, others)))

    def has_gone(self, place: int) -> bool:
        """Tell whether the message at a place is of an effort that the turn concluded."""
        return any(begin <= place < end for _, begin, end in self.gone)

    @classmethod
    def unpacked(cls, state: Mapping[str, Any]) -> "Rounds":
        """Return it from the state."""
        items = {name: tuple(map(tuple, state.get(name, ()))) for name in ("gone", "limits")}
        return cls(**{**state, **items})


@dataclass(frozen=True)  # without slots: `memoized_property` needs a `__dict__`
class Plan:
    """Which turns the context shows, and how. What came after it was made is appended to it."""

    after_turn: int
    """The newest turn when the plan was made; later turns are shown as they were said."""
    turns: tuple[int, ...] = ()
    """The turns up to `after_turn` that are shown."""
    previews: int = 0
    """The newest turn whose long results are shown as previews."""
    brief: tuple[int, ...] = ()
    """The turns of which only request and answer are shown, as all that they had took too much."""
    rounds: Rounds | None = None
    """How much is shown of the turn after these, None for all of it."""
    summaries: tuple[str, ...] = ()
    """The concluded efforts that have a summary line."""
    older: tuple[str, ...] = ()
    """The newest of the concluded efforts that have none."""
    unnamed: int = 0
    """How many other concluded efforts have none."""
    open: tuple[str, ...] = ()
    """The efforts that were open."""
    active: str = ""
    """The one of them that was active, empty for none."""
    quotes: Mapping[str, int] = field(default_factory=dict)
    """Effort -> the turn after which the compression was made that is shown for it."""
    logs: Mapping[str, str] = field(default_factory=dict)
    """Effort -> the turns of its log that are shown, such as "3-5,8"; "" if they had to leave."""
    size: int = 0
    """Tokens of what it shows after a cut, without the fixed parts; 0 before any."""
    key: str = ""
    """What it was made for: a fingerprint of the settings, ":", the room, "+", what was short."""
    why: Why = "new"
    within: int = 0
    """How many messages the running turn had, if the plan was made in the middle of it."""
    events: int = 0
    """How many events the running turn had then."""
    anchor: Mapping[str, str] | None = None
    """The state block when it was made, if a newer one was written since."""
    application: tuple[str, ...] = ()
    """What the application said in system messages, as `Application.key` has it."""
    todos: str = ""
    """The application's to-dos that were open when it was made, as JSON."""

    def lacks(self, what: int) -> bool:
        """Tell whether one of `HINTS`, `INDEX`, `BLOCK` and `CONSTRAINTS` left."""
        return self.rounds is not None and self.rounds.bare >= what

    def shows(self, turn: int) -> bool:
        """Tell whether a turn of the session is shown, whole or in part.

        >>> [Plan(9, (3, 4)).shows(turn) for turn in (3, 5, 10)]
        [True, False, True]
        """
        return turn > self.after_turn or turn in self.turns

    @memoized_property
    def room(self) -> int:
        """The room that it was made for, in tokens, 0 for none: its parts have shares of that.

        >>> Plan(9, key="ab12cd34:900").room, Plan(9).room
        (900, 0)
        """
        tokens = self.key.rpartition(":")[2].partition("+")[0]
        return int(tokens) if tokens.isdecimal() else 0

    def room_or(self, current: int) -> int:
        """Return the room that it was made for, else the current one."""
        return self.room or current

    @property
    def usual_room(self) -> int:
        """The room that other calls have which lack none of it.

        >>> Plan(9, key="ab12cd34:900+50").usual_room, Plan(9, key="ab12cd34:900").usual_room
        (950, 900)
        """
        return self.room + int(self.key.partition("+")[2] or 0)

    def packed(self) -> dict[str, Any]:
        """Return it as the state keeps it, without empty fields; the inverse of `unpacked`.

        >>> Plan(9, (3, 4, 5, 8), brief=(8,)).packed()
        {'after_turn': 9, 'turns': '3-5,8', 'brief': '8', 'why': 'new'}
        """
        state = asdict(self) | {
            "turns": ranges(self.turns),
            "brief": ranges(self.brief),
            "rounds": None if self.rounds is None else _packed(self.rounds),
            **{name: [*getattr(self, name)] for name in _LISTS},
        }
        anchor = {} if self.anchor is None else {"anchor": state.pop("anchor")}
        kept = {name: value for name, value in state.items() if value or name == "after_turn"}
        return kept | anchor

    @classmethod
    def unpacked(cls, state: Mapping[str, Any] | None) -> "Plan | None":
        """Return the plan of the state, None if it has none, or one of another version.

        >>> Plan.unpacked({"after_turn": 9, "turns": "3-5"}) == Plan(9, (3, 4, 5))
        True
        """
        if not state or not state.keys() <= cls.__dataclass_fields__.keys():
            return None
        fields = dict(state)
        for name in ("turns", "brief"):
            if name in state:
                fields[name] = tuple(sorted(numbers(state[name])))
        if "rounds" in state:
            fields["rounds"] = Rounds.unpacked(state["rounds"])
        for name in _LISTS:
            if name in state:
                fields[name] = tuple(state[name])
        return cls(**fields)


def keeping_anchor(packed: Mapping[str, Any], anchor: Mapping[str, str]) -> Mapping[str, Any]:
    """Return a packed plan that shows this state block until a change, or an older one if it does.

    >>> keeping_anchor({"after_turn": 9}, {"Goal": "ship"})
    {'after_turn': 9, 'anchor': {'Goal': 'ship'}}
    """
    return packed if "anchor" in packed else {**packed, "anchor": dict(anchor)}


def _packed(rounds: Rounds) -> dict[str, Any]:
    """Return rounds as the state keeps them, without empty fields."""
    state = asdict(rounds)
    lists = {name: [[*item] for item in state.get(name, ())] for name in ("gone", "limits")}
    kept = {name: value for name, value in {**state, **lists}.items() if value}
    return kept if rounds.files is None else {**kept, "files": rounds.files}
