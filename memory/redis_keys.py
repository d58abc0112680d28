"""How attention stands in Redis: the keys of a user, and what the hash of a memory holds.

Users, memories and terms stand in keys as URLs quote them, so that no colon of theirs parts a key:

- `ebbtide:<user>:attention`, a sorted set: the memories in attention by how much they held of it at
  their last reading; what is below 0 are marks, not memories;
- `ebbtide:<user>:memory:<memory>`, a hash: what is kept of a memory;
- `ebbtide:<user>:memories`, a set: all memories;
- `ebbtide:<user>:suppressed`, a set: those that are suppressed;
- `ebbtide:<user>:keyword:<term>`, a set: those with this term in their keywords.
"""

import json
import logging
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias, TypeVar
from urllib.parse import quote

from .attention import Kept, Memory
from .keeping import moment, unquoted

FIELDS = ("base", "created", "accesses", "keywords", "suppressed", "withdrawn", "version")
"""The fields of a memory's hash; the version is another one after each change."""

CHUNK = 1_000
"""How many hashes or sets are read in one go."""

Field: TypeAlias = bytes | bytearray | memoryview | str | int | float
"""What redis-py takes for the name or the value of a field."""

T = TypeVar("T")

_VERSION_BYTES = 8

_log = logging.getLogger("ebbtide.attention")


@dataclass(frozen=True, slots=True)
class Stored:
    """What a memory's hash holds, and the version of it that was read."""

    kept: Kept
    version: str


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a user.

    >>> Keys("ann:attention").attention, Keys("ann").memory("t1%2Fauth-bug")
    ('ebbtide:ann%3Aattention:attention', 'ebbtide:ann:memory:t1%2Fauth-bug')
    """

    user_id: str

    @property
    def attention(self) -> str:
        """The sorted set of what is in attention."""
        return self._of("attention")

    @property
    def memories(self) -> str:
        """The set of all memories."""
        return self._of("memories")

    @property
    def suppressed(self) -> str:
        """The set of the memories that are suppressed."""
        return self._of("suppressed")

    def memory(self, name: str) -> str:
        """Return the key of the hash of a memory, which is named as it stands in the sets."""
        return self._of(f"memory:{name}")

    def keyword(self, term: str) -> str:
        """Return the key of the set of the memories with a term."""
        return self._of(f"keyword:{quoted(term)}")

    def _of(self, what: str) -> str:
        return f"ebbtide:{quoted(self.user_id)}:{what}"


def quoted(text: str) -> str:
    """Return any text in ASCII letters, digits and `_.-~%`, another one for each text.

    >>> quoted("t1/auth bug"), quoted("ann:*")
    ('t1%2Fauth%20bug', 'ann%3A%2A')
    """
    return quote(text, safe="", errors="surrogatepass")


def plain(answer: bytes | str) -> str:
    """Return what Redis answered as text, whether the client decodes answers or not."""
    return answer.decode() if isinstance(answer, bytes) else answer


def new_version() -> str:
    """Return a version that no hash has."""
    return secrets.token_hex(_VERSION_BYTES)


def fields(written: Stored) -> dict[Field, Field]:
    """Return the fields of a memory's hash."""
    kept, memory = written.kept, written.kept.memory
    return {
        "base": memory.base,
        "created": memory.created.isoformat(),
        "accesses": kept.accesses,
        "keywords": json.dumps(memory.keywords),
        "suppressed": int(kept.suppressed),
        "withdrawn": int(kept.withdrawn),
        "version": written.version,
    }


def stored(name: str, answer: Sequence[bytes | str | None]) -> Stored | None:
    """Return what the hash of a memory holds, of the values of `FIELDS`.

    None if there is no such hash; one that is damaged is logged, and taken as if it were not there.
    """
    values = [value for value in answer if value is not None]
    if not values:
        return None
    try:
        return _stored(name, *map(plain, values))
    except (TypeError, ValueError) as error:
        _log.warning("skipped the memory %r, whose hash is damaged: %s", unquoted(name), error)
        return None


def chunks(values: Iterable[T]) -> Iterator[list[T]]:
    """Yield values in lists of at most `CHUNK`.

    >>> [len(chunk) for chunk in chunks(range(2_500))]
    [1000, 1000, 500]
    """
    remaining = iter(values)
    while chunk := list(islice(remaining, CHUNK)):
        yield chunk


def _stored(name: str, *values: str) -> Stored:
    base, created, accesses, listed, suppressed, withdrawn, version = values
    keywords = tuple(json.loads(listed))
    if not all(isinstance(one, str) for one in keywords):
        raise ValueError(f"keywords that are no texts: {listed!r}")
    memory = Memory(unquoted(name), int(base), moment(created), keywords)
    return Stored(Kept(memory, int(accesses), suppressed == "1", withdrawn == "1"), version)
