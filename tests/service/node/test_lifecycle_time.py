"""What time does to a commitment: reminders, what is over, what is overdue. Every clock jumps together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from indai.client.channels import plain_channel
from indai.protocol.errors import IndaiError, Reason
from indai.v1 import calendar_pb2, owner_pb2
from indai.v1 import conversation_pb2 as pb
from indai.v1.calendar_pb2_grpc import CalendarServiceStub
from indai.v1.conversation_pb2_grpc import ConversationServiceStub

if TYPE_CHECKING:
    from indai.v1.conversation_pb2_grpc import ConversationServiceAsyncStub

from tests.service.node.conftest import Jump, Pair
from tests.service.node.lives import STANDS, audited, until
from tests.service.node.test_meeting import DAY, HOUR, journal
from tests.service.node.world import Owner, now_ms

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


async def reminders(owner: Owner, thread: owner_pb2.Thread, reason: str = "SOON") -> list[str]:
    lines = [line for line in await journal(owner) if line.thread_id == thread.thread_id]
    return [line.words for line in lines if (line.event, line.reason) == ("reminder", reason)]


async def told(talk: ConversationServiceAsyncStub) -> list[str]:
    """What alice's agent has told her of its own accord in their conversation."""
    (session,) = (await talk.ListSessions(pb.ListSessionsRequest())).sessions
    request = pb.ListSessionMessagesRequest(session_id=session.session_id)
    return [each.text for each in (await talk.ListSessionMessages(request)).messages if each.outgoing]


@pytest.mark.rule("LIF-23")
async def test_owners_are_reminded_then_say_that_it_took_place_or_it_is_overdue(
    pair: Pair, jump: Jump, tmp_path: Path
) -> None:
    early = calendar_pb2.SetMeetSettingsRequest(
        settings=calendar_pb2.MeetSettings(reminder_minutes=120, morning_minute=1)
    )
    channel = plain_channel(pair.a.info.addresses["owner"], token=pair.alice.token)
    await CalendarServiceStub(channel).SetMeetSettings(early)
    talk: ConversationServiceAsyncStub = ConversationServiceStub(channel)
    hello = pb.SendMessageRequest(message=pb.InboundMessage(text="hello"))
    async for _ in talk.SendMessage(hello, timeout=60):
        pass
    later = now_ms() + 2 * DAY  # not today: its morning is still to come
    within = {"from_ms": later, "until_ms": later + 18 * DAY}
    kept = await pair.alice.meet("ind.ai/bob", title="Kept", **within)
    forgotten = await pair.alice.meet("ind.ai/bob", title="Forgotten", **within)
    first, second = sorted((kept, forgotten), key=lambda one: one.start_time.ToMilliseconds())
    both = (pair.alice, pair.bob)
    jump(first.start_time.ToMilliseconds() - 3 * HOUR)
    async with asyncio.timeout(60):
        while not (today := await reminders(pair.alice, first, "TODAY")):
            await asyncio.sleep(0.05)
        assert today[0].startswith(f"Today: {first.title} with ind.ai/bob")
        while not any(line.startswith("Today: ") for line in await told(talk)):
            await asyncio.sleep(0.2)  # where she talks to her agent, too
    jump(first.start_time.ToMilliseconds() - 40 * MINUTE)
    async with asyncio.timeout(60):
        while not await reminders(pair.alice, first):
            await asyncio.sleep(0.05)
        # At eight, as he likes it. A quarter of an hour before the start it is too late for that.
        while not (morning := await reminders(pair.bob, first, "TODAY")):
            await asyncio.sleep(0.05)
    assert await reminders(pair.bob, first) == []  # he likes the usual quarter of an hour
    jump(first.start_time.ToMilliseconds() - 10 * MINUTE)
    async with asyncio.timeout(60):
        for owner in both:
            while not (soon := await reminders(owner, first)):
                await asyncio.sleep(0.05)
            assert len(soon) == 1
            assert first.title in soon[0]
    assert len(morning) == len(await reminders(pair.bob, first, "TODAY")) == 1

    jump(max(one.end_time.ToMilliseconds() for one in (first, second)) + MINUTE)
    said = owner_pb2.FulfilCommitmentRequest(thread_id=kept.thread_id)
    async with asyncio.timeout(60):
        while not await taken(pair.alice.stub.FulfilCommitment(said)):
            await asyncio.sleep(0.5)  # until the registry has signed a head at the new time
    fulfilled = owner_pb2.COMMITMENT_STATE_FULFILLED
    for owner in both:
        await until(owner, kept.thread_id, lambda seen: seen.commitment_state == fulfilled)
        assert (await until(owner, forgotten.thread_id, lambda _: True)).commitment_state == STANDS
        async with asyncio.timeout(60):
            while not (due := await reminders(owner, forgotten, "DUE")):
                await asyncio.sleep(0.05)
        assert due[0].endswith("is due: say whether the meeting took place.")

    jump(forgotten.end_time.ToMilliseconds() + DAY + HOUR)
    overdue = owner_pb2.COMMITMENT_STATE_OVERDUE
    for owner in both:
        seen = await until(owner, forgotten.thread_id, lambda seen: seen.commitment_state == overdue)
        assert seen.words == "Nobody has said yet that the meeting took place."
    jump(forgotten.end_time.ToMilliseconds() + 31 * DAY)
    expired = owner_pb2.COMMITMENT_STATE_EXPIRED
    for owner in both:
        seen = await until(owner, forgotten.thread_id, lambda seen: seen.commitment_state == expired)
        assert seen.words.endswith("the matter is closed.")
    report = await audited(pair, tmp_path)
    assert [finding.to_json() for finding in report.findings] == []
    assert sorted((one.verdict.name, one.state) for one in report.commitments) == [
        ("VALID", "EXPIRED"),
        ("VALID", "FULFILLED"),
    ]
