"""Finds the times that a sentence speaks of, in English, Hindi and romanised Hindi, seen from when it was
said.

"yesterday", "do din pehle", "पिछले हफ़्ते", "last Sunday", "7 May", "मई में", "2024-05-07", "in 2019". A Hindi
"kal" is yesterday or tomorrow: the verb decides. Days begin in the speaker's time zone, weeks on Monday.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from indai.memory.lexical import words


@dataclass(frozen=True, slots=True)
class Span:
    """From the first moment to before the last, in ms; `words` as they were found."""

    from_ms: int
    to_ms: int
    words: str


def _table(text: str) -> dict[str, int]:
    """`word:number` pairs, or several `word/word:number` for one."""
    pairs = (item.rsplit(":", 1) for item in text.split())
    return {word: int(number) for names, number in pairs for word in words(names.replace("/", " "))}


_DAYS = _table(
    """today/aaj/आज:0 tonight:0 yesterday:-1 tomorrow:1 kal/कल:-1
    parso/parson/परसों/परसो:-2 tomorow:1 yday:-1"""
)
_NUMBERS = _table(
    """a/an/one/ek/एक:1 two/do/दो:2 three/teen/तीन:3 four/char/chaar/चार:4 five/paanch/panch/पाँच/पांच:5
    six/chhe/chah/छह/छः:6 seven/saat/सात:7 eight/aath/आठ:8 nine/nau/नौ:9 ten/das/दस:10"""
)
_UNITS = _table(
    """day/days/din/दिन/दिनों:1 week/weeks/hafta/hafte/hafton/हफ़्ता/हफ़्ते/हफ्ते/सप्ताह:7
    month/months/mahina/mahine/mahino/महीना/महीने/महीनों:30 year/years/saal/sal/साल/वर्ष:365"""
)
_BEFORE = _table("ago/pehle/pahle/पहले/earlier:-1 baad/बाद:1")
_BESIDE = _table(
    """last/pichhle/pichle/pichhli/pichli/पिछले/पिछली/previous:-1 this/is/iss/इस:0
    next/agle/agli/अगले/अगली/coming:1"""
)
_WEEKDAYS = _table(
    """monday/somvaar/somwar/somvar/सोमवार:0
    tuesday/mangalvaar/mangalwar/mangal/मंगलवार:1
    wednesday/budhvaar/budhwar/बुधवार:2
    thursday/guruvaar/guruwar/गुरुवार/बृहस्पतिवार:3 friday/shukravaar/shukrawar/शुक्रवार:4
    saturday/shanivaar/shaniwar/शनिवार:5 sunday/ravivaar/raviwar/itvaar/itwar/रविवार/इतवार:6"""
)
_MONTHS = _table(
    """january/jan/janwari/जनवरी:1 february/feb/farwari/फ़रवरी/फरवरी:2 march/मार्च:3 april/apr/अप्रैल:4 may/मई:5
    june/jun/जून:6 july/jul/julai/जुलाई:7 august/aug/agast/अगस्त:8 september/sept/sep/sitambar/सितंबर/सितम्बर:9
    october/oct/aktubar/अक्टूबर/अक्तूबर:10
    november/nov/navambar/नवंबर/नवम्बर:11 december/dec/disambar/दिसंबर/दिसम्बर:12"""
)
# Words that are months only with a day, a year or a preposition beside them.
_SHY_MONTHS = frozenset({"may", "march", "jan", "sep", "dec", "mar"})
_MONTH_HINTS = frozenset({"in", "since", "last", "next", "this", "of", "mein", "में", "until", "by", "during"})
_FUTURE = re.compile(
    r"(?:(?:un|oon|en|on|e|o|aye|aa)g(?:a|i|e)|(?:ँ|ं|े|ए|ो|ओ|ये)ग(?:ा|ी|े)|होगा|होगी|hoga|hogi|will|shall|going)$"
)
_NUMERIC = re.compile(r"(?<!\d)(?:(\d{4})-(\d{1,2})-(\d{1,2})|(\d{1,2})[/.](\d{1,2})[/.](\d{4}))(?!\d)")
_COUPLE = re.compile(r"\b(?:a )?couple(?: of)?\b")
_YEAR = re.compile(r"(?:19|20)\d\d")
_ORDINAL = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?")


_SAYS_WHEN = (
    (_DAYS.keys() | _BEFORE.keys() | _WEEKDAYS.keys() | _MONTHS.keys() - _SHY_MONTHS | _BESIDE.keys())
    - {"this", "is", "iss", "इस", "coming", "baad", "बाद"}
)  # fmt: skip
_ASKS_WHEN = frozenset({"when", "kab", "कब"})
_ASKS_WHICH = frozenset({"date", "day", "month", "year", "weekday", "tareekh", "तारीख", "तारीख़"})


def asks_when(question: str) -> bool:
    """Whether the answer to a question is a time: "when", "kab", "on which day"."""
    asked = words(question)
    return bool(_ASKS_WHEN & set(asked) or _ASKS_WHICH & set(asked[:4]))


def says_when(text: str) -> bool:
    """Whether a text has a word that names a time; quicker than `spans`."""
    said = words(text)
    return not _SAYS_WHEN.isdisjoint(said) or any(map(_YEAR.fullmatch, said))


def spans(text: str, said_ms: int, zone: str = "UTC", *, ahead: bool = False) -> list[Span]:
    """The times a text speaks of, in the order of its words; [] if none. `ahead`: it speaks of what is to
    come."""
    where = _zone(zone)
    said = datetime.fromtimestamp(said_ms / 1000, where).date()
    plain = _COUPLE.sub("two", " ".join(words(text)))
    found = list(_numeric(text)) or list(_worded(plain.split(), said, ahead))
    return [Span(_ms(first, where), _ms(last, where), seen) for first, last, seen in found]


Found = tuple[date, date, str]


def _numeric(text: str) -> Iterator[Found]:
    for match in _NUMERIC.finditer(text):
        year, month, day, day_first, month_after, year_last = match.groups()
        parts = (year, month, day) if year else (year_last, month_after, day_first)
        start = _date(*(int(part) for part in parts))
        if start is not None:
            yield start, start + timedelta(days=1), match.group()


def _worded(said: Sequence[str], today: date, ahead: bool) -> Iterator[Found]:
    position = 0
    ahead = ahead or any(_FUTURE.search(word) for word in said)
    while position < len(said):
        match = (
            _counted(said, position, today)
            or _beside(said, position, today)
            or _dated(said, position, today, ahead)
            or _named(said, position, today, ahead)
        )
        if match is None:
            position += 1
            continue
        first, last, taken = match
        yield first, last, " ".join(said[position : position + taken])
        position += taken


def _counted(said: Sequence[str], at: int, today: date) -> tuple[date, date, int] | None:
    """ "three weeks ago", "do din pehle"."""
    part = [*said[at : at + 4], "", "", "", ""]
    skip = 1 if part[1] == "of" or (part[0] in ("a", "the") and part[1] in _NUMBERS) else 0
    number = _NUMBERS.get(
        part[skip], int(part[skip]) if part[skip].isdecimal() and len(part[skip]) < 4 else None
    )
    unit = _UNITS.get(part[skip + 1])
    direction = _BEFORE.get(part[skip + 2]) if skip < 2 else None
    if number is None or unit is None or direction is None:
        return None
    start = _shifted(today, unit, direction * number)
    return (start, start + timedelta(days=unit), 3) if start else None


def _beside(said: Sequence[str], at: int, today: date) -> tuple[date, date, int] | None:
    """ "last week", "pichhle Sunday", "अगले महीने"."""
    direction = _BESIDE.get(said[at])
    if direction is None or at + 1 >= len(said):
        return None
    following = said[at + 1]
    if following in _WEEKDAYS:
        offset = (_WEEKDAYS[following] - today.weekday()) % 7
        start = today + timedelta(days=offset - 7 if direction < 0 else offset or 7)
        return start, start + timedelta(days=1), 2
    if following in ("night", "raat", "रात") and direction < 0:
        return today - timedelta(days=1), today, 2
    if following in ("weekend", "वीकेंड"):
        start = today - timedelta(days=today.weekday()) + timedelta(days=5 + 7 * direction)
        return start, start + timedelta(days=2), 2
    unit = _UNITS.get(following)
    return (*_period(today, unit, direction), 2) if unit else None


def _dated(said: Sequence[str], at: int, today: date, ahead: bool) -> tuple[date, date, int] | None:
    """ "7 May 2023", "May 7", "in May", "मई में", "in 2019"."""
    part = [*said[at : at + 4], "", "", ""]
    day = _ORDINAL.fullmatch(part[0])
    if day and part[1] == "of":
        part.pop(1)
    if day and part[1] in _MONTHS:
        year = int(part[2]) if _YEAR.fullmatch(part[2]) else None
        taken = 2 + (said[at + 1] == "of") + (year is not None)
        return _day(_MONTHS[part[1]], int(day.group(1)), year, today, ahead, taken)
    if part[0] in _MONTHS:
        return _month(said, at, today, ahead)
    if _YEAR.fullmatch(part[0]) and at and said[at - 1] in ("in", "since", "year", "सन", "san"):
        return date(int(part[0]), 1, 1), date(int(part[0]) + 1, 1, 1), 1
    return None


def _month(said: Sequence[str], at: int, today: date, ahead: bool) -> tuple[date, date, int] | None:
    number = _MONTHS[said[at]]
    after = [*said[at + 1 : at + 3], "", ""]
    day = _ORDINAL.fullmatch(after[0])
    if day:
        year = int(after[1]) if _YEAR.fullmatch(after[1]) else None
        return _day(number, int(day.group(1)), year, today, ahead, 3 if year else 2)
    year = int(after[0]) if _YEAR.fullmatch(after[0]) else None
    hinted = year or after[0] in _MONTH_HINTS or (at and said[at - 1] in _MONTH_HINTS)
    if said[at] in _SHY_MONTHS and not hinted:
        return None
    start = date(year, number, 1) if year else _nearest(number, 1, today, ahead)
    if start is None:
        return None
    return start, (start + timedelta(days=31)).replace(day=1), 2 if year else 1


def _named(said: Sequence[str], at: int, today: date, ahead: bool) -> tuple[date, date, int] | None:
    """ "yesterday", "कल", "on Monday"."""
    offset = _DAYS.get(said[at])
    if offset is not None:
        if said[at] in ("kal", "कल", "parso", "parson", "परसों", "परसो") and ahead:
            offset = -offset
        start = today + timedelta(days=offset)
        return start, start + timedelta(days=1), 1
    if said[at] in _WEEKDAYS:
        back = (today.weekday() - _WEEKDAYS[said[at]]) % 7
        start = today + timedelta(days=(7 - back) if ahead else -back)
        return start, start + timedelta(days=1), 1
    return None


def _day(
    month: int, day: int, year: int | None, today: date, ahead: bool, taken: int
) -> tuple[date, date, int] | None:
    start = _date(year, month, day) if year else _nearest(month, day, today, ahead)
    return (start, start + timedelta(days=1), taken) if start else None


def _nearest(month: int, day: int, today: date, ahead: bool) -> date | None:
    """The last such day, or the next one if the sentence looks ahead."""
    this = _date(today.year, month, day)
    if this is None:
        return None
    if ahead:
        return this if this >= today else _date(today.year + 1, month, day)
    return this if this <= today else _date(today.year - 1, month, day)


def _period(today: date, unit: int, direction: int) -> tuple[date, date]:
    """The week, month or year before this one, this one, or the next."""
    if unit == 1:
        start = today + timedelta(days=direction)
        return start, start + timedelta(days=1)
    if unit == 7:
        start = today - timedelta(days=today.weekday()) + timedelta(days=7 * direction)
        return start, start + timedelta(days=7)
    if unit == 30:
        count = today.year * 12 + today.month - 1 + direction
        return date(count // 12, count % 12 + 1, 1), date((count + 1) // 12, (count + 1) % 12 + 1, 1)
    return date(today.year + direction, 1, 1), date(today.year + direction + 1, 1, 1)


def _shifted(today: date, unit: int, count: int) -> date | None:
    try:
        return today + timedelta(days=unit * count)
    except OverflowError:
        return None


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo("UTC")


def _ms(day: date, where: ZoneInfo) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=where).astimezone(UTC).timestamp() * 1000)
