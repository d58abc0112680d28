"""The keywords of an effort: what its summary says, and what its log says most."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from threading import Lock
from typing import TypeAlias

from .desk import Desk
from .efforts import Effort
from .qualified import parted
from .record import Owner
from .summary import spoken
from .terms import content

Key: TypeAlias = tuple[Owner, str, Effort, int, tuple[int, int]]
"""Owner, branch, effort as it changed last, last turn of its log, the settings that bound it."""

_READ = 4_000


class KeywordCache:
    """Keywords of efforts with a given log, which never change; those used last."""

    def __init__(self, limit: int = 4_000) -> None:
        """Hold the keywords of up to `limit` efforts, of any session and in any thread."""
        self._limit = limit
        self._held: OrderedDict[Key, frozenset[str]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Key, make: Callable[[], frozenset[str]]) -> frozenset[str]:
        """Return the keywords that are held, else make and hold them."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
        made = make()
        with self._lock:
            self._held[key] = made
            while len(self._held) > self._limit:
                self._held.popitem(last=False)
        return made

    def clear(self) -> None:
        """Hold nothing any more."""
        with self._lock:
            self._held.clear()


def keywords(heading: Iterable[str], log: Iterable[str], limit: int) -> tuple[str, ...]:
    """Return up to `limit` keywords: those of the heading, then of the log the most repeated.

    >>> keywords(["auth-bug", "Fixed 401 errors"], ["axios fails", "fixed the axios code"], 7)
    ('auth', 'bug', 'fix', '401', 'error', 'axio', 'fail')
    """
    said = Counter(term for text in log for term in dict.fromkeys(content(text)))
    repeated = sorted(said, key=lambda term: -said[term])
    known = dict.fromkeys([*(term for text in heading for term in content(text)), *repeated])
    return tuple(known)[:limit]


def keywords_of(desk: Desk, effort: Effort, cache: KeywordCache) -> frozenset[str]:
    """Return the keywords of an effort without the running turn, at a bounded cost."""
    view, settings = desk.view, desk.settings
    last = effort.turn
    # Until its last turn is committed, and while it is open, the log still grows.
    if effort.status == "open" or effort.turn > view.tip.turn:
        last = max(view.log_turns(effort.id), default=0)
    bounds = (settings.keywords_limit, settings.keyword_turns)
    key = (view.owner, view.tip.branch, effort, last, bounds)
    return cache.get(key, partial(_made, desk, effort))


def _made(desk: Desk, effort: Effort) -> frozenset[str]:
    turns = desk.view.log_turns(effort.id)[-desk.settings.keyword_turns :]
    records = desk.view.turns_of(effort.id, turns)
    messages = (message for record in records for message in record.messages)
    log = (text[:_READ] for message in messages for text in spoken(message))
    heading = (parted(effort.id)[1], effort.goal, effort.summary, *effort.keywords)
    return frozenset(keywords(heading, log, desk.settings.keywords_limit))
