"""A meeting that repeats: its times by local clock, its limits, and what counts as what was asked for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from indai.client.audit.matter import asked_about
from indai.node.calendar.series import again, folded, zone_of
from indai.node.calendar.slots import Interval
from indai.node.holdings import key_of
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.kinds.base import Slot, Window
from indai.protocol.kinds.meet import MeetTerms, MeetWish, Repeats
from indai.protocol.party_json import body_from_json, body_to_json

from tests.unit.audit.test_matter import request, signed

HOUR, DAY = 3_600_000, 86_400_000
BERLIN = ZoneInfo("Europe/Berlin")
# Tuesday before the clocks of Europe go back, at 10:00 there.
START = int(datetime(2026, 10, 20, 8, 0, tzinfo=UTC).timestamp() * 1000)
WEEKLY = Repeats(7, 3, "Europe/Berlin")
WISH = MeetWish("Review", 30, (Window(START, START + DAY),), "", WEEKLY)
TIMES = again(START, WEEKLY, BERLIN)
TERMS = MeetTerms(START, START + HOUR // 2, "Review", "", "uid", again_ms=TIMES)


def test_clocks_that_go_back_leave_the_local_time_as_it_was() -> None:
    shown = [datetime.fromtimestamp(at / 1000, BERLIN) for at in (START, *TIMES)]
    assert [f"{at:%d %H:%M}" for at in shown] == ["20 10:00", "27 10:00", "03 10:00"]
    assert TIMES[0] - START == 7 * DAY + HOUR


def test_an_offer_has_just_the_times_that_were_wished_for() -> None:
    assert WISH.admits(TERMS)
    assert WISH.admits(replace(TERMS, again_ms=(START + 7 * DAY, START + 14 * DAY)))  # or by steady clocks
    for times in ((), TIMES[:1], (*TIMES, START + 21 * DAY), (TIMES[0], TIMES[1] + DAY)):
        assert not WISH.admits(replace(TERMS, again_ms=times))
    assert not replace(WISH, repeats=None).admits(TERMS)


@pytest.mark.rule("NEG-03")
@pytest.mark.parametrize(
    ("every", "count", "zone"), [(0, 3, "UTC"), (7, 1, "UTC"), (7, 53, "UTC"), (31, 14, "UTC"), (7, 3, "")]
)
def test_a_wish_repeats_within_its_limits_or_not_at_all(every: int, count: int, zone: str) -> None:
    WISH.check()
    with pytest.raises(ProtocolError) as caught:
        replace(WISH, repeats=Repeats(every, count, zone)).check()
    assert caught.value.reason is Reason.MALFORMED


@pytest.mark.rule("NEG-04")
@pytest.mark.parametrize(
    "times",
    [
        (START + HOUR // 4,),  # overlaps
        (START + 7 * DAY, START + DAY),  # goes back
        (START + 400 * DAY,),
        tuple(START + number * DAY for number in range(1, 53)),
    ],
)
def test_the_times_of_terms_follow_one_another_and_have_an_end(times: tuple[int, ...]) -> None:
    TERMS.check()
    with pytest.raises(ProtocolError) as caught:
        replace(TERMS, again_ms=times).check()
    assert (caught.value.reason, caught.value.rule) == (Reason.MALFORMED, "NEG-04")


def test_every_time_is_held_under_a_key_of_its_own_and_due_after_the_last() -> None:
    held = TERMS.holdings(first=True)
    assert held == tuple(Slot(at, at + HOUR // 2) for at in (START, *TIMES))
    mid = b"m" * 32
    assert key_of(mid, 0) == mid
    assert len({key_of(mid, place) for place in range(3)}) == 3
    life = TERMS.life()
    assert (life.cancel_until_ms, life.due_ms) == (START, TIMES[-1] + HOUR // 2)


@pytest.mark.parametrize("body", [WISH, TERMS, replace(WISH, repeats=None), replace(TERMS, again_ms=())])
def test_it_is_stored_and_signed_as_it_was_said(body: MeetWish | MeetTerms) -> None:
    assert body_from_json(body_to_json(body)) == body
    assert type(body).from_bytes(body.to_pb().SerializeToString()) == body


def test_what_is_busy_at_any_time_is_not_free_at_the_first() -> None:
    third = Interval(START + 14 * DAY, START + 14 * DAY + HOUR)
    assert Interval(START, START + HOUR) in folded([third], WEEKLY, START, START + DAY)
    assert folded([third], None, START, START + DAY) == [third]


def test_a_zone_of_no_known_name_is_no_zone() -> None:
    for name in ("Mars/Olympus", "../../etc/passwd", "a\0b"):
        assert zone_of(Repeats(7, 3, name)) is None


def test_a_decision_about_one_time_is_none_about_all() -> None:
    facts = {"start_ms": START, "end_ms": START + HOUR // 2}
    once = asked_about(request("meet", facts | {"recurring": False}))[1]
    series = asked_about(request("meet", facts | {"recurring": True}))[1]
    assert series.is_about(signed(TERMS), first=True)
    assert not once.is_about(signed(TERMS), first=True)
    assert once.is_about(signed(replace(TERMS, again_ms=())), first=True)
