"""The chain rules of a handle: each rule broken once, and random histories against a plain model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.protocol.envelope import Envelope, cosign, parse_envelope, seal
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.handlestate import AgentKey, HandleState, NodeRecord
from indai.protocol.keys import SigningKey
from indai.protocol.logkeys import announce
from indai.protocol.note import Signer, format_vkey
from indai.protocol.operations import (
    CREATE,
    MAX_OPERATION,
    PAYLOAD_TYPE,
    REVOKE,
    TOMBSTONE,
    UPDATE,
    Chain,
    Type,
    apply_operation,
    build_operation,
    replay,
    subject_id,
)
from indai.v1 import registry_pb2 as pb

NOW = 1_790_000_000_000
REGISTRY = "ind.ai/registry"


def key(name: str) -> SigningKey:
    return SigningKey.from_seed(name.encode().ljust(32, b"."))


ROOT, SPARE, AGENT, AGENT2, STRANGER = (key(n) for n in ("root", "spare", "agent", "agent2", "stranger"))
STATE = HandleState(
    (ROOT.public_key, SPARE.public_key),
    (AgentKey(AGENT.public_key, NOW),),
    "ind.ai/node-one",
    None,
    ("meet",),
)


def create(state: HandleState = STATE, handle: str = "ind.ai/alice") -> Envelope:
    return build_operation(
        CREATE, None, state, ROOT, issued_at_ms=NOW, nonce=b"n" * 16, handle=handle, registry=REGISTRY
    )


def follow(
    chain: Chain, kind: Type, state: HandleState | None, signer: SigningKey = ROOT, at: int = NOW + 1_000
) -> Envelope:
    return build_operation(kind, chain, state, signer, issued_at_ms=at, nonce=b"n" * 16)


def revoked(state: HandleState, at: int) -> HandleState:
    first, *rest = state.agent_keys
    return replace(state, agent_keys=(replace(first, revoked_at_ms=at), *rest))


def edited(envelope: Envelope, edit: Callable[[pb.Operation], object], by: SigningKey = ROOT) -> Envelope:
    """The operation changed and signed again: valid but for the change."""
    operation = pb.Operation.FromString(envelope.payload)
    edit(operation)
    return seal(PAYLOAD_TYPE, operation.SerializeToString(), [by])


def refused(
    chain: Chain | None, envelope: Envelope, rule: str, reason: Reason = Reason.INVALID_OPERATION
) -> None:
    with pytest.raises(ProtocolError) as caught:
        apply_operation(chain, envelope)
    assert (caught.value.rule, caught.value.reason) == (rule, reason)


@pytest.fixture
def chain() -> Chain:
    return apply_operation(None, create())


def test_a_genesis_defines_the_subject(chain: Chain) -> None:
    genesis = create()
    assert chain.subject_id == subject_id(genesis)
    assert chain.subject_id.startswith("ind:")
    assert len(chain.subject_id) == 36
    assert (chain.seq, chain.last_mid, chain.state) == (0, genesis.mid, STATE)


def test_a_chain_read_back_from_its_bytes_is_the_same(chain: Chain) -> None:
    later = follow(chain, UPDATE, replace(STATE, intents=("meet", "ask")), SPARE)
    raws = [create().raw, later.raw]
    assert replay(parse_envelope(raw) for raw in raws) == apply_operation(chain, later)


@pytest.mark.rule("REG-02")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seq", 2),
        ("seq", 0),
        ("prev", b"p" * 32),
        ("prev", b""),
        ("subject_id", "ind:" + "a" * 32),
        ("subject_id", ""),
        ("handle", "ind.ai/bob"),
        ("registry", "other/registry"),
        ("issued_at_ms", NOW - 1),
        ("type", CREATE),
    ],
)
def test_an_operation_follows_exactly_the_one_before(chain: Chain, field: str, value: object) -> None:
    good = follow(chain, UPDATE, STATE)
    apply_operation(chain, good)
    refused(chain, edited(good, lambda op: setattr(op, field, value)), "REG-02")


@pytest.mark.rule("REG-02")
def test_a_replayed_operation_does_not_follow_itself(chain: Chain) -> None:
    update = follow(chain, UPDATE, STATE)
    refused(apply_operation(chain, update), update, "REG-02")


@pytest.mark.rule("REG-02")
@pytest.mark.parametrize(
    ("field", "value"), [("seq", 1), ("prev", b"p" * 32), ("subject_id", "ind:x"), ("type", UPDATE)]
)
def test_a_genesis_follows_nothing(field: str, value: object) -> None:
    refused(None, edited(create(), lambda op: setattr(op, field, value)), "REG-02")


@pytest.mark.rule("REG-02")
def test_an_empty_chain_is_refused() -> None:
    with pytest.raises(ProtocolError, match="empty"):
        replay([])


@pytest.mark.rule("REG-01")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("handle", "ind.ai/Alice"),
        ("handle", "alice"),
        ("nonce", b"short"),
        ("issued_at_ms", 0),
        ("issued_at_ms", -1),
        ("registry", ""),
        ("type", 0),
        ("type", 9),
    ],
)
def test_a_malformed_operation_is_refused(field: str, value: object) -> None:
    refused(None, edited(create(), lambda op: setattr(op, field, value)), "REG-01")


@pytest.mark.rule("REG-01")
def test_an_operation_without_a_state_or_over_the_limit_or_of_another_kind_is_refused() -> None:
    refused(None, edited(create(), lambda op: op.ClearField("state")), "REG-01")
    big = edited(create(), lambda op: op.state.intents.extend(["x" * MAX_OPERATION]))
    refused(None, big, "REG-01", Reason.TOO_LARGE)
    refused(None, seal("application/vnd.ind.move.v1+protobuf", create().payload, [ROOT]), "REG-01")


@pytest.mark.rule("REG-03")
def test_only_a_rotation_key_of_the_state_before_signs(chain: Chain) -> None:
    update = follow(chain, UPDATE, STATE, SPARE)
    assert apply_operation(chain, update).history[-1].signer == SPARE.key_id
    for signer in (AGENT, STRANGER):
        refused(chain, edited(update, lambda op: None, signer), "REG-03")
    refused(None, edited(create(), lambda op: None, AGENT), "REG-03")
    # A key that only the *new* state lists has no say yet.
    taken = edited(
        update, lambda op: setattr(op.state.rotation_keys[0], "public_key", STRANGER.public_key), STRANGER
    )
    refused(chain, taken, "REG-03")


@pytest.mark.rule("REG-03")
def test_a_rotated_out_key_has_no_say_any_more(chain: Chain) -> None:
    rotated = apply_operation(chain, follow(chain, UPDATE, replace(STATE, rotation_keys=(SPARE.public_key,))))
    refused(rotated, edited(follow(rotated, UPDATE, rotated.state, SPARE), lambda op: None, ROOT), "REG-03")


@pytest.mark.rule("REG-03")
def test_one_signature_and_it_verifies() -> None:
    refused(None, cosign(create(), SPARE), "REG-03")
    damaged = parse_envelope(create().raw.replace(create().signatures[0].sig, b"\x01" * 64))
    refused(None, damaged, "ENV-04", Reason.BAD_SIGNATURE)


def _agent(name: str, **changes: object) -> pb.AgentKey:
    made = key(name)
    fields = {"key_id": made.key_id, "public_key": made.public_key, "valid_from_ms": NOW}
    return pb.AgentKey(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.rule("REG-04")
@pytest.mark.parametrize(
    "edit",
    [
        lambda s: s.ClearField("rotation_keys"),
        lambda s: s.rotation_keys.extend(pb.RotationKey(public_key=bytes([n]) * 32) for n in range(4)),
        lambda s: s.rotation_keys.add(public_key=b"short"),
        lambda s: s.rotation_keys.add(public_key=SPARE.public_key),
        lambda s: s.rotation_keys.add(public_key=AGENT.public_key),
        lambda s: s.agent_keys.add(key_id=AGENT.key_id, public_key=AGENT2.public_key, valid_from_ms=NOW),
        lambda s: s.agent_keys.append(_agent("agent")),
        lambda s: s.agent_keys.extend(_agent(f"agent{n}") for n in range(10)),
        lambda s: s.agent_keys.append(_agent("agent2", valid_until_ms=NOW)),
        lambda s: s.agent_keys.append(_agent("agent2", valid_from_ms=-1)),
        lambda s: s.agent_keys.append(_agent("agent2", scopes=["Meet me"])),
        lambda s: s.intents.append("meet"),
    ],
)
def test_a_state_with_wrong_keys_or_words_is_refused(
    edit: Callable[[pb.HandleState], object],
) -> None:
    refused(None, edited(create(), lambda op: edit(op.state)), "REG-04")


@pytest.mark.rule("REG-05")
@pytest.mark.parametrize(
    "edit",
    [
        lambda s: s.ClearField("agent_keys"),
        lambda s: setattr(s.agent_keys[0], "valid_until_ms", NOW + 500),
        lambda s: setattr(s.agent_keys[0], "valid_from_ms", NOW - 1),
        lambda s: s.agent_keys[0].scopes.append("pay"),
        lambda s: setattr(s.agent_keys[0], "revoked_at_ms", NOW + 999),
        lambda s: s.agent_keys.append(_agent("agent2", valid_from_ms=NOW + 1_000 - 86_400_001)),
        lambda s: s.agent_keys.append(_agent("agent2", revoked_at_ms=NOW + 1_000)),
    ],
)
@pytest.mark.parametrize("kind", [UPDATE, REVOKE])
def test_the_past_of_an_agent_key_is_not_rewritten(
    chain: Chain, kind: Type, edit: Callable[[pb.HandleState], object]
) -> None:
    good = (
        follow(chain, REVOKE, revoked(STATE, NOW + 1_000)) if kind == REVOKE else follow(chain, UPDATE, STATE)
    )
    refused(chain, edited(good, lambda op: edit(op.state)), "REG-05")


@pytest.mark.rule("REG-05")
def test_a_revoked_key_stays_revoked(chain: Chain) -> None:
    after = apply_operation(chain, follow(chain, REVOKE, revoked(STATE, NOW + 1_000)))
    kept = follow(after, UPDATE, after.state, at=NOW + 2_000)
    apply_operation(after, kept)
    refused(after, edited(kept, lambda op: setattr(op.state.agent_keys[0], "revoked_at_ms", 0)), "REG-05")
    refused(
        after,
        edited(kept, lambda op: setattr(op.state.agent_keys[0], "revoked_at_ms", NOW + 2_000)),
        "REG-05",
    )
    refused(after, edited(kept, lambda op: op.state.agent_keys.pop()), "REG-05")


@pytest.mark.rule("REG-06")
def test_a_revocation_is_called_one(chain: Chain) -> None:
    both = replace(
        revoked(STATE, NOW + 1_000),
        agent_keys=(*revoked(STATE, NOW + 1_000).agent_keys, AgentKey(AGENT2.public_key, NOW)),
    )
    good = follow(chain, REVOKE, both)
    assert apply_operation(chain, good).state == both
    refused(chain, edited(good, lambda op: setattr(op, "type", UPDATE)), "REG-06")
    refused(chain, edited(follow(chain, UPDATE, STATE), lambda op: setattr(op, "type", REVOKE)), "REG-06")


@pytest.mark.rule("REG-07")
def test_a_tombstone_ends_the_chain(chain: Chain) -> None:
    end = follow(chain, TOMBSTONE, None)
    refused(chain, edited(end, lambda op: op.state.CopyFrom(STATE.to_proto())), "REG-07")
    refused(chain, edited(end, lambda op: None, AGENT), "REG-03")
    ended = apply_operation(chain, end)
    assert ended.ended_at_ms == NOW + 1_000
    update = edited(follow(chain, UPDATE, STATE), lambda op: op.MergeFrom(pb.Operation(seq=2, prev=end.mid)))
    refused(ended, update, "REG-07")
    refused(None, edited(create(), lambda op: setattr(op, "type", TOMBSTONE)), "REG-02")


NODE = "ind.ai/node-one"
RECORD = NodeRecord(
    "127.0.0.1:7400", b"s" * 32, f"{NODE}/ledger/2026", format_vkey(f"{NODE}/ledger/2026", b"k" * 32)
)
NODELESS_TLS = pb.NodeRecord(
    address="node.example:7400", ledger_origin=RECORD.ledger_origin, ledger_vkey=RECORD.ledger_vkey
)
_LEDGER = Signer(RECORD.ledger_origin, AGENT).verifier.vkey
CHANGE = announce(RECORD.ledger_origin, SPARE, AGENT)
ANNOUNCED = replace(RECORD, ledger_vkey=_LEDGER, ledger_key_change=CHANGE)
NODE_STATE = HandleState((ROOT.public_key, SPARE.public_key), node_record=RECORD)


@pytest.mark.rule("REG-08")
def test_a_node_has_a_record_and_a_person_a_home() -> None:
    assert apply_operation(None, create(NODE_STATE, NODE)).state == NODE_STATE
    loopback = replace(NODE_STATE, node_record=replace(RECORD, tls_spki_sha256=b""))
    assert apply_operation(None, create(loopback, NODE)).state == loopback
    announced = replace(NODE_STATE, node_record=ANNOUNCED)
    assert apply_operation(None, create(announced, NODE)).state == announced


@pytest.mark.rule("REG-08")
@pytest.mark.parametrize(
    "edit",
    [
        lambda s: setattr(s, "node", "ind.ai/other"),
        lambda s: setattr(s.node_record, "address", "node.example"),
        lambda s: setattr(s.node_record, "address", "node.example:0"),
        lambda s: setattr(s.node_record, "address", "node.example:70000"),
        lambda s: setattr(s.node_record, "tls_spki_sha256", b"s"),
        lambda s: s.node_record.CopyFrom(NODELESS_TLS),
        lambda s: setattr(s.node_record, "ledger_origin", "ind.ai/other/ledger/2026"),
        lambda s: setattr(s.node_record, "ledger_vkey", format_vkey("ind.ai/other/ledger/2026", b"k" * 32)),
        lambda s: setattr(s.node_record, "ledger_vkey", f"{NODE}/ledger/2026+00000000+AAAA"),
        lambda s: setattr(s.node_record, "ledger_key_change", CHANGE),  # it leads to another key
        lambda s: setattr(s.node_record, "ledger_key_change", CHANGE[:-1]),
    ],
)
def test_a_wrong_node_record_is_refused(edit: Callable[[pb.HandleState], object]) -> None:
    refused(None, edited(create(NODE_STATE, NODE), lambda op: edit(op.state)), "REG-08")


@pytest.mark.rule("REG-08")
@pytest.mark.parametrize("node", ["ind.ai/alice", "ind.ai/Node", "nowhere"])
def test_a_wrong_home_is_refused(node: str) -> None:
    refused(None, edited(create(), lambda op: setattr(op.state, "node", node)), "REG-08")


def judged(chain: Chain, wanted: str, at: int, scope: str = "") -> Reason | None:
    try:
        chain.key_valid_at(wanted, at, scope)
    except ProtocolError as error:
        return error.reason if error.rule == "REG-09" else Reason.INTERNAL
    return None


@pytest.mark.rule("REG-09")
def test_a_key_is_judged_by_time_revocation_and_scope() -> None:
    short = AgentKey(AGENT.public_key, NOW, NOW + 5_000, scopes=("meet",))
    chain = apply_operation(None, create(replace(STATE, agent_keys=(short,))))
    assert judged(chain, AGENT.key_id, NOW, "meet") is None
    assert judged(chain, AGENT.key_id, NOW) is None
    assert judged(chain, AGENT.key_id, NOW, "pay") is Reason.PERMISSION_DENIED
    assert judged(chain, AGENT.key_id, NOW - 1, "meet") is Reason.EXPIRED
    assert judged(chain, AGENT.key_id, NOW + 4_999, "meet") is None
    assert judged(chain, AGENT.key_id, NOW + 5_000, "meet") is Reason.EXPIRED
    assert judged(chain, ROOT.key_id, NOW) is Reason.UNKNOWN_KEY
    after = apply_operation(chain, follow(chain, REVOKE, revoked(chain.state, NOW + 1_000)))
    assert judged(after, AGENT.key_id, NOW + 999, "meet") is None
    assert judged(after, AGENT.key_id, NOW + 1_000, "meet") is Reason.KEY_REVOKED
    ended = apply_operation(chain, follow(chain, TOMBSTONE, None))
    assert judged(ended, AGENT.key_id, NOW + 1_000, "meet") is Reason.KEY_REVOKED
    assert judged(ended, AGENT.key_id, NOW + 999, "meet") is None


@pytest.mark.rule("REG-09")
def test_a_key_signs_for_no_more_than_its_limit_and_in_no_other_currency() -> None:
    limited = AgentKey(AGENT.public_key, NOW, scopes=("pay",), limits=(("EUR", 5_000), ("INR", 1)))
    chain = apply_operation(None, create(replace(STATE, agent_keys=(limited,))))
    chain.key_valid_at(AGENT.key_id, NOW, "pay")
    for good in (("EUR", 5_000), ("EUR", 0), ("INR", 1)):
        chain.key_valid_at(AGENT.key_id, NOW, "pay", good)
    for amount in (("EUR", 5_001), ("USD", 1), ("eur", 1), ("EUR", -1)):
        with pytest.raises(ProtocolError) as caught:
            chain.key_valid_at(AGENT.key_id, NOW, "pay", amount)
        assert caught.value.reason is Reason.PERMISSION_DENIED
    # Without limits of its own a key is bound by its owner's rules alone.
    free = apply_operation(None, create(replace(STATE, agent_keys=(replace(limited, limits=()),))))
    free.key_valid_at(AGENT.key_id, NOW, "pay", ("USD", 1 << 40))


@pytest.mark.rule("REG-05")
def test_the_limit_of_a_key_never_changes_and_survives_its_revocation() -> None:
    limited = AgentKey(AGENT.public_key, NOW, limits=(("EUR", 5_000),))
    chain = apply_operation(None, create(replace(STATE, agent_keys=(limited,))))
    raised = replace(chain.state, agent_keys=(replace(limited, limits=(("EUR", 9_000),)),))
    with pytest.raises(ProtocolError):
        apply_operation(chain, follow(chain, UPDATE, raised))
    after = apply_operation(chain, follow(chain, REVOKE, revoked(chain.state, NOW + 1_000)))
    assert after.state.agent_keys[0].limits == limited.limits


@pytest.mark.rule("REG-04")
@pytest.mark.parametrize("limits", [(("EUR", 0),), (("euro", 1),), (("EUR", 1), ("EUR", 2))])
def test_a_limit_that_is_no_amount_is_refused(limits: tuple[tuple[str, int], ...]) -> None:
    with pytest.raises(ProtocolError):
        apply_operation(
            None, create(replace(STATE, agent_keys=(AgentKey(AGENT.public_key, NOW, limits=limits),)))
        )


STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "revoke", "rotate", "end"]), st.integers(0, 3)), max_size=8
)


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_random_histories_agree_with_a_plain_model(steps: list[tuple[str, int]]) -> None:
    """The model: who may sign, which agent keys are live, whether the handle still is."""
    rotation, live, gone, ended = [ROOT], {"agent"}, set[str](), False
    envelopes = [create(replace(STATE, rotation_keys=(ROOT.public_key,)))]
    chain = apply_operation(None, envelopes[0])
    for number, (step, pick) in enumerate(steps):
        at = NOW + 1_000 * (number + 1)
        kind, state = UPDATE, chain.state
        if step == "add":
            added = AgentKey(key(f"k{number}").public_key, at)
            state = replace(state, agent_keys=(*state.agent_keys, added))
            expect = not ended
            live |= {f"k{number}"} if expect else set()
        elif step == "revoke":
            victims = sorted(live)[:pick]
            ids = {key(name).public_key for name in victims}
            kind, expect = REVOKE, bool(victims) and not ended
            keys = [replace(k, revoked_at_ms=at) if k.public_key in ids else k for k in state.agent_keys]
            state = replace(state, agent_keys=tuple(keys))
            if expect:
                live, gone = live - set(victims), gone | set(victims)
        elif step == "rotate":
            state, expect = replace(state, rotation_keys=(key(f"r{number}").public_key,)), not ended
        else:
            kind, expect = TOMBSTONE, not ended
        try:
            made = build_operation(
                kind,
                chain,
                None if kind == TOMBSTONE else state,
                rotation[-1],
                issued_at_ms=at,
                nonce=b"n" * 16,
            )
        except ProtocolError:
            assert not expect
            continue
        assert expect
        if step == "rotate":
            rotation.append(key(f"r{number}"))
        ended = ended or step == "end"
        envelopes.append(made)
        chain = apply_operation(chain, made)
    end = NOW + 100_000
    assert replay(envelopes) == chain
    for name in live | gone:
        expected = Reason.KEY_REVOKED if ended or name in gone else None
        assert judged(chain, key(name).key_id, end) is expected
