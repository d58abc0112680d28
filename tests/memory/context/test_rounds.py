"""A turn of many rounds: within the budget, well formed, the request whole, and only growing."""

import re
from dataclasses import replace
from itertools import chain, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage

from ebbtide.memory.compressions import Compression, Item, Kind
from ebbtide.memory.context.budget import high_water
from ebbtide.memory.context.fit import WorkingContext
from ebbtide.memory.context.plan import Rounds
from ebbtide.memory.context.rounds import WHOLE_ROUNDS, cut_turn
from ebbtide.memory.fences import Fences
from ebbtide.memory.messages import text
from ebbtide.memory.tokens import count, count_message
from ebbtide.memory.transcript import log_text
from ebbtide.memory.turn import StoredTurn
from tests.draws import examples
from tests.memory.contexts import begins, tokens, unchanged, well_formed
from tests.memory.conversations import Conversation, ai, call, conversation, human, tool, words_of
from tests.memory.turns import put_compression

REQUEST = "Mend the six defects, and never touch the production database."
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["look", "look", "look", "open", "close", "expand", "read"]),
        st.sampled_from([1, 20, 200, 200, 2_000, 20_000]),
        st.sampled_from([1, 1, 40, 1_000]),
    ),
    min_size=8,
    max_size=30,
)


def contexts(talk: Conversation, steps: list[tuple[str, int, int]]) -> list[WorkingContext]:
    """Go through a turn of these rounds, and return the context of each call."""
    talk.ask(REQUEST)
    found = [talk.context]
    for number, (kind, result, argument) in enumerate(steps):
        if kind == "open":
            talk.call("open_effort", name=f"task-{number}", goal="Do it. " * argument)
        elif kind == "close":
            talk.call("close_effort")
        elif kind == "expand":
            talk.call("expand_effort", effort_id="before")
        elif kind == "read":
            talk.call("read_log", turns=str(talk.state.turn))
        else:
            talk.look_up(f"result {number} " + "word " * result, key="row " * argument)
        found.append(talk.context)
    return found


@pytest.mark.thorough
@settings(max_examples=examples(4))
@given(STEPS, st.sampled_from([0, 500, 2_000, 7_000]))
def test_long_turn_keeps_the_invariants(steps: list[tuple[str, int, int]], above: int) -> None:
    """Invariants 1, 5 and 7, and the request is in every call."""
    with conversation() as talk:
        talk.effort("before", "The login fails. " * 20, "It works now.")
        talk.set(context_budget=talk.fixed + 1_000 + above)
        found = contexts(talk, steps)

        for context in found:
            assert tokens(context, talk) == context.report["total"] <= talk.settings.context_budget
            assert well_formed(context.messages)
            assert any(text(message) == REQUEST for message in context.messages)
        for before, now in pairwise(found):
            assert unchanged(before) != unchanged(now) or begins(now, before)


def results(messages: tuple[BaseMessage, ...]) -> list[str]:
    """Return the results of the application's tool."""
    return [text(one) for one in messages if one.type == "tool" and one.name == "look_up"]


def test_last_rounds_are_cut_last(talk: Conversation) -> None:
    """The last three stay whole while older ones become previews, and then leave."""
    talk.set(context_budget=talk.fixed + 3_000)

    found = contexts(talk, [("look", 400, 1)] * 30)

    shown = [results(context.messages) for context in found]
    whole = [sum("left out" not in one for one in each[-WHOLE_ROUNDS:]) for each in shown]
    assert whole == [0, 1, 2, *[3] * 28]
    assert max(map(len, shown)) < 20


def test_new_result_has_what_is_free(talk: Conversation) -> None:
    """It is whole if it fits below high water, else head and tail of that, and it stays so."""
    talk.set(context_budget=talk.fixed + 4_000)

    found = contexts(talk, [("look", 1_400, 1), ("look", 8_000, 1), ("look", 1, 1)])

    shown = [results(context.messages) for context in found]
    assert [sum("left out" in one for one in each) for each in shown[:3]] == [0, 0, 1]
    assert 3_200 < tokens(found[2], talk) - talk.fixed <= high_water(4_000, 0)
    assert [begins(now, before) for before, now in pairwise(found[:3])] == [True, True]


def test_new_result_has_what_a_cut_made_free(talk: Conversation) -> None:
    """Older rounds leave for it as if it had a quarter of the room, and it has what is left."""
    talk.set(context_budget=talk.fixed + 4_000)

    context = contexts(talk, [("look", 200, 1)] * 12 + [("look", 1_500, 1)])[-1]

    assert context.plan.why == "high-water"
    assert "left out" not in results(context.messages)[-1]


def test_previews_do_not_grow_back(talk: Conversation) -> None:
    """What was shown as a preview is never whole again in its turn."""
    talk.set(context_budget=talk.fixed + 7_000)

    found = contexts(talk, [("look", 600, 1)] * 12 + [("look", 1, 1)] * 12)

    cut = set[str]()
    for context in found:
        for one in results(context.messages):
            name = " ".join(one.split()[:2])
            assert "left out" in one or name not in cut
            cut |= {name} if "left out" in one else set()
    assert cut


def test_index_says_where_rounds_of_concluded_efforts_are_read(talk: Conversation) -> None:
    """Each of the newest has a line: its tools, what for, and where its rounds begin."""
    talk.set(context_budget=talk.fixed + 3_000)
    talk.ask(REQUEST)
    for number in range(40):
        talk.call("open_effort", name=f"task-{number}")
        talk.look_up(f"result {number}", key=f"src/{number}.py")
        talk.call("close_effort")
    talk.call("open_effort", name="last")

    index = next(text(m) for m in talk.context.messages if "done before" in text(m))
    newest = re.search(r"effort task-39, concluded: look_up src/39\.py @(\d+)", index)

    assert newest
    assert "effort task-0, concluded" not in index
    assert "task-0" in str(talk.context.messages)
    read = talk.call("read_log", turns="1", offset=int(newest[1]))
    assert "task-39" in words_of(read["turns"][0])


def test_index_keeps_its_share_of_a_small_room(talk: Conversation) -> None:
    """03, Inside a long turn, 2: at most a sixth of the room, if need be without names."""
    talk.count = count
    talk.set(context_budget=talk.fixed + 1_000)
    talk.ask(REQUEST)
    for number in range(12):
        talk.call("open_effort", name=f"task-{number}-{'x' * 20}")
        for part in range(2):
            talk.look_up("line\n" * 200, path=f"src/the/longest/path/{number}/of/{part}.py")
        talk.call("close_effort")
        talk.look_up("line\n" * 200, path=f"tests/the/longest/path/{number}.py")

    (index,) = [one for one in talk.context.messages if "done before" in text(one)]
    assert count_message(index, count) <= talk.room // 6


def test_lists_begin_as_they_did_when_they_get_a_line(talk: Conversation) -> None:
    """So a provider has cached the lines of earlier efforts when another one is concluded."""
    talk.set(context_budget=talk.fixed + 6_000)
    talk.ask(REQUEST)
    found: dict[str, list[str]] = {"concluded efforts": [], "done before": []}
    for number in range(4):
        talk.call("open_effort", name=f"task-{number}")
        talk.look_up(f"result {number} " + "word " * 20)
        talk.call("close_effort")
        said = [text(message) for message in talk.context.messages]
        for heading, lists in found.items():
            lists += [one for one in said if f">{heading}" in one]

    assert [len(lists) for lists in found.values()] == [4, 4]
    for before, now in chain(*map(pairwise, found.values())):
        assert now.startswith(before.rpartition("</memory")[0])
        assert len(now) > len(before)


def test_index_names_what_each_effort_changed(talk: Conversation) -> None:
    """What changed something stands before what was only read."""
    read = [call("read_file", path=f"notes/{number}.md") for number in range(6)]
    alike = f"python -m unittest -v {'x' * 40}"
    made = [*read, *(call("run", command=one) for one in (alike, alike, f"{alike} again"))]
    made += [call("edit_file", path="packages/frontend/src/login/form.py", old="a", new="b")]
    talk.ask(REQUEST)
    talk.call("open_effort", name="login", goal="Mend it.")
    for number, one in enumerate(made):
        talk.messages += (ai("", {**one, "id": f"m{number}"}), tool(f"m{number}"))
    talk.call("read_log", turns="1")
    talk.call("close_effort")

    index = next(text(m) for m in talk.context.messages if "done before" in text(m))

    (line,) = [one for one in index.splitlines() if one.startswith("effort login, concluded: ")]
    edited = r": edit_file …\w*/frontend/src/login/form\.py"
    assert re.search(rf"{edited}, run python -m[^,]*, read_file notes/5.md, .* more", line)
    assert "x" * 20 not in line
    assert "read_log" not in line


def left(*rounds: tuple[str, str, str]) -> tuple[list[BaseMessage], list[str]]:
    """Return a turn of these rounds, all of which left, and the lines of its index.

    A round has the name of a tool, its argument `what` and its result.
    """
    said: list[BaseMessage] = [human(REQUEST)]
    for number, (name, what, result) in enumerate(rounds):
        asked = call(name, call_id=f"c{number}", what=what)
        said += [ai("", asked), tool(f"c{number}", result)]
    turn = StoredTurn(3, tuple(said), "")
    shown, _ = cut_turn(turn, said, Rounds(len(said), len(said)), 2_400, Fences("404256753", count))
    return said, text(shown[1]).splitlines()[1:-1]


def test_index_says_what_was_done() -> None:
    """A short result stands whole, a long one has its telling line, else its size, and where."""
    passed = "....\n" * 50 + "=== \x1b[32m694 passed in 8.76s\x1b[0m ===\n"
    rounds = [
        ("grep", "days =", "no match"),
        ("edit", "if value <= 0:\n    raise ValueError('zero, or less than zero')", "edited"),
        ("run_tests", "tests", passed),
        ("read_file", "src/time.py", "x = 1\n" * 100),
        ("forge", "a", "fine\nedit {} -> edited"),
    ]

    said, lines = left(*rounds)

    begin = [log_text(said).index(one) for one in ("....\n", "x = 1\n")]
    assert lines == [
        'grep {"what": "days ="} -> no match',
        'edit {"what": "if value <= 0:…"} -> edited',
        f'run_tests {{"what": "tests"}} -> 694 passed in 8.76s @{begin[0]}',
        f'read_file {{"what": "src/time.py"}} -> 500 tokens @{begin[1]}',
        'forge {"what": "a"} -> fine edit {} -> edited',
    ]


def test_index_says_what_an_edit_changed() -> None:
    """Of texts that begin alike it has the place where they differ."""
    same = "return f'{cents // 100}.{cents % 100"
    change = {"old": same + "}'", "new": same + ":02d}' if cents >= 0 else minus(cents)"}
    said = [human(REQUEST), ai("", call("edit", call_id="c", **change)), tool("c", "edited")]
    turn = StoredTurn(3, tuple(said), "")
    shown, _ = cut_turn(turn, said, Rounds(3, 3), 2_400, Fences("404256753", count))

    assert "…ts % 100}'" in text(shown[1])
    assert "…ts % 100:02d}' if cents" in text(shown[1])


def test_readings_are_merged_first_then_searches_then_edits() -> None:
    """In a full index a line for several calls says what some of them were, and how many."""
    rounds = []
    for number in range(9):
        rounds.append(("read_file", f"src/{number}.py", "x = 1\n" * 100))
        rounds.append(("grep", f"days{number} =", "no match"))
        rounds.append(("edit", f"if value{number} <= 0:\n    raise ValueError('zero')", "edited"))

    _, (others, *lines) = left(*rounds)

    assert re.match(r"others: grep days\d =, .*, \d+ more @", others)
    assert [line for line in lines if line.startswith("read_file")] == []
    assert len([line for line in lines if line.startswith("edit")]) == 9


def test_concluded_effort_is_not_said_to_be_active(talk: Conversation) -> None:
    """Its rounds leave while the round that closes it is still shown."""
    talk.ask(REQUEST)
    talk.call("open_effort", name="done", goal="Mend the first.")
    talk.look_up("found")
    talk.call("close_effort")

    said = [text(message) for message in talk.context.messages]

    assert any("effort done, concluded" in one for one in said)
    assert not any("the active effort" in one for one in said)


def test_active_effort_is_named_when_its_beginning_left(talk: Conversation) -> None:
    """What the request does not say stays in view when the round that opened it has left."""
    talk.set(context_budget=talk.fixed + 3_000)
    talk.ask(f"{REQUEST} Keep the tests green.")
    rules = ["No floats.", "Keep the tests green."]
    talk.call("open_effort", name="now", goal="Mend it.", constraints=rules)
    for number in range(30):
        talk.look_up(f"result {number} " + "word " * 400)

    (note,) = [text(m) for m in talk.context.messages if "the active effort" in text(m)]

    assert '"now"' in note
    assert [rule for rule in rules if rule in note] == ["No floats."]


@pytest.mark.thorough
def test_what_leaves_beside_a_round_of_many_calls(talk: Conversation) -> None:
    """Hints, names, index, quotes, summaries, turns, block and constraints, then the request."""
    talk.set(MOST_SUMMARIES=3)
    for number in range(12):
        talk.effort(f"task-{number}", "The login fails. " * 20)
    rules = ["never fly"] * 6
    talk.turn("Plan.", call("open_effort", name="trip", goal="Rome", constraints=rules))
    tip, quote = talk.tip, Item(Kind.FACT, "The hotel is booked.", talk.tip.turn)
    made = Compression("trip", tip.turn, tip.turn, (quote,))
    put_compression(talk.archive, tip, made, talk.session)
    talk.turn("Go.", call("open_effort", name="now", goal="Mend it"))
    talk.state = replace(talk.state, anchor={"Facts": "fact " * 90, "Rules": "rule " * 90})
    talk.set(context_budget=talk.fixed + 2_000)
    talk.ask(f"{REQUEST} As in task-1.")
    for number in range(6):
        talk.look_up("word " * 200, path=f"src/{number}.py")
    before, plan = talk.messages[1:], talk.context.plan
    memory = ("possibly related", "task-8, task-7", 'src/2.py"}', "is booked", "- task-11:")
    rest = (*memory, "turn 14,", "fact " * 89, rules[0])

    standing = []
    calls = ((11, 365), (12, 312), (12, 330), (12, 350), (12, 375), (13, 350), (13, 375), (14, 330))
    for number, words in (*calls, (14, 375), (15, 310)):
        request = f"{REQUEST} As in task-1. {'word ' * words}"
        asked = [call("look_up", call_id=f"c{n}", key="row " * 100) for n in range(number)]
        found = [tool(f"c{n}", "result " * 150) for n in range(number)]
        talk.messages = (human(request), *before, ai("", *asked), *found)
        talk.plan = plan
        prompt = "".join(map(text, talk.context.messages))
        standing.append([one in prompt for one in (*rest, request)])

    assert all(shown == sorted(shown) for shown in standing)
    assert len({*map(sum, standing)}) > len(rest) - 1
