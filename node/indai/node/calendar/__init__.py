"""The owner's calendars: iCalendar files and CalDAV accounts, read as busy times and written as meetings.

Values are milliseconds since the epoch; intervals are half-open, `[start_ms, end_ms)`. Everything but
`file`, `dav` and `caldav` is pure: no clock, no file, no network.
"""

from __future__ import annotations

from indai.node.calendar.busy import Calendar, CalendarEvent, read_busy
from indai.node.calendar.caldav import CalDavCalendar
from indai.node.calendar.file import CalendarFile
from indai.node.calendar.meeting import MeetingEvent
from indai.node.calendar.slots import Interval, candidate_windows, free_slots, intersect, merge, subtract
from indai.node.calendar.source import Source, Together
from indai.tools.period import Period, fit_period, parse_period

__all__ = [
    "CalDavCalendar",
    "Calendar",
    "CalendarEvent",
    "CalendarFile",
    "Interval",
    "MeetingEvent",
    "Period",
    "Source",
    "Together",
    "candidate_windows",
    "fit_period",
    "free_slots",
    "intersect",
    "merge",
    "parse_period",
    "read_busy",
    "subtract",
]
