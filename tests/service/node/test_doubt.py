"""An offerer that is silent after our acceptance: it delays, it never claims, and our owner sees it."""

from __future__ import annotations

import asyncio
import time

import pytest
from indai.client.tls import pinned_channel
from indai.protocol.envelope import Envelope, payload_type, seal
from indai.protocol.errors import IndaiError, Reason
from indai.protocol.handlestate import NodeRecord
from indai.v1 import envelope_pb2, negotiation_pb2, owner_pb2, peer_pb2
from indai.v1.peer_pb2_grpc import PeerServiceStub

from tests.service.node.conftest import Jump, Pair
from tests.service.node.lives import seen
from tests.service.node.lives import until as rested
from tests.service.node.scene import DAY, MINUTE, Scene
from tests.service.node.test_owner import AWAITING, until, withdraw
from tests.service.node.world import now_ms

IN_DOUBT = owner_pb2.THREAD_STATE_IN_DOUBT
COMMITTED = owner_pb2.THREAD_STATE_COMMITTED
LAPSED = owner_pb2.THREAD_STATE_LAPSED
WITHDRAWN = owner_pb2.THREAD_STATE_WITHDRAWN
LATE = 70 * MINUTE  # eve's offers live an hour


class Line:
    """To carol's node, whose record was read before the clocks went on."""

    def __init__(self, scene: Scene, record: NodeRecord) -> None:
        self._scene, self._record = scene, record

    async def say(self, envelope: Envelope) -> str:
        """Why it was refused; "" if it was not."""
        record, eve = self._record, self._scene.eve
        async with await pinned_channel(record.address, record.tls_spki_sha256, eve.identity) as channel:
            request = peer_pb2.DeliverRequest(envelopes=[envelope.raw])
            return (await PeerServiceStub(channel).Deliver(request)).results[0].error.reason


async def doubtful(scene: Scene) -> list[str]:
    listed = await scene.carol.stub.ListThreads(owner_pb2.ListThreadsRequest(in_doubt=True))
    assert all(each.state == IN_DOUBT for each in listed.threads)
    return [each.thread_id for each in listed.threads]


def later(scene: Scene, proposal: Envelope, offer: Envelope) -> envelope_pb2.Header:
    """eve's header for a word after all."""
    header = scene.header(proposal)
    header.in_reply_to, header.expires_at_ms = offer.mid, now_ms() + 9 * DAY
    return header


def rejected(scene: Scene, proposal: Envelope, offer: Envelope) -> Envelope:
    reject = negotiation_pb2.Reject(reason="LAPSED")
    move = negotiation_pb2.Move(header=later(scene, proposal, offer), reject=reject)
    return seal(payload_type("move"), move.SerializeToString(), [scene.eve.key])


def receipt(scene: Scene, proposal: Envelope, offer: Envelope) -> Envelope:
    word = negotiation_pb2.Receipt(
        header=later(scene, proposal, offer),
        mid=offer.mid,
        log="ind.ai/eve-node/ledger/2026",
        index=1,
        leaf_time_ms=now_ms(),
    )
    return seal(payload_type("receipt"), word.SerializeToString(), [scene.eve.key])


@pytest.mark.rule("NEG-31")
@pytest.mark.rule("NEG-35")
async def test_a_silent_offerer_can_delay_and_never_claim(scene: Scene, jump: Jump) -> None:
    record = (await scene.pair.world.resolver().resolve("ind.ai/node-a")).state.node_record
    assert record is not None
    line, threads = Line(scene, record), []
    for title in ("Silent", "Late"):
        thread_id, proposal = await scene.ask(title)
        offer = scene.offer(proposal)
        assert not (await scene.say(offer)).error.reason
        assert (await scene.thread(thread_id)).thread.state == AWAITING
        threads.append((thread_id, proposal, offer))
    assert await doubtful(scene) == []
    jump(time.time_ns() // 1_000_000 + LATE)
    for thread_id, _, _ in threads:
        seen = await until(scene.carol, thread_id, IN_DOUBT)
        assert "has not confirmed" in seen.words
        request = owner_pb2.ListJournalRequest(thread_id=thread_id)
        entries = (await scene.carol.stub.ListJournal(request)).entries
        assert [each.reason for each in entries if each.event == "doubt"] == ["IN_DOUBT"]
        # Asking to end it ends nothing by itself: it may have been committed.
        assert (await withdraw(scene.carol, thread_id)).state == IN_DOUBT
    assert set(await doubtful(scene)) == {thread_id for thread_id, _, _ in threads}
    (one, first, lapsed), (other, second, stands) = threads
    assert not await line.say(rejected(scene, first, lapsed))
    await until(scene.carol, one, WITHDRAWN)
    assert not await line.say(receipt(scene, second, stands))
    await until(scene.carol, other, COMMITTED)
    assert await doubtful(scene) == []
    # Who signs the other word too has proved the fraud, and changed nothing.
    assert await line.say(receipt(scene, first, lapsed)) == "THREAD_CLOSED"
    assert (await scene.thread(one)).thread.state == WITHDRAWN


async def clock(pair: Pair) -> int:
    """The nodes' time, ms, which another test may have put forward: once they have a head of the registry
    from then."""
    async with asyncio.timeout(60):
        while True:
            try:
                within = {"from_ms": now_ms() + DAY, "until_ms": now_ms() + 19 * DAY}
                begun = await pair.alice.start("ind.ai/bob", title="What time it is", **within)
                return (await seen(pair.alice, begun)).create_time.ToMilliseconds()
            except IndaiError as error:
                if error.reason is not Reason.STALE_HEAD:
                    raise
                await asyncio.sleep(0.05)


@pytest.mark.rule("NEG-33")
async def test_what_an_owner_leaves_unanswered_has_run_out_on_both_sides_and_is_not_refused(
    pair: Pair, jump: Jump
) -> None:
    node_ms = await clock(pair)
    within = {"from_ms": node_ms + 30 * MINUTE, "until_ms": node_ms + 120 * MINUTE}
    waits = await pair.alice.meet("ind.ai/bob", minutes=45, title="Soon", **within)
    assert waits.state == owner_pb2.THREAD_STATE_ON_HOLD
    jump(node_ms + 121 * MINUTE)  # a question is open until what is asked would begin, at most
    for one, who in ((pair.bob, "You"), (pair.alice, "The other side")):
        ended = await rested(one, waits.thread_id, lambda thread: thread.state == LAPSED, within_s=60)
        assert ended.reason == "UNANSWERED"
        assert ended.words.startswith(f"{who} did not answer in time")
    assert not (await pair.bob.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals
