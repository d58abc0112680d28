"""Long sessions through the real graph, and what each turn of them cost."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ebbtide import DiskArchive
from ebbtide.memory.archive.load import Past
from ebbtide.memory.metrics import Report, report
from ebbtide.memory.turn import Session, StoredTurn, Tip
from tests.agents import THREAD, Talk
from tests.graph.journeys import Turn


class CountingArchive(DiskArchive):
    """An archive that counts the records it is asked for."""

    asked = 0

    def load(self, session: Session, tip: Tip | None = None) -> "CountingPast":
        """Return a past that counts."""
        past = super().load(session, tip)
        return CountingPast(*(getattr(past, one.name) for one in fields(past)))


class CountingPast(Past):
    """A past that counts the turns it is asked for."""

    def turns(self, numbers: Sequence[int]) -> tuple[StoredTurn, ...]:
        """Count, and read."""
        CountingArchive.asked += len(numbers)
        return super().turns(numbers)


@dataclass
class Life:
    """A long session: its agent, and what each turn so far cost; `efforts` is how many it has."""

    chat: Talk
    efforts: int = 0
    state: dict[str, Any] = field(default_factory=dict)
    totals: list[int] = field(default_factory=list)
    state_bytes: list[int] = field(default_factory=list)
    records_read: list[int] = field(default_factory=list)

    def live(self, turns: Sequence[Turn]) -> None:
        """Go through the turns."""
        serializer = JsonPlusSerializer()
        assert isinstance(self.chat.archive, CountingArchive)
        for turn in turns:
            CountingArchive.asked = 0
            self.state = self.chat.say(turn.said, durability="exit")
            self.totals.append(self.state["memory"]["context_report"]["total"])
            kept = self.chat.agent.get_state(THREAD).values
            self.state_bytes.append(len(serializer.dumps_typed(kept)[1]))
            self.records_read.append(CountingArchive.asked)

    @property
    def costs(self) -> tuple[list[int], ...]:
        """Tokens of the last context, bytes of the state and records read, each turn by turn."""
        return self.totals, self.state_bytes, self.records_read

    @property
    def report(self) -> Report:
        """The metrics of the whole session."""
        return report(self.chat.turns(self.state))

    @property
    def evicted(self) -> list[int]:
        """The numbers of the efforts whose summary has left the context."""
        kept = self.state["memory"]["summaries"]
        return [number for number in range(self.efforts) if f"machine-{number:03}" not in kept]
