"""An effort that is closed with its summary, and a turn that this ends."""

from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

from ebbtide import EbbtideMiddleware, Settings, transcript
from ebbtide.memory.messages import text
from tests.agents import THREAD, Talk, archive_in, talk
from tests.doubles import ScriptedModel, call, together

pytestmark = pytest.mark.usefixtures("entry")

OPENED = call("open_effort", name="gateway", goal="Mend the gateway.")
SAID = "The gateway gw_main answers 401 on port 8443 since the certificate was rotated."
FOUND = "The certificate of gw_main on port 8443 was renewed."
ANSWER = "It is mended: gw_main answers again."
LONG = "It is mended. " * 60
SECOND = {"graph": "memory_tools", "middleware": "EbbtideMiddleware.after_model"}
LAST = {"graph": "detect_references", "middleware": "EbbtideMiddleware.after_agent"}


class Verdict(BaseModel):
    """Whether it works."""

    works: bool


def closing(words: str = ANSWER, **args: Any) -> AIMessage:
    """Return an answer that closes the effort, with an id and the usage of its call."""
    usage: Any = {"input_tokens": 90, "output_tokens": 9, "total_tokens": 99}
    args = {"summary": FOUND, "final": True, **args}
    said = together(call("close_effort", **args), text=words)
    return said.model_copy(update={"id": "run-9", "usage_metadata": usage})


def worked(root: Path, *answers: Any, **options: Any) -> Talk:
    """Return a talk with an open effort of one turn, whose next answers these are."""
    chat = talk(root, [OPENED, "I look.", *answers], **options)
    chat.say(SAID)
    return chat


def summary_of(state: dict[str, Any]) -> str:
    """Return the summary of the effort, as people read it."""
    return str(state["memory"]["summaries"]["gateway"]["summary"])


def shape(messages: list[BaseMessage]) -> list[tuple[Any, ...]]:
    """Return what can be said of the messages of the last turn behind its question."""
    begin = max(at for at, message in enumerate(messages) if message.type == "human")
    return [(m.type, m.id, m.content, getattr(m, "tool_calls", ())) for m in messages[begin + 1 :]]


def test_a_summary_in_the_call_needs_no_second_model(tmp_path: Path) -> None:
    """Keywords and importance go where those of a separate summary go."""
    script = closing("", final=False, keywords=["gateway", "401"], importance=400)
    chat = worked(tmp_path, script, ANSWER)

    state = chat.say("Thanks, that is all.")

    (event,) = (e for e in chat.turns(state)[-1].events if e["type"] == "concluded")
    assert (event["summary"], event["keywords"]) == (FOUND, ["gateway", "401"])
    assert (event["importance"], chat.model.asked) == (100, [])


@pytest.mark.parametrize(
    ("summary", "asked"),
    [("", 1), ("  ", 1), ("…", 1), (LONG, 0)],
    ids=["none", "blank", "wordless", "long"],
)
def test_an_odd_summary(tmp_path: Path, summary: str, asked: int) -> None:
    """Without one a model is asked; one that is too long is cut at the end of a sentence."""
    chat = worked(tmp_path, closing("", summary=summary), ANSWER)

    state = chat.say("Thanks, that is all.")

    assert summary_of(state) != LONG
    (event,) = (e for e in chat.turns(state)[-1].events if e["type"] == "concluded")
    assert event["summary"].endswith(".")
    assert len(chat.model.asked) == asked


@pytest.mark.parametrize(
    ("wrong", "value"),
    [("Port 8444 is ours.", "8444"), ("gw_test works.", "gw_test"), ("In 77 ms.", "77")],
)
def test_what_the_log_does_not_have_is_an_error_once(
    tmp_path: Path, wrong: str, value: str
) -> None:
    """The second time the log is summarised by a call of its own."""
    chat = worked(tmp_path, closing(summary=wrong), closing(summary=wrong), ANSWER)

    state = chat.say("Thanks, that is all.")

    first = chat.model.sent[3].messages[-1].text
    assert repr(value) in first
    assert "gateway" in first
    assert len(chat.model.asked) == 1
    assert wrong not in summary_of(state)


def test_a_corrected_summary_is_taken(tmp_path: Path) -> None:
    """What the first attempt wrote, and the error that quotes it, are no evidence.

    An error of another kind is not the one that may stand there once.
    """
    other = closing(effort_id="gatway")
    chat = worked(tmp_path, other, closing(summary="Port 8444 is ours."), closing())

    state = chat.say("Thanks, that is all.")

    assert summary_of(state) == FOUND
    assert (chat.model.asked, state["messages"][-1].text) == ([], ANSWER)


def test_a_part_of_the_log_for_which_nothing_stands(tmp_path: Path) -> None:
    """A turn that was cut from the context was not read by the model that closes."""
    settings = Settings(context_budget=4_000, compression="off")
    long = "It was looked at for a while, and nothing came of it. " * 60
    chat = worked(tmp_path, *["I look."] * 6, closing(), settings=settings)
    chat.say_all([long] * 6)

    state = chat.say("Thanks, that is all.")

    assert len(chat.model.asked) > 0
    assert summary_of(state) != FOUND
    assert state["messages"][-1].text == ANSWER


def test_a_log_that_was_reopened_stands_in_the_context(tmp_path: Path) -> None:
    """Its earlier turns are shown in the turn that reopened it."""
    chat = worked(
        tmp_path, closing(), call("reopen_effort", effort_id="gateway"), "Yes.", closing()
    )
    chat.say_all(["Thanks.", "It fails again."])

    state = chat.say("No, it works.")

    assert (summary_of(state), chat.model.asked) == (FOUND, [])


def test_the_text_beside_a_final_call_is_the_answer(tmp_path: Path) -> None:
    """State, transcript and next prompt end in it; usage and report are counted once."""
    chat = worked(tmp_path, closing(), "You are welcome.")

    state = chat.say("Thanks, that is all.")
    calls = len(chat.model.sent)
    turn = chat.turns(state)[-1]
    chat.say("Bye.")

    (_, own, _, made), (kind, *_), last = shape(state["messages"])
    assert (kind, last[:3], last[3]) == ("tool", ("ai", "run-9", ANSWER), [])
    assert (own != "run-9", made[0]["name"], calls) == (True, "close_effort", 3)
    assert [e["usage"]["total_tokens"] for e in turn.events if e["type"] == "sent"] == [99]
    assert [bool(getattr(m, "usage_metadata", None)) for m in state["messages"][-3:]] == [
        *(False, False, True)
    ]
    assert (turn.status, text(turn.messages[-1])) == ("done", ANSWER)
    assert [m.text for m in transcript(chat.agent, THREAD)[0]][-3:] == [
        *(ANSWER, "Bye.", "You are welcome.")
    ]
    assert [m.text for m in chat.last if m.type == "ai"][-1] == ANSWER


def test_the_answer_is_streamed_once(tmp_path: Path) -> None:
    """Its pieces have the id under which it stays."""
    chat = worked(tmp_path, closing())

    stream = chat.agent.stream({"messages": "Thanks."}, THREAD, stream_mode="messages")
    said: list[Any] = [piece for piece, _ in stream]
    pieces = [piece for piece in said if piece.type in {"ai", "AIMessageChunk"}]

    last = chat.agent.get_state(THREAD).values["messages"][-1]
    assert "".join(str(piece.text) for piece in pieces) == ANSWER
    assert {piece.id for piece in pieces if piece.text} == {last.id}


def test_a_state_block_beside_the_call_is_taken(tmp_path: Path) -> None:
    """As with any answer: the user does not see it, the archive has it."""
    block = "---STATE---\nGoal: ship\n---END STATE---"
    chat = worked(tmp_path, closing(f"{ANSWER}\n{block}"))

    state = chat.say("Thanks, that is all.")

    assert (state["memory"]["anchor"], state["messages"][-1].text) == ({"Goal": "ship"}, ANSWER)
    assert block in text(chat.turns(state)[-1].messages[-1])


@pytest.mark.parametrize("node", [SECOND, LAST], ids=["before", "after"])
def test_a_resumed_turn_ends_in_the_same_messages(
    tmp_path: Path, entry: str, node: dict[str, str]
) -> None:
    """In another process, which goes on before the tools or behind them."""
    whole = shape(worked(tmp_path / "a", closing()).say("Thanks.")["messages"])
    saver = InMemorySaver()
    chat = worked(tmp_path / "b", closing(), checkpointer=saver)
    chat.agent.invoke({"messages": "Thanks."}, THREAD, interrupt_before=[node[entry]])
    other = talk(tmp_path / "b", [], checkpointer=saver)

    state = other.agent.invoke(None, THREAD)

    assert shape(state["messages"]) == whole
    assert [turn.status for turn in other.turns(state)] == ["done", "done"]
    assert len(other.turns(state)[-1].messages) == 4


@pytest.mark.parametrize(
    "answer",
    [
        closing(""),
        closing(final=False),
        together(closing(), call("effort_status"), text=ANSWER),
        closing(effort_id="gatweay"),
    ],
    ids=["no text", "not final", "another call", "failed"],
)
def test_what_does_not_end_the_turn(tmp_path: Path, answer: AIMessage) -> None:
    """The model is called again."""
    chat = worked(tmp_path, answer, "That is all.")

    state = chat.say("Thanks, that is all.")

    assert (len(chat.model.sent), state["messages"][-1].text) == (4, "That is all.")


def test_a_structured_answer_is_waited_for(tmp_path: Path) -> None:
    """The text beside the call has not its form."""
    model = ScriptedModel(answers=[OPENED, closing(), call("Verdict", works=True)])
    ours: Any = EbbtideMiddleware(archive=archive_in(tmp_path))
    agent = create_agent(model, middleware=[ours], response_format=ToolStrategy(Verdict))

    state: Any = agent.invoke({"messages": SAID}, THREAD)  # type: ignore[call-overload]

    assert state["structured_response"] == Verdict(works=True)
