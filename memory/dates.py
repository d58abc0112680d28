"""Days: how they are written in a query, which times they are, and how a time is shown."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, date, datetime, timedelta
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

    def includes(self, at: str) -> bool:
        """Tell whether a time is in the period."""
        return self.since <= at and (not self.until or at < self.until)

    def times(self, days: Days) -> tuple[str, str]:
        """Return the times at which a period begins and ends."""
        return instant(days[0], self.zone), instant(days[1], self.zone)


def local(at: str, zone: str = "") -> datetime:
    """Return a stored time as the clocks of a time zone show it.

    >>> str(local("2026-05-04T23:30:00.000Z", "Asia/Tokyo"))
    '2026-05-05 08:30:00+09:00'
    """
    return datetime.fromisoformat(at).astimezone(ZoneInfo(zone) if zone else None)


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
    "january|jan",
    "february|feb",
    "march|mar",
    "april|apr",
    "may",
    "june|jun",
    "july|jul",
    "august|aug",
    "september|sept|sep",
    "october|oct",
    "november|nov",
    "december|dec",
)
_NUMBERS = {name: at for at, names in enumerate(_MONTHS, 1) for name in names.split("|")}
_AMBIGUOUS = frozenset({"march", "may", "mar", "jan", "dec", "sep", "april"})
"""Months that are words or names too: only with a number, or after a word that says so."""


def _any(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_LEADS = re.compile(r"(?i)\b(between|from|since|after|before|until|till) (?:the )?\Z")
"""What stands before a period with an open end, or the first one of two."""

_ORDINAL = r"(\d{1,2})(?:st|nd|rd|th|\.)?(?=\W|$)"
_NAMED = re.compile(
    rf"(?i)\b(?:{_ORDINAL} (?:of )?|(in|of|during|by|last|early|late|mid) )?"
    rf"({_any(_NUMBERS)})\b\.?(?! \d{{1,2}}:)"
    rf"(?: {_ORDINAL})?(?:,? (\d{{4}})\b)?"
)
"""A month with its day and year, before or after it; of "may 5:30" no part is a date."""

_ISO = re.compile(r"\b(\d{4})-(\d\d)(?:-(\d\d))?\b(?![-\w])")
_POINTS = re.compile(r"(?<![\w.])(\d{1,2})\.(\d{1,2})\.(\d{4})\b(?!\.\w)")
_SLASHES = re.compile(r"(?<![\w/.])(\d{1,2})/(\d{1,2})/(\d{4})\b(?!/)")
_YEAR_FIRST = re.compile(r"(?<![\w/.])(\d{4})/(\d{1,2})/(\d{1,2})\b(?![/\w])")
_YEAR = re.compile(
    r"(?i)\b(?:(?:in|of|during|year) |(?<=since )|(?<=after )|(?<=before )|(?<=until ))"
    r"((?:19|20)\d\d)\b(?!-)"
)
"""Other numbers of four digits are ports, prices and counts."""

_NUMERALS = "one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905 (reads as a list of words)
_COUNTS = {"a": 1, "an": 1} | {word: at for at, word in enumerate(_NUMERALS, 1)}
_PLACES = ("first", "second", "third", "fourth")
_COUNT, _UNIT = rf"(?:\d{{1,3}}|{_any(_COUNTS)})", "(?:day|week|month|year)"
_WEEK_OF = re.compile(
    rf"(?i)\b(?:the )?({_any(_PLACES)}|last) week (?:of|in) "
    rf"(?:({_any(_NUMBERS)})\b,? ?)?(\d{{4}})?\b"
)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WHICH = "(?:last|previous|this)"
_RELATIVE = re.compile(
    rf"(?i)\b(?:(?P<number>{_COUNT}) (?P<ago>{_UNIT})s? ago|"
    rf"(?:in )?(?:the )?(?:(?:past|last) (?P<many>{_COUNT})|past) (?P<past>{_UNIT})s?|"
    # "Tuesday of last week" is a day, not a week; a weekday needs a word that says that it is a day
    rf"(?:(?P<before>{_WHICH}) week,?(?: on)? |(?P<day>last|on) )?(?P<weekday>{_any(_WEEKDAYS)})\b"
    rf"(?:,?(?: of| in)? (?:the )?(?P<after>{_WHICH}) week)?|"
    rf"(?:in )?(?:the )?(?P<which>{_WHICH}) (?P<unit>{_UNIT}|weekend)|"
    r"(?P<two>(?:the )?day before yesterday)|(?P<one>yesterday|last night)|"
    r"(?P<zero>today|this (?:morning|afternoon|evening)))\b"
)
"""Periods up to the present day ("past week") or before it ("last week", from Monday to Sunday)."""


def _back(today: date, unit: str, back: int) -> Days | None:
    """Return the day, week, weekend, month or year so many of them before the present one."""
    if unit == "month":
        at = today.year * 12 + today.month - 1 - back
        return _period(at // 12, at % 12 + 1)
    if unit == "year":
        return _period(today.year - back)
    if unit == "day":
        first = today - timedelta(days=back)
        return first, first + _DAY
    first = today - timedelta(days=today.weekday()) - back * _WEEK
    return (first if unit == "week" else first + 5 * _DAY), first + _WEEK


def _count(number: str) -> int:
    return _COUNTS.get(number) or int(number)


_Reading: TypeAlias = Callable[[re.Match[str], Sequence[int], date], Sequence[Days | None]]
"""Reads a match: without a year, for each of some years; the present day tells relative ones."""


def _numbers(match: re.Match[str], _: Sequence[int], __: date) -> list[Days | None]:
    """Read a date in numbers; one with slashes has the month first, unless it is above 12."""
    numbers = [int(part) for part in match.groups() if part]
    if match.re is _POINTS:
        numbers.reverse()
    elif match.re is _SLASHES:
        first, second, year = numbers
        numbers = [year, first, second] if first <= 12 else [year, second, first]  # noqa: PLR2004 (months)
    return [_period(*numbers)]


def _lead(text: str, end: int, begin: int = 0) -> re.Match[str] | None:
    return _LEADS.search(text, max(begin, end - len("between the ")), end)


def _of_month(match: re.Match[str], years: Sequence[int], _: date) -> list[Days | None]:
    before, word, month, after, year = match.groups()
    led = word or _lead(match.string, match.start())
    if month.lower() in _AMBIGUOUS and not (before or led or after or year):
        return []
    day = int(before or after) if before or after else None
    return [_period(y, _NUMBERS[month.lower()], day) for y in ([int(year)] if year else years)]


def _week_of(match: re.Match[str], years: Sequence[int], _: date) -> list[Days | None]:
    which, month, year = match.groups()
    weeks = list[Days | None]()
    for one in ([int(year)] if year else years) if month or year else ():
        if days := _period(one, _NUMBERS[month.lower()] if month else None):
            at = days[1] - _WEEK if which.lower() == "last" else days[0]
            at += _WEEK * (_PLACES.index(which.lower()) if which.lower() in _PLACES else 0)
            weeks.append((at, at + _WEEK))
    return weeks


_LENGTHS = {"day": 1, "week": 7, "month": 30, "year": 365}


def _relative(match: re.Match[str], _: Sequence[int], today: date) -> list[Days | None]:
    said = {name: text.lower() for name, text in match.groupdict().items() if text}
    if "ago" in said:
        return [_back(today, said["ago"], _count(said["number"]))]
    if "past" in said:
        days = _LENGTHS[said["past"]] * _count(said.get("many", "a"))
        return [(today - timedelta(days=days), today + _DAY)]
    if "unit" in said:
        return [_back(today, said["unit"], int(said["which"] != "this"))]
    if "weekday" not in said:
        return [_back(today, "day", ("zero", "one", "two").index(next(iter(said))))]
    back = today.weekday() - _WEEKDAYS.index(said["weekday"])
    if week := said.get("before") or said.get("after"):
        return [_back(today, "day", back + 7 * (week != "this"))]
    is_day = "day" in said or _lead(match.string, match.start())
    is_all = match.string.strip(" ,.?!") == match[0]
    return [_back(today, "day", back % 7 or 7)] if is_day or is_all else []


_ABSOLUTE = (_ISO, _POINTS, _SLASHES, _YEAR_FIRST)


def dates(query: str, years: Iterable[int] = (_LEAP,), today: date | None = None) -> list[Days]:
    """Return the periods that a query names; a month without a year is of each of `years`.

    The default, a leap year, serves to tell whether it names any.

    >>> dates("What did James say in April?", [2025])
    [(datetime.date(2025, 4, 1), datetime.date(2025, 5, 1))]
    >>> dates("you may go on", [2026]), dates("yesterday", today=date(2026, 3, 1))
    ([], [(datetime.date(2026, 2, 28), datetime.date(2026, 3, 1))])
    >>> dates("between March 3 and March 10", [2026])
    [(datetime.date(2026, 3, 3), datetime.date(2026, 3, 11))]
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
    for pattern in (*_ABSOLUTE, _NAMED):
        for match in pattern.finditer(text):
            if pattern is not _NAMED and not _OUTSIDE.match(text, match.start()):
                continue
            for found in (_of_month if pattern is _NAMED else _numbers)(match, [_LEAP], date.max):
                if found and found[1] - found[0] == _DAY:
                    has_year = pattern is not _NAMED or match[5]
                    days += [f"day{found[0]:%Y%m%d}"] if has_year else []
                    days.append(f"day{found[0]:%m%d}")
    return list(dict.fromkeys(days))


def undated(query: str, today: date | None = None) -> str:
    """Return a query without its dates: a text of that day need not name it.

    >>> undated("What did James say in April?").split()
    ['What', 'did', 'James', 'say', '?']
    """
    return _read(query, [_LEAP], today)[1]


_JOINS = re.compile(r"(?i),? ?\b(and|to|until|till) (?:the )?| ?[-–] ?")


def _read(query: str, years: Sequence[int], today: date | None) -> tuple[list[Days], str]:
    found: list[tuple[int, int, list[Days]]] = []
    patterns: list[tuple[re.Pattern[str], _Reading]] = [(one, _numbers) for one in _ABSOLUTE]
    patterns += [
        (_WEEK_OF, _week_of),
        (_NAMED, _of_month),
        *([(_RELATIVE, _relative)] if today else []),
    ]
    for pattern, read in (*patterns, (_YEAR, _numbers)):

        def taken(match: re.Match[str], read: _Reading = read) -> str:
            days = [one for one in read(match, years, today or date.max) if one]
            if days:
                found.append((match.start(), match.end(), days))
            return "\0" * len(match[0]) if days else match[0]  # places stay what they are

        if pattern is not _YEAR or not found:
            query = pattern.sub(taken, query)
    return _ranges(query, sorted(found), today)


def _ranges(
    text: str, found: list[tuple[int, int, list[Days]]], today: date | None
) -> tuple[list[Days], str]:
    """Return the periods, with those that words join or open, and the text without any of them."""
    periods, rest, at = list[Days](), "", 0
    while found:
        begin, end, days = found.pop(0)
        lead = _lead(text, begin, at)
        word = lead[1].lower() if lead else ""
        joined = _JOINS.fullmatch(text, end, found[0][0]) if found else None
        if joined and (joined[1] != "and" or word == "between"):
            _, end, last = found.pop(0)
            # Of those without a year the nearest ones.
            firsts = [[first for first, _ in days if first < until] for _, until in last]
            both = [(max(one), until) for one, (_, until) in zip(firsts, last, strict=True) if one]
            days = both or [*days, *last]
        elif word not in {"", "between", "from"}:
            # Without a year the last one that has begun.
            first, until = ([one for one in days if today and one[0] <= today] or days)[-1]
            is_after = word in {"since", "after"}
            begins, ends = (
                (until if word == "after" else first),
                (first if word == "before" else until),
            )
            days = [(begins, date.max) if is_after else (date.min, ends)]
        periods += days
        rest += text[at : lead.start() if lead else begin] + " "
        at = end
    return list(dict.fromkeys(periods)), rest + text[at:]


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
