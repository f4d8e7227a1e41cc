"""The audit judges an amount by the limit of the key that signed for it, and by the party that pays."""

from __future__ import annotations

from indai.client.audit.registry import KeyHistory
from indai.protocol.handlestate import AgentKey, HandleState
from indai.protocol.operations import CREATE
from indai.protocol.registryleaf import parse_registry_leaf

from .worlds import NODE_A, NOW, World, key


def judged(limits: tuple[tuple[str, int], ...], amount: tuple[str, int] | None) -> str:
    world = World()
    agent = AgentKey(key("limited").public_key, NOW, limits=limits)
    state = HandleState((key("ind.ai/payer rotation").public_key,), (agent,), NODE_A)
    world.registry.submit(CREATE, "ind.ai/payer", state, NOW)
    history = KeyHistory(world.registry.network)
    chain = world.registry.chains["ind.ai/payer"]
    for entry in world.registry.entries:
        leaf = parse_registry_leaf(entry)
        history.add(leaf.body, leaf.time_ms)
    return history.judge("ind.ai/payer", chain.subject_id, agent.key_id, NOW, "pay", amount).fault


def test_a_signature_for_more_than_the_keys_limit_is_a_fault() -> None:
    limits = (("EUR", 5_000),)
    assert judged(limits, ("EUR", 5_000)) == ""
    assert judged(limits, None) == ""
    assert judged((), ("EUR", 5_001)) == ""
    assert "may not sign for 5001" in judged(limits, ("EUR", 5_001))
    assert "may not sign for" in judged(limits, ("USD", 1))
