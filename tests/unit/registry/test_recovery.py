"""A stolen rotation key undone: who may, until when to the millisecond, and what stays barred."""

from __future__ import annotations

from dataclasses import replace

import pytest
from indai.client.handlekeys import claim, recover, retire, transfer
from indai.protocol.envelope import Envelope
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.handlestate import AgentKey, HandleState
from indai.protocol.keys import SigningKey
from indai.protocol.operations import (
    CREATE,
    HELD_MS,
    MAX_CHAIN,
    RECOVER,
    RECOVERY_MS,
    SPARE_LINKS,
    TOMBSTONE,
    UPDATE,
    Chain,
    Type,
    apply_operation,
    build_operation,
    replay,
)

NOW = 1_790_000_000_000
HOUR = 3_600_000
REGISTRY = "ind.ai/registry"


def key(name: str) -> SigningKey:
    return SigningKey.from_seed(name.encode().ljust(32, b"."))


TOP, MIDDLE, LOW, AGENT, THIEF, HEIR = (
    key(name) for name in ("top", "middle", "low", "agent", "thief", "heir")
)
STATE = HandleState(
    (TOP.public_key, MIDDLE.public_key, LOW.public_key), (AgentKey(AGENT.public_key, NOW),), "ind.ai/node-one"
)


def build(
    kind: Type, chain: Chain | None, state: HandleState | None, signer: SigningKey, at: int
) -> Envelope:
    return build_operation(
        kind,
        chain,
        state,
        signer,
        issued_at_ms=at,
        nonce=b"n" * 16,
        handle="ind.ai/alice",
        registry=REGISTRY,
    )


def refused(
    chain: Chain, envelope: Envelope, time_ms: int, rule: str, reason: Reason = Reason.INVALID_OPERATION
) -> None:
    with pytest.raises(ProtocolError) as caught:
        apply_operation(chain, envelope, time_ms)
    assert (caught.value.rule, caught.value.reason) == (rule, reason)


@pytest.fixture
def chain() -> Chain:
    return apply_operation(None, build(CREATE, None, STATE, TOP, NOW), NOW)


def theft(chain: Chain, signer: SigningKey, at: int = NOW + HOUR) -> Chain:
    """Somebody with `signer` puts the owner out: new rotation keys, and an agent key of their own."""
    state = replace(
        chain.state,
        rotation_keys=(THIEF.public_key,),
        agent_keys=(*chain.state.agent_keys, AgentKey(key("thief-agent").public_key, at)),
    )
    return apply_operation(chain, build(UPDATE, chain, state, signer, at), at)


STOLEN_AT = NOW + HOUR


@pytest.mark.rule("REG-31")
def test_72_hours_to_the_millisecond_by_the_logs_clock(chain: Chain) -> None:
    stolen = theft(chain, LOW)
    # Issued early, as its signer says; only the leaf's time counts.
    undone = recover(stolen, TOP, 0, now_ms=STOLEN_AT + 1)
    recovered = apply_operation(stolen, undone, STOLEN_AT + RECOVERY_MS)
    assert recovered.state.rotation_keys == (TOP.public_key, MIDDLE.public_key)
    refused(stolen, undone, STOLEN_AT + RECOVERY_MS + 1, "REG-31")


@pytest.mark.rule("REG-31")
def test_an_old_theft_is_not_undone_by_undoing_only_what_came_later(chain: Chain) -> None:
    stolen = theft(chain, LOW)
    later_at = STOLEN_AT + RECOVERY_MS
    later = apply_operation(stolen, build(UPDATE, stolen, stolen.state, THIEF, later_at), later_at)
    refused(later, recover(stolen, TOP, 0, now_ms=later_at), later_at + 1, "REG-31")
    # From the state after the theft on, only the thief's keys have authority.
    with pytest.raises(ProtocolError) as caught:
        recover(later, TOP, 1, now_ms=later_at, rotation_keys=[TOP.public_key])
    assert caught.value.rule == "REG-03"


@pytest.mark.rule("REG-30")
def test_only_strictly_higher_authority_recovers(chain: Chain) -> None:
    for by, at_fault, allowed in (
        (TOP, LOW, True),
        (TOP, MIDDLE, True),
        (MIDDLE, LOW, True),
        (MIDDLE, MIDDLE, False),
        (LOW, MIDDLE, False),
        (TOP, TOP, False),
        (MIDDLE, TOP, False),
    ):
        stolen = theft(chain, at_fault)
        if allowed:
            assert apply_operation(stolen, recover(stolen, by, 0, now_ms=STOLEN_AT + 1)).state.node
            continue
        with pytest.raises(ProtocolError) as caught:
            recover(stolen, by, 0, now_ms=STOLEN_AT + 1)
        assert caught.value.rule == "REG-30"


@pytest.mark.rule("REG-30")
def test_a_recovery_that_nullifies_nothing_is_refused(chain: Chain) -> None:
    for seq in (0,):
        with pytest.raises(ProtocolError) as caught:
            recover(chain, TOP, seq, now_ms=NOW + 1)
        assert caught.value.rule == "REG-30"


def test_what_was_nullified_stays_visible(chain: Chain) -> None:
    stolen = theft(chain, LOW)
    undone = apply_operation(stolen, recover(stolen, TOP, 0, now_ms=STOLEN_AT + 1))
    assert [(link.seq, link.nullified) for link in undone.history] == [(0, False), (1, True), (1, False)]
    assert undone.history[1].mid == stolen.last_mid
    assert [link.type for link in undone.live] == [CREATE, RECOVER]
    assert undone.subject_id == chain.subject_id
    # It is in the digest too: a history without it is another.
    direct = build(UPDATE, chain, undone.state, TOP, STOLEN_AT + 1)
    assert apply_operation(chain, direct).digest != undone.digest


def test_a_recovery_signed_before_the_thiefs_newest_operation_undoes_that_too(chain: Chain) -> None:
    stolen = theft(chain, LOW)
    undone = recover(stolen, TOP, 0, now_ms=STOLEN_AT + 1)
    again = apply_operation(stolen, build(UPDATE, stolen, stolen.state, THIEF, STOLEN_AT + 5))
    recovered = apply_operation(again, undone, STOLEN_AT + 10)
    assert [link.nullified for link in recovered.history] == [False, True, True, False]


@pytest.mark.rule("REG-32")
def test_a_nullified_key_is_barred_for_good(chain: Chain) -> None:
    stolen = theft(chain, LOW)
    undone = apply_operation(stolen, recover(stolen, TOP, 0, now_ms=STOLEN_AT + 1))
    assert undone.barred == {THIEF.key_id, LOW.key_id, key("thief-agent").key_id}
    at = STOLEN_AT + 2
    for state in (
        replace(undone.state, rotation_keys=(TOP.public_key, LOW.public_key)),
        replace(undone.state, rotation_keys=(TOP.public_key, THIEF.public_key)),
        replace(
            undone.state,
            agent_keys=(*undone.state.agent_keys, AgentKey(key("thief-agent").public_key, at)),
        ),
    ):
        with pytest.raises(ProtocolError) as caught:
            build(UPDATE, undone, state, TOP, at)
        assert caught.value.rule == "REG-32"
    for signer in (LOW, THIEF):
        with pytest.raises(ProtocolError) as caught:
            build(UPDATE, undone, undone.state, signer, at)
        assert caught.value.rule == "REG-03"
    # The recovery itself may not keep the key that was stolen either.
    with pytest.raises(ProtocolError) as caught:
        recover(stolen, TOP, 0, now_ms=at, rotation_keys=STATE.rotation_keys)
    assert caught.value.rule == "REG-32"


@pytest.mark.rule("REG-09")
def test_a_nullified_agent_key_is_refused_and_the_owners_own_is_good_again(chain: Chain) -> None:
    stolen = theft(chain, LOW)
    stolen.key_valid_at(key("thief-agent").key_id, STOLEN_AT)
    undone = apply_operation(stolen, recover(stolen, TOP, 0, now_ms=STOLEN_AT + 1))
    undone.key_valid_at(AGENT.key_id, STOLEN_AT)
    with pytest.raises(ProtocolError) as caught:
        undone.key_valid_at(key("thief-agent").key_id, STOLEN_AT)
    assert caught.value.reason is Reason.KEY_REVOKED


def test_the_owners_own_later_signature_does_not_bar_their_key(chain: Chain) -> None:
    low = apply_operation(chain, build(UPDATE, chain, STATE, LOW, STOLEN_AT))
    both = apply_operation(low, build(UPDATE, low, STATE, TOP, STOLEN_AT + 1))
    undone = apply_operation(both, recover(both, TOP, 0, now_ms=STOLEN_AT + 2))
    assert undone.barred == {LOW.key_id}


@pytest.mark.rule("REG-07")
def test_an_end_by_a_stolen_key_is_undone(chain: Chain) -> None:
    for end in (retire(chain, LOW, now_ms=STOLEN_AT), transfer(chain, LOW, b"h" * 32, now_ms=STOLEN_AT)):
        ended = apply_operation(chain, end, STOLEN_AT)
        assert ended.ended_at_ms
        undone = apply_operation(ended, recover(ended, TOP, 0, now_ms=STOLEN_AT + 1))
        assert (undone.ended_at_ms, undone.successor, undone.state.node) == (0, b"", "ind.ai/node-one")


def test_a_full_chain_can_still_be_recovered(chain: Chain) -> None:
    full = chain
    for number in range(1, MAX_CHAIN):
        full = apply_operation(full, build(UPDATE, full, STATE, LOW, NOW + number))
    with pytest.raises(ProtocolError, match="only be ended"):
        build(UPDATE, full, STATE, LOW, NOW + MAX_CHAIN)
    undone = apply_operation(full, recover(full, TOP, 0, now_ms=NOW + MAX_CHAIN))
    assert len(undone.history) == MAX_CHAIN + 1 <= MAX_CHAIN + SPARE_LINKS
    apply_operation(undone, build(TOMBSTONE, undone, None, TOP, NOW + MAX_CHAIN + 1))


@pytest.mark.rule("REG-38")
def test_times_of_leaves_go_forward_and_not_before_the_signers(chain: Chain) -> None:
    update = build(UPDATE, chain, STATE, TOP, NOW + HOUR)
    refused(chain, update, NOW - 1, "REG-38")
    refused(chain, update, NOW + HOUR - 120_001, "REG-38")
    apply_operation(chain, update, NOW + HOUR - 120_000)
    with pytest.raises(ProtocolError, match="not as many"):
        replay([build(CREATE, None, STATE, TOP, NOW)], [])


def heirs_claim(ended: Chain | None, at: int, signer: SigningKey = HEIR) -> Envelope:
    return claim("ind.ai/alice", REGISTRY, [signer], now_ms=at, predecessor=ended)


@pytest.mark.rule("REG-33")
def test_a_transferred_handle_begins_again_as_another_subject(chain: Chain) -> None:
    ended = apply_operation(chain, transfer(chain, TOP, HEIR.public_key, now_ms=STOLEN_AT), STOLEN_AT)
    assert ended.settled_at_ms == 0
    genesis = heirs_claim(ended, STOLEN_AT + 1)
    begun = apply_operation(ended, genesis, STOLEN_AT + 1)
    assert begun.predecessor == ended.last_mid
    assert begun.subject_id != chain.subject_id
    assert begun.state.agent_keys == ()
    assert begun.before == ended.digest
    # Who has the new chain only, and the digest before it, gets the same.
    assert replay([genesis], [STOLEN_AT + 1], before=ended.digest) == begun
    with pytest.raises(ProtocolError) as caught:
        replay([genesis], [STOLEN_AT + 1])
    assert caught.value.rule == "REG-33"


@pytest.mark.rule("REG-33")
def test_only_the_named_successor_takes_over(chain: Chain) -> None:
    ended = apply_operation(chain, transfer(chain, TOP, HEIR.public_key, now_ms=STOLEN_AT), STOLEN_AT)
    with pytest.raises(ProtocolError) as caught:
        heirs_claim(ended, STOLEN_AT + 1, THIEF)
    assert caught.value.rule == "REG-33"
    refused(ended, heirs_claim(None, STOLEN_AT + 1), STOLEN_AT + 1, "REG-34", Reason.HANDLE_TAKEN)


@pytest.mark.rule("REG-33")
def test_a_transfer_waits_until_nobody_can_nullify_it(chain: Chain) -> None:
    ended = apply_operation(chain, transfer(chain, LOW, HEIR.public_key, now_ms=STOLEN_AT), STOLEN_AT)
    assert ended.settled_at_ms == STOLEN_AT + RECOVERY_MS
    with pytest.raises(ProtocolError) as caught:
        heirs_claim(ended, STOLEN_AT + RECOVERY_MS)
    assert (caught.value.rule, caught.value.reason) == ("REG-33", Reason.HANDLE_TAKEN)
    heirs_claim(ended, STOLEN_AT + RECOVERY_MS + 1)


@pytest.mark.rule("REG-33")
def test_a_thief_cannot_shorten_the_wait_with_keys_of_their_own(chain: Chain) -> None:
    stolen = theft(chain, LOW)
    at = STOLEN_AT + 1
    ended = apply_operation(stolen, transfer(stolen, THIEF, HEIR.public_key, now_ms=at), at)
    with pytest.raises(ProtocolError) as caught:
        heirs_claim(ended, STOLEN_AT + RECOVERY_MS)
    assert caught.value.rule == "REG-33"


@pytest.mark.rule("REG-34")
def test_a_retired_name_is_held_for_12_months(chain: Chain) -> None:
    ended = apply_operation(chain, retire(chain, TOP, now_ms=STOLEN_AT), STOLEN_AT)
    genesis = heirs_claim(None, STOLEN_AT)
    refused(ended, genesis, STOLEN_AT + HELD_MS - 1, "REG-34", Reason.HANDLE_TAKEN)
    again = apply_operation(ended, genesis, STOLEN_AT + HELD_MS)
    assert again.subject_id != chain.subject_id
    assert again.predecessor == b""
