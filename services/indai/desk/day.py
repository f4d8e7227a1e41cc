"""The owner's day, under Settings: the time zone, when they like to meet, and their quiet hours.

The time zone is a line of the owner's rules, since the hours in them are meant in it; nothing else of the
text changes. How they like to meet is kept by the calendar service, quiet hours are a gate of their goals:
what the agent does next is done under them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final
from zoneinfo import available_timezones

from aiohttp import web
from indai.desk.frame import ROLES, Frame
from indai.desk.rules import active
from indai.policy.language import parse
from indai.protocol.errors import InvalidInput, NotFound, Reason
from indai.v1 import calendar_pb2, goals_pb2, owner_pb2
from indai.v1.calendar_pb2 import DayHours
from indai.web.visit import Visit

ROWS: Final = 108
"""Spans of a week that one form has: all that may be kept, a blank one for each day, and one more."""
MIDNIGHT: Final = 1_440
CHANGES: Final = (
    (calendar_pb2.ON_CALENDAR_CHANGE_ASK, "Ask me what to tell them"),
    (calendar_pb2.ON_CALENDAR_CHANGE_TELL, "Tell them at once"),
    (calendar_pb2.ON_CALENDAR_CHANGE_IGNORE, "Do nothing"),
)
"""What a meeting that the owner moved in their own calendar leads to."""
_HOME: Final = "/desk/settings"
_CLOCK: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
_ZONE: Final = re.compile(r"""^(timezone:[ \t]*)(?:"[^"\n]*"|'[^'\n]*'|[^\s#]+)""", re.MULTILINE)
_NUMBERS: Final = {
    "before": "buffer_before_minutes",
    "after": "buffer_after_minutes",
    "notice": "notice_minutes",
    "most": "max_per_day",
    "remind": "reminder_minutes",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One span of a week in the form: a weekday (1 is Monday) and two times of it, empty for none."""

    day: int
    start: str = ""
    end: str = ""


class Day:
    """The acts; the page is that of Settings."""

    def __init__(self, frame: Frame) -> None:
        self._frame, self._calls = frame, frame.calls

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        site = self._frame.site
        return (
            site.act("/desk/settings/zone", ROLES, self.zone),
            site.act("/desk/settings/meetings", ROLES, self.meetings),
            site.act("/desk/settings/quiet", ROLES, self.quiet),
        )

    async def shown(self, visit: Visit) -> dict[str, Any]:
        """What the page needs to show of it."""
        meets = await self._meets(visit)
        gates = await gates_of(self._frame, visit)
        return {
            "meets": meets,
            "hours": rows_of(meets.hours),
            "best": rows_of(meets.preferred),
            "morning": clock_of(meets.morning_minute) if meets.morning_minute else "",
            "on_changes": CHANGES,
            "gates": gates,
            "quiet": (clock_of(gates.quiet_from_minute), clock_of(gates.quiet_until_minute)),
            "zones": zones(),
        }

    async def zone(self, visit: Visit) -> web.StreamResponse:
        """Another time zone, as a version of the rules of its own."""
        zone = visit.said("zone", most=60)
        if zone not in zones():
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                "There is no such time zone.",
                hint="choose one of the list, like Asia/Kolkata",
            )
        now = await active(self._frame, visit)
        if now is None:
            raise NotFound(Reason.NOT_FOUND, "You have no rules yet.", hint="begin with a template")
        request = owner_pb2.ActivatePolicyRequest(yaml=with_zone(now.version.yaml, zone))
        await self._calls.owner.ActivatePolicy(request, metadata=visit.metadata)
        return visit.go(_HOME, "saved")

    async def meetings(self, visit: Visit) -> web.StreamResponse:
        """All that the form has; ways between places stay as they are."""
        wanted = await self._meets(visit)
        for field, name in _NUMBERS.items():
            setattr(wanted, name, _number(visit, field))
        wanted.morning_minute = minute_of(visit, "morning") if visit.said("morning") else 0
        chosen = visit.said("on_change")
        if chosen not in {str(each) for each, _ in CHANGES}:
            raise InvalidInput(Reason.INVALID_ARGUMENT, "What a moved meeting leads to is one of the list.")
        wanted.on_change = calendar_pb2.OnCalendarChange.ValueType(int(chosen))
        for name, kept in (("hours", wanted.hours), ("best", wanted.preferred)):
            del kept[:]
            kept.extend(_spans(visit, name))
        request = calendar_pb2.SetMeetSettingsRequest(settings=wanted)
        await self._calls.calendars.SetMeetSettings(request, metadata=visit.metadata)
        return visit.go(_HOME, "saved")

    async def quiet(self, visit: Visit) -> web.StreamResponse:
        """Quiet hours, and how often a day the agent may come unasked; its consent stays as it is."""
        gates = await gates_of(self._frame, visit)
        gates.quiet_from_minute = minute_of(visit, "from")
        gates.quiet_until_minute = minute_of(visit, "until")
        gates.most_per_day = _number(visit, "most")
        await self._calls.goals.SetGoalGates(
            goals_pb2.SetGoalGatesRequest(gates=gates), metadata=visit.metadata
        )
        return visit.go(_HOME, "saved")

    async def _meets(self, visit: Visit) -> calendar_pb2.MeetSettings:
        request = calendar_pb2.GetMeetSettingsRequest()
        return (await self._calls.calendars.GetMeetSettings(request, metadata=visit.metadata)).settings


async def gates_of(frame: Frame, visit: Visit) -> goals_pb2.GoalGates:
    """What holds the owner's agent back from doing anything unasked."""
    request = goals_pb2.GetGoalGatesRequest()
    return (await frame.calls.goals.GetGoalGates(request, metadata=visit.metadata)).gates


@cache
def zones() -> tuple[str, ...]:
    """Time zones that are called after a place, and UTC."""
    return ("UTC", *sorted(name for name in available_timezones() if "/" in name and name[:3] != "Etc"))


def with_zone(text: str, zone: str) -> str:
    """Rules in another time zone, every other letter as it was. Raises InvalidInput for rules whose zone does
    not stand on a line of its own."""
    changed = _ZONE.sub(lambda found: found[1] + zone, text, count=1)
    if parse(changed) != replace(parse(text), time_zone=zone):
        raise InvalidInput(
            Reason.INVALID_POLICY,
            "The time zone of your rules cannot be changed from here.",
            hint="write it as a line `timezone: Asia/Kolkata` in the text of your rules",
        )
    return changed


def rows_of(spans: Iterable[DayHours]) -> list[Row]:
    """The rows of a form: each span, one to fill in for every other weekday, in the order of the week."""
    rows = [Row(each.weekday, clock_of(each.start_minute), clock_of(each.end_minute)) for each in spans]
    rows += [Row(day) for day in range(1, 8) if day not in {row.day for row in rows}]
    return sorted(rows, key=lambda row: (row.day, row.start))


def clock_of(minute: int) -> str:
    """`09:30`; the end of a day is the `00:00` after it."""
    return f"{minute // 60 % 24:02}:{minute % 60:02}"


def minute_of(visit: Visit, field: str) -> int:
    """The minute of the day in a field of the form. Raises InvalidInput."""
    found = _CLOCK.fullmatch(visit.said(field, most=20))
    if found is None:
        raise _wrong(field, "a time of the day, like 09:30")
    return int(found[1]) * 60 + int(found[2])


def _number(visit: Visit, field: str) -> int:
    """A whole number in a field of the form; none is 0. What it may be is the service's to say."""
    text = visit.said(field, most=20) or "0"
    if not (text.isascii() and text.isdecimal()) or len(text) > 6:
        raise _wrong(field, "a whole number")
    return int(text)


def _spans(visit: Visit, name: str) -> list[DayHours]:
    """The rows that are filled in."""
    found = []
    for row in range(ROWS):
        day, start, end = (f"{name}-{row}-{part}" for part in ("day", "from", "until"))
        if not (visit.said(start) or visit.said(end)):
            continue
        first, last = minute_of(visit, start), minute_of(visit, end) or MIDNIGHT
        if visit.said(day) not in {str(each) for each in range(1, 8)}:
            raise _wrong(day, "a day of the week, 1 to 7")
        if last <= first:
            raise _wrong(end, f"later than {clock_of(first)}")
        found.append(DayHours(weekday=int(visit.said(day)), start_minute=first, end_minute=last))
    return found


def _wrong(field: str, what: str) -> InvalidInput:
    return InvalidInput(
        Reason.INVALID_ARGUMENT, "The form cannot be read.", hint="go back", fields={field: what}
    )
