"""What time does to a commitment: reminders, what is over, what is overdue. Every clock jumps together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import pytest
from indai.client.channels import plain_channel
from indai.protocol.errors import IndaiError, Reason
from indai.v1 import calendar_pb2, owner_pb2
from indai.v1.calendar_pb2_grpc import CalendarServiceStub

from tests.service.node.conftest import Jump, Pair
from tests.service.node.lives import STANDS, audited, until
from tests.service.node.test_meeting import DAY, HOUR, ask, journal
from tests.service.node.world import Owner

MINUTE = 60_000


async def taken(call: Awaitable[object]) -> bool:
    """Whether the call was taken; False for a head of the registry that is too old."""
    try:
        await call
    except IndaiError as error:
        if error.reason is not Reason.STALE_HEAD:
            raise
        return False
    return True


async def reminders(owner: Owner, thread: owner_pb2.Thread) -> list[str]:
    lines = [line for line in await journal(owner) if line.thread_id == thread.thread_id]
    return [line.words for line in lines if line.event == "reminder"]


@pytest.mark.rule("LIF-23")
async def test_owners_are_reminded_then_say_that_it_took_place_or_it_is_overdue(
    pair: Pair, jump: Jump, tmp_path: Path
) -> None:
    early = calendar_pb2.SetMeetSettingsRequest(settings=calendar_pb2.MeetSettings(reminder_minutes=120))
    channel = plain_channel(pair.a.info.addresses["owner"], token=pair.alice.token)
    await CalendarServiceStub(channel).SetMeetSettings(early)
    kept, forgotten = await ask(pair, title="Kept"), await ask(pair, title="Forgotten")
    first, second = sorted((kept, forgotten), key=lambda one: one.start_time.ToMilliseconds())
    both = (pair.alice, pair.bob)
    jump(first.start_time.ToMilliseconds() - 40 * MINUTE)
    async with asyncio.timeout(20):
        while not await reminders(pair.alice, first):
            await asyncio.sleep(0.05)
    assert await reminders(pair.bob, first) == []  # he likes the usual quarter of an hour
    jump(first.start_time.ToMilliseconds() - 10 * MINUTE)
    async with asyncio.timeout(20):
        for owner in both:
            while not (told := await reminders(owner, first)):
                await asyncio.sleep(0.05)
            assert len(told) == 1
            assert first.title in told[0]

    jump(max(one.end_time.ToMilliseconds() for one in (first, second)) + MINUTE)
    said = owner_pb2.FulfilCommitmentRequest(thread_id=kept.thread_id)
    async with asyncio.timeout(40):
        while not await taken(pair.alice.stub.FulfilCommitment(said)):
            await asyncio.sleep(0.5)  # until the registry has signed a head at the new time
    fulfilled = owner_pb2.COMMITMENT_STATE_FULFILLED
    for owner in both:
        await until(owner, kept.thread_id, lambda seen: seen.commitment_state == fulfilled, 40)
        assert (await until(owner, forgotten.thread_id, lambda _: True)).commitment_state == STANDS

    jump(forgotten.end_time.ToMilliseconds() + DAY + HOUR)
    overdue = owner_pb2.COMMITMENT_STATE_OVERDUE
    for owner in both:
        seen = await until(owner, forgotten.thread_id, lambda seen: seen.commitment_state == overdue, 40)
        assert seen.words == "Nobody has said yet that the meeting took place."
    jump(forgotten.end_time.ToMilliseconds() + 31 * DAY)
    expired = owner_pb2.COMMITMENT_STATE_EXPIRED
    for owner in both:
        seen = await until(owner, forgotten.thread_id, lambda seen: seen.commitment_state == expired, 60)
        assert seen.words.endswith("the matter is closed.")
    report = await audited(pair, tmp_path)
    assert [finding.to_json() for finding in report.findings] == []
    assert sorted((one.verdict.name, one.state) for one in report.commitments) == [
        ("VALID", "EXPIRED"),
        ("VALID", "FULFILLED"),
    ]
