"""Facts and rules that change: what later sessions, and those that are still open, are told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ebbtide import Settings, delete_session, erase, memories
from ebbtide.memory.context.budget import part_limit
from ebbtide.memory.tokens import count
from tests.agents import Talk
from tests.agents import talk as agent_of
from tests.graph.test_search_facts import block, found, thread

DUTCH = "always answer in Dutch"
ENGLISH = "answer in English from now on, no more Dutch"


def told(talk: Talk, name: str, word: str) -> list[str]:
    """Say something in a thread, and return what stands behind the ids and days in its prompt.

    These are the lines with a word that stand there as memories.
    """
    talk.say("Good.", thread(name))
    lines = [line for message in talk.last for line in message.text.splitlines()]
    return [line.partition("): ")[2] for line in lines if word in line and "/fact-" in line]


def test_a_rule_is_revoked_in_another_session(tmp_path: Path) -> None:
    """Thursday is told the new rule with the old one behind it, and so is Monday, still open."""
    script = [block(Rules=DUTCH), "Goed.", "Ja.", block(Rules=ENGLISH), "Yes.", "Yes.", "Yes."]
    talk = agent_of(tmp_path, script)
    talk.say("Always answer in Dutch.", thread("mon"))
    talk.say("Hello.", thread("mon"))
    before = [message.text for message in talk.last]
    shown = told(talk, "wed", "Dutch")
    talk.say(ENGLISH, thread("wed"))

    thursday = told(talk, "thu", "Dutch")
    monday = [told(talk, "mon", "Dutch") for _ in range(2)]

    both = f"{ENGLISH}; before: {DUTCH}"
    assert (shown, thursday, monday) == ([DUTCH], [both], [[both], [both]])
    assert [message.text for message in talk.last][: len(before)] == before


def test_whoever_has_it_in_other_words_is_told_too(tmp_path: Path) -> None:
    """Another session worded the rule anew before it was revoked."""
    worded = [block(Rules=DUTCH), block(Rules="Answer in Dutch, please, always."), "Ja."]
    talk = agent_of(tmp_path, ["Hi.", *worded, block(Rules=ENGLISH), "Yes."])
    talk.say("Hello.", thread("tue"))
    talk.say("Always answer in Dutch.", thread("mon"))
    talk.say("Dutch, please.", thread("tue"))
    talk.say("Hello.", thread("mon"))
    talk.say(ENGLISH, thread("wed"))

    assert told(talk, "mon", "English") != []


def test_a_fact_changes_twice(tmp_path: Path) -> None:
    """The newest is surfaced with all before it, and found; an open session learns each change."""
    talk = agent_of(
        tmp_path,
        [
            block(Facts="works at Nordlys as a welder"),
            *(block(Facts="works at Havn"), "Good."),
            *(block(Facts="works at Bergum as a cook"), "Good.", "Good."),
        ],
    )
    talk.say("I work at Nordlys as a welder.", thread("a"))
    talk.say("I am at Havn now.", thread("b"))
    first = told(talk, "a", "Havn")
    talk.say("I cook at Bergum now.", thread("c"))

    second, new = told(talk, "a", "works"), told(talk, "d", "works")

    havn = "works at Havn; before: works at Nordlys as a welder"
    assert first == [havn]
    assert second == [havn, f"works at Bergum as a cook; before: {havn}"]
    assert new == second[1:]
    # Nordlys is in the turn that said it.
    hits = [hit.passages[0] for hit in found(talk, "d", "works as a welder")]
    assert [(one.text.split()[-4], one.newest_with) for one in hits] == [
        ("Bergum", ("works",)),
        ("a", ()),
    ]


def test_a_rule_is_no_longer_in_force(tmp_path: Path) -> None:
    """An open session is told so once; later ones are told nothing, and search marks it."""
    ending = block(Facts="flour: T65", Rules=f"answer gently\n**no longer:** {DUTCH}")
    script = [block(Rules=DUTCH), ending, *["Yes."] * 3]
    talk = agent_of(tmp_path, script)
    talk.say("Graag Nederlands.", thread("mon"))
    talk.say("Any language will do.", thread("wed"))

    monday = [told(talk, "mon", "Dutch") for _ in range(2)]
    thursday = told(talk, "thu", "Dutch")

    assert monday == [[f"no longer: {DUTCH}"]] * 2
    assert thursday == []
    (hit,) = found(talk, "thu", DUTCH)
    assert hit.passages[0].text.startswith(f"{DUTCH} (no longer since 20")
    remembered = {one.text for one in memories(talk.archive, "ann").list()}
    assert remembered > {"answer gently", "flour: T65"}


def test_a_suppressed_rule_is_not_told(tmp_path: Path) -> None:
    """What it had revoked holds again."""
    script = [block(Rules=DUTCH), block(Rules=ENGLISH), *["Yes."] * 2]
    talk = agent_of(tmp_path, script)
    talk.say("Always answer in Dutch.", thread("mon"))
    talk.say(ENGLISH, thread("wed"))
    of_ann = memories(talk.archive, "ann")
    of_ann.suppress(of_ann.list()[0].id)

    assert told(talk, "thu", "Dutch") == [DUTCH]
    assert told(talk, "mon", "Dutch") == []


def test_rules_stand_beside_the_strongest(tmp_path: Path) -> None:
    """All are surfaced beside the ten: the newest in a quarter of the share, the rest by name."""
    rules = "\n".join(f"answer {n} to question {n} of form {n} in verse" for n in range(40))
    facts = "\n".join(f"has {n} of thing {n}" for n in range(12))
    talk = agent_of(tmp_path, [block(Rules=rules, Facts=facts), "Yes."])
    talk.say("Verse!", thread("mon"))

    lines = told(talk, "tue", "verse")

    (earlier,) = [one.text for one in talk.last if "From earlier sessions" in one.text]
    shown = [one for one in earlier.splitlines() if "verse" in one]
    assert 0 < len(lines) < 40
    assert sum(map(count, shown)) <= part_limit("memory", Settings().context_budget) // 4
    assert earlier.count("has ") == 10
    assert "without a line here" in earlier


def test_what_was_surfaced_is_written_into_no_block(tmp_path: Path) -> None:
    """The block has what the model wrote, and nothing if it wrote none."""
    talk = agent_of(tmp_path, [block(Facts="likes tea", Rules=DUTCH), "Goed.", "Ja."])
    talk.say("Tea, please.", thread("mon"))

    shown = told(talk, "tue", "tea")
    state = talk.say("Hello.", thread("tue"))

    assert shown == ["likes tea"]
    assert state["memory"]["anchor"] == {}


ERASING: dict[str, Callable[[Any], Any]] = {
    "turn": lambda agent: erase(agent, thread("a"), 1),
    "session": lambda agent: delete_session(agent, thread("a")),
}


@pytest.mark.parametrize("how", ERASING)
def test_an_erased_fact_leaves_later_blocks(tmp_path: Path, how: str) -> None:
    """Also in another thread that repeats it: in its records, its state and its prompt.

    What the thread says next does not make a memory of it again.
    """
    tea = {"Facts": "lives in Lyon\n- Likes TEA.", "Goal": "ship"}
    script = [block(Facts="likes tea"), block(**tea), "Good.", "Good."]
    talk = agent_of(tmp_path, script)
    talk.say("Tea, please.", thread("a"))
    talk.say("Hello.", thread("b"))

    left = ERASING[how](talk.agent).not_erased
    states = [one.values for one in talk.agent.get_state_history(thread("b"))]
    state = talk.say("Good morning.", thread("b"))

    assert [one for one in left if "'b'" in one] == [
        "the answer of turn 1 of 'b', which repeats a fact"
    ]
    assert "TEA" not in repr(states) + repr(state)
    assert state["memory"]["anchor"] == {"Goal": "ship", "Facts": "lives in Lyon"}
    assert "TEA" not in repr([one.events for one in talk.turns(state)])
    assert "TEA" not in talk.last[0].text + talk.last[-1].text
    assert [one.text for one in memories(talk.archive, "ann").list()] == ["lives in Lyon"]
