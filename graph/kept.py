"""What the middleware keeps of a turn's last request, in this process and until the turn ends.

The key is in the state: LangGraph has no name for a run that its nodes know.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import uuid4

from cachetools import LRUCache
from langchain_core.messages import BaseMessage

from ..memory.locks import CACHES
from ..nodes.turn.checkpoints import turn_before_removal
from ..nodes.turn.langchain_messages import messages_in_state
from ..nodes.turn.parts import AgentParts
from ..nodes.turn.state import unpacked
from .agent_state import is_without_question
from .requests import rejoined

_REQUESTS = 1_000
"""Turns whose last request is kept at once. Only turns that broke off are ever too many."""


class KeptRequests:
    """The parts of the agent as each turn's last request had them, and the turn's messages."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._parts = LRUCache[str, AgentParts](_REQUESTS)
        self._seen = LRUCache[str, list[BaseMessage]](_REQUESTS)

    def begin(self, messages: Sequence[BaseMessage]) -> str:
        """Keep the messages with which a turn begins; return their key."""
        key = uuid4().hex
        with CACHES:
            self._seen[key] = [*messages]
        return key

    def keep(
        self, state: Mapping[str, Any], parts: AgentParts, messages: Sequence[BaseMessage]
    ) -> str:
        """Keep a request in the place of the one before it; return its key."""
        self.drop(state)
        key = self.begin(messages)
        with CACHES:
            self._parts[key] = parts
        return key

    def drop(self, state: Mapping[str, Any]) -> None:
        """Forget the last request of a turn."""
        with CACHES:
            self._parts.pop(_key(state), None)
            self._seen.pop(_key(state), None)

    def parts(self, state: Mapping[str, Any]) -> AgentParts | None:
        """Return the parts of the turn's last request, None without one in this process."""
        with CACHES:
            return self._parts.get(_key(state))

    def recover(self, state: Mapping[str, Any]) -> None:
        """Keep the turn of the last checkpoint that has its question, if nothing else has it.

        So it is if the question was taken out before a call that failed in another process.
        """
        with CACHES:
            is_kept = _key(state) in self._seen
        if is_kept or state.get("ebbtide_turn"):
            return
        turn_state = unpacked(state)
        if is_without_question(turn_state) and (turn := turn_before_removal(turn_state)):
            with CACHES:
                self._seen[_key(state)] = turn

    def whole(self, state: Any) -> Any:
        """Return the state with the running turn whole, as other middleware replaced messages."""
        messages = messages_in_state(state.get("messages"))
        replaced = state.get("ebbtide_replaced") or {}
        with CACHES:
            seen = self._seen.get(_key(state))
        seen = state.get("ebbtide_turn") or seen
        if seen:
            messages = rejoined(messages, seen, unpacked(state).get("archived"))
        return {**state, "messages": [replaced.get(str(one.id), one) for one in messages]}

    def without_left(self, state: Mapping[str, Any], kept: Collection[Any]) -> dict[str, Any]:
        """Forget what left `messages`, which no other middleware removed; return the update."""
        key, replaced = _key(state), state.get("ebbtide_replaced") or {}
        with CACHES:
            if key in self._seen:
                self._seen[key] = [one for one in self._seen[key] if one.id in kept]
        turn = [one for one in state.get("ebbtide_turn") or () if one.id in kept]
        own = {"ebbtide_turn": turn} if state.get("ebbtide_turn") else {}
        return {**own, "ebbtide_replaced": {n: one for n, one in replaced.items() if n in kept}}


def _key(state: Mapping[str, Any]) -> str:
    return str(state.get("ebbtide_request", ""))
