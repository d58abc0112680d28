"""Days: how they are written in a query, which times they are, and how a time is shown."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, date, datetime, timedelta, tzinfo
from functools import partial
from typing import TypeAlias
from zoneinfo import ZoneInfo

Days: TypeAlias = tuple[date, date]
"""The first day of a period, and the first one after it."""

_DAY = timedelta(days=1)
_LEAP = 2024  # a year that has all days
_WEEK = timedelta(weeks=1)


@dataclass(frozen=True, slots=True)
class When:
    """How a search reads a query: the present, the time zone, the period that narrows it.

    `now` is a time of the clock, "" for none, and then no relative date is read. `zone` is a name
    such as "Europe/Berlin", "" for the machine's. `since` and `until` are times too, the latter not
    included, "" for no bound. `language` is that of words which do not show theirs.
    """

    now: str = ""
    zone: str = ""
    since: str = ""
    until: str = ""
    language: str = ""

    @property
    def today(self) -> date | None:
        """The present day."""
        return local(self.now, self.zone).date() if self.now else None

    def times(self, days: Days) -> tuple[str, str]:
        """Return the times at which a period begins and ends."""
        return instant(days[0], self.zone), instant(days[1], self.zone)


def local(at: str, zone: str = "") -> datetime:
    """Return a stored time as the clocks of a time zone show it.

    >>> str(local("2026-05-04T23:30:00.000Z", "Asia/Tokyo"))
    '2026-05-05 08:30:00+09:00'
    """
    return datetime.fromisoformat(at).astimezone(_zone(zone))


def local_day(at: str, zone: str = "", *, hour: bool = False) -> str:
    """Return the day of a stored time, with the hour if asked for; "" for no time.

    >>> local_day("2026-05-04T23:30:00.000Z", "Asia/Tokyo", hour=True)
    '2026-05-05 08:30'
    """
    if not at:
        return ""
    return local(at, zone).strftime("%Y-%m-%d %H:%M" if hour else "%Y-%m-%d")


def instant(day: date, zone: str = "") -> str:
    """Return the time at which a day begins, as it is stored.

    >>> instant(date(2026, 5, 5), "Asia/Tokyo")
    '2026-05-04T15:00:00.000Z'
    """
    midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001 (the zone follows)
    try:
        begins = midnight.replace(tzinfo=ZoneInfo(zone)) if zone else midnight.astimezone()
        utc = begins.astimezone(UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError):  # the first or the last day of the calendar
        utc = midnight.replace(tzinfo=UTC).isoformat(timespec="milliseconds")
    return utc.replace("+00:00", "Z")


def period(text: str) -> Days | None:
    """Return the period that a date names: a year, a month or a day; None for any other text.

    >>> period("2026-02")
    (datetime.date(2026, 2, 1), datetime.date(2026, 3, 1))
    """
    match = re.fullmatch(r"(\d{4})(?:-(\d{1,2}))?(?:-(\d{1,2}))?(?:[T ].*)?", text.strip())
    return _period(*(int(part) for part in match.groups() if part)) if match else None


def _zone(zone: str) -> tzinfo | None:
    return ZoneInfo(zone) if zone else None


def _period(year: int, month: int | None = None, day: int | None = None) -> Days | None:
    try:
        first = date(year, 1 if month is None else month, 1 if day is None else day)
        if date.max - first < _DAY or (year == MAXYEAR and day is None and month in {None, 12}):
            return first, date.max
        if day is not None:
            return first, first + _DAY
        last = date(year + (month in {None, 12}), month % 12 + 1 if month else 1, 1)
    except (ValueError, OverflowError):
        return None
    return first, last


_MONTHS = (
    "january|jan|januar|janvier|enero|gennaio",
    "february|feb|februar|février|fevrier|febrero|febbraio",
    "march|mar|märz|maerz|marz|mars|marzo",
    "april|apr|avril|abril|aprile",
    "may|mai|mayo|maggio",
    "june|jun|juni|juin|junio|giugno",
    "july|jul|juli|juillet|julio|luglio",
    "august|aug|août|aout|agosto",
    "september|sept|sep|septembre|septiembre|settembre",
    "october|oct|oktober|okt|octobre|octubre|ottobre",
    "november|nov|novembre|noviembre",
    "december|dec|dezember|dez|décembre|diciembre|dicembre",
)
_NUMBERS = {name: at for at, names in enumerate(_MONTHS, 1) for name in names.split("|")}
_AMBIGUOUS = frozenset(
    {"march", "may", "mar", "mars", "jan", "dec", "sep", "mai", "mayo", "juli", "julio", "april"}
)
"""Months that are words or names too: only with a number, or after a word that says so."""


def _any(words: Iterable[str]) -> str:
    """Return a pattern for one of these words."""
    return "|".join(sorted(words, key=len, reverse=True))


_ORDINAL = r"(\d{1,2})(?:st|nd|rd|th|er|\.)?(?=\W|$)"
_NAMED = re.compile(
    rf"(?i)\b(?:{_ORDINAL} (?:of |de )?|(in|of|during|since|until|by|last|early|late|mid|im|en) )?"
    rf"({_any(_NUMBERS)})\b\.?(?! \d{{1,2}}:)"
    rf"(?: {_ORDINAL})?(?:(?:,| de|) (\d{{4}})\b)?"
)
"""A month with its day and year, before or after it; of "may 5:30" no part is a date."""

_NUMBERED_YEAR = r"(\d{4}|\d\d)"
_ISO = re.compile(r"\b(\d{4})-(\d\d)(?:-(\d\d))?\b(?![-\w])")
_POINTS = re.compile(r"(?<![\w.])(\d{1,2})\.(\d{1,2})\.(\d{4}|(?<=\d\d\.\d\d\.)\d\d)\b(?!\.\w)")
"""Of 5.3.27 no part is a date: that may be a version."""

_SLASHES = re.compile(rf"(?<![\w/.])(\d{{1,2}})/(\d{{1,2}})/{_NUMBERED_YEAR}\b(?!/)")
_YEAR_FIRST = re.compile(r"(?<![\w/.])(\d{4})/(\d{1,2})/(\d{1,2})\b(?![/\w])")
_DAY_FIRST = re.compile(
    r"(?i)\b(?:(?:am|vom|bis|seit|zum) (\d{1,2})\.(\d{1,2})\.|"
    rf"(?:le|du|el|del|il|dal) (\d{{1,2}})/(\d{{1,2}})(?:/|(?![\w/]))){_NUMBERED_YEAR}?(?!\.?\w)"
)
"""A day after a word of a language that has days before months, maybe without a year."""

_YEAR = re.compile(r"(?i)\b(?:in|of|during|since|year|jahr|seit|en|depuis) ((?:19|20)\d\d)\b(?!-)")
"""Other numbers of four digits are ports, prices and counts."""

_NUMERALS = (
    "one two three four five six seven eight nine ten eleven twelve",
    "einem zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    "un deux trois quatre cinq six sept huit neuf dix onze douze",
    "un dos tres cuatro cinco seis siete ocho nueve diez once doce",
    "un due tre quattro cinque sei sette otto nove dieci undici dodici",
)
_COUNTS = {"a": 1, "an": 1, "einer": 1, "une": 1, "una": 1}
_COUNTS |= {word: at for words in _NUMERALS for at, word in enumerate(words.split(), 1)}
_UNITS = {
    word: unit
    for unit, words in {
        "day": "day days tag tage tagen jour jours día días dia dias giorno giorni",
        "week": "week weeks woche wochen semaine semaines semana semanas settimana settimane",
        "month": "month months monat monate monaten mois mes meses mese mesi",
        "year": "year years jahr jahre jahren an ans année années año años anno anni",
    }.items()
    for word in words.split()
}
_COUNT, _UNIT = rf"(\d{{1,3}}|{_any(_COUNTS)})", f"({_any(_UNITS)})"
_AGO = re.compile(rf"(?i)\b(vor |il y a |hace )?{_COUNT} {_UNIT}( ago| fa)?\b")
_ARTICLE = "(?:(?:in )?(?:the|den|der|dem|die|ces|l[aeo]s|l[ae]|el|il|gli) |l['’])?"
_PAST = re.compile(
    rf"(?i)\b{_ARTICLE}(?:"
    rf"(?:past|last|letzten|vergangenen|[uú]ltim[ao]s|ultim[ei]) {_COUNT} {_UNIT}|"
    rf"{_COUNT} derni[eè]re?s {_UNIT}|past {_UNIT})\b"
)
"""Days up to the present one; "last week" is the one from Monday to Sunday."""

_GONE = "derni[eè]re?|pass[ée]e?|pasad[ao]|scors[ao]"
_WHICH = (
    "last|previous|this|letzte[nrs]?|vorige[nrs]?|vergangene[nrs]?|diese[nrs]?|"
    f"ce|cette|est[ae]|quest[ao]|quest|{_GONE}"
)
_LAST = re.compile(rf"(?i)\b{_ARTICLE}(?:({_WHICH})[ '’]{_UNIT}|{_UNIT} (?:{_GONE}))\b(?:-ci\b)?")
_WORDS = re.compile(
    r"(?i)\b((?:the )?day before yesterday|yesterday|today|"
    r"last night|this (?:morning|afternoon|evening)|vorgestern|gestern|heute|"
    r"avant-hier|aujourd['’]hui|ce (?:matin|soir)|"
    r"anteayer|(?-i:ayer|hoy)|anoche|l['’]altro ieri|ieri|oggi|stamattina)\b"
)
"""Hoy and Ayer are names too, when they are capitalised."""

_HIER = re.compile(r"(?i)(?<!avant-)\b(hier)\b")
_FRENCH = re.compile(
    r"(?i)\b(?:[cdjlmnst]|qu)['’]|"
    r"\b(?:que|qui|quoi|quel(?:le)?s?|quand|où|pourquoi|nous|avons|avez|était|"
    r"hier (?:soir|matin))\b"
)
"""Words of a query in which "hier" is yesterday: in German and Dutch it is "here"."""

_WEEKDAYS = (
    "monday|montag|lundi|lunes|lunedì|lunedi",
    "tuesday|dienstag|mardi|martes|martedì|martedi",
    "wednesday|mittwoch|mercredi|miércoles|miercoles|mercoledì|mercoledi",
    "thursday|donnerstag|jeudi|jueves|giovedì|giovedi",
    "friday|freitag|vendredi|viernes|venerdì|venerdi",
    "saturday|samstag|sonnabend|samedi|sábado|sabado|sabato",
    "sunday|sonntag|dimanche|domingo|domenica",
)
_DAYS_OF_WEEK = {name: at for at, names in enumerate(_WEEKDAYS) for name in names.split("|")}
_WEEKDAY = re.compile(
    rf"(?i)\b(?:({_WHICH}) (?:week|woche),?(?: on| am)? |(last|on|am|letzten|vorigen|el) )?"
    rf"({_any(_DAYS_OF_WEEK)})\b"
    rf"(?:,?(?: of| in)? (?:the |der )?({_WHICH}) (?:week|woche)\b|( (?:{_GONE}))\b)?"
)
"""A day of the week, with a word that says that it is a day, or of a week that is named."""

_WEEKEND = re.compile(
    rf"(?i)\b(?:({_WHICH}) (?:weekend|wochenende|week-end)|"
    rf"(?:le |el |il )?(?:week-?end|fin de semana) (?:{_GONE}))\b"
)

_TODAY = ("today", "heute", "aujourd", "hoy", "oggi", "stamattina", "this ", "ce ")
_YESTERDAY = frozenset({"yesterday", "last night", "gestern", "hier", "ayer", "anoche", "ieri"})


def _months(year: int, month: int, back: int) -> Days | None:
    """Return the month that is `back` months before this one."""
    at = year * 12 + month - 1 - back
    return _period(at // 12, at % 12 + 1)


def _back(today: date, unit: str, back: int) -> Days | None:
    """Return the day, week, month or year so many of them before the present one."""
    unit = _UNITS[unit.lower()]
    if unit == "month":
        return _months(today.year, today.month, back)
    if unit == "year":
        return _period(today.year - back)
    first = today - timedelta(days=back)
    if unit == "week":
        first = today - timedelta(days=today.weekday()) - back * _WEEK
    return first, first + (_WEEK if unit == "week" else _DAY)


def _count(number: str) -> int:
    return int(number) if number.isdecimal() else _COUNTS[number.lower()]


def _ago(match: re.Match[str], today: date) -> Days | None:
    before, number, unit, after = match.groups()
    return _back(today, unit, _count(number)) if before or after else None


_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}


def _past(match: re.Match[str], today: date) -> Days | None:
    *number, unit = filter(None, match.groups())
    days = _DAYS[_UNITS[unit.lower()]] * (_count(number[0]) if number else 1)
    return today - timedelta(days=days), today + _DAY


def _how_many_back(which: str | None) -> int:
    """Return 0 for this week, month or year, 1 for the last one."""
    present = ("this", "diese", "ce", "est", "quest")
    return int(which is None or not which.lower().startswith(present))


def _last(match: re.Match[str], today: date) -> Days | None:
    which, unit, unit_gone = match.groups()
    return _back(today, unit or unit_gone, _how_many_back(which))


def _word(match: re.Match[str], today: date) -> Days | None:
    word = match[1].lower()
    back = 0 if word.startswith(_TODAY) else 1 if word in _YESTERDAY else 2
    return _back(today, "day", back)


def _weekday(match: re.Match[str], today: date) -> Days | None:
    week_before, before, name, week_after, after = match.groups()
    back = today.weekday() - _DAYS_OF_WEEK[name.lower()]
    if week := week_before or week_after:
        return _back(today, "day", back + 7 * _how_many_back(week))
    is_all = match.string.strip(" ,.?!") == match[0]
    return _back(today, "day", back % 7 or 7) if before or after or is_all else None


def _weekend(match: re.Match[str], today: date) -> Days | None:
    saturday = today + timedelta(days=5 - today.weekday()) - _how_many_back(match[1]) * _WEEK
    return saturday, saturday + 2 * _DAY


_Reading: TypeAlias = Callable[[re.Match[str], date], Days | None]
_RELATIVE: tuple[tuple[re.Pattern[str], _Reading], ...] = (
    (_AGO, _ago),
    (_PAST, _past),
    (_WEEKEND, _weekend),
    (_WEEKDAY, _weekday),  # "Tuesday of last week" is a day, not a week
    (_LAST, _last),
    (_HIER, _word),
    (_WORDS, _word),
)


def _year(number: str) -> int:
    return int(number) + (2000 if len(number) < len("2000") else 0)


def _absolute(pattern: re.Pattern[str], match: re.Match[str]) -> Days | None:
    if pattern is _POINTS:
        return _period(_year(match[3]), int(match[2]), int(match[1]))
    if pattern is _SLASHES:
        first, second = int(match[1]), int(match[2])
        month, day = (first, second) if first <= 12 else (second, first)  # noqa: PLR2004 (months)
        return _period(_year(match[3]), month, day)
    return _period(*(int(part) for part in match.groups() if part))


def _day_first(match: re.Match[str], years: Iterable[int]) -> list[Days]:
    """Return the days that a day and a month name: without a year one for each of `years`."""
    *numbers, year = match.groups()
    day, month = (int(number) for number in numbers if number)
    found = (_period(y, month, day) for y in ([_year(year)] if year else years))
    return [days for days in found if days]


def _named(match: re.Match[str], years: Iterable[int]) -> list[Days]:
    """Return the periods of a month's name: without a year one for each of `years`."""
    before, word, month, after, year = match.groups()
    if month.lower() in _AMBIGUOUS and not (before or word or after or year):
        return []
    chosen = [int(year)] if year else years
    day = int(before or after) if before or after else None
    found = (_period(y, _NUMBERS[month.lower()], day) for y in chosen)
    return [days for days in found if days]


_NEAR_YEARS = 5
"""Years from the present one to which a query gives a short year: 10.11.12 may be a version."""


def _near(pattern: re.Pattern[str], today: date | None, match: re.Match[str]) -> Days | None:
    """Return the period of a date in a query, unless its year is short and far from today's."""
    days = _absolute(pattern, match)
    is_short = pattern in {_POINTS, _SLASHES} and len(match[3]) < len("2000")
    if days and today and is_short and abs(days[0].year - today.year) > _NEAR_YEARS:
        return None
    return days


def _relative(read: _Reading, today: date, match: re.Match[str]) -> Days | None:
    return read(match, today)


def dates(query: str, years: Iterable[int] = (), today: date | None = None) -> list[Days]:
    """Return the periods that a query names; a month without a year is of each of `years`.

    >>> dates("What did James say in April?", [2025])
    [(datetime.date(2025, 4, 1), datetime.date(2025, 5, 1))]
    >>> dates("you may go on", [2026]), dates("yesterday", today=date(2026, 3, 1))
    ([], [(datetime.date(2026, 2, 28), datetime.date(2026, 3, 1))])
    """
    return _read(query, [*years], today)[0]


_OUTSIDE = re.compile(r"(?<![\w/=.:+-])(?=\S)")
"""Where a date may begin that is no part of a path, an address or a line of a log."""


def said_dates(text: str) -> list[str]:
    """Return the days that a text names, as terms: with the year if it says one, and without.

    Those in a path and in the time of a line of a log are none.

    >>> said_dates("Until 30 September 2026, at 2026-09-01T00:00"), said_dates("May 5")
    (['day20260930', 'day0930'], ['day0505'])
    """
    days: list[str] = []

    def add(found: Days | None, *, year: bool) -> None:
        if found and found[1] - found[0] == _DAY:
            days.extend([f"day{found[0]:%Y%m%d}"] if year else [])
            days.append(f"day{found[0]:%m%d}")

    for pattern in (_ISO, _POINTS, _SLASHES, _YEAR_FIRST):
        for match in pattern.finditer(text):
            if _OUTSIDE.match(text, match.start()):
                add(_absolute(pattern, match), year=True)
    for pattern, days_of in ((_NAMED, _named), (_DAY_FIRST, _day_first)):
        for match in pattern.finditer(text):
            for found in days_of(match, [_LEAP]):
                add(found, year=bool(match[5]))
    return list(dict.fromkeys(days))


def names_date(query: str, today: date | None = None) -> bool:
    """Tell whether a query names a date, of whatever year.

    >>> names_date("What was on February 29?"), names_date("What was on February 30?")
    (True, False)
    """
    return bool(_read(query, [_LEAP], today)[0])


def undated(query: str, today: date | None = None) -> str:
    """Return a query without its dates: a text of that day need not name it.

    >>> undated("What did James say in April?").split()
    ['What', 'did', 'James', 'say', '?']
    """
    return _read(query, [_LEAP], today)[1]


def _read(query: str, years: list[int], today: date | None) -> tuple[list[Days], str]:
    """Return the periods that a query names, and the query without them."""
    found: list[Days] = []

    def take(days: Iterable[Days | None], match: re.Match[str]) -> str:
        known = [period for period in days if period]
        found.extend(known)
        return " " if known else match[0]

    def without(pattern: re.Pattern[str], read: Callable[[re.Match[str]], Days | None]) -> str:
        return pattern.sub(lambda match: take([read(match)], match), query)

    query = _DAY_FIRST.sub(lambda match: take(_day_first(match, years), match), query)
    for pattern in (_ISO, _POINTS, _SLASHES, _YEAR_FIRST):
        query = without(pattern, partial(_near, pattern, today))
    query = _NAMED.sub(lambda match: take(_named(match, years), match), query)
    if today:
        for pattern, reading in _RELATIVE:
            if pattern is not _HIER or _FRENCH.search(query):
                query = without(pattern, partial(_relative, reading, today))
    if not found:
        query = without(_YEAR, partial(_absolute, _YEAR))
    return list(dict.fromkeys(found)), query


UNDATED = "undated"
"""Stands for the time of a turn that was adopted from messages that carry none."""


def stamp() -> str:
    """Return the current time as ISO 8601 in UTC with milliseconds: `2026-01-31T09:30:00.000Z`."""
    return stamped(datetime.now(UTC))


def stamped(moment: datetime) -> str:
    """Return a time in the form of `stamp`; one without a time zone is in UTC.

    >>> stamped(datetime(2026, 1, 31, 9, 30))
    '2026-01-31T09:30:00.000Z'
    """
    moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def day_of(at: str) -> str:
    """Return the date of a time from `stamp`, "undated" for none.

    >>> day_of("2026-01-31T09:30:00.000Z"), day_of("")
    ('2026-01-31', 'undated')
    """
    return at.partition("T")[0] or UNDATED


def minute_of(at: str) -> str:
    """Return the minute of a time from `stamp`, "undated" for none.

    >>> minute_of("2026-01-31T09:30:00.000Z"), minute_of("")
    ('2026-01-31 09:30 UTC', 'undated')
    """
    return f"{at[:16].replace('T', ' ')} UTC" if at else UNDATED
