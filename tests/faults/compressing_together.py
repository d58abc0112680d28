"""Compress an effort of a thread that another process compresses at the same time.

`python -m tests.faults.compressing_together ROOT URI NAME OTHER` goes on with the thread there, and
does not answer its own extraction before the process OTHER is in its pass as well.
"""

import sys
import time
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage

from tests.agents import THREAD
from tests.faults.compressing import opened
from tests.faults.places import Place
from tests.graph.long_effort import quoting

PATIENCE = 60


def main(place: Place, name: str, other: str) -> None:
    """Resume the thread, in step with the other process."""

    def together(messages: list[BaseMessage]) -> Any:
        (place.root / f"{name}.asked").touch()
        until = time.monotonic() + PATIENCE
        while not (place.root / f"{other}.asked").exists() and time.monotonic() < until:
            time.sleep(0.005)
        return quoting(f"The shop is {name}.")(messages)

    with opened(place, extraction=together) as chat:
        chat.agent.invoke(None, THREAD)


if __name__ == "__main__":
    main(Place(Path(sys.argv[1]), sys.argv[2]), *sys.argv[3:])
