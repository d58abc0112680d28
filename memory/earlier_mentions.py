"""Mentions of efforts of other sessions: by qualified id, or by name where no own effort has it."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from .desk import Desk
from .mentions import qualified_words
from .names import hyphenated
from .qualified import is_qualified, parted
from .terms import CJK

_WORD = f"[^\\W{CJK}]"


@dataclass(frozen=True, slots=True)
class Mentions:
    """Efforts of other sessions that texts name by their qualified ids, and the texts without."""

    efforts: frozenset[str]
    texts: tuple[str, ...]


def mentions(desk: Desk, texts: Sequence[str]) -> Mentions:
    """Find the efforts of other sessions that texts name by their qualified ids.

    The ids are taken out, so that they mention no effort of this session that has the same name.
    Besides those in the context a bounded number is looked up, which may have left it.
    """
    written = dict.fromkeys(one for text in texts for one in qualified_words(text))
    known = {one: _canonical(one) for one in written}
    there = {effort.id for effort in desk.view.efforts_named([*set(known.values())], ())}
    words = {one: name for one, name in known.items() if name in there and is_qualified(name)}
    words |= {name: name for name in found_elsewhere(desk)}
    said = {name for one, name in words.items() if any(map(_pattern(one).search, texts))}
    return Mentions(frozenset(said), tuple(_without(text, words) for text in texts))


def named_elsewhere(desk: Desk, named: Collection[str]) -> frozenset[str]:
    """Return the efforts of other sessions that are in the context, or were found, by their names.

    `named` are the names that were mentioned; an effort of this session with that name is meant.
    """
    ids = {name: parted(name)[1] for name in found_elsewhere(desk)}
    asked = sorted({bare for bare in ids.values() if bare in named})
    own = {effort.id for effort in desk.view.efforts_named(asked, desk.space.events)}
    return frozenset(name for name, bare in ids.items() if bare in named and bare not in own)


def found_elsewhere(desk: Desk) -> tuple[str, ...]:
    """Return the efforts of other sessions in the context, and those found in this turn."""
    searches = (event["efforts"] for event in desk.space.events if event["type"] == "searched")
    found: Iterable[str] = (name for names in searches for name in names)
    return tuple(dict.fromkeys(filter(is_qualified, (*desk.space.summaries, *found))))


def _canonical(written: str) -> str:
    session, name = parted(written)
    return f"{session}/{hyphenated(name)}"


def _without(text: str, words: Iterable[str]) -> str:
    for word in sorted(words, key=len, reverse=True):
        text = _pattern(word).sub(" ", text)
    return text


def _pattern(word: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!{_WORD})(?<![@%~/-]){re.escape(word)}(?!{_WORD})", re.IGNORECASE)
