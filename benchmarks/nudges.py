"""How often everyday talk is nudged to be an effort: LoCoMo's sessions, two utterances to a turn.

python benchmarks/nudges.py --data locomo.json --out results

Nudges in the sessions as they were held, and in turns drawn from all of them at random, once one by
one and once two consecutive ones at a time. Of the drawn turns none should be nudged.
"""

import argparse
import random
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from locomo import Conversation, Said, load
from report import write

from ebbtide.memory.nudges import Talk, heard, reached
from ebbtide.memory.settings import Settings

Dialogue: TypeAlias = Sequence[Talk]

_DRAWN, _LENGTH = 250, 40
_ADDED = re.compile(r"^.*?: | \[image: .*\]$")


def nudged(talk: Dialogue, after: int) -> int:
    """Count the nudges in a dialogue."""
    return sum(
        reached(talk[max(0, at - 3 * after) : at], turn.asked, after)
        for at, turn in enumerate(talk)
    )


def held(talks: Sequence[Conversation]) -> list[Dialogue]:
    """Return every session as turns of a question and an answer, as they were said."""
    return [_turns(session) for talk in talks for session in talk.sessions]


def drawn(sessions: Sequence[Dialogue], together: int, chance: random.Random) -> list[Dialogue]:
    """Return dialogues of turns drawn at random, so many consecutive ones at a time."""
    pieces = [
        session[at : at + together]
        for session in sessions
        for at in range(len(session) - together + 1)
    ]
    return [
        [turn for piece in chance.choices(pieces, k=_LENGTH // together) for turn in piece]
        for _ in range(_DRAWN)
    ]


def main() -> None:
    """Count the nudges, and write a row for each kind of dialogue."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    sessions, chance = held(load(options.data)), random.Random(7)
    kinds = {
        "as they were held": sessions,
        "drawn one by one": drawn(sessions, 1, chance),
        "drawn in pairs": drawn(sessions, 2, chance),
    }
    after = Settings().nudge_after
    rows = [
        {
            "turns": name,
            "number": sum(map(len, dialogues)),
            "nudges": sum(nudged(talk, after) for talk in dialogues),
        }
        for name, dialogues in kinds.items()
    ]
    write(options.out, "nudges", "How often is everyday talk nudged?", rows)


def _turns(session: Sequence[Said]) -> Dialogue:
    said = [_ADDED.sub("", one.text) for one in session]
    return [heard(*pair) for pair in [*pairwise(said)][::2]]


if __name__ == "__main__":
    main()
