"""What a sentence claims: about what, which numbers, whether it denies, and what it revises."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from .markers import (
    BEING,
    CHANGED,
    CONDITIONS,
    CUE,
    MEASURES,
    MODES,
    NEGATIONS,
    NOT_NAMED,
    PRONOUNS,
    REVOKED,
    SCOPES,
    SILENT,
    SYNONYMS,
)
from .messages import fingerprint
from .quantities import DATES, ORDINALS, Quantity, date, in_units, is_moment, is_unit, quantity
from .rewording import reworded
from .terms import CJK, folded, stem

LONGEST = 4_000
"""The characters of a text that are read; what comes after is compared as a whole."""

_TOKEN = re.compile(
    r"`[^`\n]+`|\"[^\"\n]{1,80}\"|“[^”\n]{1,80}”|„[^“\n]{1,80}“|「[^」\n]{1,80}」"
    rf"|[{CJK}]|[$€£#@~/.+-]{{0,4}}[^\W{CJK}](?:(?:[\w.:/\\@#+&'-]|,(?=\d{{3}}))*[^\W{CJK}])?[%°€$]?|%|°|=|[?？]"
)
_WITH = re.compile(r"^\s*(?:with|by)\b", re.IGNORECASE)
_DENIAL = re.compile(r"\b(?:no longer|not)\s*$", re.IGNORECASE)
_ARTICLES = frozenset(["the", "a", "an", "der", "den", "dem", "am", "um", "im"])
_REASON = re.compile(
    r"\b(?:because|due to|so that|weil|因为)\b[^.,;，。]*[,，]|"
    r",? ?\b(?:because|due to|so that|weil|因为)\b[^.;。]*",
    re.IGNORECASE,
)
_STOP = re.compile(r"[.!?:]\s|\n|^\s*[-*•]")


@dataclass(frozen=True, slots=True)
class Claim:
    """What a text says, word by word, as far as it decides whether two say the same.

    `words` are the stems that tell something, in their order; `names` are those of them that are
    identifiers, `scoped` those that follow a word like `for`, `denied` those that follow a denial.
    `vague` is one whose subject is a pronoun, `passive` one that names who does it with `by`.
    `revoked` is what no longer holds.
    """

    words: tuple[str, ...]
    names: tuple[str, ...]
    scoped: frozenset[str]
    values: tuple[Quantity, ...]
    denied: frozenset[str]
    mode: str
    vague: bool
    passive: bool
    cue: bool = False
    revoked: frozenset[str | Quantity] = frozenset()

    @property
    def core(self) -> frozenset[str]:
        """What is spoken of, in any order."""
        return frozenset(self.words)


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    low: str
    starts: bool
    value: Quantity | None = None


@lru_cache(maxsize=8_000)
def claim(text: str) -> Claim:
    """Return what a text claims.

    >>> made = claim("Max upload is not 10 MB but 25 MB.")
    >>> made.words, made.denied, [value.amount for value in made.values], len(made.revoked)
    (('max', 'upload'), frozenset(), ['25000000'], 1)
    """
    if len(text) > LONGEST:
        told = claim(text[:LONGEST])
        return replace(told, words=(*told.words, fingerprint(text[LONGEST:])))
    plain = reworded(text)
    kept, gone = _parted(plain)
    cue = bool(gone) or CUE.search(plain) is not None
    revoked: set[str | Quantity] = {word for old in gone for word in old.words}
    revoked.update(value for old in gone for value in old.values)
    return replace(
        _read(CHANGED.sub(" ", kept) if cue else kept), cue=cue, revoked=frozenset(revoked)
    )


def gist(text: str) -> Claim:
    """Return what a text claims, whatever the reason.

    >>> gist("We use Redis because it is fast.") == claim("We use Redis.")
    True
    """
    return claim(_REASON.sub("", text).strip() or text)


def _parted(plain: str) -> tuple[str, list[Claim]]:
    """Return a text without what it revokes, and what that is."""
    gone = []
    for pattern in REVOKED:
        if found := pattern.search(plain):
            start, end = found.span(1)
            gone.append(_read(found[1]))
            plain = f"{_DENIAL.sub(' ', plain[:start])} {_WITH.sub('', plain[end:])}"
    return plain, gone


def _read(text: str) -> Claim:
    words = list(_tokens(text))
    labels = {at for at in range(len(words)) if _labels(words, at)}
    told = [(at, word) for at, word in enumerate(words) if at in labels or _tells(word)]
    stems = {at: _stemmed(word) for at, word in told}
    names = [stems[at] for at, word in told if at in labels or _is_name(word)]
    scoped = {stems[at] for at, _ in told if _is_scoped(words, at)}
    numbers = [word.value for at, word in enumerate(words) if word.value and at not in labels]
    denied = Counter(_nearest(stems, at) for at, word in enumerate(words) if word.low in NEGATIONS)
    first = words[: told[0][0]] if told else words
    return Claim(
        words=tuple(stems.values()),
        names=tuple(names),
        scoped=frozenset(scoped),
        values=tuple(numbers),
        denied=frozenset(near for near, times in denied.items() if times % 2),
        mode=" ".join(sorted({MODES[word.low] for word in words if word.low in MODES})),
        vague=any(word.low in PRONOUNS for word in first),
        passive=any(word.low == "by" for word in words),
    )


def _tells(word: _Word) -> bool:
    if word.low in CONDITIONS:
        return True
    if word.text == "A" and not word.starts:
        return True
    silent = word.low in SILENT or word.low in SCOPES or word.low in NEGATIONS
    return not (silent or word.low in MODES or word.value)


def _nearest(stems: Mapping[int, str], at: int) -> str:
    """Return what a denial denies: the next word that tells something, else the last one."""
    after = (said for place, said in stems.items() if place > at)
    return next(after, next(reversed([*stems.values()]), ""))


def _is_scoped(words: list[_Word], at: int) -> bool:
    before = [word.low for word in words[max(0, at - 2) : at]]
    if before and before[-1] in SILENT and before[-1] not in SCOPES:
        before = before[:-1]
    return bool(before) and before[-1] in SCOPES


def _tokens(text: str) -> Iterator[_Word]:
    """Yield the words; a number with its unit is one, and so is a date."""
    found: list[tuple[int, int, Quantity | None]] = []
    for order, pattern in enumerate(DATES):
        found += [(*m.span(), date(order, m.groups())) for m in pattern.finditer(text)]
    days = sorted(found)
    taken = [range(start, end) for start, end, _ in days]
    spans = [m.span() for m in _TOKEN.finditer(text)]
    spans = [span for span in spans if not any(span[0] in one for one in taken)]
    placed = sorted([*days, *((start, end, None) for start, end in spans)])
    last, at = 0, 0
    while at < len(placed):
        start, end, value = placed[at]
        word = text[start:end]
        value = value or quantity(word)
        while value and not value.unit and at + 1 < len(placed) and placed[at + 1][0] - end <= 1:
            unit = text[slice(*placed[at + 1][:2])]
            if not is_unit(unit):
                break
            value, end, at = in_units(value, unit), placed[at + 1][1], at + 1
        starts = last == 0 or _STOP.search(text[last:start]) is not None
        yield _Word(word, folded(word), starts, value)
        last, at = end, at + 1


def _labels(words: Sequence[_Word], at: int) -> bool:
    """Tell whether a number is a name, as in `room 4 has 20 seats` or `in 2024 we had 20`."""
    word, value = words[at], words[at].value
    if word.text.startswith("#"):
        return True
    last = at + 1 == len(words) or words[at + 1].starts
    if value is None or (last and not is_moment(value)):
        return False
    if word.starts or at == 0:
        return value.unit == "dotted" and not last
    if is_moment(value):
        return _told_before(words[:at]) not in BEING
    before = words[at - 1]
    if words[at + 1].low in MEASURES:
        return False
    silent = before.low in SILENT or before.low in SCOPES or before.low in NEGATIONS
    free = silent or before.low in MODES or before.value is not None
    return not (value.unit or free or before.low in NOT_NAMED or stem(before.low) in NOT_NAMED)


def _told_before(words: Sequence[_Word]) -> str:
    """Return the last word that is neither an article nor a preposition."""
    said = [
        word.low for word in words if word.low not in SCOPES - BEING and word.low not in _ARTICLES
    ]
    return said[-1] if said else ""


def _stemmed(word: _Word) -> str:
    if word.value is not None:
        return f"#{word.value.amount}"
    if word.low in ORDINALS:
        return f"#{ORDINALS[word.low]}."
    return word.text if _written(word.text) else stem(SYNONYMS.get(word.low, word.low))


def _written(text: str) -> bool:
    """Tell whether a word is written as identifiers are, whose letters must not be changed."""
    inner = text[1:]
    mixed = any(character.isdigit() for character in text)
    return mixed or re.search(r"[_/\\@#.`\"“-]", text) is not None or inner != inner.lower()


def _is_name(word: _Word) -> bool:
    return _written(word.text) or (word.text[:1].isupper() and not word.starts)
