"""Dishonest worlds: in each, one thing about registry, ledger or deal is not as it should be."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import replace

from indai.client.audit import Report, Severity
from indai.client.exports import IN
from indai.policy.compiled import compile_policy
from indai.protocol.envelope import Envelope, parse_envelope
from indai.protocol.leaf import LeafKind
from indai.protocol.logkeys import announce
from indai.protocol.note import Signer
from indai.protocol.operations import UPDATE, build_operation
from indai.protocol.registryleaf import RegistryLeaf, encode_registry_leaf
from indai.v1 import envelope_pb2, policy_pb2
from indai.v1 import negotiation_pb2 as pb

from .worlds import (
    ALICE,
    BOB,
    DAY,
    HOUR,
    NOW,
    YAML,
    Deal,
    Mirror,
    World,
    activate,
    key,
    sixteen,
)


def checks(report: Report, least: Severity) -> set[str]:
    return {finding.check for finding in report.findings if finding.severity.value[0] >= least.value[0]}


def honest() -> World:
    world = World()
    Deal(world).run()
    return world


def registry_of_somebody_else() -> World:
    world = honest()
    world.trust = Mirror(log=key("another")).trust
    return world


def registry_entry_not_under_its_head() -> World:
    world = honest()
    world.registry.signed = list(world.registry.entries)
    world.update(ALICE, NOW)
    return world


def registry_with_another_root() -> World:
    world = honest()
    entries = world.registry.entries
    world.registry.signed = [*entries[:-1], b"another"]
    return world


def operation_by_a_stranger() -> World:
    world = honest()
    state = dataclasses.replace(world.registry.chains[ALICE].state, intents=("meet",))
    chain = world.registry.chains[ALICE]
    state = dataclasses.replace(state, rotation_keys=(key("thief").public_key,))
    last = dataclasses.replace(chain.history[-1], state=state)
    theft = dataclasses.replace(chain, state=state, history=(*chain.history[:-1], last))
    stolen = build_operation(UPDATE, theft, theft.state, key("thief"), issued_at_ms=NOW, nonce=sixteen("x"))
    leaf = RegistryLeaf(NOW, world.registry.tiles.root(), stolen.raw)
    world.registry.entries.append(encode_registry_leaf(leaf))
    return world


def wrong_map_root() -> World:
    world = honest()
    chain = world.registry.chains[ALICE]
    operation = build_operation(
        UPDATE, chain, chain.state, key(f"{ALICE} rotation"), issued_at_ms=NOW, nonce=sixteen("y")
    )
    world.registry.append(operation, NOW, b"\x00" * 32)
    return world


def ledger_with_a_key_nobody_published() -> World:
    world = honest()
    world.a.key = key("another")
    return world


def owner_who_lives_elsewhere() -> World:
    world = honest()
    world.a.scope, world.a.contents = BOB, [None] * len(world.a.leaves)
    world.a.messages = []
    return world


def head_by_another_key() -> World:
    world = honest()
    world.a.head_key = key("another")
    return world


def rotated(by_former: Sequence[int] = (2,), *, announced: bool = True) -> World:
    """Node a's ledger has changed its key: older heads of 2 and 3 leaves, these of them by the former one."""
    world = honest()
    node, former, new = world.a, world.a.key, key("second")
    state = world.registry.chains[node.handle].state
    record = state.node_record
    assert record is not None
    change = announce(node.origin, former, new) if announced else b""
    named = replace(record, ledger_vkey=Signer(node.origin, new).verifier.vkey, ledger_key_change=change)
    world.registry.submit(UPDATE, node.handle, replace(state, node_record=named), NOW + HOUR)
    node.key, node.head_sizes, right = new, [2, 3], node.note

    def note(size: int) -> str:
        node.head_key = former if size in by_former else None
        return right(size)

    node.note = note  # type: ignore[method-assign]
    return world


def head_by_a_key_that_was_given_up() -> World:
    return rotated(by_former=(3,))


def leaf_changed_under_its_head() -> World:
    world = honest()
    world.a.signed = list(world.a.leaves)
    world.a.leaves[0] = world.a.leaves[0][:-1] + bytes([world.a.leaves[0][-1] ^ 1])
    world.a.contents[0] = None
    return world


def leaf_cut_off() -> World:
    world = honest()
    world.a.add(LeafKind.DECISION, ALICE, b"\x01" * 32, b"x", NOW + 5)
    world.a.signed = list(world.a.leaves)
    for cut in (world.a.leaves, world.a.contents):
        del cut[-1]
    world.a.head_sizes = [len(world.a.signed)]
    return world


def older_head_of_another_tree() -> World:
    world = honest()
    other = dataclasses.replace(world.a, leaves=[world.a.leaves[1], world.a.leaves[0]])
    note = other.note(2)
    right = world.a.note
    world.a.head_sizes = [2]
    world.a.note = lambda size: note if size == 2 else right(size)  # type: ignore[method-assign]
    return world


def backdated_leaf() -> World:
    world = honest()
    world.a.add(LeafKind.DECISION, ALICE, b"\x01" * 32, b"x", NOW - DAY)
    world.a.contents[-1] = None
    return world


def leaf_of_no_known_version() -> World:
    world = honest()
    world.a.leaves.append(b"\x09" * 42)
    world.a.contents.append(None)
    return world


def wrong_opening() -> World:
    world = honest()
    shown = world.a.contents[0]
    assert shown
    shown.opening = b"\x00" * 32
    return world


def content_of_somebody_else() -> World:
    world = honest()
    shown = world.a.contents[0]
    assert shown
    shown.owner = BOB
    return world


def content_under_another_mid() -> World:
    world = honest()
    shown = world.a.contents[0]
    assert shown
    shown.mid = b"\x00" * 32
    return world


def commitment_of_a_stranger() -> World:
    world = honest()
    shown = world.b.contents[-1]
    assert shown
    shown.owner = "in4.ai/bob"
    return world


def commitment_recorded_twice() -> World:
    world = World()
    accepted = Deal(world).run()
    world.a.add(LeafKind.COMMITMENT, ALICE, accepted.mid, accepted.raw, NOW + 9)
    return world


def decision_recorded_twice() -> World:
    world = World()
    deal = Deal(world)
    deal.decide(world.a, deal.run().mid, BOB)
    return world


def other_bytes_in_one_ledger() -> World:
    world = World()
    accepted = Deal(world).run()
    envelope = envelope_pb2.Envelope.FromString(accepted.raw)
    turned = envelope_pb2.Envelope(payload_type=envelope.payload_type, signatures=envelope.signatures)
    payload_last = (
        turned.SerializeToString() + envelope_pb2.Envelope(payload=envelope.payload).SerializeToString()
    )
    place = len(world.a.leaves) - 1
    for column in (world.a.leaves, world.a.contents):
        del column[place]
    world.a.add(LeafKind.COMMITMENT, ALICE, accepted.mid, payload_last, NOW + 5)
    return world


def party_under_another_key() -> World:
    def bend(commitment: pb.Commitment) -> pb.Commitment:
        commitment.header.key_id = key(f"{ALICE} agent").key_id
        return commitment

    return bent(commitment=bend)


def bent(**lies: object) -> World:
    world = World()
    Deal(world, **lies).run()  # type: ignore[arg-type]
    return world


def forged_signature() -> World:
    def forge(offer: Envelope) -> Envelope:
        forged = key("forger").sign(offer.pae)
        message = envelope_pb2.Envelope.FromString(offer.raw)
        message.signatures[0].sig = forged
        return parse_envelope(message.SerializeToString())

    return bent(sign=forge)


def key_revoked_long_before() -> World:
    world = World()
    world.revoke(BOB, NOW - HOUR)
    Deal(world).run()
    return world


def key_of_nobody() -> World:
    world = World()
    Deal(world).run()
    chains = world.registry.chains
    bob = chains.pop(BOB)
    keep = [entry for entry in world.registry.entries if BOB.encode() not in entry]
    world.registry = Mirror()
    for entry in keep:
        world.registry.append(parse_envelope(entry[42:]), NOW - DAY)
    assert bob.handle not in world.registry.chains
    return world


def no_receipt() -> World:
    world = honest()
    world.a.messages.pop()
    world.b.messages.pop()
    return world


def receipt(**lies: object) -> Callable[[], World]:
    def bend(message: pb.Receipt) -> pb.Receipt:
        for name, value in lies.items():
            setattr(message, name, value)
        return message

    return lambda: bent(receipt=bend)


def receipt_and_refusal() -> World:
    world = World()
    deal = Deal(world)
    accepted = deal.run()
    world.a.messages.pop()
    world.a.say(ALICE, deal.thread, deal.refuse(accepted.mid), IN)
    return world


def two_receipts() -> World:
    world = World()
    deal = Deal(world)
    accepted = deal.run()
    world.a.messages.pop()
    world.a.say(ALICE, deal.thread, deal.stands(accepted.mid, 7, NOW + 4), IN)
    return world


def missing_in_one_ledger() -> World:
    world = honest()
    del world.a.leaves[-1], world.a.contents[-1]
    return world


def receipts_leaf_hidden() -> World:
    world = honest()
    world.b.contents[-1] = None
    return world


def first_message_withheld() -> World:
    world = honest()
    del world.a.messages[0]
    return world


def message_twice() -> World:
    world = honest()
    world.a.messages.append(world.a.messages[-1])
    return world


def wrong_direction() -> World:
    world = honest()
    world.a.messages[-1] = dataclasses.replace(world.a.messages[-1], direction="out")
    return world


def policy_that_its_hash_does_not_name() -> World:
    world = honest()
    activate(world.a, compile_policy(YAML.replace("2h", "90m")), NOW + 9, yaml="something else")
    return world


def decision(**lies: object) -> Callable[[], World]:
    def bend(record: policy_pb2.DecisionRecord) -> policy_pb2.DecisionRecord:
        for name, value in lies.items():
            setattr(record if name == "approved_by_owner" else record.decision, name, value)
        return record

    return lambda: bent(decision=bend)


def no_decision() -> World:
    world = honest()
    del world.a.leaves[1], world.a.contents[1]
    return world


def decision_about_another_meeting() -> World:
    def bend(record: policy_pb2.DecisionRecord) -> policy_pb2.DecisionRecord:
        record.decision.request_json = record.decision.request_json.replace(
            f'"start_ms":{NOW + DAY}', f'"start_ms":{NOW + DAY + 60_000}'
        )
        return record

    return bent(decision=bend)
