"""Made-up texts, half of whose words are from a large vocabulary, and turns that hold texts."""

import random
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import accumulate, islice

from langchain_core.messages import AIMessage, HumanMessage

from ebbtide import SqlArchive
from ebbtide.memory.archive import commit, memories
from ebbtide.memory.turn import Event, Session, StoredTurn, Tip

_GLUE = "the of and to in is it you that was for on are with as his they at be this have".split()  # noqa: SIM905 (reads as a list of words)
_SYLLABLES = "ka ro mi te lu sa no vi pe du ba gi fo ze hu ra ty ne wo ji".split()  # noqa: SIM905 (as above)
_WORDS = 50_000
"""Words of the vocabulary, most of which are rare, as in any language."""


def word(rank: int) -> str:
    """Return the word of a rank: syllables in place of digits."""
    name, rank = "", rank + len(_SYLLABLES) ** 2
    while rank:
        rank, digit = divmod(rank, len(_SYLLABLES))
        name += _SYLLABLES[digit]
    return name


VOCABULARY = [word(rank) for rank in range(_WORDS)]
WEIGHTS = list(accumulate(1 / (rank + 30) for rank in range(_WORDS)))


def text(chance: random.Random, size: int) -> str:
    """Return a text of `size` words, every second one without content."""
    content = chance.choices(VOCABULARY, cum_weights=WEIGHTS, k=size // 2)
    return " ".join(f"{noun} {chance.choice(_GLUE)}" for noun in content)


def exchange(
    number: int, texts: Sequence[str], effort: str, events: Sequence[Event] = ()
) -> StoredTurn:
    """Return a turn of an effort, or of none: a question and its answer, one after the other."""
    messages = tuple((HumanMessage, AIMessage)[at % 2](said) for at, said in enumerate(texts))
    efforts = (effort,) if effort else ()
    return StoredTurn(number, messages, "2026-01-01T00:00:00Z", efforts, tuple(events))


def write_turns(
    archive: SqlArchive, session: Session, turns: Iterable[StoredTurn], at_once: int
) -> Tip:
    """Write the turns of a new session with the statements of a commit; return its tip.

    So many are in a transaction.
    """
    with archive.database.writing() as connection:
        row, tip, past = commit.session_row(connection, session), Tip(), None
    left = iter(turns)
    while some := [*islice(left, at_once)]:
        with archive.database.writing() as connection:
            for one in some:
                new = commit.Prepared.after(tip, one)
                if past is not None:
                    past = replace(past, connect=lambda c=connection: nullcontext(c))
                done = commit.commit(connection, row, tip, new, past)
                tip, past = done.turn.tip, done.past
                memories.attend(connection, session, past, done.turn, moved=False)
                row = replace(row, turns=row.turns + 1, newest=past.row)
    return tip
