"""What users of the alternatives complain about in compaction, and does not happen here."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from ebbtide import Settings
from tests.agents import THREAD, Talk, talk
from tests.doubles import ScriptedModel, call
from tests.graph.long_effort import entries

RULE = "The orders table must never be locked."
CHATTER = "We looked at it for long, and talked about this and that without a result. " * 24
SETTINGS = Settings(context_budget=5_000)


def quoting(messages: list[BaseMessage]) -> dict[str, Any]:
    """Quote the rule if it stands in the log that is read."""
    said = messages[-1].text.split("<log", 1)[1]
    return {"new": [{"quote": RULE, "kind": "constraint", "turn": 2}] if RULE in said else []}


def long_effort(root: Path, answers: Any, turns: int) -> tuple[Talk, list[dict[str, Any]]]:
    """Talk about one effort, the rule in its second turn, and return the states."""
    model = ScriptedModel(answers=lambda _: "They talked.", structured=quoting)
    script = [call("open_effort", name="shop"), "Opened.", *answers]
    here = talk(root, script, settings=SETTINGS, extraction_model=model, compression_model=model)
    said = {0: "Let's work on the shop.", 1: f"{RULE} {CHATTER}"}
    return here, [here.say(said.get(at, f"{at} {CHATTER}")) for at in range(turns)]


@dataclass(frozen=True)
class Gone:
    """Forty turns about one effort: the agent, its states, and where its archive is."""

    here: Talk
    states: list[dict[str, Any]]
    root: Path


@pytest.fixture(scope="module")
def forty(tmp_path_factory: pytest.TempPathFactory) -> Gone:
    """Talk about one effort for forty turns."""
    root = tmp_path_factory.mktemp("forty")
    return Gone(*long_effort(root, ["Seen."] * 40, 40), root)


def test_compaction_does_not_loop(forty: Gone) -> None:
    """Row 6: at most one pass a turn, and turns between two passes."""
    turns = [one["turn"] for one in entries(forty.root)]

    assert len(turns) > 5
    assert min(after - before for before, after in pairwise(turns)) > 1


def test_constraints_survive_compaction(forty: Gone) -> None:
    """Row 14: what was demanded once stands word for word in the context forty turns later."""
    context = "\n".join(message.text for message in forty.here.last)

    assert f"constraint, turn 2: {RULE}" in context


def until_compressed(here: Talk) -> list[str]:
    """Return the steps of turns up to the first that compresses, six at most."""
    order: list[str] = []
    for turn in range(6):
        message = {"messages": f"{turn} {CHATTER}"}
        for step in here.agent.stream(message, THREAD, stream_mode=["updates", "custom"]):
            order += _named(step)
        if "banner" in order:
            break
    return order


def test_nothing_runs_after_the_answer(tmp_path: Path) -> None:
    """Row 17: the archive has the turn as soon as the user has the answer."""
    here, _ = long_effort(tmp_path, ["Seen."] * 20, 7)

    order = until_compressed(here)

    compressing = order[order.index("banner") - 1 :]
    assert compressing[:4] == ["begin_turn", "banner", "compress", "assemble_context"]
    assert compressing[-1] == "persist"


def test_a_compression_and_what_it_replaces_change_together(forty: Gone) -> None:
    """Row 21: in every context each turn is quoted or stands there, none is both or missing."""
    for sent, state in zip(forty.here.model.sent[1:], forty.states, strict=True):
        shown = [m.text.split(" ", 1)[0] for m in sent.messages if m.text.endswith(CHATTER)]
        turn = state["memory"]["turn"]
        left_out = state["memory"]["context_report"]["left_out"]
        compressed = left_out.get("compressed", {}).get("shop", "0-0")
        through = int(compressed.rsplit("-", 1)[1])
        assert len(shown) == turn - max(through, 1), (turn, compressed)


def test_recalled_text_is_not_quoted_again(tmp_path: Path) -> None:
    """Row 22: what was read from the log, or found in it, is not taken for something said."""
    again = [answer for _ in range(10) for answer in (call("read_log", turns=2), "Read.")]
    here, _ = long_effort(tmp_path, ["Seen.", *again], 12)

    verdicts = [quote for one in entries(tmp_path) for quote in one["told"]["quotes"]]
    assert [(quote["verdict"], quote["turn"]) for quote in verdicts] == [("verbatim", 2)]
    assert "\n".join(message.text for message in here.last).count(f"turn 2: {RULE}") == 1


def _named(step: Any) -> list[str]:
    mode, payload = step
    return [*payload] if mode == "updates" else ["banner"] * ("banner" in payload)
