"""What a rule demands is done, or nothing is: obligations and layers at a node."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from indai.client.exports import OpenLeafLine, read_export
from indai.protocol.envelope import parse_envelope, payload_type
from indai.v1 import envelope_pb2, negotiation_pb2, owner_pb2, policy_pb2

from tests.service.node.conftest import Pair
from tests.service.node.database import connect
from tests.service.node.lives import audited
from tests.service.node.test_meeting import COMMITTED, REJECTED, ask, journal, messages
from tests.service.node.world import Owner, now_ms

RULES = "version: 1\ntimezone: UTC\nrules:\n  - {{ id: all, allow: meet, with: anyone{} }}\n"


async def follow(owner: Owner, duty: str) -> None:
    await owner.stub.ActivatePolicy(owner_pb2.ActivatePolicyRequest(yaml=RULES.format(duty)))


async def test_an_obligation_that_the_node_cannot_meet_refuses_and_tells_the_owner(pair: Pair) -> None:
    await follow(pair.bob, ", delay: 10m")
    thread = await ask(pair)
    assert thread.state == REJECTED
    assert any(
        "cannot do what your rules demand (delay:10m)" in entry.words for entry in await journal(pair.bob)
    )
    await follow(pair.bob, ", tell_owner: now, require_receipt: true, buffer: 5m")
    assert (await ask(pair)).state == COMMITTED


async def test_a_rule_limits_how_many_windows_a_proposal_reveals(pair: Pair) -> None:
    revealed = []
    for duty in ("", ", reveal_windows: 1"):
        await follow(pair.alice, duty)
        thread = await ask(pair)
        first = (await messages(pair.alice, thread.thread_id))[0]
        move = negotiation_pb2.Move.FromString(parse_envelope(first.envelope).payload)
        revealed.append(len(move.propose.meet.windows))
    assert revealed[0] > 1
    assert revealed[1] == 1


async def test_a_session_does_not_bind_the_agent_and_is_shown_by_its_name(pair: Pair) -> None:
    for owner in (pair.alice, pair.bob):
        await follow(owner, "")
    request = owner_pb2.ActivatePolicyRequest(
        yaml="version: 1\nrules:\n  - { id: none, deny: anything }\n", layer="session", session="fair"
    )
    await pair.bob.stub.ActivatePolicy(request)
    shown = await pair.bob.stub.GetActivePolicy(owner_pb2.GetActivePolicyRequest(session="fair"))
    assert shown.rules[-1] == "session/none: Never anything with anyone"
    assert (await ask(pair)).state == COMMITTED


async def test_of_meetings_asked_for_at_once_a_peer_gets_no_more_than_its_limit(pair: Pair) -> None:
    await follow(pair.alice, "")
    await follow(pair.bob, "")
    before = await ask(pair)
    day = 86_400_000
    begun = len((await pair.bob.stub.ListThreads(owner_pb2.ListThreadsRequest())).threads)
    await follow(pair.bob, f", peer_limit: {begun + 2}")
    asked = await asyncio.gather(
        *(
            pair.alice.start(
                "ind.ai/bob",
                title=f"Limit {number}",
                from_ms=before.end_time.ToMilliseconds() + number * day,
                until_ms=before.end_time.ToMilliseconds() + (number + 3) * day,
            )
            for number in range(5)
        )
    )
    states = [(await pair.alice.rest(each)).state for each in asked]
    assert (states.count(COMMITTED), states.count(REJECTED)) == (2, 3)


async def test_rules_about_how_long_a_peer_is_known_hold_for_meetings_and_stand_in_the_record(
    pair: Pair, tmp_path: Path
) -> None:
    await follow(pair.bob, ", known: { min: 30d }")
    assert (await ask(pair)).state == REJECTED
    # A thread of long ago, with somebody who is new to this process.
    friend = await pair.a.agent("ind.ai/oldfriend", RULES.format(""))
    connection = await connect(pair.b)
    try:
        await connection.execute(
            "UPDATE node.threads SET peer = $1, created_ms = created_ms - $2 WHERE thread ="
            " (SELECT thread FROM node.threads WHERE owner = 'ind.ai/bob' ORDER BY created_ms LIMIT 1)",
            friend.handle,
            40 * 86_400_000,
        )
    finally:
        await connection.close()
    start_ms = now_ms() + 20 * 86_400_000
    thread = await friend.meet("ind.ai/bob", from_ms=start_ms, until_ms=start_ms + 5 * 86_400_000)
    assert thread.state == COMMITTED
    path = tmp_path / "bob.jsonl"
    with path.open("wb") as file:
        async for part in pair.bob.stub.ExportOwner(owner_pb2.ExportOwnerRequest()):
            file.write(part.lines)
    about = [
        envelope_pb2.Envelope.FromString(line.envelope)
        for _, line in read_export(path)
        if isinstance(line, OpenLeafLine) and line.mid.hex() == thread.commitment_mid
    ]
    (record,) = [one.payload for one in about if one.payload_type == payload_type("decision")]
    context = json.loads(policy_pb2.DecisionRecord.FromString(record).decision.request_json)["context"]
    assert (context["known_days"], context["attendees"], context["door"]) == (40, 2, "agent")
    assert (await audited(pair, tmp_path)).verdicts["VALID"]
