"""The compiled graph: what its streams show of the assembled prompt."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from langgraph.graph.state import CompiledStateGraph


class MemoryAgent(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph whose `values` streams are the state without the assembled prompt.

    LangGraph streams every channel, whatever the output schema says, and takes one list of keys
    for `values` and `updates`. So updates show the prompt unless values are asked for as well.
    """

    def stream(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Stream as LangGraph does; `output_keys` decides when it is given."""
        return super().stream(*args, **self._with_keys(kwargs))

    def astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Stream as LangGraph does; `output_keys` decides when it is given."""
        return super().astream(*args, **self._with_keys(kwargs))

    def _with_keys(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        modes = kwargs.get("stream_mode") or self.stream_mode
        if kwargs.get("output_keys") is None and "values" in modes:
            return {**kwargs, "output_keys": self.output_channels}
        return kwargs
