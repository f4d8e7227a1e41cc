"""Recoveries, transfers and re-issues through a whole registry, and a client that verifies them."""

from __future__ import annotations

from typing import Any

import pytest
from indai.client.handlekeys import (
    add_agent_key,
    claim,
    delegate,
    new_agent_key,
    recover,
    retire,
    rotate_rotation_keys,
    transfer,
)
from indai.protocol.delegations import check_delegation
from indai.protocol.errors import IndaiError, Reason
from indai.protocol.handlestate import Delegation
from indai.protocol.keys import SigningKey
from indai.protocol.operations import HELD_MS, RECOVERY_MS, Chain

ALICE = "ind.ai/alice"
ORIGIN = "ind.ai/registry"


def key(name: str) -> SigningKey:
    return SigningKey.from_seed(name.encode().ljust(32, b"."))


async def chain_of(rig: Any, handle: str = ALICE) -> Chain:
    chain: Chain = (await rig.resolver().resolve(handle)).chain
    return chain


async def refused(rig: Any, operation: Any, reason: Reason, rule: str) -> None:
    with pytest.raises(IndaiError) as caught:
        await rig.submit(operation)
    assert (caught.value.reason, caught.value.metadata.get("rule")) == (reason, rule)


async def steal(rig: Any) -> Chain:
    """`spare`, the lower of the two rotation keys, is stolen and puts the owner out."""
    await rig.submit(rig.claim(ALICE))
    theft = rotate_rotation_keys(
        await chain_of(rig), key("spare"), [key("thief").public_key], now_ms=rig.clock()
    )
    await rig.submit(theft)
    return await chain_of(rig)


@pytest.mark.rule("REG-31")
async def test_the_registry_counts_72_hours_by_its_leaves(rig: Any) -> None:
    stolen = await steal(rig)
    undone = recover(stolen, key("root"), 0, now_ms=rig.clock())
    rig.clock.now += RECOVERY_MS + 1
    await refused(rig, undone, Reason.INVALID_OPERATION, "REG-31")
    rig.clock.now -= 1
    await rig.submit(undone)
    chain = await chain_of(rig)
    assert chain.state.rotation_keys == (key("root").public_key,)
    assert [link.nullified for link in chain.history] == [False, True, False]
    assert chain.history[2].time_ms - chain.history[1].time_ms == RECOVERY_MS


@pytest.mark.rule("REG-14")
async def test_a_registry_that_lies_about_times_or_the_past_is_caught(rig: Any) -> None:
    stolen = await steal(rig)
    rig.clock.now += RECOVERY_MS
    await rig.submit(recover(stolen, key("root"), 0, now_ms=rig.clock()))

    def earlier(answer: Any) -> None:
        answer.times_ms[2] -= 1

    def without_the_theft(answer: Any) -> None:
        del answer.chain[1], answer.times_ms[1]

    def another_past(answer: Any) -> None:
        answer.before = b"p" * 32

    for lie in (earlier, without_the_theft, another_past):

        def twist(method: str, request: Any, answer: Any, lie: Any = lie) -> Any:
            if method == "GetHandle":
                lie(answer)
            return answer

        rig.liar.twist = twist
        with pytest.raises(IndaiError) as caught:
            await rig.resolver().resolve(ALICE)
        assert caught.value.reason in (Reason.BAD_PROOF, Reason.INVALID_OPERATION)


@pytest.mark.rule("REG-38")
async def test_a_clock_set_back_does_not_set_a_handle_back(rig: Any) -> None:
    await rig.submit(rig.claim(ALICE))
    before = await chain_of(rig)
    rig.clock.now -= 60_000
    await rig.submit(rotate_rotation_keys(before, key("root"), [key("new").public_key], now_ms=rig.clock()))
    rig.clock.now += 60_000
    times = [link.time_ms for link in (await chain_of(rig)).history]
    assert times == [before.history[0].time_ms] * 2


@pytest.mark.rule("REG-33")
async def test_a_transferred_handle_is_another_subject_to_who_pinned_it(
    rig: Any, database: Any, start_registry: Any
) -> None:
    await rig.submit(rig.claim(ALICE))
    old = await chain_of(rig)
    resolver = rig.resolver()
    await resolver.resolve(ALICE, pin=old.subject_id)
    await rig.submit(transfer(old, key("root"), key("heir").public_key, now_ms=rig.clock()))
    await refused(rig, rig.claim(ALICE), Reason.HANDLE_TAKEN, "REG-34")
    ended = await chain_of(rig)
    await rig.submit(claim(ALICE, ORIGIN, [key("heir")], now_ms=rig.clock(), predecessor=ended))
    await resolver.tail()
    with pytest.raises(IndaiError) as caught:
        await resolver.resolve(ALICE, pin=old.subject_id)
    assert caught.value.reason is Reason.PIN_MISMATCH
    new = (await resolver.resolve(ALICE)).chain
    assert (new.predecessor, len(new.history), new.state.agent_keys) == (ended.last_mid, 1, ())
    # The history shows both subjects, and neither an operation nor a time of the past can be changed.
    subjects, _ = await rig.resolver().history(ALICE)
    assert [one.subject_id for one in subjects] == [old.subject_id, new.subject_id]
    assert (subjects[0].ended_at_ms > 0, subjects[1]) == (True, new)

    def without_the_past(answer: Any) -> None:
        del answer.earlier[:], answer.earlier_times_ms[:]

    def later(answer: Any) -> None:
        answer.earlier_times_ms[0] += 1

    def without_the_transfer(answer: Any) -> None:
        del answer.earlier[-1], answer.earlier_times_ms[-1]

    for lie in (without_the_past, later, without_the_transfer):
        rig.liar.twist = lambda method, request, answer, lie=lie: lie(answer) or answer
        with pytest.raises(IndaiError) as caught:
            await rig.resolver().history(ALICE)
        assert caught.value.reason in (Reason.BAD_PROOF, Reason.INVALID_OPERATION)
    rig.liar.twist = lambda method, request, answer: answer
    # A registry that starts on this database reads both subjects' operations and makes the same of them.
    again = await start_registry(database.pool)
    assert await chain_of(again) == new


@pytest.mark.rule("REG-16")
async def test_the_sub_handles_of_a_transferred_parent_stay_their_own_subjects_without_authority(
    rig: Any,
) -> None:
    """A sub-handle goes on under its own keys; what it was delegated ends with the parent's subject, and the
    heir claims no sub-handle that is taken, but new ones."""
    work = f"{ALICE}/work"
    await rig.submit(rig.claim(ALICE))
    await rig.submit(claim(work, ORIGIN, [key("root")], now_ms=rig.clock(), node="ind.ai/home"))
    old = await chain_of(rig, work)
    grant = Delegation(work, old.subject_id, ("meet",), rig.clock(), rig.clock() + HELD_MS)
    await rig.submit(delegate(await chain_of(rig), key("root"), grant, now_ms=rig.clock()))
    resolver = rig.resolver()
    check_delegation(await resolver.authority_of(await resolver.resolve(work)), "meet", rig.clock())
    await rig.submit(transfer(await chain_of(rig), key("root"), key("heir").public_key, now_ms=rig.clock()))
    # Between the two nobody has the parent's rotation keys, so nobody claims below it.
    orphan = claim(f"{ALICE}/new", ORIGIN, [key("root")], now_ms=rig.clock())
    await refused(rig, orphan, Reason.PERMISSION_DENIED, "REG-16")
    ended = await chain_of(rig)
    await rig.submit(claim(ALICE, ORIGIN, [key("heir")], now_ms=rig.clock(), predecessor=ended))
    await resolver.tail()
    with pytest.raises(IndaiError) as caught:
        check_delegation(await resolver.authority_of(await resolver.resolve(work)), "meet", rig.clock())
    assert caught.value.reason is Reason.PERMISSION_DENIED
    assert (await chain_of(rig, work)).subject_id == old.subject_id
    again = claim(work, ORIGIN, [key("heir")], now_ms=rig.clock())
    with pytest.raises(IndaiError) as taken:
        await rig.submit(again)
    assert taken.value.reason is Reason.HANDLE_TAKEN
    await rig.submit(claim(f"{ALICE}/new", ORIGIN, [key("heir")], now_ms=rig.clock()))


@pytest.mark.rule("REG-34")
async def test_a_retired_name_is_held_for_12_months(rig: Any) -> None:
    await rig.submit(rig.claim(ALICE))
    await rig.submit(retire(await chain_of(rig), key("root"), now_ms=rig.clock()))
    rig.clock.now += HELD_MS - 1
    await refused(rig, rig.claim(ALICE), Reason.HANDLE_TAKEN, "REG-34")
    rig.clock.now += 1
    await rig.submit(rig.claim(ALICE, rotation_keys=[key("stranger")]))
    assert (await chain_of(rig)).ended_at_ms == 0


@pytest.mark.rule("REG-37")
async def test_a_sub_agents_authority_is_read_from_the_registry(rig: Any) -> None:
    work = f"{ALICE}/work"
    await rig.submit(rig.claim(ALICE))
    await rig.submit(rig.claim(work))
    resolver, now = rig.resolver(), rig.clock()
    agent = await resolver.resolve(work)
    with pytest.raises(IndaiError) as caught:
        check_delegation(await resolver.authority_of(agent), "meet", now)
    assert caught.value.reason is Reason.PERMISSION_DENIED
    given = Delegation(work, agent.subject_id, ("meet",), now, now + 1_000)
    await rig.submit(delegate(await chain_of(rig), key("root"), given, now_ms=now))
    await resolver.tail()
    check_delegation(await resolver.authority_of(agent), "meet", now)
    assert [chain.handle for chain in await resolver.authority_of(agent)] == [ALICE, work]


async def test_a_nullified_agent_key_signs_nothing_any_more(rig: Any) -> None:
    await rig.submit(rig.claim(ALICE))
    thief = new_agent_key(key("thief").public_key, rig.clock())
    await rig.submit(add_agent_key(await chain_of(rig), key("spare"), thief, now_ms=rig.clock()))
    resolver = rig.resolver()
    (await resolver.resolve(ALICE)).chain.key_valid_at(thief.key_id, rig.clock())
    await rig.submit(recover(await chain_of(rig), key("root"), 0, now_ms=rig.clock()))
    await resolver.tail()
    with pytest.raises(IndaiError) as caught:
        (await resolver.resolve(ALICE)).chain.key_valid_at(thief.key_id, rig.clock())
    assert caught.value.reason is Reason.KEY_REVOKED
    with pytest.raises(IndaiError) as caught:
        add_agent_key(await chain_of(rig), key("root"), thief, now_ms=rig.clock())
    assert caught.value.metadata["rule"] == "REG-32"
