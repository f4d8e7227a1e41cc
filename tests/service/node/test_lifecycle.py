"""What was agreed, and what became of it, on two nodes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from indai.client.audit.receipts import check_receipt, key_history
from indai.client.receiptfile import ReceiptFile
from indai.node.effects import CalendarWrite, Effects
from indai.protocol.errors import IndaiError, Reason
from indai.v1 import negotiation_pb2, owner_pb2

from tests.service.node.conftest import Pair
from tests.service.node.lives import CANCELLED, STANDS, audited, busy, events, is_cancelled, seen, until
from tests.service.node.scene import Scene
from tests.service.node.test_meeting import DAY, ask, messages
from tests.service.node.world import now_ms

MINUTE = 60_000


def cancel(thread: owner_pb2.Thread, sentence: str = "") -> owner_pb2.CancelCommitmentRequest:
    return owner_pb2.CancelCommitmentRequest(thread_id=thread.thread_id, reason="ILL", sentence=sentence)


@pytest.mark.rule("LIF-22")
@pytest.mark.parametrize("who", ["alice", "bob"])
async def test_either_owner_cancels_before_the_start(pair: Pair, who: str) -> None:
    thread = await ask(pair, title=f"Called off by {who}")
    assert thread.commitment_state == STANDS
    assert thread.due_time == thread.end_time
    one, other = (pair.alice, pair.bob) if who == "alice" else (pair.bob, pair.alice)
    await one.rest(thread.thread_id)
    await other.rest(thread.thread_id)
    await one.stub.CancelCommitment(cancel(thread, "I am ill."))
    for owner, node in ((pair.alice, pair.a), (pair.bob, pair.b)):
        after = await until(owner, thread.thread_id, is_cancelled)
        assert (after.commitment_state, after.state) == (CANCELLED, owner_pb2.THREAD_STATE_COMMITTED)
        assert not after.in_calendar
        watched = await asyncio.wait_for(owner.rest(thread.thread_id), 60)  # a watch of what is over ends
        assert watched.commitment_state == CANCELLED
        await until(owner, thread.thread_id, lambda _, node=node, owner=owner: not busy(node, owner, thread))  # type: ignore[misc]
    ours, theirs = [
        [m for m in await messages(owner, thread.thread_id) if m.move == "EVENT"]
        for owner in (pair.alice, pair.bob)
    ]
    assert [m.envelope for m in ours] == [m.envelope for m in theirs]
    assert "CANCEL, ILL" in ours[-1].words
    said = await events(pair.alice, thread)
    assert len(said) == (2 if who == "alice" else 1)  # bob offered, so he numbers
    cancelled = said[-1]
    assert (cancelled.seq, cancelled.header.sender) == (1, "ind.ai/bob")
    assert cancelled.kind == negotiation_pb2.EVENT_KIND_CANCEL
    assert (cancelled.reason, cancelled.sentence) == ("ILL", "I am ill.")


async def test_a_cancelled_slot_can_be_promised_again(pair: Pair) -> None:
    start = now_ms() + 30 * DAY
    day = {"from_ms": start, "until_ms": start + 35 * MINUTE}
    first = await pair.alice.meet("ind.ai/bob", title="First", minutes=30, **day)
    assert first.state == owner_pb2.THREAD_STATE_COMMITTED
    taken = await pair.alice.meet("ind.ai/bob", title="Taken", minutes=30, **day)
    assert taken.state == owner_pb2.THREAD_STATE_REJECTED
    await pair.bob.stub.CancelCommitment(cancel(first))
    for owner, node in ((pair.alice, pair.a), (pair.bob, pair.b)):
        await until(owner, first.thread_id, lambda _, node=node, owner=owner: not busy(node, owner, first))  # type: ignore[misc]
        await until(owner, first.thread_id, is_cancelled)
    again = await pair.alice.meet("ind.ai/bob", title="Again", minutes=30, **day)
    assert (again.state, again.start_time) == (owner_pb2.THREAD_STATE_COMMITTED, first.start_time)


async def test_a_cancelled_slot_is_free_also_while_a_calendar_does_not_know_yet(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, write, put = now_ms() + 60 * DAY, asyncio.Event(), Effects._put

    async def slow(self: Effects, owner: str, effects: list[CalendarWrite]) -> list[CalendarWrite]:
        if any(each.doc.get("cancelled") for each in effects):
            await write.wait()
        return await put(self, owner, effects)

    day = {"from_ms": start, "until_ms": start + 35 * MINUTE}
    first = await pair.alice.meet("ind.ai/bob", title="First", minutes=30, **day)
    await pair.bob.rest(first.thread_id)
    monkeypatch.setattr(Effects, "_put", slow)
    await pair.bob.stub.CancelCommitment(cancel(first))
    for owner in (pair.alice, pair.bob):
        await until(owner, first.thread_id, is_cancelled)
    try:
        asked = await pair.alice.start("ind.ai/bob", title="Again", minutes=30, **day)
        ended = (owner_pb2.THREAD_STATE_COMMITTED, owner_pb2.THREAD_STATE_REJECTED)
        again = await until(pair.alice, asked, lambda seen: seen.state in ended)
        assert busy(pair.a, pair.alice, first)
        assert busy(pair.b, pair.bob, first)
    finally:
        write.set()
    assert (again.state, again.start_time) == (owner_pb2.THREAD_STATE_COMMITTED, first.start_time)
    for owner, node in ((pair.alice, pair.a), (pair.bob, pair.b)):
        await owner.rest(asked)
        assert busy(node, owner, again)


async def test_cancelling_twice_or_at_once_on_both_sides_is_one_cancellation(pair: Pair) -> None:
    thread = await ask(pair, title="Both at once")
    await asyncio.gather(
        *(owner.stub.CancelCommitment(cancel(thread)) for owner in (pair.alice, pair.bob, pair.alice))
    )
    for owner in (pair.alice, pair.bob):
        await until(owner, thread.thread_id, is_cancelled)
        again = await owner.stub.CancelCommitment(cancel(thread))
        assert again.thread.commitment_state == CANCELLED
    numbered = [event for event in await events(pair.bob, thread) if event.seq]
    assert [(event.seq, event.kind) for event in numbered] == [(1, negotiation_pb2.EVENT_KIND_CANCEL)]


async def test_a_meeting_is_not_fulfilled_before_it_is_over_and_nothing_else_is_cancelled(pair: Pair) -> None:
    thread = await ask(pair, title="Too early")
    with pytest.raises(IndaiError) as refused:
        await pair.bob.stub.FulfilCommitment(owner_pb2.FulfilCommitmentRequest(thread_id=thread.thread_id))
    assert refused.value.reason is Reason.ILLEGAL_MOVE
    denied = await ask(pair, minutes=90, title="Denied")
    with pytest.raises(IndaiError) as nothing:
        await pair.alice.stub.CancelCommitment(cancel(denied))
    assert nothing.value.reason is Reason.ILLEGAL_MOVE
    with pytest.raises(IndaiError) as malformed:
        await pair.bob.stub.CancelCommitment(
            owner_pb2.CancelCommitmentRequest(thread_id=thread.thread_id, reason="not a name")
        )
    assert malformed.value.reason is Reason.MALFORMED


@pytest.mark.parametrize("who", ["alice", "bob"])
async def test_an_objection_stands_in_both_ledgers_and_changes_nothing_else(pair: Pair, who: str) -> None:
    thread = await ask(pair, title=f"Disputed by {who}")
    one = pair.alice if who == "alice" else pair.bob
    await one.stub.DisputeCommitment(
        owner_pb2.DisputeCommitmentRequest(thread_id=thread.thread_id, sentence="That was not agreed.")
    )
    for owner in (pair.alice, pair.bob):
        after = await until(owner, thread.thread_id, lambda seen: seen.disputed)
        assert after.commitment_state == STANDS


async def test_commitments_are_listed_whatever_became_of_them(pair: Pair) -> None:
    thread = await ask(pair, title="Listed")
    await pair.bob.stub.CancelCommitment(cancel(thread))
    await until(pair.alice, thread.thread_id, is_cancelled)
    found: list[owner_pb2.Thread] = []
    request = owner_pb2.ListCommitmentsRequest(page_size=2)
    while True:
        page = await pair.alice.stub.ListCommitments(request)
        found += page.threads
        request.page_token = page.next_page_token
        if not request.page_token:
            break
    assert next(each for each in found if each.title == "Listed").commitment_state == CANCELLED
    ends = [each.end_time.ToMilliseconds() for each in found]
    assert ends == sorted(ends, reverse=True)
    assert len({each.thread_id for each in found}) == len(found)
    assert all(each.state == owner_pb2.THREAD_STATE_COMMITTED for each in found)


async def test_an_auditor_follows_every_life(pair: Pair, tmp_path: Path) -> None:
    report = await audited(pair, tmp_path)
    assert [finding.to_json() for finding in report.findings] == []
    assert {one.verdict.name for one in report.commitments} == {"VALID"}
    assert {one.state for one in report.commitments} == {"COMMITTED", "CANCELLED"}
    assert sum(one.disputed for one in report.commitments) == 2


async def test_a_stranger_cancels_nothing(pair: Pair, scene: Scene) -> None:
    """carol lives beside alice; nobody takes her word on what alice agreed with bob."""
    thread = await ask(pair, title="None of carol's")
    with pytest.raises(IndaiError) as refused:
        await scene.carol.stub.CancelCommitment(cancel(thread))
    assert refused.value.reason is Reason.NOT_FOUND
    assert (await seen(pair.alice, thread.thread_id)).commitment_state == STANDS


async def test_a_receipt_of_the_node_verifies_without_it(pair: Pair, tmp_path: Path) -> None:
    thread = await ask(pair, title="Receipted")
    await pair.bob.stub.CancelCommitment(cancel(thread))
    await until(pair.alice, thread.thread_id, is_cancelled)
    history = key_history(await pair.world.mirror(tmp_path / "registry.jsonl"), pair.world.policy.policy)
    (event,) = [m.mid for m in await messages(pair.alice, thread.thread_id) if m.move == "EVENT"]
    for mid, what in (("", "commitment"), (event, "event")):
        request = owner_pb2.GetReceiptRequest(thread_id=thread.thread_id, mid=mid)
        got = await pair.alice.stub.GetReceipt(request)
        made = ReceiptFile(got.leaf, got.tlog_proof, got.cose, got.opening, got.envelope)
        shown = check_receipt(made, history)
        assert (shown.what, set(shown.parties)) == (what, {"ind.ai/alice", "ind.ai/bob"})
        assert shown.proved.log == await pair.world.ledger("ind.ai/node-a")
    with pytest.raises(IndaiError) as malformed:
        await pair.alice.stub.GetReceipt(owner_pb2.GetReceiptRequest(thread_id=thread.thread_id, mid="12"))
    assert malformed.value.reason is Reason.INVALID_ARGUMENT
    with pytest.raises(IndaiError) as nothing:
        await pair.alice.stub.GetReceipt(
            owner_pb2.GetReceiptRequest(thread_id=thread.thread_id, mid="00" * 32)
        )
    assert nothing.value.reason is Reason.NOT_FOUND
