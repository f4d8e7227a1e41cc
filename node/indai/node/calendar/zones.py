"""Time zones of a calendar file: names first, then the file's own VTIMEZONE.

Real files name a zone in four ways: the IANA name ("Asia/Kolkata"), the Windows name ("India Standard
Time"), a globally unique id that ends in the IANA name ("/mozilla.org/20050126_1/Europe/Paris"), and a name
of the program's own that only the VTIMEZONE beside it explains. A zone nobody can explain is an error: read
as the owner's own time, it would shift every meeting in silence. Zones of one file never leak into another.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from icalendar.timezone.windows_to_olson import WINDOWS_TO_OLSON
from indai.node.calendar.content import Component, Property, invalid
from indai.node.calendar.recurrence import Budget, BudgetSpent, Rule, occurrences, parse_rule
from indai.protocol.errors import InvalidInput

# No zone has changed its clocks nearly so often.
MAX_ONSETS = 2_000
# Days looked at to place the changes of one zone: twenty yearly rules over a century, and then some.
_STEPS_PER_ZONE = 1_000_000
_STAMP = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z)?)?$")
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)(?::?(\d\d))?$")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_ZERO = timedelta(0)


class Zone(Protocol):
    """Turns a local time into an instant."""

    def offset(self, local: datetime) -> timedelta:
        """The UTC offset at a naive local time; the earlier reading where the clock shows a time twice."""


@dataclass(frozen=True, slots=True)
class NamedZone:
    """A zone of the IANA database."""

    info: ZoneInfo

    def offset(self, local: datetime) -> timedelta:
        """See `Zone`."""
        return local.replace(tzinfo=self.info).utcoffset() or _ZERO


@dataclass(frozen=True, slots=True)
class Observance:
    """A STANDARD or DAYLIGHT part of a VTIMEZONE: from each onset (in the wall time before it) on, `after`
    holds."""

    onsets: tuple[datetime, ...]
    before: timedelta
    after: timedelta
    rule: Rule | None


class FileZone:
    """A zone defined by a VTIMEZONE (RFC 5545 section 3.6.5)."""

    def __init__(self, observances: Iterable[Observance]) -> None:
        self._observances = tuple(observances)
        self._budget = Budget(_STEPS_PER_ZONE)
        self._tables: dict[int, list[tuple[datetime, timedelta]]] = {}
        self._years: dict[int, list[tuple[datetime, timedelta, timedelta]]] = {}
        self._fixed = [(onset, o.before, o.after) for o in self._observances for onset in o.onsets]
        # A rule that has ended keeps its last change in force, however many years ago.
        for ended in {
            o.rule.until.year for o in self._observances if o.rule is not None and o.rule.until is not None
        }:
            self._fixed += [*self._in_year(ended - 1), *self._in_year(ended)]

    def offset(self, local: datetime) -> timedelta:
        """See `Zone`. Raises BudgetSpent when the file's rules are absurd."""
        changes = self._changes(local.year)
        passed = bisect_right(changes, local, key=lambda change: change[0])
        return changes[passed - 1][1] if passed else min(self._fixed)[1]

    def _changes(self, year: int) -> list[tuple[datetime, timedelta]]:
        """The changes that matter in a year, in order: the last one before it, and its own."""
        if year not in self._tables:
            self._budget.spend(len(self._fixed))
            known = [*self._fixed, *self._in_year(year - 1), *self._in_year(year)]
            # In a skipped hour the offset before it still holds: a forward change counts from the hour's end.
            ordered = sorted((onset + max(after - before, _ZERO), after) for onset, before, after in known)
            begin = datetime(year, 1, 1)  # noqa: DTZ001 - local by definition
            past = bisect_right(ordered, begin, key=lambda change: change[0])
            self._tables[year] = ordered[max(past - 1, 0) :]
        return self._tables[year]

    def _in_year(self, year: int) -> list[tuple[datetime, timedelta, timedelta]]:
        """Changes of that year by the yearly rules, kept: a calendar asks for the same few years again and
        again."""
        if year not in self._years:
            begin, end = datetime(year, 1, 1), datetime(year + 1, 1, 1)  # noqa: DTZ001 - local by definition
            self._years[year] = [
                (onset, o.before, o.after)
                for o in self._observances
                if o.rule is not None
                for onset in occurrences(o.rule, o.onsets[0], begin, end, self._budget)
            ]
        return self._years[year]


UTC_ZONE = NamedZone(ZoneInfo("UTC"))


class Zones:
    """The zones one calendar file may name. `owner` is the zone of floating times and of all-day events."""

    def __init__(self, owner: ZoneInfo, definitions: Iterable[Component] = ()) -> None:
        self.owner = NamedZone(owner)
        self._defined: dict[str, Component] = {}
        self._found: dict[str, Zone] = {}
        for definition in definitions:
            tzid = definition.one("TZID")
            if tzid is None:
                raise invalid("a VTIMEZONE without TZID", definition.line)
            self._defined[tzid.value] = definition

    def find(self, prop: Property) -> Zone:
        """The zone of a property's TZID, or the owner's zone when it has none."""
        tzid = prop.params.get("TZID")
        if not tzid:
            return self.owner
        if tzid not in self._found:
            zone = _named(tzid) or self._from_definition(tzid)
            if zone is None:
                hint = "Use an IANA name such as Asia/Kolkata, or add the VTIMEZONE that defines it."
                raise invalid(f"the time zone {tzid[:60]!r} is unknown", prop.line, hint)
            self._found[tzid] = zone
        return self._found[tzid]

    def _from_definition(self, tzid: str) -> Zone | None:
        definition = self._defined.get(tzid)
        if definition is None:
            return None
        location = definition.one("X-LIC-LOCATION")
        named = _named(location.value) if location else None
        if named is not None:
            return named
        try:
            return _file_zone(definition)
        except BudgetSpent as error:
            raise _absurd(definition.line) from error


@lru_cache(maxsize=1024)
def _named(tzid: str) -> NamedZone | None:
    """An IANA or Windows name, also at the end of a globally unique id."""
    name = tzid.strip().strip("/")
    parts = name.split("/")
    tails = ["/".join(parts[i:]) for i in range(1, len(parts))] if tzid.startswith("/") else []
    for candidate in (name, WINDOWS_TO_OLSON.get(name, ""), *tails):
        try:
            if candidate:
                return NamedZone(ZoneInfo(candidate))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            continue
    return None


def _file_zone(definition: Component) -> FileZone:
    parts = [child for child in definition.children if child.name in ("STANDARD", "DAYLIGHT")]
    if not parts:
        raise invalid("a VTIMEZONE needs a STANDARD or DAYLIGHT part", definition.line)
    observances = [_observance(part) for part in parts]
    if sum(len(o.onsets) for o in observances) > MAX_ONSETS:
        raise _absurd(definition.line)
    return FileZone(observances)


def _observance(part: Component) -> Observance:
    start, before, after = (part.one(name) for name in ("DTSTART", "TZOFFSETFROM", "TZOFFSETTO"))
    if start is None or before is None or after is None:
        raise invalid(f"{part.name} needs DTSTART, TZOFFSETFROM and TZOFFSETTO", part.line)
    extra = [(value, rdate.line) for rdate in part.all("RDATE") for value in rdate.value.split(",")]
    onsets = tuple(parse_stamp(text, line)[0] for text, line in [(start.value, start.line), *extra])
    return Observance(onsets, _offset(before), _offset(after), _zone_rule(part, _offset(before)))


def _zone_rule(part: Component, before: timedelta) -> Rule | None:
    prop = part.one("RRULE")
    if prop is None:
        return None

    def until(text: str) -> datetime:
        moment, is_utc = parse_stamp(text, prop.line)
        return moment + before if is_utc else moment

    try:
        rule = parse_rule(prop.value, until)
    except (ValueError, OverflowError) as error:
        raise invalid(str(error), prop.line) from error
    if rule.freq != "YEARLY" or rule.count is not None or rule.interval != 1:
        raise invalid("a time zone changes by a rule for every year, without COUNT", prop.line)
    return rule


def _offset(prop: Property) -> timedelta:
    match = _OFFSET.match(prop.value)
    if match is None or int(match[2]) > 23 or int(match[3]) > 59:
        raise invalid(f"{prop.name} is no offset", prop.line)
    size = timedelta(hours=int(match[2]), minutes=int(match[3]), seconds=int(match[4] or 0))
    return -size if match[1] == "-" else size


def parse_stamp(text: str, line: int) -> tuple[datetime, bool]:
    """A DATE or DATE-TIME as (naive time, whether it is UTC); a date is its midnight. Raises InvalidInput."""
    match = _STAMP.match(text.strip())
    try:
        if match is None:
            raise ValueError
        year, month, day = int(match[1]), int(match[2]), int(match[3])
        hour, minute, second = int(match[4] or 0), int(match[5] or 0), int(match[6] or 0)
        moment = datetime(year, month, day, hour, minute, min(second, 59))  # noqa: DTZ001 - local by definition
        if second > 60 or not 1 < year < 9900:
            raise ValueError
    except ValueError as error:
        raise invalid(f"{text[:40]!r} is no date or time", line) from error
    return moment, match[7] is not None


def to_ms(local: datetime, zone: Zone) -> int:
    """The instant, in ms since the epoch, at which clocks of that zone show a naive local time."""
    try:
        offset = zone.offset(local)
    except BudgetSpent as error:
        raise _absurd(1) from error
    return (local.replace(tzinfo=UTC) - offset - _EPOCH) // _MILLISECOND


def _absurd(line: int) -> InvalidInput:
    return invalid("a time zone of this file has far more changes than any zone", line)


def from_utc(moment: datetime, zone: Zone) -> datetime:
    """The naive local time of a naive UTC time; beside a clock change, the later of the two readings."""
    try:
        first = moment + zone.offset(moment)
        return max(first, moment + zone.offset(first))
    except BudgetSpent as error:
        raise _absurd(1) from error


def to_local(instant_ms: int, zone: ZoneInfo) -> datetime:
    """The naive local time at an instant."""
    return (_EPOCH + instant_ms * _MILLISECOND).astimezone(zone).replace(tzinfo=None)
