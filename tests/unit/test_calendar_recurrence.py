"""The recurrence engine against `dateutil.rrule`, and against hostile rules."""

from __future__ import annotations

from datetime import datetime, timedelta
from time import process_time

import pytest
from dateutil.rrule import rrulestr
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from indai.node.calendar.recurrence import WEEKDAYS, Budget, BudgetSpent, occurrences, parse_rule

FIRST = datetime(2024, 2, 29, 9, 30)  # noqa: DTZ001 - rules run in local time
EVERY_HOUR = ",".join(map(str, range(24)))
EVERY_MINUTE = ",".join(map(str, range(60)))
STAMP = "%Y%m%dT%H%M%S"


def until(text: str) -> datetime:
    return datetime.strptime(text, STAMP)  # noqa: DTZ007 - rules run in local time


def numbers(low: int, high: int, *, signed: bool = False) -> st.SearchStrategy[str]:
    values = st.integers(low, high)
    if signed:
        values = st.one_of(values, values.map(lambda n: -n))
    return st.lists(values, min_size=1, max_size=3, unique=True).map(lambda v: ",".join(map(str, v)))


def weekdays(*, counted: bool) -> st.SearchStrategy[str]:
    """Plain or counted weekdays, not both: the other engine takes `MO,1MO` for the days that are both."""

    def some(nth: list[str]) -> st.SearchStrategy[str]:
        day = st.tuples(st.sampled_from(nth), st.sampled_from(WEEKDAYS)).map("".join)
        return st.lists(day, min_size=1, max_size=3, unique=True).map(",".join)

    return st.one_of(some([""]), some(["1", "2", "-1", "+3", "5"])) if counted else some([""])


@st.composite
def rules(draw: st.DrawFn) -> str:
    freq = draw(st.sampled_from(["YEARLY", "MONTHLY", "WEEKLY", "DAILY"]))
    counted = freq in ("YEARLY", "MONTHLY")
    parts = {"FREQ": freq, "INTERVAL": str(draw(st.integers(1, 4)))}
    options = {"BYMONTH": numbers(1, 12), "BYHOUR": numbers(0, 23), "BYMINUTE": numbers(0, 59)}
    options["BYDAY"] = weekdays(counted=counted)
    if freq != "WEEKLY":
        options["BYMONTHDAY"] = numbers(1, 31, signed=True)
    if freq == "YEARLY":
        options |= {"BYYEARDAY": numbers(1, 366, signed=True), "BYWEEKNO": numbers(1, 53, signed=True)}
    for name in draw(st.lists(st.sampled_from(sorted(options)), max_size=2, unique=True)):
        parts[name] = draw(options[name])
    if len(parts) > 2 and freq != "WEEKLY":
        parts |= draw(st.sampled_from([{}, {"BYSETPOS": "-1"}, {"BYSETPOS": "1,2"}]))
    parts["WKST"] = draw(st.sampled_from(["MO", "SU"]))
    ends: list[dict[str, str]] = [{}, {"COUNT": str(draw(st.integers(1, 40)))}, {"UNTIL": "20271231T093000"}]
    parts |= draw(st.sampled_from(ends))
    return ";".join(f"{name}={value}" for name, value in parts.items())


@settings(max_examples=120, deadline=None)
@given(rules(), st.integers(0, 40), st.integers(-10, 60), st.integers(1, 800))
def test_every_rule_gives_what_an_independent_engine_gives(
    text: str, shift: int, after_days: int, length_days: int
) -> None:
    first = FIRST + timedelta(days=shift)
    after = first + timedelta(days=after_days * 20)
    before = after + timedelta(days=length_days)
    rule = parse_rule(text, until)
    # The other engine searches for the next match until the year 9999: ask it only where there is one.
    assume(any(True for _ in occurrences(rule, first, first, first + timedelta(days=12_000), Budget(10**6))))
    theirs = [d for d in rrulestr(text, dtstart=first).between(after, before, inc=True) if d < before]
    assert list(occurrences(rule, first, after, before, Budget(10**6))) == theirs


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=HOURLY;INTERVAL=5",
        "FREQ=HOURLY;BYHOUR=9,15;BYDAY=MO,FR",
        "FREQ=HOURLY;BYMINUTE=0,30;COUNT=300",
        "FREQ=MINUTELY;INTERVAL=90",
        "FREQ=MINUTELY;BYHOUR=9;BYMINUTE=15;BYSECOND=0,30",
        "FREQ=SECONDLY;INTERVAL=3000;UNTIL=20240401T000000",
    ],
)
def test_rules_within_the_day_agree_too(text: str) -> None:
    after = FIRST + timedelta(days=20)
    before = after + timedelta(days=30)
    theirs = [d for d in rrulestr(text, dtstart=FIRST).between(after, before, inc=True) if d < before]
    assert list(occurrences(parse_rule(text, until), FIRST, after, before, Budget(10_000_000))) == theirs


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", timedelta(days=366)),
        ("FREQ=YEARLY;BYYEARDAY=1;BYMONTH=12", timedelta(days=3660)),
        ("FREQ=WEEKLY;BYSETPOS=300", timedelta(days=366)),
        ("FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30", timedelta(days=7)),
        ("FREQ=MINUTELY;COUNT=999999999", timedelta(days=366)),
        ("FREQ=SECONDLY", timedelta(days=3660)),
        (
            "FREQ=DAILY;BYHOUR="
            + ",".join(map(str, range(24)))
            + ";BYMINUTE="
            + ",".join(map(str, range(60))),
            timedelta(365),
        ),
    ],
)
def test_a_hostile_rule_ends_quickly(text: str, window: timedelta) -> None:
    began = process_time()
    after = FIRST + timedelta(days=8000)
    try:
        found = list(occurrences(parse_rule(text, until), FIRST, after, after + window, Budget(200_000)))
    except BudgetSpent:
        found = []
    assert found == []
    assert process_time() - began < 3


def test_a_daily_rule_of_decades_jumps_to_the_window() -> None:
    rule = parse_rule("FREQ=DAILY", until)
    after = FIRST + timedelta(days=20_000)
    assert len(list(occurrences(rule, FIRST, after, after + timedelta(days=5), Budget(50)))) == 5


@pytest.mark.parametrize(
    "text",
    [
        "",
        "FREQ=FORTNIGHTLY",
        "FREQ=DAILY;INTERVAL=0",
        "FREQ=DAILY;COUNT=-1",
        "FREQ=DAILY;BYDAY=XX",
        "FREQ=MONTHLY;BYDAY=60MO",
        "FREQ=DAILY;BYHOUR=24",
        "FREQ=DAILY;BYMONTHDAY=0",
        "FREQ=DAILY;FREQ=WEEKLY",
        "FREQ=DAILY;BYEASTER=1",
        "FREQ=HOURLY;BYSETPOS=1",
        "FREQ=DAILY;INTERVAL=9999999999",
        "INTERVAL=2",
    ],
)
def test_a_rule_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_rule(text, until)
