"""`indai calendar prefer`: when an owner likes to meet."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import click
from indai.cli.errors import wrong
from indai.cli.framework import command, run
from indai.cli.home import Home, as_option
from indai.cli.output import Page, emit
from indai.cli.session import owner_session
from indai.cli.words import length
from indai.v1 import calendar_pb2
from indai.v1.calendar_pb2 import DayHours, MeetSettings, Travel

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
ON_CHANGE = {
    "ask": calendar_pb2.ON_CALENDAR_CHANGE_ASK,
    "tell": calendar_pb2.ON_CALENDAR_CHANGE_TELL,
    "ignore": calendar_pb2.ON_CALENDAR_CHANGE_IGNORE,
}
_HOURS = re.compile(r"([a-z,-]+) +(\d\d?)(?::(\d\d))?-(\d\d?)(?::(\d\d))?")
_TRAVEL = re.compile(r"(.*)\|(.*)=(.+)")


@command(
    "prefer",
    "indai calendar prefer",
    'indai calendar prefer --hours "mon-fri 9-18" --best "tue,thu 10-12" --before 10m',
    'indai calendar prefer --travel "office|airport=1h" --travel "|=20m" --notice 2h',
)
@click.option("--hours", metavar="HOURS", multiple=True, help='When you meet: "mon-fri 9:00-18:00".')
@click.option("--best", metavar="HOURS", multiple=True, help="When you like it best.")
@click.option("--before", metavar="LENGTH", help="Free time before a meeting.")
@click.option("--after", metavar="LENGTH", help="Free time after a meeting.")
@click.option("--travel", metavar="HERE|THERE=LENGTH", multiple=True, help="A way; empty is anywhere.")
@click.option("--notice", metavar="LENGTH", help="From now to the earliest start.")
@click.option("--remind", metavar="LENGTH", help="Before the start, of meetings agreed later; 0: never.")
@click.option("--morning", metavar="HH:MM", help="When you hear what the day brings; never: not at all.")
@click.option("--per-day", type=click.IntRange(0, 100), help="Agreed meetings a day; 0: any.")
@click.option("--on-change", type=click.Choice(sorted(ON_CHANGE)), help="When you move a meeting.")
@click.option("--clear", is_flag=True, help="Forget everything first.")
@as_option
def prefer(
    home: Home,
    acting: str,
    hours: Sequence[str],
    best: Sequence[str],
    before: str | None,
    after: str | None,
    travel: Sequence[str],
    notice: str | None,
    remind: str | None,
    morning: str | None,
    per_day: int | None,
    on_change: str | None,
    clear: bool,
) -> None:
    """Say when you like to meet; without options, show what you said.

    Hours are those of your time zone. Your policy holds besides. What is not
    named stays as it is; a length of 0 is none.
    """

    def change(settings: MeetSettings) -> bool:
        named = (hours, best, before, after, travel, notice, remind, morning, per_day, on_change, clear)
        if clear:
            settings.Clear()
        _replace(settings.hours, [each for text in hours for each in day_hours(text)])
        _replace(settings.preferred, [each for text in best for each in day_hours(text)])
        _replace(settings.travel, [_travel(text) for text in travel])
        for field, text in (
            ("buffer_before_minutes", before),
            ("buffer_after_minutes", after),
            ("notice_minutes", notice),
            ("reminder_minutes", remind),
        ):
            if text is not None:
                setattr(settings, field, _minutes(text))
        if morning is not None:
            settings.morning_minute = _of_day(morning)
        if per_day is not None:
            settings.max_per_day = per_day
        if on_change:
            settings.on_change = ON_CHANGE[on_change]
        return any(each not in (None, False) and each != () for each in named)

    settings = run(_prefer(home, acting, change))
    emit(_json(settings), lambda page: _show(page, settings))


async def _prefer(home: Home, acting: str, change: Callable[[MeetSettings], bool]) -> MeetSettings:
    async with owner_session(home, acting) as owner:
        settings = (await owner.calendars.GetMeetSettings(calendar_pb2.GetMeetSettingsRequest())).settings
        if not change(settings):
            return settings
        request = calendar_pb2.SetMeetSettingsRequest(settings=settings)
        return (await owner.calendars.SetMeetSettings(request)).settings


def day_hours(text: str) -> list[DayHours]:
    """`mon-fri 9:00-18:00` as hours of each of those days."""
    match = _HOURS.fullmatch(" ".join(text.lower().split()))
    if match is None:
        raise wrong(f"{text!r} is no hours of a week.", 'write them like "mon-fri 9:00-18:00"')
    start, end = (int(match[i]) * 60 + int(match[i + 1] or 0) for i in (2, 4))
    return [DayHours(weekday=day, start_minute=start, end_minute=end) for day in _weekdays(match[1])]


def _weekdays(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first not in DAYS or (last and last not in DAYS):
            raise wrong(f"{part!r} is no weekday.", "write them like mon, mon-fri or tue,thu")
        start, end = DAYS.index(first), DAYS.index(last or first)
        found += [day % 7 + 1 for day in range(start, end + 1 if end >= start else end + 8)]
    return found


def _travel(text: str) -> Travel:
    match = _TRAVEL.fullmatch(text)
    if match is None:
        raise wrong(f"{text!r} is no way.", 'write it like "office|airport=45m"')
    return Travel(here=match[1].strip(), there=match[2].strip(), minutes=_minutes(match[3]))


def _minutes(text: str) -> int:
    return 0 if text.strip() in ("0", "0m") else length(text)


def _of_day(text: str) -> int:
    if text.strip().lower() == "never":
        return 0
    match = re.fullmatch(r"(\d\d?):(\d\d)", text.strip())
    if match is None or int(match[1]) > 23 or int(match[2]) > 59:
        raise wrong(f"{text!r} is no time of a day.", "write it like 8:00, or never")
    return int(match[1]) * 60 + int(match[2])


def _replace(field: object, values: Sequence[object]) -> None:
    if values:
        del field[:]  # type: ignore[attr-defined]
        field.extend(values)  # type: ignore[attr-defined]


def _on_change(settings: MeetSettings) -> str:
    return next((name for name, number in ON_CHANGE.items() if number == settings.on_change), "ask")


def _json(settings: MeetSettings) -> dict[str, object]:
    return {
        "hours": [_hours(each) for each in settings.hours],
        "best": [_hours(each) for each in settings.preferred],
        "before_minutes": settings.buffer_before_minutes,
        "after_minutes": settings.buffer_after_minutes,
        "travel": [{"here": w.here, "there": w.there, "minutes": w.minutes} for w in settings.travel],
        "notice_minutes": settings.notice_minutes,
        "reminder_minutes": settings.reminder_minutes,
        "morning_minute": settings.morning_minute,
        "max_per_day": settings.max_per_day,
        "on_change": _on_change(settings),
    }


def _hours(each: DayHours) -> str:
    return f"{DAYS[each.weekday - 1]} {_clock(each.start_minute)}-{_clock(each.end_minute)}"


def _clock(minute: int) -> str:
    return f"{minute // 60}:{minute % 60:02}"


def _show(page: Page, settings: MeetSettings) -> None:
    ways = [f"{w.here or 'anywhere'} - {w.there or 'anywhere'} {w.minutes} min" for w in settings.travel]
    page.fields(
        [
            ("hours", ", ".join(_hours(each) for each in settings.hours) or "whenever your policy allows"),
            ("best", ", ".join(_hours(each) for each in settings.preferred) or "mon-fri 9:00-18:00"),
            ("before", f"{settings.buffer_before_minutes} min"),
            ("after", f"{settings.buffer_after_minutes} min"),
            ("travel", "; ".join(ways)),
            ("notice", f"{settings.notice_minutes} min"),
            ("reminder", f"{settings.reminder_minutes} min before" if settings.reminder_minutes else "never"),
            ("morning", _clock(settings.morning_minute) if settings.morning_minute else "never"),
            ("a day", str(settings.max_per_day or "any number")),
            ("on change", _on_change(settings)),
        ]
    )
    page.next_step("indai calendar prefer --help")
