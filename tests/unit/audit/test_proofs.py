"""What the audit hands out against who contradicted themselves convinces another audit, and only of that."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from indai.client.audit import Report, Severity, audit
from indai.client.audit.twowords import TwoWords
from indai.client.fraud import Evidence
from indai.protocol.errors import InvalidInput
from indai.protocol.leaf import LeafKind

from .event_lies import two_events_under_one_number
from .lies import checks, honest, receipt_and_refusal
from .worlds import ALICE, BOB, NODE_A, NOW, Mirror, Node, World, key, write


def forked(*, longer: bool) -> World:
    """node-a shows one ledger to one reader, and another to bob's node."""
    world = honest()
    fork = dataclasses.replace(world.a, leaves=list(world.a.leaves), contents=list(world.a.contents))
    fork.leaves[0] = fork.leaves[0][:-1] + b"?"
    if longer:
        world.a.add(LeafKind.DECISION, ALICE, b"\x02" * 32, b"y", NOW + 9)
        world.a.contents[-1] = None
    world.b.heard = [fork.note(3)]
    return world


def retried(world: World, report: Report, folder: Path, registry: bool = True) -> Report:
    """Another audit, of nothing but the proofs and the registry."""
    paths = []
    for proof in report.proofs:
        path = folder / proof.name
        path.write_bytes(proof.content)
        paths.append(path)
    return audit(paths, folder / "registry.jsonl" if registry else None, world.trust)


@pytest.mark.parametrize("longer", [True, False])
def test_a_split_view_becomes_a_file_that_proves_it_alone(longer: bool, tmp_path: Path) -> None:
    world = forked(longer=longer)
    report = world.audit(tmp_path)
    (proof,) = report.proofs
    evidence = Evidence.parse(proof.content)
    assert (evidence.is_proof, evidence.log.name) == (True, world.a.origin)
    again = retried(world, report, tmp_path)
    assert (checks(again, Severity.UNREADABLE), again.severity) == ({"split-view"}, Severity.FRAUD)


def test_two_heads_of_one_size_are_a_proof_without_any_export_of_their_log(tmp_path: Path) -> None:
    world = forked(longer=False)
    world.b.heard.append(world.a.note(3))
    (proof,) = world.audit(tmp_path, ("b",)).proofs
    assert Evidence.parse(proof.content).is_proof


def test_a_registry_that_signed_two_histories_is_proved_too(tmp_path: Path) -> None:
    world, other = honest(), Mirror()
    other.signed = [b"another"] * len(world.registry.entries)
    other.entries = list(world.registry.entries)
    note = other.records()[1]
    records = world.registry.records()
    paths = world.write(tmp_path)
    write(tmp_path / "registry.jsonl", [*records[:2], note, *records[2:]])
    report = audit(paths, tmp_path / "registry.jsonl", world.trust)
    assert [Evidence.parse(proof.content).is_proof for proof in report.proofs] == [True]


@pytest.mark.parametrize("lie", [two_events_under_one_number, receipt_and_refusal])
def test_two_words_become_a_file_that_another_audit_believes(
    lie: Callable[[], World], tmp_path: Path
) -> None:
    world = lie()
    report = world.audit(tmp_path)
    assert len(report.proofs) == 1
    again = retried(world, report, tmp_path)
    assert (checks(again, Severity.NOTE), again.severity) == ({"contradiction"}, Severity.FRAUD)
    assert BOB in again.findings[0].message
    # Without a registry nobody knows whose keys these are.
    assert checks(retried(world, report, tmp_path, registry=False), Severity.OPEN) == {"evidence"}


def test_one_event_twice_proves_nothing(tmp_path: Path) -> None:
    world = two_events_under_one_number()
    (proof,) = world.audit(tmp_path).proofs
    words = TwoWords.parse(proof.content)
    (tmp_path / "same.json").write_bytes(TwoWords(words.one, words.one).encode())
    report = audit([tmp_path / "same.json"], tmp_path / "registry.jsonl", world.trust)
    assert checks(report, Severity.OPEN) == {"evidence"}


def test_evidence_against_a_ledger_needs_a_key_that_the_registry_shows(tmp_path: Path) -> None:
    world = honest()
    liar = Node(NODE_A, ALICE, key("liar"), world.registry.network)
    one, other = (dataclasses.replace(liar, leaves=[leaf]).note(1).encode() for leaf in (b"one", b"other"))
    path = Evidence.of(liar.signer().verifier, one, other).write(tmp_path)
    paths = world.write(tmp_path)
    report = audit([*paths, path], tmp_path / "registry.jsonl", world.trust)
    assert [(one.check, one.severity) for one in report.findings] == [("evidence", Severity.INVALID)]
    assert checks(audit([path], None, world.trust), Severity.OPEN) == {"evidence"}


def test_a_pair_of_a_ledgers_heads_is_settled_by_its_export(tmp_path: Path) -> None:
    world = honest()
    fork = dataclasses.replace(world.a, leaves=[b"fork", *world.a.leaves[1:]])
    signer = world.a.signer()
    pair = Evidence.of(signer.verifier, fork.note(2).encode(), world.a.note(3).encode())
    assert not pair.is_proof
    path = pair.write(tmp_path)
    paths = world.write(tmp_path)
    report = audit([*paths, path], tmp_path / "registry.jsonl", world.trust)
    assert report.severity is Severity.FRAUD
    (proof,) = report.proofs
    assert Evidence.parse(proof.content).is_proof
    alone = audit([path], tmp_path / "registry.jsonl", world.trust)
    assert [(one.check, one.severity) for one in alone.findings] == [("evidence", Severity.OPEN)]


def test_a_damaged_proof_is_named_as_a_file(tmp_path: Path) -> None:
    world = receipt_and_refusal()
    (proof,) = world.audit(tmp_path).proofs
    (tmp_path / "bad.json").write_bytes(proof.content + b" ")
    report = audit([tmp_path / "bad.json"], tmp_path / "registry.jsonl", world.trust)
    assert (checks(report, Severity.OPEN), report.exit_status) == ({"file"}, 2)
    with pytest.raises(InvalidInput):
        Evidence.parse(proof.content)
