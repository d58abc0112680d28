"""The hard budget: whatever is said, the working context stays within it, whole and in order."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.memory.messages import Message, calls
from ebbtide.memory.tokens import count_message
from tests.memory.desks import Conversation, call, conversation, count_words, tool

SAID = st.builds(
    lambda words, times: " ".join(words * times),
    st.lists(
        st.sampled_from(["alpha", "beta", "数据库", "🙂", "12:30", "x\n"]), min_size=1, max_size=5
    ),
    st.sampled_from([1, 1, 2, 10, 100, 700]),
)
STEP = st.one_of(
    st.tuples(st.just("say"), SAID),
    st.tuples(st.just("look"), st.lists(SAID, min_size=1, max_size=20)),
    st.tuples(st.just("open"), st.sampled_from("abc")),
    st.tuples(st.just("close"), st.none()),
    st.tuples(st.just("reopen"), st.sampled_from("abc")),
    st.tuples(st.just("switch"), st.sampled_from("abc")),
    st.tuples(st.just("expand"), st.sampled_from("abc")),
    st.tuples(st.just("read"), st.integers(1, 9)),
)
FEW_ROUNDS = st.lists(st.lists(STEP, min_size=1, max_size=3), max_size=12)
BUDGETS = st.sampled_from([1_015, 1_100, 1_500, 3_000, 16_000])


def within_budget(talk: Conversation) -> list[Message]:
    """Assemble as the node does, remember the cuts, and check what holds for every context."""
    context = talk.context
    talk.cuts = context.cuts
    messages = [*context.messages]
    counted = sum(count_message(message, count_words) for message in messages) + 9

    assert counted == context.report["total"]
    assert counted <= talk.settings.context_budget
    assert talk.context.messages == context.messages
    return messages


def well_formed(messages: list[Message]) -> bool:
    """Tell whether every call is followed by its results and no result stands alone."""
    waiting: list[Any] = []
    for message in messages:
        if message["type"] == "tool":
            if message["data"]["tool_call_id"] not in waiting:
                return False
            waiting.remove(message["data"]["tool_call_id"])
        elif waiting:
            return False
        else:
            waiting = [asked["id"] for asked in calls(message)]
    return not waiting


def take(talk: Conversation, kind: str, what: Any) -> None:
    """Take one step of a turn."""
    if kind == "look":
        asked = [call("look_up", call_id=f"c{at}", key=said) for at, said in enumerate(what)]
        results = tuple(tool(f"c{at}", said) for at, said in enumerate(what))
        talk.messages += ({"type": "ai", "data": {"content": "", "tool_calls": asked}}, *results)
    elif kind == "open":
        talk.call("open_effort", name=what, goal=what * 40)
    elif kind == "close":
        talk.call("close_effort")
    elif kind == "read":
        talk.call("read_log", turn=what)
    elif kind != "say":
        talk.call(f"{kind}_effort", effort_id=what)


@settings(deadline=None)
@given(FEW_ROUNDS, BUDGETS)
def test_no_context_exceeds_the_budget(turns: list[list[tuple[str, Any]]], budget: int) -> None:
    """Invariants 1 and 5: whatever is said and done, every context fits and is well formed."""
    with conversation(context_budget=2_000) as talk:
        talk.set(context_budget=budget)
        for steps in turns:
            talk.ask(*([what for kind, what in steps if kind == "say"] or ["go on"]))
            assert well_formed(within_budget(talk))
            for kind, what in steps:
                take(talk, kind, what)
                assert well_formed(within_budget(talk))
            talk.answer(next((what for kind, what in steps if kind == "say"), "Done."))
