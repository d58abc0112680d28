"""The index of terms in Redis: which memories a message may lift to the threshold.

A memory is listed under its terms as long as a message that has all its keywords could lift it. Who
finds another one there takes it out; its next access may list it again.
"""

from collections.abc import Iterable, Mapping

from redis import Redis
from redis.client import Pipeline

from .fading import index_terms
from .redis_keys import Keys, Stored, chunks, plain

_UNLIST = """
local version = redis.call('HGET', KEYS[1], 'version') or ''
if version ~= ARGV[1] then return end
for i = 2, #KEYS do redis.call('SREM', KEYS[i], ARGV[2]) end
"""


def list_terms(pipeline: Pipeline, keys: Keys, name: str, terms: Mapping[str, bool]) -> None:
    """Queue that a memory is listed under some terms, and under others no longer."""
    for term, listed in terms.items():
        if listed:
            pipeline.sadd(keys.keyword(term), name)
        else:
            pipeline.srem(keys.keyword(term), name)


def sharing(client: Redis, keys: Keys, message: str) -> dict[str, list[str]]:
    """Return the names of the memories listed under terms of a message, with these terms."""
    found: dict[str, list[str]] = {}
    for terms in chunks(index_terms([message])):
        pipeline = client.pipeline(transaction=False)
        for term in terms:
            pipeline.smembers(keys.keyword(term))
        for term, names in zip(terms, pipeline.execute(), strict=True):
            for name in names:
                found.setdefault(plain(name), []).append(term)
    return found


def unlist(
    client: Redis,
    keys: Keys,
    listed: Mapping[str, Iterable[str]],
    read: Mapping[str, Stored | None],
) -> None:
    """Take memories out of the lists of terms, each whose hash is still as it was read."""
    for names in chunks(listed):
        pipeline = client.pipeline(transaction=False)
        for name in names:
            one = read[name]
            places = [keys.memory(name), *(keys.keyword(term) for term in listed[name])]
            pipeline.eval(_UNLIST, len(places), *places, one.version if one else "", name)
        pipeline.execute()
