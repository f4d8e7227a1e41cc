"""Two agents that answer each other for ever: the thread ends, and both sides hold the same end."""

from __future__ import annotations

import os

import pytest
from indai.protocol.envelope import Envelope, parse_envelope, payload_type, seal
from indai.protocol.header import new_id
from indai.v1 import negotiation_pb2, owner_pb2

from tests.service.node.scene import DAY, Scene
from tests.service.node.world import now_ms

REJECTED = owner_pb2.THREAD_STATE_REJECTED


def countered(scene: Scene, offer: Envelope, first: negotiation_pb2.Move) -> Envelope:
    """eve wants the very same as before."""
    move = negotiation_pb2.Move(header=first.header, counter=negotiation_pb2.Counter(meet=first.propose.meet))
    move.header.id, move.header.nonce = new_id(now_ms(), os.urandom(10)), os.urandom(16)
    move.header.in_reply_to, move.header.issued_at_ms = offer.mid, now_ms()
    return seal(payload_type("move"), move.SerializeToString(), [scene.eve.key])


@pytest.mark.rule("NEG-24")
async def test_who_repeats_the_same_wish_comes_to_an_impasse_that_the_owner_hears_of(scene: Scene) -> None:
    sent = await scene.proposal(now_ms() // DAY * DAY + 40 * DAY, "Round and round")
    first = negotiation_pb2.Move.FromString(sent.payload)
    thread_id = first.header.thread.hex()
    assert not (await scene.say(sent)).error.reason
    for _ in range(8):
        (question,) = [
            one
            for one in (await scene.carol.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals
            if one.thread_id == thread_id
        ]
        await scene.carol.stub.AnswerApproval(
            owner_pb2.AnswerApprovalRequest(code=question.code, approve=True)
        )
        newest = (await scene.thread(thread_id)).messages[-1]
        if newest.move != "OFFER":
            break
        said = await scene.say(countered(scene, parse_envelope(newest.envelope), first))
        assert not said.error.reason, said
        if (await scene.thread(thread_id)).thread.state == REJECTED:
            break
    ended = (await scene.thread(thread_id)).thread
    assert (ended.state, ended.reason) == (REJECTED, "IMPASSE")
    assert ended.words
    assert len((await scene.thread(thread_id)).messages) < 16
