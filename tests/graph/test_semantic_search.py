"""An agent with embeddings: turns get vectors, searches go by meaning, failures are mended."""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from ebbtide import DiskArchive, SettingsError, create_memory_agent
from tests.agents import THREAD, Talk, talk
from tests.constants import change
from tests.doubles import Concepts, ScriptedModel, call

PROBE = 1
CAT = "My cat is called Minka."
ASKED = [call("search_efforts", query="What was the kitten named?"), "Minka."]
WORDS = "cat kitten", "called named"


class Slow(Concepts):
    """Embeddings that take their time."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector for each text, a while later."""
        time.sleep(0.3)
        return super().embed_documents(texts)


def found(chat: Talk) -> str:
    """Return what the model was told by its last tool call."""
    return chat.last[-1].text


def test_a_turn_is_found_by_its_meaning(tmp_path: Path) -> None:
    """A later turn finds what was said, although the question shares no word with it."""
    model = Concepts(*WORDS)
    chat = talk(tmp_path, ["Nice.", *ASKED], embeddings=model)
    chat.say(CAT)
    chat.say("What was the kitten named?")

    assert CAT in found(chat)
    assert model.queries == ["What was the kitten named?"]


def test_without_embeddings_it_is_not(tmp_path: Path) -> None:
    """Words alone do not know that a kitten is a cat."""
    chat = talk(tmp_path, ["Nice.", *ASKED])
    chat.say(CAT)
    chat.say("What was the kitten named?")

    assert '"results":[]' in found(chat).replace(" ", "")


def test_a_turn_is_embedded_once(tmp_path: Path) -> None:
    """Each passage is embedded, whatever came before, question and answer; hints cost none."""
    model = Concepts()
    chat = talk(tmp_path, ["Yes."] * 20, embeddings=model)
    counts = []
    for number in range(20):
        chat.say(f"Minka has {number} kittens.")
        counts.append(len(model.documents))

    assert counts == [PROBE + 2 * number for number in range(1, 21)]
    assert model.queries == []


def test_a_failing_model_fails_no_turn(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The turn is answered and committed, the failure logged, and the next turn catches up."""
    model = Concepts(*WORDS)
    model.error = ConnectionError("no route to host")
    chat = talk(tmp_path, ["Nice.", "Yes.", *ASKED], embeddings=model)
    first = chat.say(CAT)
    model.error = None
    chat.say("And so on.")
    chat.say("What was the kitten named?")

    assert chat.said(first) == [CAT]
    assert caplog.text.count("turns without a vector: ConnectionError: ") == 1
    assert "no route to host" not in caplog.text
    assert CAT in found(chat)


def test_an_old_session_catches_up_by_and_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With each turn the passages of so many older ones are embedded, the newest first."""
    archive, saver = DiskArchive(tmp_path, durable=False), InMemorySaver()
    before = talk(tmp_path, ["Yes."] * 5, archive=archive, checkpointer=saver)
    before.say_all(f"This is {number}." for number in range(5))
    change(monkeypatch, EMBEDDED_TURNS=3)
    model = Concepts()
    after = talk(tmp_path, ["Yes."] * 3, archive=archive, checkpointer=saver, embeddings=model)
    counts = []
    for number in range(3):
        after.say(f"That is {number}.")
        counts.append(len(model.documents) - PROBE)

    assert counts == [8, 14, 16]


def test_a_fork_finds_its_own_past_by_meaning(tmp_path: Path) -> None:
    """What was said on the branch that was left is not found, the common past is."""
    chat = talk(tmp_path, ["Yes.", "Yes.", *ASKED], embeddings=Concepts(*WORDS))
    chat.say(CAT)
    first = next(s for s in chat.agent.get_state_history(THREAD) if not s.next)
    chat.say("The kitten was named Mog.")
    chat.say("What was the kitten named?", first.config)

    assert "Minka" in found(chat)
    assert "Mog" not in found(chat)


async def test_the_event_loop_is_not_blocked(tmp_path: Path) -> None:
    """While a slow model embeds, other tasks run."""
    model = ScriptedModel(answers=["Nice."])
    agent = create_memory_agent(
        model, archive=DiskArchive(tmp_path, durable=False), embeddings=Slow()
    )
    running = asyncio.create_task(agent.ainvoke({"messages": [("user", CAT)]}))
    gaps, last = [], time.monotonic()
    while not running.done():
        await asyncio.sleep(0.005)
        gaps.append(time.monotonic() - last)
        last = time.monotonic()

    assert len((await running)["messages"]) == 2
    assert len(gaps) > 10


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("maxilm", '"minilm"'),
        ("", '"minilm"'),
        (5, "must be a LangChain Embeddings"),
        ("minilm", r"pip install 'ebbtide\[semantic\]'"),
    ],
)
def test_what_cannot_embed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Any, said: str
) -> None:
    """One model is known by name, and without its extra the error says what to install."""
    monkeypatch.setitem(sys.modules, "langchain_huggingface", None)

    with pytest.raises(SettingsError, match=said):
        create_memory_agent(ScriptedModel(), archive=DiskArchive(tmp_path), embeddings=model)
