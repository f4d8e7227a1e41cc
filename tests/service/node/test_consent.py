"""An agent signs what its owner asked for or allowed, and nothing that a peer put in its place."""

from __future__ import annotations

import asyncio

import pytest
from indai.protocol.envelope import payload_type, seal
from indai.v1 import intents_pb2, negotiation_pb2, owner_pb2, policy_pb2

from tests.service.node.conftest import Pair
from tests.service.node.scene import ASK_ALWAYS, DAY, HOUR, MINUTE, Scene
from tests.service.node.world import now_ms

ASKING = owner_pb2.THREAD_STATE_ASKING_OWNER
AWAITING = owner_pb2.THREAD_STATE_AWAITING_RECEIPT
COMMITTED = owner_pb2.THREAD_STATE_COMMITTED


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
    wish = intents_pb2.MeetWish(
        title="All day",
        duration_minutes=480,
        windows=[intents_pb2.Window(start_ms=start, end_ms=start + 480 * MINUTE)],
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
    await asyncio.wait_for(synced(scene.pair), 60)
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
    async with asyncio.timeout(60):
        done = await scene.carol.rest(thread.thread_id)
    assert (done.state, done.in_calendar) == (COMMITTED, True)
    text = (scene.pair.a.data / "calendars" / "ind.ai_carol.ics").read_bytes()
    assert b"SUMMARY:Ind: Prefixed" in text
