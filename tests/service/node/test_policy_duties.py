"""What a rule demands is done, or nothing is: obligations and layers at a node."""

from __future__ import annotations

from indai.protocol.envelope import parse_envelope
from indai.v1 import negotiation_pb2, owner_pb2

from tests.service.node.conftest import Pair
from tests.service.node.test_meeting import COMMITTED, REJECTED, ask, journal, messages
from tests.service.node.world import Owner

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
