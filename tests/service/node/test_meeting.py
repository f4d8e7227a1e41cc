"""Two nodes settle meetings: the main job, over real processes' parts."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import uuid
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from indai.client.audit import audit
from indai.client.exports import read_export
from indai.node.calendar import read_busy
from indai.node.engine import Engine
from indai.protocol.envelope import parse_envelope
from indai.protocol.errors import IndaiError, Reason
from indai.v1 import negotiation_pb2, owner_pb2

from tests.service.node.conftest import Pair
from tests.service.node.world import Owner, now_ms

HOUR = 3_600_000
DAY = 24 * HOUR
COMMITTED = owner_pb2.THREAD_STATE_COMMITTED
REJECTED = owner_pb2.THREAD_STATE_REJECTED


async def ask(pair: Pair, minutes: int = 30, title: str = "Lunch", **more: int) -> owner_pb2.Thread:
    return await pair.alice.meet(
        "ind.ai/bob",
        minutes=minutes,
        title=title,
        from_ms=now_ms() + HOUR,
        until_ms=now_ms() + 20 * DAY,
        **more,
    )


async def messages(owner: Owner, thread_id: str) -> list[owner_pb2.ThreadMessage]:
    got = await owner.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=thread_id))
    return list(got.messages)


async def journal(owner: Owner) -> list[owner_pb2.JournalEntry]:
    return list((await owner.stub.ListJournal(owner_pb2.ListJournalRequest())).entries)


async def test_both_sides_hold_one_payload_with_both_signatures(pair: Pair) -> None:
    thread = await ask(pair)
    assert thread.state == COMMITTED
    logs = [await pair.world.ledger(handle) for handle in ("ind.ai/node-a", "ind.ai/node-b")]
    assert [thread.ours.log, thread.receipt.log] == logs
    ours = await messages(pair.alice, thread.thread_id)
    theirs = await messages(pair.bob, thread.thread_id)
    assert [message.move for message in ours] == ["PROPOSE", "OFFER", "ACCEPT", "RECEIPT"]
    assert [message.envelope for message in ours] == [message.envelope for message in theirs]
    signed = parse_envelope(ours[2].envelope)
    commitment = negotiation_pb2.Commitment.FromString(signed.payload)
    assert [party.handle for party in commitment.parties] == ["ind.ai/bob", "ind.ai/alice"]
    assert len(signed.signatures) == 2


async def test_a_deal_never_fails_a_batch_nor_drops_what_is_in_memory(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[Engine] = []
    forget = Engine._forget

    def noted(engine: Engine) -> None:
        failed.append(engine)
        forget(engine)

    monkeypatch.setattr(Engine, "_forget", noted)
    assert (await ask(pair, title="At once")).state == COMMITTED
    assert failed == []


async def test_the_meeting_stands_in_both_calendar_files(pair: Pair) -> None:
    thread = await ask(pair, title="Two calendars")
    start, end = thread.start_time.ToMilliseconds(), thread.end_time.ToMilliseconds()
    for owner, node in ((pair.alice, pair.a), (pair.bob, pair.b)):
        await owner.rest(thread.thread_id)
        path = node.data / "calendars" / f"{owner.handle.replace('/', '_')}.ics"
        text = path.read_bytes()
        assert text.count(b"SUMMARY:Two calendars") == 1
        busy = read_busy(text, owner_zone=ZoneInfo("UTC"), start_ms=start, end_ms=end)
        assert [(one.start_ms, one.end_ms) for one in busy] == [(start, end)]


async def test_a_meeting_that_may_lie_anywhere_lies_in_ordinary_hours(pair: Pair) -> None:
    thread = await ask(pair, title="By day")
    start = datetime.fromtimestamp(thread.start_time.ToSeconds(), ZoneInfo("Asia/Kolkata"))
    assert start.weekday() < 5
    assert 9 <= start.hour < 18


async def test_what_the_policy_leaves_to_the_owner_waits_for_them(pair: Pair) -> None:
    waiting = await ask(pair, minutes=45, title="Longer")
    assert waiting.state == owner_pb2.THREAD_STATE_ON_HOLD
    (approval,) = (await pair.bob.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals
    assert "45 min" in approval.terms
    assert "ind.ai/alice" in approval.terms
    answered = await pair.bob.stub.AnswerApproval(
        owner_pb2.AnswerApprovalRequest(code=approval.code, approve=True)
    )
    assert answered.thread.thread_id == waiting.thread_id
    done = await pair.alice.rest(waiting.thread_id, COMMITTED)
    while done.state != COMMITTED:
        done = await pair.alice.rest(waiting.thread_id, COMMITTED)
    assert not (await pair.bob.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals


async def test_an_approval_is_used_once(pair: Pair) -> None:
    waiting = await ask(pair, minutes=50, title="Declined")
    (approval,) = (await pair.bob.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals
    no = owner_pb2.AnswerApprovalRequest(code=approval.code, approve=False)
    await pair.bob.stub.AnswerApproval(no)
    with pytest.raises(IndaiError) as refused:
        await pair.bob.stub.AnswerApproval(owner_pb2.AnswerApprovalRequest(code=approval.code, approve=True))
    assert refused.value.reason is Reason.THREAD_CLOSED
    thread = await pair.alice.rest(waiting.thread_id, REJECTED)
    while thread.state != REJECTED:
        thread = await pair.alice.rest(waiting.thread_id, REJECTED)
    assert thread.reason == "DECLINED"
    # The same word again, of who was cut off before they heard: it changes nothing.
    again = (await pair.bob.stub.AnswerApproval(no)).thread
    assert (again.thread_id, again.state) == (waiting.thread_id, REJECTED)


async def test_a_refusal_tells_the_peer_nothing_and_the_owner_why(pair: Pair) -> None:
    thread = await ask(pair, minutes=90, title="Too long")
    assert (thread.state, thread.reason) == (REJECTED, "POLICY_DENIED")
    reject = (await messages(pair.alice, thread.thread_id))[-1]
    assert "30" not in reject.words
    assert "short" not in reject.words
    (entry, *_) = [e for e in await journal(pair.bob) if e.thread_id == thread.thread_id]
    assert entry.reason == "REFUSE"
    assert "no rule" in entry.words


async def test_the_same_request_twice_is_one_thread(pair: Pair) -> None:
    request = owner_pb2.StartMeetRequest(
        request_id=str(uuid.uuid4()), peer="ind.ai/bob", title="Once", duration_minutes=15
    )
    request.start_time.FromMilliseconds(now_ms() + HOUR)
    request.end_time.FromMilliseconds(now_ms() + 20 * DAY)
    first = await pair.alice.stub.StartMeet(request)
    again = await pair.alice.stub.StartMeet(request)
    assert first.thread.thread_id == again.thread.thread_id


async def test_slots_promised_at_once_never_overlap(pair: Pair) -> None:
    threads = await asyncio.gather(*(ask(pair, minutes=15, title=f"Burst {n}") for n in range(24)))
    assert [thread.state for thread in threads] == [COMMITTED] * 24
    slots = sorted((t.start_time.ToMilliseconds(), t.end_time.ToMilliseconds()) for t in threads)
    assert all(earlier[1] <= later[0] for earlier, later in itertools.pairwise(slots))


async def test_an_owner_sees_their_own_threads_only(pair: Pair) -> None:
    thread = await ask(pair, title="Private")
    carol = await pair.b.agent("ind.ai/carol", ALICES_RULES)
    with pytest.raises(IndaiError) as refused:
        await carol.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=thread.thread_id))
    assert refused.value.reason is Reason.NOT_FOUND
    assert not (await carol.stub.ListThreads(owner_pb2.ListThreadsRequest())).threads


ALICES_RULES = "version: 1\ntimezone: UTC\nrules:\n  - ask: meet\n    with: anyone\n"


async def test_an_unknown_peer_is_named(pair: Pair) -> None:
    with pytest.raises(IndaiError) as refused:
        await pair.alice.meet("ind.ai/nobody-here", from_ms=now_ms() + HOUR, until_ms=now_ms() + DAY)
    assert refused.value.reason is Reason.NOT_FOUND
    assert "ind.ai/nobody-here" in refused.value.message


async def test_an_auditor_proves_every_deal_and_names_one_flipped_byte(pair: Pair, tmp_path: Path) -> None:
    await ask(pair, title="Audited")
    paths = []
    for owner, name in ((pair.alice, "alice"), (pair.bob, "bob")):
        path = tmp_path / f"{name}.jsonl"
        with path.open("wb") as file:
            async for part in owner.stub.ExportOwner(owner_pb2.ExportOwnerRequest()):
                file.write(part.lines)
        assert [number for number, _ in read_export(path)]
        paths.append(path)
    registry = await pair.world.mirror(tmp_path / "registry.jsonl")
    report = audit(paths, registry, pair.world.policy.policy)
    assert [finding.to_json() for finding in report.findings] == []
    assert {verdict.verdict.name for verdict in report.commitments} == {"VALID"}

    data = bytearray(paths[0].read_bytes())
    data[len(data) // 2] ^= 1
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(data)
    assert hashlib.sha256(data).digest() != hashlib.sha256(paths[0].read_bytes()).digest()
    assert any(
        "broken.jsonl" in str(finding.to_json()) for finding in audit([broken, paths[1]], registry).findings
    )
