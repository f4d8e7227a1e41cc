"""The offline audit over honest and dishonest exports.

Each check has worlds that only it can tell from an honest one: of everything that counts against such a
world, no finding is of another check, so without that check the lie would pass.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from indai.client.audit import CHECKS, Report, Severity, Verdict, audit
from indai.client.exports import IN
from indai.client.handlekeys import claim, recover, retire
from indai.policy.compiled import compile_policy
from indai.protocol.envelope import Envelope, cosign, parse_envelope, seal
from indai.protocol.errors import Reason, Unavailable
from indai.protocol.handlestate import AgentKey
from indai.protocol.leaf import LeafKind
from indai.protocol.operations import CREATE, UPDATE, build_operation
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
    Life,
    Mirror,
    World,
    activate,
    key,
    person,
    reseal,
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


CAROL = "ind.ai/carol"


def lived() -> Life:
    """An honest deal, and what may happen to it from here."""
    deal = Deal(World())
    return Life(deal, deal.run().mid)


def happened(kind: str, at_ms: int = NOW + HOUR, **fields: Any) -> Callable[[], World]:
    """A world in which bob records an event of this kind."""

    def make() -> World:
        life = lived()
        life.at_ms = at_ms
        life.happen(life.event(kind, **fields))
        return life.deal.world

    return make


def forged_cancel() -> World:
    """Bob's key id, and a signature that is not his."""
    life = lived()
    forged = envelope_pb2.Envelope.FromString(life.event("CANCEL").raw)
    forged.signatures[0].sig = b"\x01" + forged.signatures[0].sig[1:]
    life.happen(parse_envelope(forged.SerializeToString(deterministic=True)))
    return life.deal.world


def event_of_a_skipped_number() -> World:
    life = lived()
    life.happen(life.event("CANCEL", seq=2, prev=b"\x07" * 32))
    return life.deal.world


def two_events_under_one_number() -> World:
    life = lived()
    life.happen(life.event("CANCEL"))
    life.seq, life.prev = 0, b""
    life.happen(life.event("DISPUTE"))
    return life.deal.world


def event_numbered_by_the_other_party() -> World:
    life = lived()
    life.happen(life.event("CANCEL", ALICE, seq=1), ALICE)
    return life.deal.world


def expiry_signed_by_the_other_party() -> World:
    life = lived()
    life.at_ms = NOW + 40 * DAY
    life.happen(life.event("EXPIRE", ALICE, seq=1), ALICE)
    return life.deal.world


def event_by_a_stranger() -> World:
    """Carol is in the registry, and no party: her event is in bob's ledger all the same."""
    life = lived()
    world = life.deal.world
    carol = dataclasses.replace(world.a, owner=CAROL)
    world.registry.submit(CREATE, CAROL, person(carol), NOW - DAY)
    envelope = life.event("CANCEL", CAROL, seq=1)
    world.b.add(LeafKind.COMMITMENT, BOB, envelope.mid, envelope.raw, life.at_ms)
    return world


def cancel_by_one_party_too_late() -> World:
    return happened("CANCEL", NOW + DAY + 1)()


def cancel_for_a_request_that_nobody_made() -> World:
    return happened("CANCEL", NOW + DAY + 1, requests=[b"\x09" * 32])()


def event_recorded_before_it_was_issued() -> World:
    """Bob dates his OVERDUE into the future, so that it would be in time."""
    life = lived()
    recorded_ms, life.at_ms = life.at_ms, NOW + 3 * DAY
    envelope = life.event("OVERDUE")
    life.at_ms = recorded_ms
    life.happen(envelope)
    return life.deal.world


def event_before_its_deed() -> World:
    deal = Deal(World())
    life = Life(deal, deal.agreed().mid, at_ms=NOW)
    envelope = life.event("CANCEL")
    deal.world.b.add(LeafKind.COMMITMENT, BOB, envelope.mid, envelope.raw, NOW)
    deal.run()
    life.happen(envelope, leaves="a")
    return deal.world


def cancel_in_one_ledger_only() -> World:
    life = lived()
    life.happen(life.event("CANCEL"), leaves="b")
    return life.deal.world


def event_of_nothing_shown() -> World:
    life = lived()
    life.mid = b"\x05" * 32
    life.happen(life.event("CANCEL"))
    return life.deal.world


LIES: list[tuple[str, Callable[[], World], Verdict]] = [
    ("registry-head", registry_of_somebody_else, Verdict.INCONCLUSIVE),
    ("registry-tree", registry_entry_not_under_its_head, Verdict.VALID),
    ("registry-tree", registry_with_another_root, Verdict.VALID),
    ("registry-chain", operation_by_a_stranger, Verdict.VALID),
    ("registry-map", wrong_map_root, Verdict.VALID),
    ("ledger-identity", ledger_with_a_key_nobody_published, Verdict.VALID),
    ("ledger-identity", owner_who_lives_elsewhere, Verdict.VALID),
    ("ledger-head", head_by_another_key, Verdict.VALID),
    ("ledger-tree", leaf_changed_under_its_head, Verdict.INCONCLUSIVE),
    ("ledger-tree", leaf_cut_off, Verdict.VALID),
    ("ledger-tree", older_head_of_another_tree, Verdict.VALID),
    ("leaf", backdated_leaf, Verdict.VALID),
    ("leaf", leaf_of_no_known_version, Verdict.VALID),
    ("opening", wrong_opening, Verdict.INCONCLUSIVE),
    ("content", content_of_somebody_else, Verdict.INCONCLUSIVE),
    ("content", content_under_another_mid, Verdict.INCONCLUSIVE),
    ("content", commitment_of_a_stranger, Verdict.UNCONFIRMED),
    ("twice", commitment_recorded_twice, Verdict.VALID),
    ("twice", decision_recorded_twice, Verdict.VALID),
    ("same-bytes", other_bytes_in_one_ledger, Verdict.INVALID),
    ("parties", party_under_another_key, Verdict.INVALID),
    ("signature", forged_signature, Verdict.INVALID),
    ("key", key_revoked_long_before, Verdict.INVALID),
    ("key", key_of_nobody, Verdict.INVALID),
    ("receipt-place", receipt(index=0), Verdict.INVALID),
    ("receipt-place", receipt(leaf_time_ms=NOW + 5), Verdict.INVALID),
    ("receipt-place", receipt(log="ind.ai/node-c/ledger/2026"), Verdict.INVALID),
    ("contradiction", receipt_and_refusal, Verdict.CONTESTED),
    ("contradiction", two_receipts, Verdict.CONTESTED),
    ("late", lambda: bent(waits_ms=13 * HOUR), Verdict.CONTESTED),
    ("transcript", first_message_withheld, Verdict.VALID),
    ("transcript", message_twice, Verdict.VALID),
    ("transcript", wrong_direction, Verdict.VALID),
    ("policy", policy_that_its_hash_does_not_name, Verdict.VALID),
    ("decision", decision(outcome=policy_pb2.OUTCOME_ASK, approved_by_owner=True), Verdict.INVALID),
    ("decision", decision(schema_hash=b"\x00" * 32), Verdict.INVALID),
    ("decision", decision(entities_json="{"), Verdict.INVALID),
    ("permitted", no_decision, Verdict.INVALID),
    ("permitted", decision_about_another_meeting, Verdict.INVALID),
    ("permitted", lambda: bent(minutes=150), Verdict.INVALID),
    ("permitted", lambda: bent(minutes=240), Verdict.INVALID),
    ("order", lambda: bent(decides_first=False), Verdict.INVALID),
    ("order", event_before_its_deed, Verdict.INVALID),
    ("parties", happened("CANCEL", signer=ALICE), Verdict.INVALID),
    ("signature", forged_cancel, Verdict.INVALID),
    ("event-chain", event_of_a_skipped_number, Verdict.INVALID),
    ("event-chain", two_events_under_one_number, Verdict.CONTESTED),
    ("event-signer", event_numbered_by_the_other_party, Verdict.INVALID),
    ("event-signer", expiry_signed_by_the_other_party, Verdict.INVALID),
    ("event-signer", event_by_a_stranger, Verdict.INVALID),
    ("event-rule", happened("OVERDUE", NOW + DAY + HOUR), Verdict.INVALID),
    ("event-rule", happened("FULFIL"), Verdict.INVALID),
    ("event-rule", cancel_by_one_party_too_late, Verdict.INVALID),
    ("event-rule", cancel_for_a_request_that_nobody_made, Verdict.INVALID),
    ("event-rule", event_recorded_before_it_was_issued, Verdict.INVALID),
]
GAPS: list[tuple[str, Callable[[], World], Verdict]] = [
    ("unopened", receipts_leaf_hidden, Verdict.UNOPENED),
    ("receipt", no_receipt, Verdict.UNCONFIRMED),
    ("held", missing_in_one_ledger, Verdict.UNCONFIRMED),
    ("event-held", cancel_in_one_ledger_only, Verdict.UNCONFIRMED),
    ("event-held", event_of_nothing_shown, Verdict.VALID),
]


def test_an_honest_world_is_valid(tmp_path: Path) -> None:
    report = honest().audit(tmp_path)
    assert [finding.to_json() for finding in report.findings] == []
    assert [one.verdict for one in report.commitments] == [Verdict.VALID]
    assert (report.severity, report.exit_status) == (Severity.NOTE, 0)
    assert report.counts.leaves == 6
    assert report.counts.opened == 6
    assert report.counts.decisions == 2
    assert (report.counts.threads, report.counts.messages) == (2, 8)


def test_what_may_happen_after_the_deed_changes_no_verdict(tmp_path: Path) -> None:
    """Overdue, then both agree to call it off, and alice objects beside it."""
    life = lived()
    life.at_ms = NOW + DAY + 30 * 60_000 + DAY
    life.happen(life.event("OVERDUE"))
    asked = life.happen(life.event("CANCEL", ALICE), ALICE)
    dispute = life.event("DISPUTE", ALICE, seq=2)
    life.happen(life.event("CANCEL", requests=[asked.mid]))
    life.happen(dispute, ALICE)
    report = life.deal.world.audit(tmp_path)
    assert [finding.to_json() for finding in report.findings] == []
    (judged,) = report.commitments
    assert (judged.verdict, judged.state, judged.disputed) == (Verdict.VALID, "CANCELLED", True)
    assert (judged.to_json()["state"], report.exit_status) == ("CANCELLED", 0)
    assert any("cancelled, disputed" in text for _, text in report.lines())


def test_two_events_under_one_number_are_proof_of_fraud(tmp_path: Path) -> None:
    report = two_events_under_one_number().audit(tmp_path)
    assert report.severity is Severity.FRAUD


@pytest.mark.parametrize(("check", "lie", "verdict"), LIES)
def test_a_lie_is_found_by_the_one_check_for_it(
    check: str, lie: Callable[[], World], verdict: Verdict, tmp_path: Path
) -> None:
    report = lie().audit(tmp_path)
    assert checks(report, Severity.UNREADABLE) == {check}
    assert [one.verdict for one in report.commitments] == [verdict]
    assert report.exit_status == 1


@pytest.mark.parametrize(("check", "gap", "verdict"), GAPS)
def test_a_gap_is_left_open_by_the_one_check_for_it(
    check: str, gap: Callable[[], World], verdict: Verdict, tmp_path: Path
) -> None:
    report = gap().audit(tmp_path)
    assert checks(report, Severity.NOTE) == {check}
    assert [one.verdict for one in report.commitments] == [verdict]
    assert report.exit_status == 3


def test_every_check_has_its_lie() -> None:
    elsewhere = {"file", "split-view", "evidence"}
    assert {check for check, _, _ in (*LIES, *GAPS)} | elsewhere == set(CHECKS)


def test_two_heads_of_one_log_that_contradict_each_other_are_fraud(tmp_path: Path) -> None:
    world = honest()
    fork = dataclasses.replace(world.a, leaves=list(world.a.leaves), contents=list(world.a.contents))
    fork.add(LeafKind.DECISION, ALICE, b"\x01" * 32, b"x", NOW + 9)
    world.a.add(LeafKind.DECISION, ALICE, b"\x02" * 32, b"y", NOW + 9)
    for node in (world.a, fork):
        node.contents[-1] = None
    world.fork = fork  # type: ignore[attr-defined]
    report = world.audit(tmp_path, ("a", "b", "fork"))
    assert checks(report, Severity.UNREADABLE) == {"split-view"}
    assert report.severity is Severity.FRAUD


def test_a_head_that_a_peer_heard_is_held_against_its_log(tmp_path: Path) -> None:
    world = honest()
    world.b.heard = [world.a.note(2)]
    assert world.audit(tmp_path).findings == ()
    other = dataclasses.replace(world.a, leaves=[world.a.leaves[1], world.a.leaves[0]])
    world.b.heard.append(other.note(2))
    report = world.audit(tmp_path)
    assert checks(report, Severity.UNREADABLE) == {"split-view"}
    assert report.severity is Severity.FRAUD
    # The two notes alone prove it, without the export of the log itself.
    assert world.audit(tmp_path, ("b",)).severity is Severity.FRAUD


def test_a_head_that_nobody_signed_is_not_heard(tmp_path: Path) -> None:
    world = honest()
    world.b.heard = [dataclasses.replace(world.a, key=key("another")).note(2)]
    assert checks(world.audit(tmp_path), Severity.UNREADABLE) == {"ledger-head"}


def test_a_head_that_is_not_of_a_longer_tree_is_fraud(tmp_path: Path) -> None:
    world = honest()
    fork = dataclasses.replace(world.a, leaves=list(world.a.leaves), contents=list(world.a.contents))
    fork.leaves[0] = fork.leaves[0][:-1] + b"?"
    fork.contents[0] = None
    world.a.add(LeafKind.DECISION, ALICE, b"\x02" * 32, b"y", NOW + 9)
    world.a.contents[-1] = None
    world.fork = fork  # type: ignore[attr-defined]
    report = world.audit(tmp_path, ("a", "b", "fork"))
    assert checks(report, Severity.UNREADABLE) == {"split-view"}


def test_an_older_export_of_the_same_ledger_is_no_contradiction(tmp_path: Path) -> None:
    world = honest()
    older = dataclasses.replace(
        world.a, leaves=world.a.leaves[:2], contents=world.a.contents[:2], messages=[]
    )
    world.older = older  # type: ignore[attr-defined]
    for names in (("a", "b", "older"), ("older", "a", "b")):
        report = world.audit(tmp_path, names)
        assert [one.verdict for one in report.commitments] == [Verdict.VALID]
        assert report.exit_status == 0


def test_two_views_of_one_ledger_are_taken_together(tmp_path: Path) -> None:
    world = honest()
    older = dataclasses.replace(
        world.b, leaves=world.b.leaves[:2], contents=world.b.contents[:2], messages=[]
    )
    world.older, world.own = older, dataclasses.replace(world.b, scope=BOB)  # type: ignore[attr-defined]
    report = world.audit(tmp_path, ("older", "own", "a", "b"))
    assert [one.verdict for one in report.commitments] == [Verdict.VALID]
    assert report.exit_status == 0


def test_an_owner_may_approve_what_the_policy_left_to_them(tmp_path: Path) -> None:
    def approve(record: policy_pb2.DecisionRecord) -> policy_pb2.DecisionRecord:
        record.approved_by_owner = True
        return record

    report = bent(minutes=240, decision=approve).audit(tmp_path)
    assert report.exit_status == 0
    assert [one.verdict for one in report.commitments] == [Verdict.VALID]


def test_a_key_revoked_while_peers_could_not_know_makes_the_commitment_contested(tmp_path: Path) -> None:
    world = World()
    world.revoke(BOB, NOW - 60_000)
    Deal(world).run()
    report = world.audit(tmp_path)
    assert checks(report, Severity.UNREADABLE) == {"key"}
    assert [one.verdict for one in report.commitments] == [Verdict.CONTESTED]


def deal_with_a_nullified_key(world: World) -> None:
    """A thief with bob's lower rotation key lists an agent key and signs with it; bob recovers afterwards."""
    registry, thief, low = world.registry, key("thief agent"), key("bob low")
    chain = registry.chains[BOB]
    both = dataclasses.replace(
        chain.state, rotation_keys=(*chain.state.rotation_keys, low.public_key), intents=("meet",)
    )
    registry.submit(UPDATE, BOB, both, NOW - HOUR)
    keys = (*both.agent_keys, AgentKey(thief.public_key, NOW - HOUR))
    theft = build_operation(
        UPDATE,
        registry.chains[BOB],
        dataclasses.replace(both, agent_keys=keys),
        low,
        issued_at_ms=NOW - HOUR,
        nonce=sixteen("theft"),
    )
    registry.append(theft, NOW - HOUR)

    def under(commitment: pb.Commitment) -> pb.Commitment:
        commitment.header.key_id = commitment.parties[0].key_id = thief.key_id
        return commitment

    Deal(world, commitment=under, sign=lambda offer: seal(offer.payload_type, offer.payload, [thief])).run()


@pytest.mark.rule("REG-32")
def test_what_a_nullified_key_signed_is_contested_and_not_removed(tmp_path: Path) -> None:
    world = World()
    deal_with_a_nullified_key(world)
    assert [one.verdict for one in world.audit(tmp_path).commitments] == [Verdict.VALID]
    chain = world.registry.chains[BOB]
    undone = recover(chain, key(f"{BOB} rotation"), 1, now_ms=NOW + HOUR)
    world.registry.append(undone, NOW + HOUR)
    # A second deal, under bob's own key, is not touched by it.
    Deal(world, number=1, start_ms=NOW + 3 * DAY, at_ms=NOW + 2 * HOUR).run()
    report = world.audit(tmp_path)
    assert checks(report, Severity.UNREADABLE) == {"key"}
    assert sorted(one.verdict for one in report.commitments) == [Verdict.CONTESTED, Verdict.VALID]
    (contested,) = (one for one in report.commitments if one.verdict is Verdict.CONTESTED)
    assert any("nullified" in why for why in contested.why)


def test_a_retired_name_that_begins_again_too_early_is_found(tmp_path: Path) -> None:
    world = honest()
    registry = world.registry
    registry.append(retire(registry.chains[BOB], key(f"{BOB} rotation"), now_ms=NOW + DAY), NOW + DAY)
    genesis = claim(BOB, registry.signer().name, [key("other")], now_ms=NOW + 2 * DAY)
    chain = registry.chains.pop(BOB)
    registry.append(genesis, NOW + 2 * DAY)
    assert "registry-chain" in checks(world.audit(tmp_path), Severity.INVALID)
    assert chain.ended_at_ms


def test_a_key_revoked_afterwards_changes_nothing(tmp_path: Path) -> None:
    world = honest()
    world.revoke(BOB, NOW + HOUR)
    assert world.audit(tmp_path).exit_status == 0


def test_a_content_that_is_erased_is_unopened(tmp_path: Path) -> None:
    world = honest()
    world.a.contents[-1] = world.b.contents[-1] = None
    world.a.messages = world.b.messages = []
    report = world.audit(tmp_path)
    assert [one.verdict for one in report.commitments] == [Verdict.UNOPENED] * 2
    assert report.exit_status == 3


def test_a_deal_younger_than_the_ledgers_export_is_unconfirmed(tmp_path: Path) -> None:
    world = honest()
    for node in (world.a, world.b):
        node.leaves, node.contents = node.leaves[:1], node.contents[:1]
    report = world.audit(tmp_path)
    assert [one.verdict for one in report.commitments] == [Verdict.UNCONFIRMED]
    assert report.exit_status == 3


def test_an_offer_that_lapsed_is_no_commitment(tmp_path: Path) -> None:
    world = World()
    deal = Deal(world)
    propose = deal.propose()
    offer = deal.offer(propose)
    deal.decide(world.b, offer.mid, ALICE)
    accepted = cosign(offer, key(f"{ALICE} agent"))
    refused = deal.refuse(offer.mid)
    for envelope, direction in ((propose, "in"), (offer, "out"), (accepted, "in"), (refused, "out")):
        world.b.say(BOB, deal.thread, envelope, direction)
    report = world.audit(tmp_path)
    assert (report.commitments, report.exit_status) == ((), 0)


def test_an_acceptance_without_an_answer_is_unconfirmed(tmp_path: Path) -> None:
    world = World()
    deal = Deal(world)
    propose = deal.propose()
    offer = deal.offer(propose)
    deal.decide(world.a, offer.mid, BOB)
    for envelope, direction in (
        (propose, "out"),
        (offer, "in"),
        (cosign(offer, key(f"{ALICE} agent")), "out"),
    ):
        world.a.say(ALICE, deal.thread, envelope, direction)
    report = world.audit(tmp_path)
    assert [one.verdict for one in report.commitments] == [Verdict.UNCONFIRMED]
    assert report.exit_status == 3


def test_without_a_registry_nothing_about_keys_is_concluded(tmp_path: Path) -> None:
    paths = honest().write(tmp_path)
    report = audit(paths, None)
    assert [one.verdict for one in report.commitments] == [Verdict.INCONCLUSIVE]
    assert report.exit_status == 3


def test_without_the_engine_nothing_about_decisions_is_concluded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise Unavailable(Reason.UNREACHABLE, "the policy engine is not installed")

    monkeypatch.setattr("indai.client.audit.policies.evaluate", missing)
    report = honest().audit(tmp_path)
    assert checks(report, Severity.NOTE) == {"decision"}
    assert [one.verdict for one in report.commitments] == [Verdict.INCONCLUSIVE]


def test_an_owners_own_export_is_judged_without_the_others_contents(tmp_path: Path) -> None:
    world = honest()
    world.a.scope = ALICE
    world.a.add(LeafKind.COMMITMENT, "ind.ai/carol", b"\x01" * 32, b"hers", NOW + 9)
    world.a.contents[-1] = None
    assert world.audit(tmp_path).exit_status == 0


def test_one_side_alone_is_judged_by_the_receipt(tmp_path: Path) -> None:
    report = honest().audit(tmp_path, ("a",))
    assert [one.verdict for one in report.commitments] == [Verdict.VALID]


def test_a_file_that_is_no_export_is_named(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_bytes(b"hello\n")
    report = audit([path], None)
    assert [(finding.check, finding.place.file, finding.place.line) for finding in report.findings] == [
        ("file", "odd.jsonl", 1)
    ]
    assert report.exit_status == 2


def test_the_registrys_export_is_no_ledger(tmp_path: Path) -> None:
    world = honest()
    world.write(tmp_path)
    report = audit([tmp_path / "registry.jsonl"], tmp_path / "a.jsonl")
    assert [finding.severity for finding in report.findings] == [Severity.UNREADABLE] * 2


def test_the_report_fits_a_terminal_and_a_program(tmp_path: Path) -> None:
    report = receipt_and_refusal().audit(tmp_path)
    lines = report.lines()
    assert all(len(text) <= 80 for _, text in lines)
    assert any("ind.ai/bob and ind.ai/alice" in text for _, text in lines)
    data = json.loads(json.dumps(report.to_json()))
    assert data["severity"] == "FRAUD"
    assert data["verdicts"]["CONTESTED"] == 1
    assert data["findings"][0]["file"] in ("a.jsonl", "b.jsonl")


def test_nothing_in_a_file_reaches_the_terminal_as_a_command(tmp_path: Path) -> None:
    world = honest()
    shown = world.a.contents[0]
    assert shown
    world.a.scope, shown.owner = ALICE, "ind.ai/\x1b[2J\u202e" + "x" * 9000
    report = world.audit(tmp_path)
    assert {"content"} <= checks(report, Severity.INVALID)
    assert all(text.isprintable() for _, text in report.lines())
    assert all(len(finding.message) < 600 for finding in report.findings)


def test_the_documentation_names_every_check() -> None:
    written = (Path(__file__).parents[3] / "docs" / "audit.md").read_text("utf-8")
    assert all(f"| `{check}` | {words} |" in written for check, words in CHECKS.items())


def test_progress_is_told(tmp_path: Path) -> None:
    world = honest()
    told: list[tuple[str, int]] = []
    audit(world.write(tmp_path), tmp_path / "registry.jsonl", world.trust, lambda *at: told.append(at))
    assert told


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, World]:
    folder = tmp_path_factory.mktemp("exports")
    world = honest()
    world.write(folder)
    return folder, world


# The exporter's clock is the one value that no signature or proof reaches, and no check depends on.
UNPROVED = b'"created_ms":'


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(["a.jsonl", "b.jsonl", "registry.jsonl"]), st.integers(0, 10**6), st.integers(1, 255))
def test_any_changed_byte_is_found_and_its_file_named(
    exported: tuple[Path, World], name: str, position: int, change: int
) -> None:
    folder, world = exported
    report = audited_with(folder, world, name, position, change, forged=False)
    assert report.exit_status != 0
    assert any(finding.place.file == name for finding in report.findings)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["a.jsonl", "b.jsonl", "registry.jsonl"]), st.integers(0, 10**6), st.integers(1, 255))
def test_any_changed_byte_is_found_even_when_the_last_line_is_forged(
    exported: tuple[Path, World], name: str, position: int, change: int
) -> None:
    folder, world = exported
    report = audited_with(folder, world, name, position, change, forged=True)
    assert report.exit_status != 0
    assert any(finding.place.file == name for finding in report.findings)


def audited_with(
    folder: Path, world: World, name: str, position: int, change: int, *, forged: bool
) -> Report:
    lines = (folder / name).read_bytes().splitlines(keepends=True)
    whole = bytearray(b"".join(lines[:-1] if forged else lines))
    clock = whole.index(UNPROVED) + len(UNPROVED)
    position %= len(whole)
    assume(not forged or not clock <= position < clock + 13)
    whole[position] ^= change
    with TemporaryDirectory() as temporary:
        bad = Path(temporary) / name
        if forged:
            reseal(bad, [*bytes(whole).splitlines(keepends=True), lines[-1]])
        else:
            bad.write_bytes(whole)
        files = {one: folder / one for one in ("a.jsonl", "b.jsonl", "registry.jsonl")} | {name: bad}
        return audit([files["a.jsonl"], files["b.jsonl"]], files["registry.jsonl"], world.trust)
