"""When owners are reminded, and of what: by their own clock, of each time, and never too late."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

from indai.node.reminders import Likes, moments, said
from indai.protocol.forms import HOUR_MS, MINUTE_MS
from indai.protocol.kinds.ask import RequestTerms
from indai.protocol.kinds.meet import MeetTerms
from indai.protocol.kinds.pay import PayTerms

from tests.unit.kinds import ANSWERED

PARIS = ZoneInfo("Europe/Paris")
LIKES = Likes(15 * MINUTE_MS, 480)


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=PARIS).timestamp() * 1000)


def meeting(*starts: str) -> MeetTerms:
    first, *again = map(at, starts)
    return MeetTerms(first, first + HOUR_MS, "Review", "", "uid", again_ms=tuple(again))


SERIES = meeting("2026-10-22T10:00", "2026-10-29T10:00")  # clocks go back in between
NOW = at("2026-10-20T12:00")


def test_each_time_has_its_morning_by_the_wall_clock_and_its_word_before() -> None:
    expected = ["2026-10-22T08:00", "2026-10-29T08:00", "2026-10-29T09:45", "2026-10-29T11:00"]
    assert moments(SERIES, LIKES, PARIS, NOW) == tuple(map(at, expected))  # 9:45 of the first: the protocol's
    told = [said("ind.ai/bob", SERIES, moment, moment, LIKES, PARIS) for moment in map(at, expected)]
    assert [each and each[0] for each in told] == ["TODAY", "TODAY", "SOON", "DUE"]
    assert told[1] == (
        "TODAY",
        "Today: Review with ind.ai/bob: Thu 29 Oct 2026, 10:00 to 11:00 (Europe/Paris)",
    )
    assert told[3] == ("DUE", "Review with ind.ai/bob is due: say whether the meeting took place.")
    assert said("ind.ai/bob", SERIES, 0, at("2026-10-22T09:45"), LIKES, PARIS) == (
        "SOON",
        "Review with ind.ai/bob: Thu 22 Oct 2026, 10:00 to 11:00 (Europe/Paris)",
    )


def test_what_is_past_or_too_near_is_left_out() -> None:
    assert moments(SERIES, LIKES, PARIS, at("2026-10-29T09:50")) == (at("2026-10-29T11:00"),)
    early = meeting("2026-10-22T08:10")
    assert moments(early, LIKES, PARIS, NOW) == (at("2026-10-22T09:10"),)  # its morning is not before 7:55
    morning = at("2026-10-22T08:00")
    assert said("ind.ai/bob", SERIES, morning, at("2026-10-22T09:46"), LIKES, PARIS) is None  # SOON says it
    assert said("ind.ai/bob", SERIES, morning, at("2026-10-22T10:00"), LIKES, PARIS) is None


def test_of_a_time_that_was_left_out_nothing_is_told() -> None:
    morning, second = at("2026-10-29T08:00"), at("2026-10-29T10:00")
    assert said("ind.ai/bob", SERIES, morning, morning, LIKES, PARIS, {second}) is None


def test_an_owner_who_wants_none_has_none() -> None:
    assert moments(SERIES, replace(LIKES, before_ms=0), PARIS, NOW) == ()
    without = moments(SERIES, replace(LIKES, morning_minute=0), PARIS, NOW)
    assert without == (at("2026-10-29T09:45"), at("2026-10-29T11:00"))
    assert moments(ANSWERED, LIKES, PARIS, NOW) == ()  # over at the deed


def test_what_is_paid_or_filed_is_told_on_the_day_that_it_is_due() -> None:
    due = at("2026-10-23T18:00")
    bill = PayTerms("upi:b@bank", 50_000, "INR", "Rent", due)
    morning = at("2026-10-23T08:00")
    assert moments(bill, LIKES, PARIS, NOW) == (morning,)  # at its due time it expires, and says so
    assert said("ind.ai/bob", bill, morning, morning, LIKES, PARIS) == (
        "TODAY",
        "Today: Rent with ind.ai/bob: due Fri 23 Oct 2026, 18:00",
    )
    filed = RequestTerms("Light", "Dark.", "lights", "electric", "SL-1", due)
    assert moments(filed, LIKES, PARIS, NOW) == (morning, due)
    told = said("ind.ai/bob", filed, due, due, LIKES, PARIS)
    assert told is not None
    assert told[0] == "DUE"
