"""What was agreed, with its due dates, and the owner's calendar by month or by week."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from aiohttp import web
from google.protobuf.timestamp_pb2 import Timestamp
from indai.desk.frame import ROLES, Frame
from indai.desk.show import DAYS, MONTHS
from indai.protocol.errors import InvalidInput, Reason
from indai.v1 import owner_pb2
from indai.web.visit import Visit

PAGE: Final = 50
MOST_IN_A_DAY: Final = 12
YEARS: Final = range(1971, 9998)


@dataclass(frozen=True, slots=True)
class Day:
    """One day of the calendar. `inside`: of the month that is shown."""

    date: date
    inside: bool
    today: bool
    events: Sequence[owner_pb2.CalendarEvent]


class Agreements:
    """Pages of agreements and the calendar."""

    def __init__(self, frame: Frame) -> None:
        self._frame, self._owner = frame, frame.calls.owner

    def routes(self) -> Sequence[web.RouteDef]:
        """What the site serves of it."""
        site = self._frame.site
        return (
            site.member("/desk/commitments", ROLES, self.listed),
            site.member("/desk/calendar", ROLES, self.calendar),
        )

    async def listed(self, visit: Visit) -> web.StreamResponse:
        """The latest due first."""
        request = owner_pb2.ListCommitmentsRequest(
            page_size=PAGE, page_token=visit.request.query.get("page", "")
        )
        answer = await self._owner.ListCommitments(request, metadata=visit.metadata)
        return await self._frame.page(
            visit,
            "commitments.html",
            "/desk/commitments",
            threads=answer.threads,
            more=answer.next_page_token,
        )

    async def calendar(self, visit: Visit) -> web.StreamResponse:
        """A month, or a week with `?week=2026-W48`."""
        show = await self._frame.show(visit)
        today = datetime.fromtimestamp(show.now_ms / 1000, show.zone).date()
        week, month = visit.request.query.get("week", ""), visit.request.query.get("month", "")
        first, last, inside = _week(week) if week else _month(month, today)
        request = owner_pb2.ListEventsRequest(
            start_time=_midnight(first, show.zone), end_time=_midnight(last, show.zone)
        )
        answer = await self._owner.ListEvents(request, metadata=visit.metadata)
        days = [first + timedelta(days=number) for number in range((last - first).days)]
        found = {day: [one for one in answer.events if _touches(one, day, show.zone)] for day in days}
        middle = first + (last - first) / 2
        step = timedelta(days=7) if week else timedelta(days=31)
        anchor = first if week else inside
        name = visit.words(MONTHS[(middle if week else inside).month - 1])
        return await self._frame.page(
            visit,
            "calendar.html",
            "/desk/calendar",
            show=show,
            days=[
                Day(day, week != "" or day.month == inside.month, day == today, found[day]) for day in days
            ],
            day_names=DAYS,
            most=MOST_IN_A_DAY,
            name=f"{name} {(middle if week else inside).year}",
            week=week,
            before=_name(anchor - (step if week else timedelta(days=1)), week=bool(week)),
            after=_name(anchor + step, week=bool(week)),
            other=_name(today if inside.month == today.month else inside, week=not week),
        )


def _month(text: str, today: date) -> tuple[date, date, date]:
    """First and last day shown (whole weeks), and the first of the month."""
    year, _, number = text.partition("-")
    first = today.replace(day=1)
    if text:
        try:
            first = date(int(year), int(number), 1)
        except ValueError:
            raise _no_time("a month", "2026-11") from None
        if first.year not in YEARS:
            raise _no_time("a month", "2026-11")
    start = first - timedelta(days=first.weekday())
    after = (first + timedelta(days=31)).replace(day=1)
    return start, after + timedelta(days=-after.weekday() % 7), first


def _week(text: str) -> tuple[date, date, date]:
    """Monday, the Monday after, and Monday again."""
    year, _, number = text.partition("-W")
    try:
        monday = date.fromisocalendar(int(year), int(number), 1)
    except ValueError:
        raise _no_time("a week", "2026-W48") from None
    if monday.year not in YEARS:
        raise _no_time("a week", "2026-W48")
    return monday, monday + timedelta(days=7), monday


def _name(day: date, *, week: bool) -> str:
    """`week=2026-W48` or `month=2026-11`."""
    year, number, _ = day.isocalendar()
    return f"week={year}-W{number:02}" if week else f"month={day.year}-{day.month:02}"


def _midnight(day: date, zone: ZoneInfo) -> Timestamp:
    return Timestamp(seconds=int(datetime.combine(day, time(), zone).timestamp()))


def _touches(event: owner_pb2.CalendarEvent, day: date, zone: ZoneInfo) -> bool:
    start, end = _midnight(day, zone).seconds, _midnight(day + timedelta(days=1), zone).seconds
    return event.start_time.seconds < end and event.end_time.seconds > start


def _no_time(what: str, example: str) -> InvalidInput:
    return InvalidInput(Reason.INVALID_ARGUMENT, f"That is not {what}.", hint=f"write it like {example}")
