"""Files of evidence among the exports: a proof is fraud, a mirror settles a pair, a forgery is nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indai.client.audit import Report, Severity, audit
from indai.client.exports import CheckpointLine
from indai.client.fraud import Evidence, is_evidence, read_evidence
from indai.client.keytie import KeyTie
from indai.protocol.checkpoint import Checkpoint, sign_checkpoint
from indai.protocol.errors import InvalidInput
from indai.protocol.logkeys import announce
from indai.protocol.merkle import consistency_proof, leaf_hash, root
from indai.protocol.note import Signer
from indai.protocol.registryleaf import LOG_KEY_KIND, RegistryLeaf, encode_registry_leaf

from .worlds import NOW, REGISTRY_LOG, World, key, write


def note(leaves: list[bytes], size: int, signer: Signer) -> bytes:
    return sign_checkpoint(Checkpoint(REGISTRY_LOG, size, root(leaves[:size])), [signer])


def world_and_leaves() -> tuple[World, list[bytes], list[bytes]]:
    world = World()
    honest = [leaf_hash(entry) for entry in world.registry.entries]
    return world, honest, [*honest[:1], *(leaf_hash(b"fork %d" % number) for number in range(7))]


def audited(world: World, folder: Path, *evidence: Evidence, mirrored: bool = True) -> Report:
    files = [one.write(folder) for one in evidence]
    paths = world.write(folder)
    return audit([*paths, *files], folder / "registry.jsonl" if mirrored else None, world.trust)


def found(report: Report) -> set[tuple[str, Severity]]:
    return {(one.check, one.severity) for one in report.findings if one.place.file.startswith("fraud-")}


@pytest.mark.rule("FRD-01")
@pytest.mark.parametrize("mirrored", [True, False])
@pytest.mark.parametrize("size", [3, 4])
def test_a_proof_is_fraud_with_a_mirror_and_without(tmp_path: Path, size: int, mirrored: bool) -> None:
    world, honest, fork = world_and_leaves()
    signer = world.registry.signer()
    proof = consistency_proof(honest[:4], size) if size < 4 else []
    evidence = Evidence.of(signer.verifier, note(honest, 4, signer), note(fork, size, signer), proof)
    assert evidence.is_proof
    assert ("split-view", Severity.FRAUD) in found(audited(world, tmp_path, evidence, mirrored=mirrored))


def test_a_pair_is_settled_by_the_mirror(tmp_path: Path) -> None:
    world, honest, fork = world_and_leaves()
    signer = world.registry.signer()
    pair = Evidence.of(signer.verifier, note(fork, 3, signer), note(honest, 4, signer))
    assert not pair.is_proof
    assert found(audited(world, tmp_path, pair, mirrored=False)) == {("evidence", Severity.OPEN)}
    report = audited(world, tmp_path, pair)
    assert "split-view" in {one.check for one in report.findings if one.severity is Severity.FRAUD}


def test_two_honest_heads_are_found_to_be_of_one_history(tmp_path: Path) -> None:
    world, honest, _ = world_and_leaves()
    signer = world.registry.signer()
    pair = Evidence.of(signer.verifier, note(honest, 2, signer), note(honest, 4, signer))
    assert [one for one in audited(world, tmp_path, pair).findings if one.severity is Severity.FRAUD] == []


@pytest.mark.rule("FRD-02")
def test_evidence_under_a_key_that_nobody_trusts_says_nothing(tmp_path: Path) -> None:
    world, honest, fork = world_and_leaves()
    liar = dataclasses.replace(world.registry.signer(), key=key("liar"))
    evidence = Evidence.of(liar.verifier, note(honest, 4, liar), note(fork, 4, liar))
    assert found(audited(world, tmp_path, evidence)) == {("evidence", Severity.INVALID)}


@pytest.mark.rule("FRD-03")
def test_a_registry_is_accused_under_the_key_that_its_own_has_announced(tmp_path: Path) -> None:
    world, honest, fork = world_and_leaves()
    first, later = world.registry.signer(), Signer(REGISTRY_LOG, key("later"))
    tie = KeyTie(later.verifier, (announce(REGISTRY_LOG, first.key, later.key),))
    evidence = Evidence.of(first.verifier, note(honest, 4, first), note(fork, 4, later), tie=tie)
    assert ("split-view", Severity.FRAUD) in found(audited(world, tmp_path, evidence))
    liar = Signer(REGISTRY_LOG, key("liar"))
    forged = KeyTie(later.verifier, (announce(REGISTRY_LOG, liar.key, later.key),))
    for accuser, by in ((liar, forged), (first, forged)):
        unfounded = Evidence(accuser.verifier, note(honest, 4, accuser), note(fork, 4, later), tie=by)
        (tmp_path / "fraud-forged.jsonl").write_bytes(unfounded.encode())
        report = audit([tmp_path / "fraud-forged.jsonl"], tmp_path / "registry.jsonl", world.trust)
        assert found(report) == {("evidence", Severity.INVALID)}


def test_two_heads_of_a_mirror_under_two_keys_of_its_log_become_a_proof(tmp_path: Path) -> None:
    world, first, later = World(), World().registry.signer(), Signer(REGISTRY_LOG, key("later"))
    body = announce(REGISTRY_LOG, first.key, later.key)
    mirror = world.registry
    mirror.entries.append(encode_registry_leaf(RegistryLeaf(NOW, mirror.tiles.root(), body, LOG_KEY_KIND)))
    header, head, *entries = mirror.records()
    other = CheckpointLine(
        sign_checkpoint(Checkpoint(REGISTRY_LOG, len(entries), b"\x07" * 32), [later]).decode()
    )
    path = write(tmp_path / "registry.jsonl", [header, head, other, *entries])
    trust = dataclasses.replace(world.trust, logs=(first.verifier, later.verifier))
    (proof,) = audit([], path, trust).proofs
    evidence = Evidence.parse(proof.content)
    assert (evidence.is_proof, evidence.log, evidence.tie) == (
        True,
        first.verifier,
        KeyTie(later.verifier, (body,)),
    )


def test_a_forged_signature_in_it_is_invalid_and_no_fraud(tmp_path: Path) -> None:
    world, honest, fork = world_and_leaves()
    signer = world.registry.signer()
    liar = dataclasses.replace(signer, key=key("liar"))
    genuine = Evidence.of(signer.verifier, note(honest, 4, signer), note(fork, 4, signer))
    path = genuine.write(tmp_path)
    path.write_bytes(dataclasses.replace(genuine, larger=note(fork, 4, liar)).encode())
    report = audit([*world.write(tmp_path), path], tmp_path / "registry.jsonl", world.trust)
    assert found(report) == {("evidence", Severity.INVALID)}


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 255))
def test_no_changed_byte_makes_other_evidence_out_of_it(at: int, bits: int) -> None:
    world, honest, fork = world_and_leaves()
    signer = world.registry.signer()
    raw = Evidence.of(
        signer.verifier, note(honest, 4, signer), note(fork, 3, signer), consistency_proof(honest[:4], 3)
    ).encode()
    at %= len(raw)
    changed = raw[:at] + bytes([raw[at] ^ bits]) + raw[at + 1 :]
    try:
        evidence = Evidence.parse(changed)
    except InvalidInput:
        return
    assert evidence.encode() == changed


def test_only_files_of_the_format_are_taken_for_evidence(tmp_path: Path) -> None:
    world = World()
    (path, _) = world.write(tmp_path)
    assert not is_evidence(path)
    assert not is_evidence(tmp_path / "missing")
    with pytest.raises(InvalidInput):
        read_evidence(path)
