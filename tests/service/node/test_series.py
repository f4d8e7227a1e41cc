"""A meeting that repeats is one commitment: all its times are held, booked, called off and moved together."""

from __future__ import annotations

import uuid
from pathlib import Path

from indai.v1 import intents_pb2, negotiation_pb2, owner_pb2

from tests.service.node.conftest import Pair
from tests.service.node.lives import audited, is_cancelled, until
from tests.service.node.test_meeting import COMMITTED, DAY, REJECTED
from tests.service.node.test_reschedule import SUPERSEDED, moved
from tests.service.node.world import Node, Owner, now_ms

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


async def test_every_time_is_held_and_stands_in_both_calendars_and_the_audit_is_valid(
    pair: Pair, tmp_path: Path
) -> None:
    series = await weekly(pair, "Review")
    assert (series.state, series.reason) == (COMMITTED, "")
    for owner, node in ((pair.alice, pair.a), (pair.bob, pair.b)):
        await until(
            owner,
            series.thread_id,
            lambda _, node=node, owner=owner: booked(node, owner, "Review") == (TIMES, 0),  # type: ignore[misc]
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
    await until(pair.alice, series.thread_id, lambda _: booked(pair.a, pair.alice, "Off") == (0, TIMES))
    assert (await at(pair, series, 2)).state == COMMITTED


async def test_all_times_are_moved_together(pair: Pair) -> None:
    series = await weekly(pair, "Moved on")
    new = await moved(pair.alice, series, days=40)
    assert new.state == COMMITTED
    await until(pair.bob, series.thread_id, lambda thread: thread.commitment_state == SUPERSEDED)
    await until(pair.bob, new.thread_id, lambda _: booked(pair.b, pair.bob, "Moved on") == (TIMES, TIMES))
    assert (await at(pair, new, TIMES - 1)).state == REJECTED


async def test_a_time_zone_that_nobody_knows_is_refused(pair: Pair) -> None:
    assert (await weekly(pair, "Nowhere", zone="Mars/Olympus")).state == REJECTED
