"""Layers above and below an owner's rules: all must permit, and each version pins them all."""

from __future__ import annotations

from typing import Any

import pytest
from indai.client.decisions import Layer, Outcome, evaluate, policy_hash
from indai.policy.compiled import compile_policy
from indai.policy.servicer import PolicyService
from indai.policy.store import activate, active_state
from indai.protocol.errors import InvalidInput, NotFound
from indai.v1 import policy_pb2 as pb

ACME, OTHER, BOB = "acme.com/dan", "ind.ai/alice", "ind.ai/bob"
NOW = 1_795_408_200_000
OWNER = (
    "version: 1\ntimezone: Asia/Kolkata\nrules:\n"
    "  - { id: pays, allow: pay, with: anyone, amount: { max: 90 INR } }\n"
)
STRICTER = OWNER.replace("90 INR", "50 INR")
HOUSE = (
    "version: 1\nrules:\n  - { id: rest, allow: anything, with: anyone }\n"
    "  - { id: cap, deny: pay, amount: { min: 50 INR } }\n"
)
ASKING = "version: 1\nrules:\n  - { id: ask-all, ask: pay, with: anyone, tell_owner: now }\n"
OUTCOMES = {pb.OUTCOME_PERMIT: Outcome.PERMIT, pb.OUTCOME_REFUSE: Outcome.REFUSE, pb.OUTCOME_ASK: Outcome.ASK}
CONTEXT: Any = None  # no method looks at it


@pytest.fixture
async def service(database: Any, monkeypatch: pytest.MonkeyPatch) -> PolicyService:
    """One whose leases last as long as no time."""
    monkeypatch.setattr("indai.policy.leases.LEASE_S", 0.0)
    monkeypatch.setattr("indai.policy.leases.MARGIN_S", 0.0)
    service = PolicyService(database.pool, lambda: NOW)
    for owner in (ACME, OTHER):
        await service.SetPolicy(pb.SetPolicyRequest(owner=owner, yaml=OWNER), CONTEXT)
    return service


async def pay(service: PolicyService, rupees: int, owner: str = ACME, session: str = "") -> pb.Decision:
    stated = pb.PayFacts(direction="request", amount_minor=rupees * 100, currency="INR", payee="a@b")
    facts = pb.Facts(pay=stated, peer=BOB, verified=True, now_ms=NOW, channel="agent")
    request = pb.DecideRequest(owner=owner, facts=[facts], session=session)
    (decision,) = (await service.Decide(request, CONTEXT)).decisions
    return decision


async def scope(service: PolicyService, name: str, yaml: str) -> bool:
    return (await service.SetScope(pb.SetScopeRequest(scope=name, yaml=yaml), CONTEXT)).changed


def summary(decision: pb.Decision) -> tuple[Outcome, str, list[str]]:
    return OUTCOMES[decision.outcome], decision.layer, list(decision.rules)


async def test_an_organisations_rules_bind_its_own_people_only(service: PolicyService) -> None:
    assert summary(await pay(service, 60))[0] is Outcome.PERMIT
    assert await scope(service, "acme.com", HOUSE)
    assert not await scope(service, "acme.com", HOUSE)
    assert summary(await pay(service, 60)) == (Outcome.REFUSE, "organisation", ["organisation/cap"])
    assert summary(await pay(service, 40))[0] is Outcome.PERMIT
    assert summary(await pay(service, 60, owner=OTHER))[0] is Outcome.PERMIT
    assert await scope(service, "acme.com", "")
    assert summary(await pay(service, 60))[0] is Outcome.PERMIT


async def test_the_operators_rules_bind_everyone_and_widen_nothing(service: PolicyService) -> None:
    await scope(service, "*", HOUSE)
    for owner in (ACME, OTHER):
        assert summary(await pay(service, 60, owner=owner))[1] == "operator"
        assert summary(await pay(service, 100, owner=owner))[0] is Outcome.REFUSE


async def test_a_session_is_stricter_for_itself_alone(service: PolicyService) -> None:
    request = pb.SetPolicyRequest(owner=ACME, yaml=ASKING, layer="session", session="fair")
    answer = await service.SetPolicy(request, CONTEXT)
    assert [layer.name for layer in answer.version.layers] == ["platform", "owner", "session"]
    asked = await pay(service, 40, session="fair")
    assert summary(asked) == (Outcome.ASK, "session", ["session/ask-all"])
    assert list(asked.obligations) == ["tell_owner:now"]
    assert summary(await pay(service, 40))[0] is Outcome.PERMIT
    active = await service.GetPolicy(pb.GetPolicyRequest(owner=ACME), CONTEXT)
    assert [layer.name for layer in active.version.layers] == ["platform", "owner"]


async def test_an_agents_layer_is_active_until_it_is_cleared(service: PolicyService) -> None:
    request = pb.SetPolicyRequest(owner=ACME, yaml=ASKING, layer="agent")
    assert (await service.SetPolicy(request, CONTEXT)).changed
    assert summary(await pay(service, 40)) == (Outcome.ASK, "agent", ["agent/ask-all"])
    shown = await service.GetPolicy(pb.GetPolicyRequest(owner=ACME), CONTEXT)
    assert "agent/ask-all: Ask me about payments with anyone, and I am told now" in shown.rules
    await service.SetPolicy(pb.SetPolicyRequest(owner=ACME, layer="agent"), CONTEXT)
    assert summary(await pay(service, 40))[0] is Outcome.PERMIT


async def test_a_decision_of_many_layers_replays_from_its_version_alone(service: PolicyService) -> None:
    await scope(service, "acme.com", HOUSE)
    decision = await pay(service, 60)
    request = pb.GetPolicyRequest(owner=ACME, policy_hash=decision.policy_hash)
    version = (await service.GetPolicy(request, CONTEXT)).version
    layers = [
        Layer(one.name, one.grant, one.ask, OUTCOMES[one.unmatched], one.advise) for one in version.layers
    ]
    others = {one.name: one.yaml for one in version.layers if one.yaml}
    assert others == {"organisation": HOUSE}
    hashed = policy_hash(layers, version.schema, version.time_zone, version.yaml, others)
    assert hashed == decision.policy_hash == version.policy_hash
    again = evaluate(layers, version.schema, decision.request_json, decision.entities_json)
    assert (again.outcome, list(again.rules)) == (OUTCOMES[decision.outcome], list(decision.rules))


@pytest.mark.parametrize(
    ("layer", "session", "yaml"),
    [
        ("organisation", "", HOUSE),
        ("session", "", HOUSE),
        ("agent", "fair", HOUSE),
        ("agent", "", "version: 2"),
    ],
)
async def test_a_layer_that_is_not_the_owners_to_set_is_refused(
    service: PolicyService, layer: str, session: str, yaml: str
) -> None:
    with pytest.raises(InvalidInput):
        await service.SetPolicy(
            pb.SetPolicyRequest(owner=ACME, yaml=yaml, layer=layer, session=session), CONTEXT
        )


async def test_a_layer_without_an_owners_rules_and_a_faulty_scope_are_refused(
    service: PolicyService,
) -> None:
    with pytest.raises(NotFound):
        await service.SetPolicy(pb.SetPolicyRequest(owner=BOB, yaml=ASKING, layer="agent"), CONTEXT)
    with pytest.raises(InvalidInput):
        await scope(service, "not a domain", HOUSE)
    with pytest.raises(InvalidInput):
        await scope(service, "acme.com", "rules: 1")


async def test_another_replica_decides_by_what_this_one_was_told(
    service: PolicyService, database: Any
) -> None:
    other = PolicyService(database.pool, lambda: NOW)
    assert summary(await pay(other, 60))[0] is Outcome.PERMIT
    await scope(service, "acme.com", HOUSE)
    assert summary(await pay(other, 60))[0] is Outcome.REFUSE
    await service.SetPolicy(pb.SetPolicyRequest(owner=OTHER, yaml=STRICTER), CONTEXT)
    assert summary(await pay(other, 60, owner=OTHER))[0] is Outcome.REFUSE


async def test_what_nobody_has_changed_is_read_once(
    service: PolicyService, database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    async def counted(pool: Any, owner: str, session: str) -> Any:
        read.append(owner)
        return await active_state(pool, owner, session)

    monkeypatch.setattr("indai.policy.leases.active_state", counted)
    other = PolicyService(database.pool, lambda: NOW)
    for _ in range(3):
        await pay(other, 60)
        await pay(other, 60, owner=OTHER)
    assert read == [ACME, OTHER]
    await service.SetPolicy(pb.SetPolicyRequest(owner=OTHER, yaml=STRICTER), CONTEXT)
    read.clear()
    await pay(other, 60)
    await pay(other, 60, owner=OTHER)
    assert read == [OTHER]


async def test_a_change_while_the_state_is_read_is_not_missed(
    service: PolicyService, database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def overtaken(pool: Any, owner: str, session: str) -> Any:
        state = await active_state(pool, owner, session)
        monkeypatch.setattr("indai.policy.leases.active_state", active_state)
        await scope(service, "acme.com", HOUSE)
        return state

    other = PolicyService(database.pool, lambda: NOW)
    await pay(other, 60, owner=OTHER)
    monkeypatch.setattr("indai.policy.leases.active_state", overtaken)
    assert summary(await pay(other, 60))[0] is Outcome.REFUSE
    await scope(service, "acme.com", "")
    assert summary(await pay(other, 60))[0] is Outcome.PERMIT  # and not what was compiled in between


async def test_what_the_owner_set_meanwhile_is_not_replaced(service: PolicyService, database: Any) -> None:
    before = (await active_state(database.pool, ACME)).policy_hash
    await service.SetPolicy(pb.SetPolicyRequest(owner=ACME, yaml=STRICTER), CONTEXT)
    set_since = (await active_state(database.pool, ACME)).policy_hash
    late = compile_policy(OWNER, {"operator": HOUSE})
    assert not await activate(database.pool, ACME, late, NOW, instead_of=before)
    assert (await active_state(database.pool, ACME)).policy_hash == set_since
