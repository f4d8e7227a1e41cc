"""Handles whose meaning changed: transferred ones, and sub-agents with and without a delegation."""

from __future__ import annotations

from typing import Any

import pytest
from indai.client.handlekeys import claim, delegate, new_agent_key, transfer
from indai.protocol.envelope import Envelope
from indai.protocol.errors import IndaiError, Reason
from indai.protocol.handlestate import Delegation
from indai.protocol.keys import SigningKey
from indai.v1 import owner_pb2, registry_pb2

from tests.service.node.conftest import BOBS, Pair
from tests.service.node.test_hostile import DAY, deliver, proposal
from tests.service.node.world import now_ms


class Somebody:
    """Keys of one person, and operations signed with them."""

    def __init__(self, pair: Pair) -> None:
        self.world = pair.world
        self.rotation, self.agent = SigningKey.generate(), SigningKey.generate()
        self.agent_public = self.agent.public_key

    async def submit(self, operation: Envelope) -> None:
        request = registry_pb2.SubmitOperationRequest(operation=operation.raw)
        await self.world.stub().SubmitOperation(request)

    async def claim(self, handle: str, **more: Any) -> str:
        """The new subject."""
        keys = [new_agent_key(self.agent_public, now_ms())]
        origin = self.world.policy.origin
        node = "ind.ai/node-a"
        await self.submit(
            claim(handle, origin, [self.rotation], now_ms=now_ms(), agent_keys=keys, node=node, **more)
        )
        return (await self.world.resolver().resolve(handle)).subject_id

    async def says(self, pair: Pair, handle: str, subject: str) -> str:
        """What bob's node tells theirs about a proposal of theirs; empty when it is taken."""
        message = await proposal(
            pair, self.agent, sender=handle, sender_subject=subject, key_id=self.agent.key_id
        )
        (result,) = await deliver(pair, message.raw, identity=pair.a.identity())
        return result.error.reason


async def meet(pair: Pair, peer: str) -> None:
    start = now_ms() + DAY
    await pair.alice.meet(peer, from_ms=start, until_ms=start + DAY)


@pytest.mark.rule("REG-39")
async def test_circles_do_not_go_along_with_a_transferred_handle(pair: Pair) -> None:
    handle = "ind.ai/carol"  # in alice's circle of friends
    before, heir = Somebody(pair), Somebody(pair)
    await before.claim(handle)
    chain = (await pair.world.resolver().resolve(handle)).chain
    await before.submit(transfer(chain, before.rotation, heir.rotation.public_key, now_ms=now_ms()))
    ended = (await pair.world.resolver().resolve(handle)).chain
    subject = await heir.claim(handle, predecessor=ended)

    assert await heir.says(pair, handle, subject) == "REFUSED"
    with pytest.raises(IndaiError) as caught:
        await meet(pair, handle)
    assert caught.value.reason is Reason.PIN_MISMATCH
    # Rules that were set after the change are meant for who has the handle now.
    await pair.bob.stub.ActivatePolicy(owner_pb2.ActivatePolicyRequest(yaml=BOBS.replace("60m", "61m")))
    assert await heir.says(pair, handle, subject) == ""


async def test_an_heir_never_gets_the_former_owners_agent_on_a_node(pair: Pair) -> None:
    """Neither a key for it, nor messages that are meant for the heir: what is there stays the former's."""
    handle, operator = "ind.ai/gina", pair.a.operator()
    made = await operator.CreateAgent(owner_pb2.CreateAgentRequest(handle=handle))
    former, heir = Somebody(pair), Somebody(pair)
    former.agent_public = made.agent_key.public_key
    await former.claim(handle)
    again = owner_pb2.CreateAgentKeyRequest(handle=handle)
    assert (await operator.CreateAgentKey(again)).agent_key.key_id  # negative control: the owner's own
    chain = (await pair.world.resolver().resolve(handle)).chain
    await former.submit(transfer(chain, former.rotation, heir.rotation.public_key, now_ms=now_ms()))

    async def refused() -> None:
        for call in (
            operator.CreateAgentKey(again),
            operator.CreateAgent(owner_pb2.CreateAgentRequest(handle=handle)),
        ):
            with pytest.raises(IndaiError) as caught:
                await call
            assert caught.value.reason is Reason.PIN_MISMATCH

    await refused()
    ended = (await pair.world.resolver().resolve(handle)).chain
    subject = await heir.claim(handle, predecessor=ended)
    await refused()
    # A message to the heir, who lives elsewhere, is not for the agent that is still here.
    key = pair.world.insider["ind.ai/alice"]
    message = await proposal(pair, key, recipient=handle, recipient_subject=subject)
    (result,) = await deliver(pair, message.raw, identity=pair.a.identity(), node="ind.ai/node-a")
    assert result.error.reason in ("REFUSED", "WRONG_AUDIENCE")


@pytest.mark.rule("REG-37")
async def test_a_sub_agent_is_heard_only_with_a_delegation(pair: Pair) -> None:
    for name, kinds, reason in (
        ("ind.ai/dave", (), "REFUSED"),
        ("ind.ai/erin", ("ask",), "REFUSED"),
        ("ind.ai/fred", ("meet",), ""),
    ):
        person = Somebody(pair)
        await person.claim(name)
        sub = f"{name}/work"
        agent = Somebody(pair)
        agent.rotation = person.rotation
        subject = await agent.claim(sub)
        if kinds:
            chain = (await pair.world.resolver().resolve(name)).chain
            given = Delegation(sub, subject, kinds, now_ms() - 1_000, now_ms() + DAY)
            await person.submit(delegate(chain, person.rotation, given, now_ms=now_ms()))
        assert await agent.says(pair, sub, subject) == reason
