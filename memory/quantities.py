"""Numbers with their units, however they are written: `10 MB`, `three`, `1,000`, `3 May 2026`."""

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)

_MONTH = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_DAY = r"(\d{1,2})(?:st|nd|rd|th|\.)?"
DATES = (
    re.compile(rf"\b{_DAY}\s+(?:of\s+)?({_MONTH})[a-z]*\.?(?:,?\s+(\d{{4}})\b)?"),
    re.compile(rf"\b({_MONTH})[a-z]*\.?\s+{_DAY}\b(?:,?\s+(\d{{4}})\b)?"),
    re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b"),
)
"""Dates by day, month and year; by month, day and year; by year, month and day."""

_WORDS = {
    word: str(value)
    for words, first in (
        ("zero one two three four five six seven eight nine ten eleven twelve thirteen", 0),
        ("fourteen fifteen sixteen seventeen eighteen nineteen twenty", 14),
        ("zwei drei vier fünf sechs sieben acht neun zehn elf zwölf", 2),
    )
    for value, word in enumerate(words.split(), first)
}
_TENS = "thirty forty fifty sixty seventy eighty ninety"
_WORDS |= {word: str(value * 10) for value, word in enumerate(_TENS.split(), 3)}
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth"
ORDINALS = {word: value for value, word in enumerate(_ORDINALS.split(), 1)}

_SCALES = {"hundred": 100, "thousand": 1_000, "k": 1_000, "million": 10**6, "billion": 10**9}
_UNITS: dict[str, tuple[str, int]] = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), ("ms", 1)),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), ("ms", 1_000)),
    **dict.fromkeys(("min", "mins", "minute", "minutes", "minuten"), ("ms", 60_000)),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours", "stunden"), ("ms", 3_600_000)),
    **dict.fromkeys(("day", "days", "tage", "tagen"), ("ms", 86_400_000)),
    **dict.fromkeys(("week", "weeks", "wochen"), ("ms", 604_800_000)),
    **dict.fromkeys(("month", "months", "monate", "monaten"), ("month", 1)),
    **dict.fromkeys(("year", "years", "jahre", "jahren"), ("month", 12)),
    **dict.fromkeys(("b", "byte", "bytes"), ("byte", 1)),
    **{unit: ("byte", 1_000 ** (at + 1)) for at, unit in enumerate(("kb", "mb", "gb", "tb"))},
    **{unit: ("byte", 1_024 ** (at + 1)) for at, unit in enumerate(("kib", "mib", "gib", "tib"))},
    **dict.fromkeys(("%", "percent", "prozent"), ("%", 1)),
    **dict.fromkeys(("€", "eur", "euro", "euros"), ("eur", 1)),
    **dict.fromkeys(("$", "usd", "dollar", "dollars"), ("usd", 1)),
    **dict.fromkeys(("£", "gbp", "pound", "pounds"), ("gbp", 1)),
    **dict.fromkeys(("mm", "millimetres"), ("mm", 1)),
    **dict.fromkeys(("cm", "centimetres"), ("mm", 10)),
    **dict.fromkeys(("m", "metre", "metres", "meter", "meters"), ("mm", 1_000)),
    **dict.fromkeys(("km", "kilometres", "kilometers"), ("mm", 1_000_000)),
    **dict.fromkeys(("g", "gram", "grams"), ("g", 1)),
    **dict.fromkeys(("kg", "kilo", "kilos", "kilograms"), ("g", 1_000)),
    **dict.fromkeys(("°", "°c", "degree", "degrees", "grad"), ("degree", 1)),
    **{
        unit: (unit, 1)
        for unit in ("px", "yuan", "token", "tokens", "hz", "mhz", "ghz", "w", "kw", "°f")
    },
}

_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?(am|pm)?")
_NUMBER = re.compile(r"([$€£]?)([+-]?\d{1,3}(?:,\d{3})+|[+-]?\d+)(\.\d+)?([a-z%€$£°]*)")
_DOTTED = re.compile(r"v?\d+(?:\.\d+){2,}(?:/\d+)?|v\d+(?:\.\d+)?")
_EXACT = 24  # longer ones are names, since decimals have 28 digits
_YEAR = re.compile(r"(?:19|20)\d\d")
_RANGE = re.compile(r"\d+(?:\.\d+)?[-–]\d+(?:\.\d+)?%?")


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An amount in the smallest unit of its kind; `unit` is "" for a bare number.

    The kinds beside units are "date", "clock" and "dotted" (versions, addresses, ranges).
    """

    amount: str
    unit: str = ""


def quantity(word: str) -> Quantity | None:
    """Return the number that a word is, None if it is none.

    >>> quantity("1,000"), quantity("three") == quantity("3"), quantity("10mb").amount
    (Quantity(amount='1000', unit=''), True, '10000000')
    """
    word = word.casefold()
    if word in _WORDS:
        return Quantity(_WORDS[word])
    if clock := _CLOCK.fullmatch(word):
        hour = int(clock[1]) % 12 + 12 * (clock[4] == "pm") if clock[4] else int(clock[1])
        return Quantity(f"{hour}:{clock[2]}:{clock[3] or '00'}", "clock")
    if _DOTTED.fullmatch(word) or _RANGE.fullmatch(word):
        return Quantity(word.removeprefix("v").replace("–", "-"), "dotted")
    found = _NUMBER.fullmatch(word)
    if not found or len(word) > _EXACT or (found[4] and not is_unit(found[4])):
        return None
    plain = Quantity(_amount(Decimal(found[2].replace(",", "") + (found[3] or ""))))
    unit = found[4] or found[1]
    return in_units(plain, unit) if unit else plain


def is_unit(word: str) -> bool:
    """Tell whether a word after a number says what is counted, or multiplies it."""
    return word.casefold() in _UNITS or word.casefold() in _SCALES


def in_units(plain: Quantity, unit: str) -> Quantity:
    """Return a bare number in a unit, in the smallest one of its kind.

    >>> in_units(Quantity("2"), "minutes") == quantity("120s")
    True
    """
    name, factor = _UNITS.get(unit.casefold(), ("", _SCALES.get(unit.casefold(), 1)))
    try:
        return Quantity(_amount(Decimal(plain.amount) * factor), name)
    except InvalidOperation:
        return Quantity(plain.amount, name or plain.unit)


def date(order: int, parts: tuple[str | None, ...]) -> Quantity:
    """Return the date that the pattern of `DATES` at `order` found.

    >>> date(0, ("3", "May", "2026")) == date(2, ("2026", "05", "03"))
    True
    """
    day, month, year = (parts, (parts[1], parts[0], parts[2]), parts[::-1])[order]
    named = [at for at, name in enumerate(MONTHS, 1) if name.startswith(str(month).lower())]
    return Quantity(
        f"{year or ''}-{named[0] if named else int(month or 0)}-{int(day or 0)}", "date"
    )


def is_moment(value: Quantity) -> bool:
    """Tell whether a number says when: a date or a year.

    >>> is_moment(Quantity("2024")), is_moment(Quantity("24"))
    (True, False)
    """
    year = not value.unit and _YEAR.fullmatch(value.amount) is not None
    return year or value.unit == "date"


def _amount(number: Decimal) -> str:
    return f"{number.normalize():f}"
