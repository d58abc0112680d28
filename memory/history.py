"""Which messages are new: what follows the known ones, or what a history ends with.

The bookkeeping knows the newest messages of the state. Where it does not tell, `align` matches
messages with archived turns, once, by their digests. Ids alone do not tell: models repeat them,
clients choose them, and an edit keeps them. What is not recognised stands in `docs/limits.md`.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise, takewhile
from typing import Any, NamedTuple, TypeAlias

from langchain_core.messages import BaseMessage

from .attachments import referring, without_facts
from .messages import calls, without_id
from .serialised import fingerprint, stored_form
from .state_block import as_users_see
from .tool_names import MEMORY_TOOLS
from .turn import StoredTurn

MADE_HERE = frozenset({"ai", "tool"})
"""Types of the messages that an agent adds itself."""

KNOWN = 64
"""Messages of a state, the newest, that the bookkeeping knows: under 3 KB of each checkpoint."""

_ASKED = 16
"""Messages of users in a longer turn that are known beside its newest ones."""

READ = 50
"""Archived turns that messages are matched with at once."""

Known: TypeAlias = Sequence[Sequence[Any]]
"""Of each message the digest of its id, that of what it says, and the number of its turn."""


class Place(NamedTuple):
    """Where a message stands in the archive, and whether it says something else now."""

    turn: StoredTurn
    at: int
    is_edited: bool


def sign(message: BaseMessage) -> str:
    """Return a digest of who says what: role, name, content, calls and the call that is answered.

    Of an answer its text counts alone, as clients send it back without the agent's name and without
    thoughts, of a memory tool's result the call, as it quotes what may be erased since.

    >>> from langchain_core.messages import AIMessage
    >>> blocks = [{"type": "text", "text": "Hi"}]
    >>> sign(AIMessage("Hi", id="1", name="helper")) == sign(AIMessage(blocks))
    True
    """
    kind, name, content = message.type, message.name, message.content
    called: list[Any] = []
    if kind == "ai":
        called = [(call.get("name"), call.get("args"), call.get("id")) for call in calls(message)]
        name, content = None, str(message.text).strip()
    elif kind == "tool":
        name, content = None, "" if name in MEMORY_TOOLS else content
    if isinstance(content, list):
        content = [without_id(block) for block in without_facts(referring(content))]
        if all(isinstance(block, str) or block.keys() == {"type", "text"} for block in content):
            content = str(message.text)
    answered = getattr(message, "tool_call_id", None)
    try:
        return fingerprint([kind, name or "", content or "", called, answered], 12)
    except (TypeError, ValueError, RecursionError):  # JSON cannot hold it: as it is stored
        return sign(*stored_form([message]))


def id_digest(message_id: str | None) -> str:
    """Return by what the bookkeeping knows an id, which may be long."""
    return hashlib.sha256((message_id or "").encode()).hexdigest()[:8]


def entries(messages: Sequence[BaseMessage], turn: int) -> list[list[Any]]:
    """Return what the bookkeeping keeps of a turn: of a long one what was asked, and the newest."""
    asked = [message for message in messages[:-KNOWN] if message.type not in MADE_HERE][:_ASKED]
    kept = [*asked, *messages[max(0, len(messages) - KNOWN + len(asked)) :]]
    return [[id_digest(message.id), sign(message), turn] for message in kept]


def known_of(turns: Mapping[int, Sequence[BaseMessage]]) -> Known:
    """Return what the bookkeeping keeps of the messages of turns, by number; 0 is no turn."""
    return [entry for number, some in turns.items() for entry in entries(some, number)][-KNOWN:]


def numbers_of(messages: Sequence[BaseMessage], known: Known) -> list[int | None]:
    """Return for each message the turn that has its id, None where none is known."""
    turns = {own: turn for own, _, turn in known}
    return [turns.get(id_digest(m.id)) if turns and m.id else None for m in messages]


def in_long_turns(numbers: Sequence[int | None], known: Known) -> list[int | None]:
    """Return the turns of messages with those of long turns, of which not all are known.

    >>> in_long_turns([1, None, 1, None], [["", "", 1]] * KNOWN)
    [1, 1, 1, None]
    """
    found, times = [*numbers], Counter(number for *_, number in known)
    for number in (number for number, n in times.items() if n >= KNOWN and number in found):
        first, last = found.index(number), len(found) - found[::-1].index(number)
        found[first:last] = [number] * (last - first)
    return found


def boundaries(
    messages: Sequence[BaseMessage], known: Known, turn: int, number: int
) -> tuple[int, int]:
    """Return where the turn that broke off begins, and where what is new does.

    New is what follows the last known message; `number` is that of the newest committed turn. Of a
    turn that broke off all belongs to it that an agent adds itself.
    """
    numbers = numbers_of(messages, known)
    committed = (at for at, n in enumerate(numbers, 1) if n is not None and n <= number)
    begin = end = max(committed, default=0)
    if turn > number:
        own = [at for at, n in enumerate(numbers) if n == turn]
        begin, end = (own[0], own[-1] + 1) if own else (begin, begin)
        made = takewhile(lambda message: message.type in MADE_HERE, messages[end:])
        end += len([*made])
    return begin, end


def align(
    messages: Sequence[BaseMessage],
    read: Callable[[Sequence[int]], Sequence[StoredTurn]],
    last: int,
    *,
    whole: bool = False,
) -> dict[int, Place]:
    """Match messages with the turns up to the `last` one; return the places of those that match.

    `read` returns archived turns by their numbers. Where the first match is the oldest turn that
    was read, matching goes on before it. With `whole`, the first message is known to be of a turn,
    and no summary of older ones.
    """
    if not messages:
        return {}
    first, signs = max(1, last - READ + 1), [*map(sign, messages)]
    places = _matched(messages, signs, read(range(first, last + 1)), whole=whole)
    while first > 1 and places and min(places) > 0:
        begin = min(places)
        if places[begin].turn.number > first:
            break
        older = range(max(1, first - READ), first)
        turns = read(older)
        # They end where the others begin, so that no more messages than these can match.
        start = max(0, begin - 2 * sum(len(turn.messages) for turn in turns))
        earlier = _matched(messages[start:begin], signs[start:begin], turns, whole=whole)
        if begin - 1 - start not in earlier:
            break
        places |= {at + start: place for at, place in earlier.items()}
        first = older[0]
    return places


def _matched(
    messages: Sequence[BaseMessage],
    signs: Sequence[str],
    turns: Sequence[StoredTurn],
    *,
    whole: bool,
) -> dict[int, Place]:
    """Return the places of the messages that match those of turns; `signs` are theirs.

    An id that both have once tells which message it is, whatever it says now. Of others, runs count
    that hold an answer or two messages, and what stands behind a match in another one's place. Of
    equal runs the newest count.
    """
    archived = [(turn, at) for turn in turns for at in range(len(turn.messages))]
    stored = as_users_see([turn.messages[at] for turn, at in archived])
    said = [*map(sign, stored)]
    there, here = (Counter((m.type, m.id) for m in some if m.id) for some in (stored, messages))
    once = {key for key, times in there.items() if times == here[key] == 1}
    before: list[Any] = [*said]
    known = {(m.type, m.id): at for at, m in enumerate(stored) if (m.type, m.id) in once}
    now: list[Any] = [*signs]
    for at, place in ((at, known.get((m.type, m.id))) for at, m in enumerate(messages)):
        if place is not None:
            before[place] = now[at] = place
    matcher = SequenceMatcher(None, before[::-1], now[::-1], autojunk=False)
    same = dict[int, int]()
    i = j = 0
    gaps = list[tuple[int, int, int, int]]()
    for back_i, back_j, size in (*matcher.get_matching_blocks()[-2::-1], (0, 0, 0)):
        begin, until = len(before) - back_i - size, len(now) - back_j - size
        gaps.append((i, begin, j, until))
        same |= {until + n: begin + n for n in range(size)}
        i, j = begin + size, until + size
    same |= {at: place for at, place in enumerate(now) if isinstance(place, int)}
    runs: list[list[int]] = []
    for number in sorted(same):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    for run in runs:
        is_told = len(run) > 1 or isinstance(now[run[0]], int)
        if not is_told and messages[run[0]].type not in MADE_HERE:
            del same[run[0]]
    for i, end, j, until in gaps:
        types = [[message.type for message in some] for some in (stored[i:end], messages[j:until])]
        if types[0] == types[1] and (j - 1 in same or (whole and not j)):
            same |= {at: i + at - j for at in range(j, until) if at not in same}
    return {at: Place(*archived[place], signs[at] != said[place]) for at, place in same.items()}


def edits_of(
    messages: Sequence[BaseMessage], places: Mapping[int, Place]
) -> dict[int, dict[int, BaseMessage]]:
    """Return the edited messages by the number of their turn and their place in it."""
    edits: dict[int, dict[int, BaseMessage]] = {}
    for position, place in places.items():
        if place.is_edited:
            edits.setdefault(place.turn.number, {})[place.at] = messages[position]
    return edits


def asked_from(messages: Sequence[BaseMessage]) -> int:
    """Return where the last messages begin that no agent made, behind the last answer.

    >>> from langchain_core.messages import AIMessage, HumanMessage
    >>> asked_from([HumanMessage("Hi"), AIMessage("Hi"), HumanMessage("One"), HumanMessage("Two")])
    2
    """
    last = takewhile(lambda message: message.type not in MADE_HERE, reversed(messages))
    return len(messages) - len([*last])


def question_start(messages: Sequence[BaseMessage]) -> int:
    """Return where the user's last question begins, with instructions before it; 0 for none.

    >>> from langchain_core.messages import AIMessage, HumanMessage
    >>> words, answer = HumanMessage("Hi"), AIMessage("Hi")
    >>> question_start([words, answer, words, answer])
    2
    """
    at = max((n for n, message in enumerate(messages, 1) if message.type == "human"), default=0)
    return asked_from(messages[:at])


def turns_of(history: Sequence[BaseMessage]) -> list[list[BaseMessage]]:
    """Return a history as turns: each begins with what is said after an answer."""
    firsts = [
        at
        for at in range(1, len(history))
        if history[at].type not in MADE_HERE and history[at - 1].type in MADE_HERE
    ]
    bounds = [0, *firsts, len(history)] if history else []
    turns = [list(history[begin:end]) for begin, end in pairwise(bounds)]
    if len(turns) > 1 and not any(message.type == "human" for message in turns[0]):
        turns[:2] = [[*turns[0], *turns[1]]]  # a greeting belongs to the first question
    return turns
