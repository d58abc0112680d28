"""Which efforts the running turn mentions: by id, by their keywords, by a tool that names them."""

from collections.abc import Iterable, Sequence
from functools import partial
from operator import attrgetter

from . import banners
from .anchor import shown
from .desk import Desk
from .earlier_mentions import mentions, named_elsewhere
from .keywords import KeywordCache, keywords, keywords_of
from .mentions import mentionable, own_words
from .messages import Message, answered, text
from .overlap import Keywords, about
from .record import Record
from .terms import content
from .transitions import happened, within_limit
from .workspace import Workspace

_USING = frozenset({"opened", "switched", "reopened", "expanded", "collapsed", "concluded"})
"""The events of tool calls that name an effort."""

_MENTIONING = _USING | {"referenced"}

_RECENT = 20
"""Turns that tell which words the talk uses all the time.

On the work dialogues 10 let through three times as many false references, 40 lose a few true ones.
"""


def referenced(desk: Desk, cache: KeywordCache) -> Workspace:
    """Return the workspace after the references of the running turn, which is at its end.

    A mentioned effort whose summary was evicted returns. What is only listed is no reference.
    Efforts of other sessions are mentioned by their qualified ids, or by their names if they are
    in the context or were found in this turn, and no effort of this session has the name.
    """
    elsewhere = mentions(desk, [*map(own_words, statements(desk.view.running.messages))])
    named = frozenset[str]().union(*map(mentionable, elsewhere.texts))
    named |= elsewhere.efforts | named_elsewhere(desk, named)
    space = _returned(desk, named)
    using = {event["effort"] for event in space.events if event["type"] in _USING}
    found = named | using | _by_keywords(desk, elsewhere.texts, cache)
    for name in (*space.open, *space.summaries):
        if name in found and not _noted(space, name):
            space = happened(space, {"type": "referenced", "effort": name})
    return within_limit(space, desk.settings.summaries_limit)


def statements(messages: Sequence[Message]) -> list[str]:
    """Return what the user said in a turn, as one text, and the final answer if there is one.

    The answer is as users see it, without the state block that the model keeps.
    """
    asked = "\n".join(text(message) for message in messages if message["type"] == "human")
    return [asked, *([text(shown(messages[-1:])[0])] if answered(messages) else [])]


def _returned(desk: Desk, named: Iterable[str]) -> Workspace:
    space = desk.space
    away = frozenset(named).difference(space.open, space.summaries)
    found = desk.view.efforts_named([*away], space.events)
    for effort in sorted(found, key=attrgetter("id")):
        if effort.status == "concluded":
            event = {"type": "returned", "effort": effort.id}
            space = happened(space, event, banners.returned(effort.id))
    return space


def _by_keywords(desk: Desk, texts: Iterable[str], cache: KeywordCache) -> frozenset[str]:
    """Weigh keywords by the newest efforts, those in the context, and the recent turns."""
    near = desk.known(list(dict.fromkeys([*desk.space.open, *desk.space.summaries])))
    if not near:
        return frozenset()
    newest = desk.view.efforts(desk.settings.weighed_efforts).efforts
    efforts = {effort.id: effort for effort in (*newest, *near)}
    known = {name: keywords_of(desk, effort, cache) for name, effort in efforts.items()}
    ids = [effort.id for effort in near]
    turns = recent(desk, cache)
    found = (about(content(said), known, ids, desk.settings, turns) for said in texts)
    return frozenset[str]().union(*found)


def recent(desk: Desk, cache: KeywordCache) -> list[Keywords]:
    """Return the terms of the recent turns, each read once, without those of open efforts.

    Turns that mention another effort are empty: else one that is talked of for long would be
    mentioned by ever fewer of its words.
    """
    view, bounds = desk.view, (desk.settings.keywords_limit, 0)
    turns = {*range(max(1, view.tip.turn - _RECENT + 1), view.tip.turn + 1)}
    turns = turns.difference(*(view.log_turns(name)[-_RECENT:] for name in desk.space.open))
    keys = {turn: (view.owner, view.tip.branch, None, turn, bounds) for turn in sorted(turns)}
    return [cache.once(key, partial(_said, desk, turn)) for turn, key in keys.items()]


def _said(desk: Desk, turn: int) -> Keywords:
    records = (record for record in desk.view.turns([turn]) if not _mentions(record))
    texts = (own_words(said) for record in records for said in statements(record.messages))
    return keywords(texts, (), desk.settings.keywords_limit)


def _mentions(record: Record) -> bool:
    """Tell whether a turn mentioned another effort than those that it belongs to."""
    named = (event for event in record.events if event["type"] in _MENTIONING)
    return any(event["effort"] not in record.efforts for event in named)


def _noted(space: Workspace, name: str) -> bool:
    """Tell whether every counter of an effort stands at this turn already."""
    entries = (space.open.get(name), space.expanded.get(name))
    turns = [entry["last_referenced_turn"] for entry in entries if entry is not None]
    return {*turns, space.summaries.get(name, space.turn)} == {space.turn}
