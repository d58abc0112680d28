"""Conversations drawn at random: what is said, what the model does, under which settings.

A conversation is a list of turns, a turn is the settings that change before it, if any, and the
steps that are taken in it (see `take`). After its answer an open effort may be compressed.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from hypothesis import strategies as st
from langchain_core.messages import BaseMessage

from ebbtide.memory.compressions import Compression, Item, Kind
from ebbtide.memory.context.budget import LEAST_ROOM
from ebbtide.memory.context.changes import new_plan
from ebbtide.memory.context.fit import WorkingContext
from ebbtide.memory.efforts import happened
from ebbtide.memory.tokens import count
from ebbtide.memory.view import view_at
from tests.memory.contexts import take
from tests.memory.conversations import SESSION, Conversation, call, count_words
from tests.memory.turns import put_compression

Step: TypeAlias = tuple[str, Any]
Turns: TypeAlias = list[tuple[dict[str, Any], list[Step]]]

PAST = ("The login fails with error 401 as soon as the token has expired.", "It works now.")
WORDS = ["alpha", "beta\n", "数据库", "连接被拒绝", "🙂", "👩‍👩‍👧", "12:30", "</effort>"]
SAID = st.builds(
    lambda words, times: " ".join(words * times),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
    st.sampled_from([1, 1, 1, 2, 10, 10, 60, 400, 3_000]),
) | st.just("Kept.\n---STATE---\nGoal: a\n---END STATE---")
EFFORT = st.sampled_from("abcd")
LOOKED = st.lists(SAID, min_size=1, max_size=6) | st.integers(2, 64).map(
    lambda times: ["数据 🙂 word " * 10] * times
)
SPOKEN: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("say"), SAID),
    st.tuples(st.just("look"), LOOKED),
    st.tuples(st.sampled_from(["fill question", "fill result"]), st.sampled_from([-1, 0, 1])),
    st.tuples(st.sampled_from(["goal", "anchor"]), st.sampled_from(["mend it", "数据 " * 30])),
    st.tuples(st.just("read"), st.integers(1, 9)),
)
MANAGED: st.SearchStrategy[Step] = st.one_of(
    *(st.tuples(st.just(kind), EFFORT) for kind in ("open", "switch", "reopen", "expand")),
    st.tuples(st.sampled_from(["expand", "collapse"]), st.just("a")),
    st.tuples(st.just("close"), st.none()),
)
QUOTED = st.lists(st.builds(Item, st.sampled_from(Kind), SAID, st.integers(1, 9)), max_size=6)
COMPRESSED: st.SearchStrategy[Step] = st.tuples(
    st.just("compress"), st.tuples(st.sampled_from("bbc"), st.integers(0, 2), QUOTED, SAID)
)
CHANGED: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        *[{}] * 12,
        {"ambient_window": 0},
        {"ambient_window": 2},
        {"decay_threshold": 1, "summary_eviction_threshold": 2},
        {"MOST_SUMMARIES": 1},
        {"anchor": "off"},
        {"rebuild": "every-turn"},
    ]
)
TURNS: st.SearchStrategy[Turns] = st.lists(
    st.tuples(CHANGED, st.lists(SPOKEN | MANAGED | COMPRESSED, min_size=1, max_size=4)),
    max_size=10,
)
ABOVE_THE_FLOOR = st.one_of(
    *[st.integers(0, most) for most in (1, 100, 500, 500, 2_000, 2_000, 48_000)]
)
"""Tokens that a budget has above the least that it must be."""

COUNTERS = st.sampled_from([count_words, count_words, count])


def held(talk: Conversation, turns: Turns, above: int) -> Iterator[WorkingContext]:
    """Hold a conversation, and yield each context as it is sent.

    It begins with a concluded effort, `a`, and two that are open, `b` and `c`.
    """
    talk.effort("a", *PAST)
    talk.turn("Begin.", call("open_effort", name="b", goal="Do it."))
    talk.turn("And this.", call("open_effort", name="c"))
    talk.set(context_budget=talk.fixed + LEAST_ROOM + above)
    for changed, steps in turns:
        talk.set(**changed)
        said = [what for kind, what in steps if kind == "say"]
        talk.ask(*(said or ["go on"]))
        yield talk.context
        for kind, what in steps:
            take(talk, kind, what)
            yield talk.context
        talk.answer(said[0] if said else "Done.")
        for kind, what in steps:
            if kind == "compress":
                compress(talk, *what)


def compress(
    talk: Conversation, effort: str, recent: int, items: Sequence[Item], background: str
) -> None:
    """Let a compression stand for all but the recent turns of an effort, if it is open."""
    view = view_at(talk.archive, SESSION, talk.tip)
    turns, old = view.log_turns(effort), view.compression(effort)
    through = ([0, *turns][: max(1, len(turns) + 1 - recent)])[-1]
    newest = max(through, old.through if old else 0)
    if effort not in talk.state.open or not newest or (old and old.turn == talk.tip.turn):
        return
    compression = Compression(effort, talk.tip.turn, newest, tuple(items), background)
    stored = put_compression(talk.archive, talk.tip, compression, SESSION)
    event = {"type": "compressed", "effort": effort, "turn": stored.turn, "through": newest}
    talk.state = happened(talk.state, event)
    talk.plan = new_plan(talk.work, "compressed")


def accepted(talk: Conversation, turns: Turns, above: int) -> list[tuple[BaseMessage, ...]]:
    """Hold a conversation, and return the messages of each drawn turn as they were accepted."""
    said: dict[int, tuple[BaseMessage, ...]] = {}
    for _ in held(talk, turns, above):
        said[talk.state.turn] = talk.messages
    return [*said.values()]
