"""An agent signs what its owner asked for or allowed, and nothing that a peer put in its place."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from indai.client.tls import pinned_channel
from indai.protocol.envelope import Envelope, parse_envelope, payload_type, seal
from indai.protocol.header import new_id
from indai.v1 import envelope_pb2, negotiation_pb2, owner_pb2, peer_pb2, policy_pb2
from indai.v1.peer_pb2_grpc import PeerServiceStub

from tests.service.node.conftest import Pair
from tests.service.node.world import Owner, Stranger, now_ms

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
ASKING = owner_pb2.THREAD_STATE_ASKING_OWNER
AWAITING = owner_pb2.THREAD_STATE_AWAITING_RECEIPT
COMMITTED = owner_pb2.THREAD_STATE_COMMITTED
ASK_ALWAYS = 'version: 1\ntimezone: UTC\nrules:\n  - ask: meet\n    with: anyone\n    title_prefix: "Ind: "\n'


@dataclass
class Scene:
    """carol, whose policy asks about everything, on node-a; eve, who speaks by hand."""

    pair: Pair
    carol: Owner
    eve: Stranger

    async def ask(self, title: str = "Lunch") -> tuple[str, Envelope]:
        """carol asks eve for half an hour: the thread's id, and her proposal."""
        wanted = owner_pb2.StartMeetRequest(
            request_id=str(uuid.uuid4()), peer=self.eve.handle, title=title, duration_minutes=30
        )
        wanted.start_time.FromMilliseconds(now_ms() + HOUR)
        wanted.end_time.FromMilliseconds(now_ms() + 9 * DAY)
        thread_id = (await self.carol.stub.StartMeet(wanted)).thread.thread_id
        got = await self.carol.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=thread_id))
        return thread_id, parse_envelope(got.messages[0].envelope)

    def header(self, proposal: Envelope) -> envelope_pb2.Header:
        theirs = negotiation_pb2.Move.FromString(proposal.payload).header
        return envelope_pb2.Header(
            id=new_id(now_ms(), os.urandom(10)),
            network=theirs.network,
            sender=theirs.recipient,
            sender_subject=theirs.recipient_subject,
            recipient=theirs.sender,
            recipient_subject=theirs.sender_subject,
            key_id=self.eve.key.key_id,
            issued_at_ms=now_ms(),
            expires_at_ms=now_ms() + HOUR,
            nonce=os.urandom(16),
            in_reply_to=proposal.mid,
            thread=theirs.thread,
        )

    def offer(self, proposal: Envelope, **changes: object) -> Envelope:
        """eve's offer of the first slot of the proposal, with `changes` of its terms."""
        asked = negotiation_pb2.Move.FromString(proposal.payload)
        header, start = self.header(proposal), asked.propose.meet.windows[0].start_ms
        terms = negotiation_pb2.MeetTerms(
            start_ms=start,
            end_ms=start + 30 * MINUTE,
            title=asked.propose.meet.title,
            ical_uid=f"{header.thread.hex()}@eve",
        )
        for name, value in changes.items():
            setattr(terms, name, value)
        parties = [
            negotiation_pb2.Party(
                handle=header.sender, subject_id=header.sender_subject, key_id=header.key_id
            ),
            negotiation_pb2.Party(
                handle=header.recipient, subject_id=header.recipient_subject, key_id=asked.header.key_id
            ),
        ]
        commitment = negotiation_pb2.Commitment(header=header, parties=parties, meet=terms)
        return seal(payload_type("commitment"), commitment.SerializeToString(), [self.eve.key])

    async def say(self, envelope: Envelope) -> peer_pb2.DeliverResult:
        node = (await self.pair.world.resolver().resolve("ind.ai/node-a")).state.node_record
        assert node is not None
        channel = await pinned_channel(node.address, node.tls_spki_sha256, self.eve.identity)
        async with channel:
            answer = await PeerServiceStub(channel).Deliver(peer_pb2.DeliverRequest(envelopes=[envelope.raw]))
        return answer.results[0]

    async def thread(self, thread_id: str) -> owner_pb2.GetThreadResponse:
        return await self.carol.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=thread_id))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(pair: Pair) -> AsyncIterator[Scene]:
    carol = await pair.a.agent("ind.ai/carol", ASK_ALWAYS)
    yield Scene(pair, carol, await pair.world.stranger("ind.ai/eve"))


async def test_what_the_owner_asked_for_is_accepted_without_asking_again(scene: Scene) -> None:
    thread_id, proposal = await scene.ask()
    answer = await scene.say(scene.offer(proposal))
    assert not answer.error.reason, answer.error
    assert len(answer.replies) == 1
    assert (await scene.thread(thread_id)).thread.state == AWAITING


@pytest.mark.parametrize("change", [{"title": "Buy my boat"}, {"place": "https://evil.example"}])
async def test_what_the_peer_put_in_its_place_is_asked_about(scene: Scene, change: dict[str, str]) -> None:
    thread_id, proposal = await scene.ask()
    answer = await scene.say(scene.offer(proposal, **change))
    assert not answer.error.reason, answer.error
    got = await scene.thread(thread_id)
    assert got.thread.state == ASKING
    assert [message.move for message in got.messages] == ["PROPOSE", "OFFER", "HOLD"]
    (approval,) = [
        one
        for one in (await scene.carol.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals
        if one.thread_id == thread_id
    ]
    assert next(iter(change.values())) in approval.terms
    await scene.carol.stub.AnswerApproval(owner_pb2.AnswerApprovalRequest(code=approval.code, approve=True))
    got = await scene.thread(thread_id)
    assert got.messages[-1].move == "ACCEPT"
    assert got.messages[-1].decision.outcome == policy_pb2.OUTCOME_ASK


async def test_a_counter_proposal_is_not_the_owners_own_wish(scene: Scene) -> None:
    thread_id, proposal = await scene.ask()
    start = now_ms() + 3 * DAY
    wish = negotiation_pb2.MeetWish(
        title="All day",
        duration_minutes=480,
        windows=[negotiation_pb2.Window(start_ms=start, end_ms=start + 480 * MINUTE)],
    )
    move = negotiation_pb2.Move(header=scene.header(proposal), counter=negotiation_pb2.Counter(meet=wish))
    await scene.say(seal(payload_type("move"), move.SerializeToString(), [scene.eve.key]))
    assert (await scene.thread(thread_id)).thread.state == ASKING


async def test_an_offer_with_a_uid_of_another_event_is_refused(scene: Scene) -> None:
    thread_id, proposal = await scene.ask()
    answer = await scene.say(scene.offer(proposal, ical_uid="dentist@owner.example"))
    assert answer.error.reason == "MALFORMED"
    assert [message.move for message in (await scene.thread(thread_id)).messages] == ["PROPOSE"]


async def test_an_offer_for_a_key_revoked_since_is_not_accepted(scene: Scene) -> None:
    world = scene.pair.world
    frank = await scene.pair.a.agent("ind.ai/frank", ASK_ALWAYS)
    inside = Scene(scene.pair, frank, scene.eve)
    thread_id, proposal = await inside.ask()
    key_id = negotiation_pb2.Move.FromString(proposal.payload).header.key_id
    await world.revoke("ind.ai/frank", key_id)
    await asyncio.wait_for(synced(scene.pair), 10)
    answer = await inside.say(inside.offer(proposal))
    assert answer.error.reason
    assert (await inside.thread(thread_id)).thread.state == owner_pb2.THREAD_STATE_NEGOTIATING


async def synced(pair: Pair) -> None:
    """node-a has read the registry's log."""
    await pair.a.operator().SyncRegistry(owner_pb2.SyncRegistryRequest())


async def test_the_prefix_that_the_rule_wants_stands_in_the_calendar(scene: Scene) -> None:
    thread = await scene.pair.alice.meet(
        "ind.ai/carol", title="Prefixed", from_ms=now_ms() + HOUR, until_ms=now_ms() + 5 * DAY
    )
    (approval,) = [
        one
        for one in (await scene.carol.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals
        if one.thread_id == thread.thread_id
    ]
    await scene.carol.stub.AnswerApproval(owner_pb2.AnswerApprovalRequest(code=approval.code, approve=True))
    async with asyncio.timeout(20):
        done = await scene.carol.rest(thread.thread_id)
    assert (done.state, done.in_calendar) == (COMMITTED, True)
    text = (scene.pair.a.data / "calendars" / "ind.ai_carol.ics").read_bytes()
    assert b"SUMMARY:Ind: Prefixed" in text
