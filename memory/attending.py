"""What the turns of a session do to their user's attention."""

from collections.abc import Sequence
from datetime import datetime

from .archive.protocol import Archive
from .attention import Attention, Memory
from .efforts import Effort
from .qualified import is_qualified, qualified
from .record import Event, Owner, Record, Tip

_USED = frozenset({"referenced", "returned"})
"""The events by which something that a search found was used."""


def attend(attention: Attention, owner: Owner, record: Record, now: datetime) -> None:
    """Tell attention what happened in a turn; raises `AttentionError` if it cannot be told.

    What was concluded is a memory, what was reopened none for a while; what was expanded, or found
    by a search and used, was accessed.
    """
    for event in record.events:
        if event["type"] == "concluded":
            attention.add(owner.user, _memory(owner, event, _at(record, now)), now=now)
        elif event["type"] == "reopened":
            attention.withdraw(owner.user, _id(owner, event["effort"]), now=now)
    for effort in accessed(record.events):
        attention.touch(owner.user, _id(owner, effort), now=now)


def accessed(events: Sequence[Event]) -> tuple[str, ...]:
    """Return the efforts that the events of a turn made use of, each once.

    >>> search = {"type": "searched", "efforts": ["a", "b"]}
    >>> accessed([search, {"type": "referenced", "effort": "b"}])
    ('b',)
    """
    found = {name for event in events if event["type"] == "searched" for name in event["efforts"]}
    used = (
        event["effort"]
        for event in events
        if event["type"] == "expanded" or (event["type"] in _USED and event["effort"] in found)
    )
    return tuple(dict.fromkeys(used))


def remember(attention: Attention, archive: Archive, owner: Owner, now: datetime) -> int:
    """Keep what a session concluded on its newest branch and attention does not know.

    Return how many memories that are. What attention knows stays as it is. Raises `AttentionError`.
    """
    tip = archive.newest(owner)
    if tip is None:
        return 0
    every = _every(archive, owner, tip)
    concluded = (effort for effort in every if effort.status == "concluded")
    found = [_concluded(archive, owner, tip, effort, now) for effort in concluded]
    unknown = [one for one in found if attention.explain(owner.user, one.id, now=now) is None]
    for memory in unknown:
        attention.add(owner.user, memory, now=now)
    return len(unknown)


def renew(attention: Attention, archive: Archive, owner: Owner, now: datetime) -> None:
    """Make the memories of a session say what the archive says of their efforts now.

    So nothing is left in them of a turn that was erased; where branches differ the newest counts.
    """
    newest = archive.newest(owner)
    for tip in sorted(archive.tips(owner), key=lambda tip: tip == newest):
        renew_as_of(attention, archive, owner, tip, now)


def renew_as_of(
    attention: Attention, archive: Archive, owner: Owner, tip: Tip, now: datetime
) -> None:
    """Make the memories of a session say what their efforts are on a branch.

    What another branch reopened is a memory again where it is concluded, and none where it is open.
    """
    for effort in _every(archive, owner, tip):
        if effort.status == "concluded":
            attention.add(owner.user, _concluded(archive, owner, tip, effort, now), now=now)
        else:
            _empty(attention, owner, effort, now)


def _every(archive: Archive, owner: Owner, tip: Tip) -> tuple[Effort, ...]:
    return archive.efforts(owner, tip, archive.efforts(owner, tip, 0).total).efforts


def _empty(attention: Attention, owner: Owner, effort: Effort, now: datetime) -> None:
    """Leave of the memory of an effort that is open again what does not come from its log."""
    name = _id(owner, effort.id)
    if attention.explain(owner.user, name, now=now) is not None:
        attention.add(owner.user, Memory(name, 0, now), now=now)
        attention.withdraw(owner.user, name, now=now)


def _concluded(archive: Archive, owner: Owner, tip: Tip, effort: Effort, now: datetime) -> Memory:
    records = archive.turns(owner, tip, [effort.turn])
    created = _at(records[0], now) if records else now
    return Memory(qualified(owner, effort.id), effort.importance, created, effort.keywords)


def _memory(owner: Owner, event: Event, created: datetime) -> Memory:
    keywords = tuple(event.get("keywords", ()))
    return Memory(_id(owner, event["effort"]), event.get("importance", 50), created, keywords)


def _id(owner: Owner, effort: str) -> str:
    return effort if is_qualified(effort) else qualified(owner, effort)


def _at(record: Record, now: datetime) -> datetime:
    """Return when a turn was; now if the archive holds no time that can be read."""
    try:
        at = datetime.fromisoformat(record.at)
    except ValueError:
        return now
    return at if at.tzinfo else now
