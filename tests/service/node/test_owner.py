"""What owners do by hand: take back, answer, list. Every call sees its own owner's rows and no others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from indai.node.store import Store
from indai.protocol.envelope import cosign, parse_envelope, payload_type, seal
from indai.protocol.errors import IndaiError, InvalidInput, Reason, Unavailable
from indai.v1 import negotiation_pb2, owner_pb2

from tests.service.node.conftest import Pair
from tests.service.node.scene import DAY, HOUR, Scene
from tests.service.node.world import Owner, now_ms

AWAITING = owner_pb2.THREAD_STATE_AWAITING_RECEIPT
COMMITTED = owner_pb2.THREAD_STATE_COMMITTED
WITHDRAWN = owner_pb2.THREAD_STATE_WITHDRAWN
REJECTED = owner_pb2.THREAD_STATE_REJECTED
ON_HOLD = owner_pb2.THREAD_STATE_ON_HOLD


async def withdraw(owner: Owner, thread_id: str) -> owner_pb2.Thread:
    answer = await owner.stub.WithdrawThread(owner_pb2.WithdrawThreadRequest(thread_id=thread_id))
    return answer.thread


async def inbox(owner: Owner, thread_id: str) -> owner_pb2.Approval | None:
    found = (await owner.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals
    return next((one for one in found if one.thread_id == thread_id), None)


async def moves(owner: Owner, thread_id: str) -> list[str]:
    got = await owner.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=thread_id))
    return [message.move for message in got.messages]


async def until(owner: Owner, thread_id: str, state: int) -> owner_pb2.Thread:
    async with asyncio.timeout(60):
        while (seen := await owner.rest(thread_id, state)).state != state:
            pass
    return seen


async def propose(scene: Scene, start_ms: int, title: str) -> str:
    """eve asks carol for just this half hour; the thread's id."""
    sent = await scene.proposal(start_ms, title)
    answer = await scene.say(sent)
    assert not answer.error.reason, answer.error
    return negotiation_pb2.Move.FromString(sent.payload).header.thread.hex()


async def approve(owner: Owner, thread_id: str) -> owner_pb2.Thread:
    approval = await inbox(owner, thread_id)
    assert approval is not None
    request = owner_pb2.AnswerApprovalRequest(code=approval.code, approve=True)
    return (await owner.stub.AnswerApproval(request)).thread


def slot(day: int) -> int:
    """10:00 UTC, so many days from now."""
    return (now_ms() // DAY + day) * DAY + 10 * HOUR


async def test_the_asker_withdraws_while_the_other_owner_is_asked(pair: Pair) -> None:
    thread = await pair.alice.meet(
        "ind.ai/bob", minutes=45, title="Never mind", from_ms=now_ms() + HOUR, until_ms=now_ms() + 9 * DAY
    )
    assert thread.state == ON_HOLD
    approval = await inbox(pair.bob, thread.thread_id)
    assert approval is not None
    assert (await withdraw(pair.alice, thread.thread_id)).state == WITHDRAWN
    await until(pair.bob, thread.thread_id, WITHDRAWN)
    assert await inbox(pair.bob, thread.thread_id) is None
    request = owner_pb2.AnswerApprovalRequest(code=approval.code, approve=True)
    with pytest.raises(IndaiError) as late:
        await pair.bob.stub.AnswerApproval(request)
    assert late.value.reason is Reason.THREAD_CLOSED
    assert await moves(pair.alice, thread.thread_id) == ["PROPOSE", "HOLD", "WITHDRAW"]
    with pytest.raises(IndaiError) as twice:
        await withdraw(pair.alice, thread.thread_id)
    assert twice.value.reason is Reason.THREAD_CLOSED


async def test_the_asked_owner_withdraws_instead_of_answering(pair: Pair) -> None:
    thread = await pair.alice.meet(
        "ind.ai/bob", minutes=45, title="Not now", from_ms=now_ms() + HOUR, until_ms=now_ms() + 9 * DAY
    )
    await withdraw(pair.bob, thread.thread_id)
    assert (await until(pair.alice, thread.thread_id, REJECTED)).reason == "DECLINED"
    assert await inbox(pair.bob, thread.thread_id) is None


async def test_what_was_answered_is_listed_whatever_the_channel_and_the_time_are_called(pair: Pair) -> None:
    thread = await pair.alice.meet(
        "ind.ai/bob", minutes=45, title="By a channel", from_ms=now_ms() + HOUR, until_ms=now_ms() + 9 * DAY
    )
    asked = await inbox(pair.bob, thread.thread_id)
    assert asked is not None
    await pair.bob.stub.AnswerApproval(
        owner_pb2.AnswerApprovalRequest(code=asked.code, approve=False, channel="w\0eb")
    )
    for seconds in (-(10**15), 0):
        request = owner_pb2.ListInboxRequest(answered_since_time=Timestamp(seconds=seconds))
        answered = {one.thread_id: one for one in (await pair.bob.stub.ListInbox(request)).approvals}
        assert answered[thread.thread_id].answer_channel == "w eb"


async def test_a_request_that_never_arrived_is_withdrawn(scene: Scene) -> None:
    thread_id, _ = await scene.ask("Unheard")
    assert (await withdraw(scene.carol, thread_id)).state == WITHDRAWN
    assert await moves(scene.carol, thread_id) == ["PROPOSE", "WITHDRAW"]


@pytest.mark.rule("NEG-30")
async def test_an_offer_taken_back_frees_its_slot_and_can_not_be_accepted(scene: Scene) -> None:
    thread_id = await propose(scene, slot(12), "Taken back")
    await approve(scene.carol, thread_id)
    got = await scene.thread(thread_id)
    offer = parse_envelope(got.messages[-1].envelope)
    assert got.messages[-1].move == "OFFER"
    assert (await withdraw(scene.carol, thread_id)).state == WITHDRAWN
    again = await propose(scene, slot(12), "Once more")
    assert await inbox(scene.carol, again) is not None
    assert await moves(scene.carol, thread_id) == ["PROPOSE", "HOLD", "OFFER", "WITHDRAW"]
    answer = await scene.say(cosign(offer, scene.eve.key))
    assert not answer.replies
    assert (await scene.thread(thread_id)).thread.state == WITHDRAWN


@pytest.mark.parametrize("receipt", [False, True])
async def test_an_acceptance_taken_back_is_the_offerers_to_decide(scene: Scene, receipt: bool) -> None:
    thread_id, proposal = await scene.ask("Doubtful")
    offer = scene.offer(proposal)
    assert not (await scene.say(offer)).error.reason
    assert (await scene.thread(thread_id)).thread.state == AWAITING
    assert (await withdraw(scene.carol, thread_id)).state == AWAITING
    assert (await moves(scene.carol, thread_id))[-1] == "WITHDRAW"
    header = scene.header(proposal)
    header.in_reply_to = offer.mid
    if receipt:
        word = negotiation_pb2.Receipt(
            header=header, mid=offer.mid, log="ind.ai/eve-node/ledger/2026", index=1, leaf_time_ms=now_ms()
        )
        answer = seal(payload_type("receipt"), word.SerializeToString(), [scene.eve.key])
    else:
        lapsed = negotiation_pb2.Move(header=header, reject=negotiation_pb2.Reject(reason="LAPSED"))
        answer = seal(payload_type("move"), lapsed.SerializeToString(), [scene.eve.key])
    assert not (await scene.say(answer)).error.reason
    wanted = COMMITTED if receipt else WITHDRAWN
    assert (await scene.thread(thread_id)).thread.state == wanted


async def test_a_slot_that_was_taken_meanwhile_is_not_promised_by_a_late_yes(scene: Scene) -> None:
    thread_id = await propose(scene, slot(14), "Taken meanwhile")
    path = scene.pair.a.data / "calendars" / "ind.ai_carol.ics"
    busy(path, slot(14))
    thread = await approve(scene.carol, thread_id)
    assert (thread.state, thread.reason) == (REJECTED, "NO_COMMON_SLOT")
    assert (await moves(scene.carol, thread_id))[-1] == "REJECT"


def busy(path: Path, start_ms: int) -> None:
    """The owner enters something by another program."""
    whole = path.read_text() if path.exists() else "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\nEND:VCALENDAR\n"
    begin, end = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (start_ms, start_ms + HOUR))
    event = (
        f"BEGIN:VEVENT\nUID:own-{start_ms}\nDTSTAMP:20260101T000000Z\nSUMMARY:Own\n"
        f"DTSTART:{begin:%Y%m%dT%H%M%SZ}\nDTEND:{end:%Y%m%dT%H%M%SZ}\nEND:VEVENT\n"
    )
    path.write_text(whole.replace("END:VCALENDAR", event + "END:VCALENDAR"))


@pytest.mark.parametrize("token", ["nonsense", "[1]", '["1","00"]', '[1e400,""]', '[-1,""]', "[" * 9000])
async def test_a_page_token_of_somebody_elses_making_is_refused(pair: Pair, token: str) -> None:
    with pytest.raises(InvalidInput):
        await pair.alice.stub.ListThreads(owner_pb2.ListThreadsRequest(page_token=token))
    with pytest.raises(InvalidInput):
        await pair.alice.stub.ListJournal(owner_pb2.ListJournalRequest(page_token=token))


async def test_strange_numbers_in_a_request_are_input_errors(pair: Pair) -> None:
    await pair.alice.stub.ListThreads(owner_pb2.ListThreadsRequest(page_size=(1 << 32) - 1))
    far = owner_pb2.ListEventsRequest()
    far.start_time.seconds, far.end_time.seconds = -62_135_596_800, -62_135_596_700
    with pytest.raises(InvalidInput):
        await pair.alice.stub.ListEvents(far)
    with pytest.raises(InvalidInput):
        await pair.alice.stub.GetThread(owner_pb2.GetThreadRequest(thread_id="%%%%%%"))
    with pytest.raises(InvalidInput):
        await pair.alice.stub.AnswerApproval(owner_pb2.AnswerApprovalRequest(code="________"))


async def test_the_tables_themselves_hide_other_owners_rows(
    make_database: Callable[[], Awaitable[Any]],
) -> None:
    pool = (await make_database()).pool
    store = Store(pool, "ind.ai/node-a/ledger/2026")
    line = {"owner": "ind.ai/alice", "at_ms": 1, "peer": "", "event": "e", "reason": "r", "words": "w"}
    await store.apply(["ind.ai/alice"], {"journal": [line]}, 0, None)
    assert await pool.fetchval("SELECT count(*) FROM node.journal") == 0
    for owner, visible in (("ind.ai/alice", 1), ("ind.ai/bob", 0), ("ind.ai/alic", 0)):
        async with store.scope(owner) as connection:
            assert await connection.fetchval("SELECT count(*) FROM node.journal") == visible
    with pytest.raises(IndaiError):
        await store.apply(["ind.ai/bob"], {"journal": [line]}, 0, None)


async def test_an_agent_whose_making_failed_half_way_is_made_by_the_same_call(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = owner_pb2.CreateAgentRequest(handle="ind.ai/henry")
    real = Store.apply
    lost: list[Any] = []

    async def apply(self: Store, *parts: Any) -> int:
        if not lost:
            lost.append(parts)
            raise Unavailable(Reason.DATABASE_UNAVAILABLE, "The database cannot be reached.")
        return await real(self, *parts)

    monkeypatch.setattr(Store, "apply", apply)
    with pytest.raises(Unavailable):
        await pair.a.operator().CreateAgent(request)
    assert (await pair.a.operator().CreateAgent(request)).token
    with pytest.raises(IndaiError) as twice:
        await pair.a.operator().CreateAgent(request)
    assert twice.value.reason is Reason.ALREADY_EXISTS
