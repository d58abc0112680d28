"""The state block that the model itself keeps.

Page 03, "The anchor"; the source is std_slop, "Self-Managed State Tracking".
"""

from pathlib import Path
from typing import Any

import pytest

from ebbtide import Settings
from tests.acceptance.stage import EXACT, recalled, stage
from tests.agents import THREAD
from tests.doubles import call, together

SHIP = {"Goal": "ship 1.2", "Technical Anchors": "port 8443"}


def block(**fields: str) -> str:
    """Return a block with these fields."""
    lines = [f"{name.replace('_', ' ')}: {said}" for name, said in fields.items()]
    return "\n".join(["---STATE---", *lines, "---END STATE---"])


SHIPPING = block(Goal="ship 1.2", Technical_Anchors="port 8443")


def test_block_becomes_state(tmp_path: Path) -> None:
    """03, The anchor: it is parsed into its fields, and cut out of what the user sees."""
    said = stage(tmp_path).say("Let us ship 1.2.", f"Understood.\n\n{SHIPPING}")

    assert said.memory["anchor"] == SHIP
    assert said.answer == "Understood."


def test_block_is_sent(tmp_path: Path) -> None:
    """03, The order, 5: the next plan has it, as data of the memory, once."""
    here = stage(tmp_path, settings=EXACT)
    here.say("Let us ship 1.2.", f"Understood.\n\n{SHIPPING}")
    here.chat(4)

    sent = here.chat(1)[0].sent

    assert sent.text.count("port 8443") == 1
    assert "port 8443" in recalled(sent)


def test_answer_without_block_keeps_it(tmp_path: Path) -> None:
    """03, `anchor="on-change"`: it stays until another one comes."""
    here = stage(tmp_path)
    here.say("Let us ship 1.2.", f"Understood.\n\n{SHIPPING}")

    assert here.chat(3)[-1].memory["anchor"] == SHIP


@pytest.mark.parametrize(
    ("answer", "anchor"),
    [
        (f"{block(Goal='first')}\nThen.\n{block(Goal='second')}", {"Goal": "second"}),
        (f"As in\n```\n{SHIPPING}\n```\nso it goes.", {}),
        ("Write ---STATE--- Goal: x ---END STATE--- into it.", {}),
        (f"Empty.\n{block()}", {}),
        (f"Yes.\n{block(Goal='ship', Mood='good')}", {"Goal": "ship", "Mood": "good"}),
        (
            f"Yes.\n{block(Facts='allergic to peanuts', Rules='never on Fridays')}",
            {"Facts": "allergic to peanuts", "Rules": "never on Fridays"},
        ),
        ("Yes.\n---STATE---\nGoal: ship", {"Goal": "ship"}),
    ],
)
def test_which_block_is_taken(tmp_path: Path, answer: str, anchor: dict[str, str]) -> None:
    """03: the last block on lines of its own; fences, inline text and empty ones do not count."""
    assert stage(tmp_path).say("Go.", answer).memory["anchor"] == anchor


def test_empty_block_changes_nothing(tmp_path: Path) -> None:
    """03: an empty block changes nothing."""
    here = stage(tmp_path)
    here.say("Let us ship 1.2.", f"Understood.\n\n{SHIPPING}")

    assert here.say("And?", f"Well.\n{block()}").memory["anchor"] == SHIP


def test_unclosed_block_is_hidden(tmp_path: Path) -> None:
    """03: a block whose end line is missing is hidden from users as well."""
    said = stage(tmp_path).say("Go.", "Understood.\n---STATE---\nGoal: ship 1.2")

    assert said.answer == "Understood."


def test_long_block_is_cut(tmp_path: Path) -> None:
    """03: a block longer than 400 tokens is cut, with a banner."""
    said = stage(tmp_path).say("Go.", f"Yes.\n{block(Goal='ship', Context='many words ' * 900)}")

    assert said.memory["anchor"]["Goal"] == "ship"
    assert len(said.memory["anchor"]["Context"]) < 4_000
    assert len(said.banners) == 1


def test_block_can_be_off(tmp_path: Path) -> None:
    """03, `anchor="off"`: nothing is asked for, nothing is taken."""
    here = stage(tmp_path, settings=Settings(anchor="off"))

    said = here.say("Go.", f"Yes.\n{SHIPPING}")

    assert said.memory.get("anchor", {}) == {}
    assert "---STATE---" not in said.sent.messages[0].text


@pytest.mark.parametrize("anchor", ["always", "on-change"])
def test_block_is_asked_for(tmp_path: Path, anchor: str) -> None:
    """03: the model is shown the format, with its fields."""
    said = stage(tmp_path, settings=Settings.model_validate({"anchor": anchor})).say("Go.")

    instructions = said.sent.messages[0].text

    assert "---STATE---\nGoal:" in instructions
    assert all(f"\n{name}:" in instructions for name in ("Context", "Resolved"))
    assert "\n---END STATE---" in instructions


def test_facts_and_rules_are_asked_for(tmp_path: Path) -> None:
    """03: personal facts and standing rules have a place of their own."""
    instructions = stage(tmp_path).say("Go.").sent.messages[0].text

    assert "\nFacts:" in instructions
    assert "\nRules:" in instructions


def test_block_is_not_streamed(tmp_path: Path) -> None:
    """03: what may be the start of a block is held back in the `messages` stream."""
    here = stage(tmp_path)
    here.talk.model.answers = [f"Understood.\n\n{SHIPPING}"]

    streamed: Any = here.talk.agent.stream({"messages": "Go."}, THREAD, stream_mode="messages")
    told = "".join(str(chunk.text) for chunk, _ in streamed)

    assert "Understood." in told
    assert "STATE" not in told
    assert "8443" not in told


def test_block_goes_back_with_time_travel(tmp_path: Path) -> None:
    """03: it is checkpointed state."""
    here = stage(tmp_path)
    here.say("Go.", f"Yes.\n{block(Goal='first')}")
    here.say("On.", f"Yes.\n{block(Goal='second')}")

    assert here.say("Other.", config=here.after(1)).memory["anchor"] == {"Goal": "first"}


def test_raw_answer_is_archived(tmp_path: Path) -> None:
    """03: `read_log` shows the raw answer, users are shown it without."""
    here = stage(tmp_path)
    here.say("Let us ship 1.2.", f"Understood.\n\n{SHIPPING}")

    (read,) = here.use("read_log", turns="1").results

    assert "port 8443" in read["turns"][0]["messages"][-1]["text"]
    assert "port 8443" not in "".join(m.text for m in here.read())


def test_block_beside_calls(tmp_path: Path) -> None:
    """03, Inside a long turn: the state block may stand beside calls."""
    beside = together(call("open_effort", name="one"), text=f"I open it.\n{SHIPPING}")

    assert stage(tmp_path).say("Go.", beside, "Done.").memory["anchor"] == SHIP
