"""A turn of many rounds: what of it the model is sent.

Page 03, "Inside a long turn"; page 01, "What belongs to an effort".
"""

from base64 import b64encode
from itertools import pairwise
from pathlib import Path

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool

from ebbtide import Settings
from tests.acceptance.stage import AUTH, log_in, stage
from tests.acceptance.test_context import PAGE, SMALL, look_up, size
from tests.doubles import call, together


def test_calls_and_results_stay_together(tmp_path: Path) -> None:
    """03, The hard budget: 64 parallel calls with huge results fit, each with its result."""

    def open_page(name: str) -> str:
        """Open a page, which is larger than the budget."""
        return f"{name} {PAGE[:14_000]}"

    here = stage(tmp_path, settings=Settings(context_budget=8_000), tools=[open_page])
    many = together(*(call("open_page", name="harbour") for _ in range(64)))

    said = here.say("Look them up.", many, "Done.")

    calls = [c["id"] for m in said.sent.messages for c in getattr(m, "tool_calls", ())]
    results = [m.tool_call_id for m in said.sent.messages if isinstance(m, ToolMessage)]
    assert calls == results
    assert len(calls) == 64
    assert "Look them up." in said.sent.text
    assert size(said.sent) <= 8_000


PNG = b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0\0\0\1\0\x08\2\0\0\0").decode()


@tool
def fetch(name: str) -> str:
    """Fetch a text."""
    return f"{name} {PAGE[:2_000]}"


def test_request_of_a_long_turn_stays_whole(tmp_path: Path) -> None:
    """03, Inside a long turn, 4; 08, row 29: the user's request is never shortened."""
    request = f"Mend the six defects. {PAGE[:1_200]} And mind the tests!"
    here = stage(tmp_path, settings=Settings(context_budget=8_000), tools=[look_up])
    rounds = [call("look_up", what=f"{n} {PAGE[:4_000]}") for n in range(7)]

    said = here.say(request, *rounds, "Done.")

    assert [request in sent.text for sent in said.calls] == [True] * len(said.calls)


def test_cut_of_a_long_turn_leaves_half_of_the_room(tmp_path: Path) -> None:
    """03, Inside a long turn, 5: a cut goes down to low water, not to the brim."""
    here = stage(tmp_path, settings=Settings(context_budget=8_000), tools=[fetch])
    rounds = [call("fetch", name=f"page{number}") for number in range(40)]

    sizes = [*map(size, here.say("Fetch them.", *rounds, "Done.").calls)]

    after = [now for before, now in pairwise(sizes) if now < before]
    assert 1 <= len(after) <= 6
    assert max(after) < 8_000 // 2


def test_newest_results_are_whole_as_long_as_older_rounds_can_leave(tmp_path: Path) -> None:
    """03, Inside a long turn, 3: a new result may have a quarter of the room whole."""
    here = stage(tmp_path, settings=SMALL, tools=[fetch])
    for number in range(3):
        here.say(f"What about {number}? {PAGE[:600]}", f"Nothing. {PAGE[:600]}")

    many = together(*(call("fetch", name=f"early{number}") for number in range(12)))
    both = together(call("fetch", name="second"), call("fetch", name="third"))
    said = here.say("Fetch them.", many, both, "Done.")

    assert all(f"{name} {PAGE[:2_000]}" in said.sent.text for name in ("second", "third"))


def test_newest_results_are_whole_after_a_round_of_many_calls(tmp_path: Path) -> None:
    """03, Inside a long turn, 3: a round that had no room itself leaves at the next cut."""
    here = stage(tmp_path, settings=SMALL, tools=[look_up])
    many = together(*(call("look_up", what=f"page {PAGE[:1_500]}") for _ in range(64)))
    stones = [f"stone{number} {PAGE[:1_200]}" for number in range(6)]

    said = here.say("Look.", many, *(call("look_up", what=stone) for stone in stones), "Done.")

    after = zip(stones, said.calls[2:], strict=True)
    assert all(stone in sent.text for stone, sent in after)


def test_request_outlives_earlier_turns(tmp_path: Path) -> None:
    """03, Inside a long turn, 4: beside a round of many calls the request leaves last."""
    here = stage(tmp_path, settings=SMALL, tools=[look_up])
    here.say(f"What about that? {PAGE[:900]}", f"Nothing. {PAGE[:900]}")
    request = f"Find the harbour. {PAGE[:2_600]} And mind the tests!"
    many = together(*(call("look_up", what=f"{n} {PAGE[:1_500]}") for n in range(14)))

    said = here.say(request, many, "Done.")

    assert request in said.sent.text


def test_log_whose_round_left_is_shown(tmp_path: Path) -> None:
    """Invariant 10: a log stays when the round that asked for it left."""
    here = stage(tmp_path, settings=SMALL, tools=[look_up])
    here.work(AUTH)
    here.chat(2)
    rounds = [call("look_up", what=f"{n} {PAGE[:2_400]}") for n in range(6)]

    said = here.say("Hm.", call("expand_effort", effort_id=AUTH.name), *rounds, "Done.")

    assert all(log_in(sent, AUTH) for sent in said.calls[1:])
    assert '"status":"expanded"' not in said.sent.text


def test_attachment_stays_when_a_later_call_has_the_same_id(tmp_path: Path) -> None:
    """Invariant 7: what a call brought back stays where it was, as models repeat ids of calls."""
    here = stage(tmp_path, settings=Settings(context_budget=8_000), tools=[look_up])
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    here.say([{"type": "text", "text": "See."}, picture])
    rounds = [call("look_up", what=f"{n} {PAGE[:2_800]}") for n in range(4)]
    reading = [call("read_log", turns="1"), call("look_up", what=f"more {PAGE[:2_800]}")]

    said = here.say("Again.", *rounds, *reading, call("read_log", turns="2"), "Done.")

    shown = ["attachments of turn" in sent.text for sent in said.calls]
    assert said.memory["context_report"]["changed"]["why"] == "high-water"
    assert shown == [False] * 5 + [True] * 3


def test_log_says_what_the_state_says_of_its_effort(tmp_path: Path) -> None:
    """Invariant 9: a log that was expanded is that of an open effort once it is reopened."""
    here = stage(tmp_path)
    here.work(AUTH)
    here.chat(2)

    named = {"effort_id": AUTH.name}
    said = here.say("Hm.", call("expand_effort", **named), call("reopen_effort", **named), "Done.")

    log = f'the stored log of the effort "{AUTH.name}", '
    assert f"{log}concluded" in said.calls[1].text
    assert f"{log}open" in said.sent.text
    assert f"{log}concluded" not in said.sent.text


def test_long_turn_has_no_limit(tmp_path: Path) -> None:
    """01, `max_tool_rounds`: by default a turn may have as many rounds as it needs."""
    here = stage(tmp_path, tools=[look_up])
    rounds = [call("look_up", what=f"{n}") for n in range(12)]

    said = here.say("Look all of them up.", *rounds, "Done.", "Done.")

    assert len(said.calls) == 13
    assert said.answer == "Done."


def test_concluding_inside_a_turn_frees_at_once(tmp_path: Path) -> None:
    """01, What belongs to an effort: the rounds of an effort concluded in the turn leave."""
    here = stage(tmp_path, tools=[look_up])
    rounds = [
        call("open_effort", name="task"),
        call("look_up", what="the lighthouse keeper's name is Ahab " * 9),
        call("close_effort"),
        call("look_up", what="another thing"),
    ]

    said = here.say("Do both tasks.", *rounds, "Done.")

    assert "the lighthouse keeper" not in said.sent.text


def test_rounds_that_left_are_named(tmp_path: Path) -> None:
    """03, Inside a long turn, 1 and 2; 08, row 29: each round that left is named by a line."""
    here = stage(tmp_path, settings=SMALL, tools=[look_up])
    rounds = [call("look_up", what=f"stone{n} {PAGE[:2_400]}") for n in range(7)]

    said = here.say("Look all of them up.", *rounds, "Done.")

    assert [f"stone{n}" in said.sent.text for n in range(7)] == [True] * 7


def test_limit_of_rounds(tmp_path: Path) -> None:
    """01, `max_tool_rounds`: where it is set, the user always gets an answer."""
    here = stage(tmp_path, settings=Settings(max_tool_rounds=2), tools=[look_up])
    rounds = [call("look_up", what=f"{n}") for n in range(2)]

    said = here.say("Look all of them up.", *rounds, "That is what I have.")

    assert said.answer == "That is what I have."
    assert said.sent.tool_choice == "none"


def test_log_of_an_effort_is_its_rounds(tmp_path: Path) -> None:
    """01, What belongs to an effort: the summary of task 2 does not contain task 1."""
    here = stage(tmp_path, tools=[look_up])
    rounds = [
        call("open_effort", name="one"),
        call("look_up", what="the lighthouse keeper's name is Ahab " * 9),
        call("close_effort"),
        call("open_effort", name="two"),
        call("look_up", what="the harbour master's name is Ishmael " * 9),
        call("close_effort"),
    ]

    here.say("Do both tasks.", *rounds, "Done.")

    first, second = here.talk.model.asked
    assert "Ahab" in first.text
    assert "Ishmael" in second.text
    assert "Ahab" not in second.text


def test_shortened_arguments_keep_their_keys(tmp_path: Path) -> None:
    """03, Inside a long turn, 1: long values are cut inside; it is still the call that was made."""
    here = stage(tmp_path, settings=SMALL, tools=[look_up])
    rounds = [call("look_up", what=f"stone{n} {PAGE[:6_000]}") for n in range(6)]

    said = here.say("Look all of them up.", *rounds, "Done.")

    made = [c for m in said.sent.messages for c in getattr(m, "tool_calls", ())]
    assert made != []
    assert {key for one in made for key in one["args"]} == {"what"}


def test_state_block_stands_once(tmp_path: Path) -> None:
    """03, Inside a long turn: the same block never stands twice; a new one stands where it was."""
    here = stage(tmp_path, settings=SMALL, tools=[look_up])
    block = "---STATE---\nGoal: mend {0}\n---END STATE---"
    rounds = [
        call("look_up", what=f"{n} {PAGE[:1_600]}").model_copy(
            update={"content": block.format(n // 4)}
        )
        for n in range(12)
    ]

    said = here.say("Look all of them up.", *rounds, "Done.")

    counts = [[sent.text.count(f"Goal: mend {n}") for n in range(3)] for sent in said.calls]
    assert counts[1] == [1, 0, 0]
    assert max(max(each) for each in counts) == 1
    assert [each[(n - 1) // 4] for n, each in enumerate(counts) if n] == [1] * 12


def test_state_block_that_each_round_repeats_stands_once(tmp_path: Path) -> None:
    """03: it is left out of later rounds only as long as the first one with it is shown."""
    here = stage(tmp_path, settings=SMALL, tools=[look_up])
    block = "---STATE---\nGoal: ship on port 8443\n---END STATE---"
    rounds = [together(call("look_up", what=f"{n} {PAGE[:1_600]}"), text=block) for n in range(12)]

    said = here.say("Look all of them up.", *rounds, "Done.")

    assert [sent.text.count("port 8443") for sent in said.calls[1:]] == [1] * len(rounds)


def test_state_block_that_a_later_turn_repeats_stands_once(tmp_path: Path) -> None:
    """03, Inside a long turn: the same block never stands twice."""
    here = stage(tmp_path, tools=[look_up])
    block = "---STATE---\nGoal: ship on port 8443\n---END STATE---"
    noting = together(call("look_up", what="the plan"), text=block)
    here.say("Hello.", noting, "Hello.")
    here.say("Shall we?", "Yes.")

    said = here.say("Go on.", noting, noting, f"Done.\n{block}")

    assert [sent.text.count("port 8443") for sent in said.calls] == [1, 1, 1]


@pytest.mark.parametrize("why", ["concluded", "cut"])
def test_state_block_outlives_its_round(tmp_path: Path, why: str) -> None:
    """03: what the model wrote beside a call stays in view, once, when that round leaves."""
    here = stage(tmp_path, settings=SMALL, tools=[look_up])
    noting = together(
        call("look_up", what="the plan"),
        text="---STATE---\nGoal: ship on port 8443\n---END STATE---",
    )
    pages = [call("look_up", what=f"{n} {PAGE[:3_000]}") for n in range(8)]
    closing = [call("close_effort"), call("look_up", what="more"), call("look_up", what="less")]
    rounds = [call("open_effort", name="task"), noting, *(pages if why == "cut" else closing)]

    said = here.say("Mend it.", *rounds, "Done.")

    assert [sent.text.count("port 8443") for sent in said.calls[2:]] == [1] * (len(rounds) - 1)
    shown = ("Mend it.", "done before in this turn", "port 8443")
    assert (places := [*map(said.sent.text.index, shown)]) == sorted(places)


def test_newest_state_block_stands_after_a_change_inside_the_turn(tmp_path: Path) -> None:
    """03, The order, 5: the note has the newest block of when the plan changed, nothing older."""
    here = stage(tmp_path, tools=[look_up])
    block = "---STATE---\nGoal: ship on port {0}\n---END STATE---"
    here.say("Hello.", f"Hello.\n{block.format(1111)}")
    here.say("Shall we?", "Yes.")
    rounds = [
        call("open_effort", name="task"),
        call("close_effort"),
        together(call("look_up", what="the plan"), text=block.format(8443)),
        call("look_up", what="more"),
    ]

    said = here.say("Mend it.", *rounds, "Done.")

    newest = [[sent.text.count(f"port {n}") for n in (1111, 8443)] for sent in said.calls[3:]]
    assert newest == [[0, 1]] * 2


def test_turn_of_two_efforts_is_out_of_view_beside_the_log_of_one(tmp_path: Path) -> None:
    """03, The order: what is hidden is said; a log has the rounds of its own effort alone."""
    chosen = Settings(ambient_window=1, rebuild="every-turn")
    here = stage(tmp_path, settings=chosen, tools=[look_up])
    both = [
        step
        for name in ("keel", "mast")
        for step in (
            call("open_effort", name=name),
            call("look_up", what=f"the {name} {PAGE[:900]}"),
            call("close_effort"),
        )
    ]
    here.say("Mend both.", *both, "Both are mended.")
    here.say("Hello.", "Hello.")
    here.say("How was the keel?", call("expand_effort", effort_id="keel"), "Well.")

    sent = here.say("And now?", "Now this.").sent.text

    assert "the keel word0" in sent
    assert "Both are mended." not in sent
    assert "out of view and stored: turns 1-2." in sent
