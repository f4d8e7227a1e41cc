"""carol, whose policy asks about everything, and eve, who speaks the protocol by hand."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from indai.client.tls import pinned_channel
from indai.protocol.envelope import Envelope, parse_envelope, payload_type, seal
from indai.protocol.header import new_id
from indai.v1 import envelope_pb2, intents_pb2, negotiation_pb2, owner_pb2, peer_pb2
from indai.v1.peer_pb2_grpc import PeerServiceStub

from tests.service.node.world import Owner, Stranger, now_ms

if TYPE_CHECKING:
    from tests.service.node.conftest import Pair

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
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
        terms = intents_pb2.MeetTerms(
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

    async def proposal(self, start_ms: int, title: str) -> Envelope:
        """eve asks carol for just this half hour."""
        _, model = await self.ask("Model")
        header = self.header(model)
        header.in_reply_to, header.thread = b"", header.id
        window = intents_pb2.Window(start_ms=start_ms, end_ms=start_ms + 30 * MINUTE)
        wish = intents_pb2.MeetWish(title=title, duration_minutes=30, windows=[window])
        move = negotiation_pb2.Move(header=header, propose=negotiation_pb2.Propose(meet=wish))
        return seal(payload_type("move"), move.SerializeToString(), [self.eve.key])

    async def say(self, envelope: Envelope) -> peer_pb2.DeliverResult:
        node = (await self.pair.world.resolver().resolve("ind.ai/node-a")).state.node_record
        assert node is not None
        channel = await pinned_channel(node.address, node.tls_spki_sha256, self.eve.identity)
        async with channel:
            answer = await PeerServiceStub(channel).Deliver(peer_pb2.DeliverRequest(envelopes=[envelope.raw]))
        return answer.results[0]

    async def thread(self, thread_id: str) -> owner_pb2.GetThreadResponse:
        return await self.carol.stub.GetThread(owner_pb2.GetThreadRequest(thread_id=thread_id))


async def refused_by(owner: Owner) -> list[owner_pb2.JournalEntry]:
    """The messages that the owner's node refused, newest first; without the lines that count, a second later,
    how many more there were."""
    entries = (await owner.stub.ListJournal(owner_pb2.ListJournalRequest())).entries
    refused = [entry for entry in entries if entry.event == "refused-message"]
    return [entry for entry in refused if "more messages" not in entry.words]
