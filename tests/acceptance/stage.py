"""The stage of the acceptance tests: conversations, and what each turn of them left and sent.

What was sent is told by what it says: each effort has a sentence in its log and another one as its
summary, which nothing else says.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from ebbtide import Settings, transcript
from tests.agents import THREAD, Talk, talk
from tests.doubles import Scripted, Sent, call, together

EXACT = Settings(rebuild="every-turn")
"""With these no change of the context is put off."""


@dataclass(frozen=True)
class Work:
    """A piece of work: the name of its effort, what its log says, and its summary."""

    name: str
    log: str
    summary: str
    importance: int = 50


AUTH = Work(
    "auth-bug",
    "The trace ends in gate.py, where a cookie is dropped at midnight.",
    "Fixed 401 errors: refresh tokens never auto-called. Added axios interceptor.",
)
PERF = Work(
    "perf-fix",
    "The dashboard waits four seconds for a missing index on orders.",
    "Dashboard loads in 300 ms since its query is cached.",
)
BILLING = Work(
    "billing",
    "Two consumers read one queue, says the broker's console.",
    "Invoices arrived twice; the duplicate consumer was removed.",
)
RECEIPTS = Work(
    "thumbnails",
    "Sixty-four pixels are all that the resizer keeps.",
    "Scanned receipts looked blurred; they are resized to 512 pixels now.",
)
BACKUP = Work(
    "backup",
    "The volume fills every night around three.",
    "Snapshots are compressed with zstd.",
)
WORKS = (AUTH, PERF, BILLING, RECEIPTS, BACKUP)


@dataclass(frozen=True)
class Said:
    """What a turn left: the state, and what the model was sent in it, call by call."""

    state: dict[str, Any]
    calls: Sequence[Sent]

    @property
    def memory(self) -> dict[str, Any]:
        """The memory as people read it in the state."""
        found: dict[str, Any] = self.state["memory"]
        return found

    @property
    def banners(self) -> list[str]:
        """The banners of the turn."""
        return [*self.memory["banners"]]

    @property
    def answer(self) -> str:
        """What the user was answered."""
        return str(self.state["messages"][-1].text)

    @property
    def sent(self) -> Sent:
        """What the model was sent last."""
        return self.calls[-1]

    @property
    def first(self) -> Sent:
        """What the model was sent first."""
        return self.calls[0]

    @property
    def results(self) -> list[dict[str, Any]]:
        """What the memory's tools answered to the last message with calls."""
        found: list[dict[str, Any]] = []
        for message in reversed(self.sent.messages):
            if message.type == "tool":
                found.insert(0, json.loads(message.text))
            elif found:
                break
        return found

    @property
    def silent_for(self) -> dict[str, int]:
        """For how many turns each expanded effort was not referenced."""
        turn, expanded = self.memory["turn"], self.memory["expanded"].items()
        return {name: turn - entry["last_referenced_turn"] for name, entry in expanded}


@dataclass(frozen=True)
class Stage:
    """An agent, and the thread that is talked in."""

    talk: Talk
    config: RunnableConfig

    def say(self, words: Any, *answers: Scripted, **options: Any) -> Said:
        """Say something; the model gives these answers, call by call, by default one word."""
        config = options.pop("config", self.config)
        model = self.talk.model
        before = len(model.sent)
        assert isinstance(model.answers, list)
        model.answers[before:] = answers or ("Noted.",)
        state = self.talk.agent.invoke({"messages": [("user", words)]}, config, **options)
        return Said(state, model.sent[before:])

    def use(self, tool: str, /, **arguments: Any) -> Said:
        """Let the model call a tool of the memory in a turn that says nothing."""
        return self.say("Hm.", call(tool, **arguments), "Done.")

    def work(self, work: Work) -> Said:
        """Open an effort, talk about it for a turn, and conclude it in a third."""
        self.say("Let us begin.", call("open_effort", name=work.name), "Opened.")
        self.say(work.log)
        return self.say("That was all.", call("close_effort", effort_id=work.name), "Closed.")

    def works(self, *works: Work) -> Said:
        """Open efforts one after the other, a turn each, and conclude all of them in one turn."""
        for work in works:
            self.say(work.log, call("open_effort", name=work.name), "Opened.")
        closing = together(*(call("close_effort", effort_id=work.name) for work in works))
        return self.say("All of that is done.", closing, "Closed.")

    def chat(self, turns: int, first: int = 1) -> list[Said]:
        """Talk about nothing that is an effort, so many turns long."""
        return [self.say(ambient(number)) for number in range(first, first + turns)]

    @property
    def values(self) -> dict[str, Any]:
        """The newest state of the thread."""
        found: dict[str, Any] = self.talk.agent.get_state(self.config).values
        return found

    def read(self, config: RunnableConfig | None = None) -> list[BaseMessage]:
        """Return what was said, as the archive has it."""
        return transcript(self.talk.agent, config or self.config)[0]

    def asked(self, config: RunnableConfig | None = None) -> list[str]:
        """Return what the user said in each turn, as the archive has it."""
        return [message.text for message in self.read(config) if message.type == "human"]

    def after(self, turn: int) -> RunnableConfig:
        """Return the checkpoint in which a turn was over."""
        return next(
            state.config
            for state in self.talk.agent.get_state_history(self.config)
            if state.values.get("memory", {}).get("turn", 0) == turn and not state.next
        )


def stage(root: Path, config: RunnableConfig = THREAD, **options: Any) -> Stage:
    """Return an agent on files below a folder, whose summaries are those of `WORKS`."""
    options.setdefault("structured", summarising)
    return Stage(talk(root, [], **options), config)


def summarising(messages: Sequence[BaseMessage]) -> dict[str, Any]:
    """Answer as a summariser does that knows the log."""
    log = messages[-1].text
    work = next((one for one in WORKS if one.log in log), None)
    summary = work.summary if work else "It was talked about."
    return {"summary": summary, "keywords": [], "importance": work.importance if work else 50}


def ambient(number: int) -> str:
    """Return what a user says that belongs to no effort."""
    return f"My train number {number} leaves at nine."


def ambient_in(sent: Sent) -> int:
    """Count the ambient exchanges that were sent, the running one aside."""
    *before, _ = [m.text for m in users(sent)]
    return sum(text.startswith("My train number") for text in before)


def users(sent: Sent) -> list[BaseMessage]:
    """Return the messages of the user that were sent."""
    return [m for m in sent.messages if m.type == "human" and m.name != "ebbtide"]


def recalled(sent: Sent) -> str:
    """Return what the memory itself put into what was sent."""
    return "\n".join(m.text for m in sent.messages if m.name == "ebbtide")


def summaries_in(sent: Sent, works: Iterable[Work] = WORKS) -> set[str]:
    """Return the efforts whose summary was sent by the memory, and not inside of a log."""
    notes = [m.text for m in sent.messages if m.name == "ebbtide"]
    text = "\n".join(one for one in notes if not any(work.log in one for work in WORKS))
    return {work.name for work in works if work.summary in text}


def log_in(sent: Sent, work: Work) -> int:
    """Count how often what the log of an effort says was sent."""
    return sent.text.count(work.log)
