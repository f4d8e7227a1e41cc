"""A meeting that repeats is one commitment: all its times are held, booked, called off and moved together."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from indai.client.channels import plain_channel
from indai.protocol.errors import IndaiError
from indai.v1 import calendar_pb2, intents_pb2, negotiation_pb2, owner_pb2
from indai.v1.calendar_pb2_grpc import CalendarServiceStub

from tests.service.node.conftest import Pair
from tests.service.node.hosts import home_of
from tests.service.node.lives import STANDS, audited, is_cancelled, seen, until
from tests.service.node.test_meeting import COMMITTED, DAY, REJECTED
from tests.service.node.test_reschedule import SUPERSEDED, moved
from tests.service.node.world import Node, Owner, now_ms
from tests.unit.cli.runs import run

MINUTE = 60_000
TIMES = 4


async def weekly(pair: Pair, title: str, zone: str = "Asia/Kolkata") -> owner_pb2.Thread:
    """alice asks for half an hour with bob every week."""
    wish = intents_pb2.MeetWish(
        title=title,
        duration_minutes=30,
        windows=[intents_pb2.Window(start_ms=now_ms() + DAY, end_ms=now_ms() + 7 * DAY)],
        repeats=intents_pb2.Repeats(every_days=7, count=TIMES, time_zone=zone),
    )
    request = owner_pb2.StartIntentRequest(
        request_id=str(uuid.uuid4()), peer="ind.ai/bob", wish=negotiation_pb2.Propose(meet=wish)
    )
    started = (await pair.alice.stub.StartIntent(request)).thread
    return await pair.alice.rest(started.thread_id)


async def at(pair: Pair, series: owner_pb2.Thread, number: int) -> owner_pb2.Thread:
    """bob asks carelessly for just the time of one of them."""
    start_ms = series.start_time.ToMilliseconds() + number * 7 * DAY
    return await pair.bob.meet(
        "ind.ai/alice", title=f"At {number}", from_ms=start_ms, until_ms=start_ms + 30 * MINUTE
    )


def booked(node: Node, owner: Owner, title: str) -> tuple[int, int]:
    """(events that stand, events called off) of this title in the owner's calendar file."""
    path = node.data / "calendars" / f"{owner.handle.replace('/', '_')}.ics"
    events = [each for each in path.read_text().split("BEGIN:VEVENT") if f"SUMMARY:{title}\n" in each]
    gone = sum("STATUS:CANCELLED" in each for each in events)
    return len(events) - gone, gone


def has_booked(
    node: Node, owner: Owner, title: str, standing: int, called_off: int
) -> Callable[[owner_pb2.Thread], bool]:
    """Whether the owner's calendar file has so many events, for `until`."""
    return lambda _: booked(node, owner, title) == (standing, called_off)


async def test_every_time_is_held_and_stands_in_both_calendars_and_the_audit_is_valid(
    pair: Pair, tmp_path: Path
) -> None:
    series = await weekly(pair, "Review")
    assert (series.state, series.reason) == (COMMITTED, "")
    for owner, node in ((pair.alice, pair.a), (pair.bob, pair.b)):
        await until(
            owner,
            series.thread_id,
            has_booked(node, owner, "Review", TIMES, 0),
        )
    for number in (0, TIMES - 1):
        assert (await at(pair, series, number)).state == REJECTED
    assert (await at(pair, series, TIMES)).state == COMMITTED  # the week after the last is free
    again = await weekly(pair, "Review again")
    assert again.state == COMMITTED  # at another time, whose four weeks are free of the others
    report = await audited(pair, tmp_path)
    assert not report.findings
    assert any("Review, " in one.words and f"{TIMES} times" in one.words for one in report.commitments)


async def test_all_times_are_called_off_and_free_again(pair: Pair) -> None:
    series = await weekly(pair, "Off")
    assert (await at(pair, series, 2)).state == REJECTED
    request = owner_pb2.CancelCommitmentRequest(thread_id=series.thread_id)
    await pair.bob.stub.CancelCommitment(request)
    for owner in (pair.alice, pair.bob):
        await until(owner, series.thread_id, is_cancelled)
    for owner, node in ((pair.alice, pair.a), (pair.bob, pair.b)):
        await until(
            owner,
            series.thread_id,
            has_booked(node, owner, "Off", 0, TIMES),
        )
    assert (await at(pair, series, 2)).state == COMMITTED


async def test_one_time_is_called_off_alone_and_the_others_stand(pair: Pair, tmp_path: Path) -> None:
    series = await weekly(pair, "Once less")
    standing = (await seen(pair.bob, series.thread_id)).times
    assert len(standing) == TIMES
    assert (await at(pair, series, 1)).state == REJECTED
    home = home_of(pair.b, pair.bob, tmp_path)
    day = standing[1].ToDatetime(UTC).astimezone(ZoneInfo("Asia/Kolkata")).date().isoformat()
    command = ("cancel", series.thread_id, "--only", day, "--json", "--data", str(home.path))
    said = await asyncio.to_thread(run, *command)
    assert said.exit_code == 0, said.output
    for owner, node in ((pair.alice, pair.a), (pair.bob, pair.b)):
        thread = await until(owner, series.thread_id, lambda thread: len(thread.times) == TIMES - 1)
        assert thread.commitment_state == STANDS
        assert standing[1] not in thread.times
        await until(
            owner,
            series.thread_id,
            has_booked(node, owner, "Once less", TIMES - 1, 1),
        )
    async with plain_channel(pair.b.info.addresses["owner"], token=pair.bob.token) as channel:
        calendars = CalendarServiceStub(channel)
        asked = calendar_pb2.GetInvitationRequest(id=series.thread_id)
        invited = await calendars.GetInvitation(asked)  # the next one that stands
        assert invited.method == calendar_pb2.INVITATION_METHOD_REQUEST
        assert f"{standing[0].ToDatetime(UTC):%Y%m%dT%H%M%SZ}".encode() in invited.ics
        asked.only_time.CopyFrom(standing[1])
        assert (await calendars.GetInvitation(asked)).method == calendar_pb2.INVITATION_METHOD_CANCEL
    assert (await at(pair, series, 1)).state == COMMITTED
    assert (await at(pair, series, 2)).state == REJECTED
    no_time = owner_pb2.CancelCommitmentRequest(thread_id=series.thread_id, only_time=standing[1])
    assert (
        await pair.alice.stub.CancelCommitment(no_time)
    ).thread.commitment_state == STANDS  # once is enough
    await pair.alice.stub.CancelCommitment(owner_pb2.CancelCommitmentRequest(thread_id=series.thread_id))
    await until(pair.bob, series.thread_id, is_cancelled)
    await until(pair.bob, series.thread_id, lambda _: booked(pair.b, pair.bob, "Once less") == (0, TIMES))


async def test_one_time_is_moved_alone_once_both_have_agreed(pair: Pair, tmp_path: Path) -> None:
    series = await weekly(pair, "Moved once")
    standing = (await seen(pair.alice, series.thread_id)).times
    for owner, which in ((pair.alice, 1), (pair.bob, 2)):
        start_ms = standing[which].ToMilliseconds() + DAY
        request = owner_pb2.RescheduleCommitmentRequest(
            request_id=str(uuid.uuid4()), thread_id=series.thread_id, only_time=standing[which]
        )
        request.start_time.FromMilliseconds(start_ms - 6 * 60 * MINUTE)
        request.end_time.FromMilliseconds(start_ms + 6 * 60 * MINUTE)
        new = await owner.rest((await owner.stub.RescheduleCommitment(request)).thread.thread_id)
        assert (new.state, new.reason) == (COMMITTED, "")
        assert not new.times
        for one in (pair.alice, pair.bob):
            while standing[which] in (left := await seen(one, series.thread_id)).times:
                await asyncio.sleep(0.05)
            assert left.commitment_state == STANDS
    again = owner_pb2.RescheduleCommitmentRequest(
        request_id=str(uuid.uuid4()),
        thread_id=series.thread_id,
        only_time=standing[1],
        start_time=standing[3],
        end_time=series.end_time,
    )
    with pytest.raises(IndaiError, match="no such time"):
        await pair.alice.stub.RescheduleCommitment(again)
    for one, node in ((pair.alice, pair.a), (pair.bob, pair.b)):
        await until(
            one,
            series.thread_id,
            has_booked(node, one, "Moved once", TIMES, 2),
        )
    assert (await at(pair, series, 1)).state == COMMITTED  # its time is free again
    report = await audited(pair, tmp_path)
    assert not report.findings, report.findings


async def test_all_times_are_moved_together(pair: Pair) -> None:
    series = await weekly(pair, "Moved on")
    new = await moved(pair.alice, series, days=40)
    assert new.state == COMMITTED
    await until(pair.bob, series.thread_id, lambda thread: thread.commitment_state == SUPERSEDED)
    await until(pair.bob, new.thread_id, lambda _: booked(pair.b, pair.bob, "Moved on") == (TIMES, TIMES))
    assert (await at(pair, new, TIMES - 1)).state == REJECTED


async def test_all_times_or_one_of_them_move_to_what_overlaps_their_own(pair: Pair) -> None:
    series = await moved(pair.alice, await weekly(pair, "A little later"), days=80)

    async def later(owner: Owner, start_ms: int, only: int | None = None) -> owner_pb2.Thread:
        request = owner_pb2.RescheduleCommitmentRequest(
            request_id=str(uuid.uuid4()),
            thread_id=series.thread_id,
            only_time=series.times[only] if only is not None else None,
        )
        request.start_time.FromMilliseconds(start_ms + 15 * MINUTE)
        request.end_time.FromMilliseconds(start_ms + 45 * MINUTE)
        return await owner.rest((await owner.stub.RescheduleCommitment(request)).thread.thread_id)

    old, series = series, await later(pair.alice, series.start_time.ToMilliseconds())
    assert (series.state, len(series.times)) == (COMMITTED, TIMES)
    for one in (pair.alice, pair.bob):
        await until(one, old.thread_id, lambda thread: thread.commitment_state == SUPERSEDED)
    for owner, only in ((pair.alice, 1), (pair.bob, 2)):
        start = series.times[only]
        assert (await later(owner, start.ToMilliseconds(), only)).state == COMMITTED
        for one in (pair.alice, pair.bob):
            await until(one, series.thread_id, lambda thread, start=start: start not in thread.times)  # type: ignore[misc]
        assert (await at(pair, series, only)).state == REJECTED  # half of it is taken


async def test_a_time_zone_that_nobody_knows_is_refused(pair: Pair) -> None:
    assert (await weekly(pair, "Nowhere", zone="Mars/Olympus")).state == REJECTED
