"""Agents that answer each other for ever, in one thread or round a ring of them: it ends, on every side."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from indai.cli.mcp import mcp_session
from indai.client.channels import plain_channel
from indai.mcp.server import make_server
from indai.mcp.session import SHOWN_MS, Session
from indai.node import budget, echoes
from indai.protocol.envelope import Envelope, parse_envelope, payload_type, seal
from indai.protocol.errors import IndaiError, NotFound, Reason
from indai.protocol.header import new_id
from indai.v1 import group_pb2, negotiation_pb2, owner_pb2
from indai.v1.group_pb2_grpc import GroupServiceStub

from tests.service.node.conftest import Pair
from tests.service.node.hosts import Person, client, home_of, value_of
from tests.service.node.scene import DAY, Scene, refused_by
from tests.service.node.world import Node, Owner, now_ms
from tests.unit.cli.runs import run

REJECTED, COMMITTED = owner_pb2.THREAD_STATE_REJECTED, owner_pb2.THREAD_STATE_COMMITTED
OPEN = "version: 1\ntimezone: UTC\nrules:\n  - {allow: meet, with: anyone%s}\n"


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


async def passed_on(by: Owner, to: Owner, because: str) -> str:
    """A wish to meet, because of another thread; the new thread's id."""
    request = owner_pb2.StartMeetRequest(
        request_id=str(uuid.uuid4()),
        peer=to.handle,
        title="Round the ring",
        duration_minutes=30,
        start_time=Timestamp(seconds=(now_ms() + DAY) // 1000),
        end_time=Timestamp(seconds=(now_ms() + 30 * DAY) // 1000),
        passes_on=because,
    )
    return (await by.stub.StartMeet(request)).thread.thread_id


async def convened(node: Node, by: Owner, members: Sequence[Owner], because: str) -> str:
    """A wish to meet several, because of another thread; the new thread's id."""
    request = group_pb2.StartGroupRequest(
        request_id=str(uuid.uuid4()),
        peers=[member.handle for member in members],
        title="All at once",
        duration_minutes=30,
        start_time=Timestamp(seconds=(now_ms() + DAY) // 1000),
        end_time=Timestamp(seconds=(now_ms() + 30 * DAY) // 1000),
        passes_on=because,
    )
    async with plain_channel(node.info.addresses["owner"], token=by.token) as channel:
        return (await GroupServiceStub(channel).StartGroup(request)).thread.thread_id


async def hops(of: Owner, thread_id: str) -> int:
    """What the first message says that `of` has stored."""
    request = owner_pb2.GetThreadRequest(thread_id=thread_id)
    first = (await of.stub.GetThread(request)).messages[0]
    return negotiation_pb2.Move.FromString(parse_envelope(first.envelope).payload).header.hops


@pytest.mark.rule("HDR-07")
async def test_what_runs_round_a_ring_of_agents_stops_at_the_third_hop(pair: Pair) -> None:
    ring = [
        await node.agent(f"ind.ai/ring-{number}", OPEN % "")
        for number, node in enumerate((pair.a, pair.b, pair.a, pair.b))
    ]
    because = earlier = ""
    for number in range(3):
        because = await passed_on(ring[number], ring[number + 1], because)
        assert (await ring[number].rest(because)).state == COMMITTED
        assert await hops(ring[number + 1], because) == number
        earlier = because if number < 2 else earlier
    with pytest.raises(IndaiError) as refused:
        await passed_on(ring[3], ring[0], because)
    assert refused.value.reason is Reason.TOO_MANY_HOPS
    with pytest.raises(IndaiError) as refused:
        await convened(pair.b, ring[3], ring[:2], because)
    assert refused.value.reason is Reason.TOO_MANY_HOPS
    everybody = await convened(pair.a, ring[2], ring[:2], earlier)
    assert await hops(ring[2], everybody) == 2
    with pytest.raises(NotFound):  # another's thread is nobody's
        await passed_on(ring[0], ring[1], because)


@pytest.mark.rule("HDR-07")
async def test_a_third_hop_is_refused_by_who_is_asked_too(scene: Scene) -> None:
    sent = await scene.proposal(now_ms() // DAY * DAY + 50 * DAY, "Passed on thrice")
    move = negotiation_pb2.Move.FromString(sent.payload)
    move.header.hops = 3
    said = await scene.say(seal(payload_type("move"), move.SerializeToString(), [scene.eve.key]))
    assert (said.error.reason, list(said.replies)) == ("REFUSED", [])
    assert (await refused_by(scene.carol))[0].reason == "TOO_MANY_HOPS"


@pytest.mark.rule("HDR-07")
async def test_a_command_that_a_program_runs_passes_on_what_the_program_acts_on(
    pair: Pair, tmp_path: Path
) -> None:
    first = await pair.a.agent("ind.ai/by-command", OPEN % "")
    friend = await pair.b.agent("ind.ai/by-command-friend", OPEN % "")
    because = await passed_on(friend, first, "")
    assert (await friend.rest(because)).state == COMMITTED
    command = ("meet", friend.handle, "--for", "30m", "--about", "Because", "--no-wait", "--json", "--data")
    home = home_of(pair.a, first, tmp_path)
    said = await asyncio.to_thread(run, *command, str(home.path), INDAI_BECAUSE=because)
    assert said.exit_code == 0, said.output
    assert await hops(first, json.loads(said.stdout)["thread"]) == 1


@pytest.mark.rule("HDR-07")
async def test_what_an_assistant_begins_alone_is_passed_on_from_what_it_has_read(
    pair: Pair, tmp_path: Path
) -> None:
    aide = await pair.a.agent("ind.ai/aide", (OPEN % "").replace("allow", "ask"))
    friend = await pair.b.agent("ind.ai/aide-friend", OPEN % "")
    days = [datetime.fromtimestamp((now_ms() + days * DAY) / 1000, UTC).isoformat() for days in (1, 9)]
    wish = {"peer": friend.handle, "title": "Then", "earliest": days[0], "latest": days[1]}

    async def begun(session: Session, person: Person | None, read: str) -> int:
        async with client(make_server(session), person) as host:
            await host.call_tool(read, {})
            made = value_of(await host.call_tool("start_meeting", wish))
        return await hops(aide, made["thread"])

    async with mcp_session(home_of(pair.a, aide, tmp_path), aide.handle, may_start=True) as session:
        await friend.rest(await passed_on(friend, aide, ""))
        assert await begun(session, None, "list_commitments") == 0
        assert await begun(session, None, "inbox") == 1
        assert await begun(replace(session, may_start=False), Person(), "inbox") == 0  # the owner's own word
        old = replace(session, shown=dict.fromkeys(session.shown, now_ms() - SHOWN_MS - 1))
        assert await begun(old, None, "list_commitments") == 0


async def test_a_rule_may_refuse_what_others_have_passed_on(pair: Pair) -> None:
    first = await pair.a.agent("ind.ai/ask-first", OPEN % "")
    wary = await pair.b.agent("ind.ai/wary", OPEN % ", hops: {max: 0}")
    friend = await pair.b.agent("ind.ai/wary-friend", OPEN % "")
    because = await passed_on(friend, first, "")
    assert (await friend.rest(because)).state == COMMITTED
    assert (await first.rest(await passed_on(first, wary, ""))).state == COMMITTED
    refused = await first.rest(await passed_on(first, wary, because))
    assert (refused.state, refused.reason) == (REJECTED, "POLICY_DENIED")


async def test_two_programs_that_answer_each_other_and_say_nothing_of_it_come_to_an_end(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(echoes, "MOST", 3)
    ping = await pair.a.agent("ind.ai/ping", OPEN % "")
    pong = await pair.b.agent("ind.ai/pong", OPEN % "")
    begun, error = list[str](), None
    while error is None and len(begun) < 20:  # each begins a thread because the other has begun one
        by, to = (ping, pong) if len(begun) % 2 == 0 else (pong, ping)
        try:
            begun.append(await passed_on(by, to, ""))
        except IndaiError as refused:
            error = refused.reason
        assert (await by.rest(begun[-1])).state == COMMITTED
    assert error is Reason.TOO_MANY_HOPS
    assert len(begun) == 7  # the first, and for each three that follow on one of the other's
    assert await hops(pong, await passed_on(pong, ping, begun[-1])) == 1  # who says why is counted by hops
    assert await passed_on(pong, await pair.a.agent("ind.ai/somebody", OPEN % ""), "")


async def test_a_pair_that_has_said_too_much_begins_nothing_new_for_a_while(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "BURST", 1)
    chatty = replace(scene, eve=await scene.pair.world.stranger("ind.ai/chatty"))
    first = await chatty.proposal(now_ms() // DAY * DAY + 60 * DAY, "First")
    second = await chatty.proposal(now_ms() // DAY * DAY + 61 * DAY, "Second")
    assert not (await chatty.say(first)).error.reason
    assert (await chatty.say(second)).error.reason == "RATE_LIMITED"
    assert not (await chatty.say(first)).error.reason  # what is known has its answer, however often it comes
