"""A mirror of the registry is what the audit reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from indai.client.audit import Verdict, audit
from indai.client.exports import CheckpointLine, EntryLine, read_export
from indai.client.fraud import read_evidence
from indai.client.mirror import mirror
from indai.client.network import NetworkPolicy
from indai.protocol.checkpoint import sign_checkpoint
from indai.protocol.errors import InvalidInput, ProtocolError, Reason, Unavailable
from indai.protocol.merkle import consistency_proof, leaf_hash
from indai.protocol.note import Signer
from indai.v1 import registry_pb2

from .worlds import NOW, REGISTRY_LOG, Deal, World, head, key


class Registry:
    """A stub's answers, in pages of two entries, of a log that has grown beyond its head."""

    def __init__(self, world: World, gives: int = 1000, upto: int = 1000) -> None:
        entries = world.registry.entries[:upto]
        self.entries = [*entries, b"newer than the head"][:gives]
        self._hashes = [leaf_hash(entry) for entry in entries]
        self.asked: list[int] = []
        signers = [world.registry.signer(), clock()]
        self._note = sign_checkpoint(head(REGISTRY_LOG, entries), signers)

    async def GetHead(  # noqa: N802 - named by the contract
        self, request: Any, **options: Any
    ) -> registry_pb2.GetHeadResponse:
        self.asked += [request.known_size] if request.known_size else []
        old = request.known_size
        proof = consistency_proof(self._hashes, old) if 0 < old < len(self._hashes) else []
        return registry_pb2.GetHeadResponse(checkpoint=self._note, consistency_proof=proof)

    async def ListLogKeys(  # noqa: N802 - named by the contract
        self, request: Any, **options: Any
    ) -> registry_pb2.ListLogKeysResponse:
        return registry_pb2.ListLogKeysResponse()

    async def ListEntries(  # noqa: N802 - named by the contract
        self, request: Any, **options: Any
    ) -> registry_pb2.ListEntriesResponse:
        page = self.entries[request.start : request.start + 2]
        return registry_pb2.ListEntriesResponse(entries=page, next_start=request.start + len(page))


def clock() -> Signer:
    return Signer(f"{REGISTRY_LOG}/clock", key("clock"), time=NOW // 1000)


def policy_of(world: World) -> NetworkPolicy:
    return NetworkPolicy.of_registry(world.registry.signer().verifier, clock().verifier)


async def test_a_mirror_lets_an_audit_judge_keys(tmp_path: Path) -> None:
    world = World()
    Deal(world).run()
    paths, policy = world.write(tmp_path), policy_of(world)
    lines = [line async for line in mirror(cast(Any, Registry(world)), policy, NOW)]
    (tmp_path / "mirror.jsonl").write_bytes(b"".join(lines))
    report = audit(paths, tmp_path / "mirror.jsonl", policy.policy)
    assert [finding.to_json() for finding in report.findings] == []
    assert [one.verdict for one in report.commitments] == [Verdict.VALID]
    assert report.counts.registry_entries == len(world.registry.entries)


async def test_a_cosignature_of_nobody_known_is_found(tmp_path: Path) -> None:
    world = World()
    paths = world.write(tmp_path)
    lines = [line async for line in mirror(cast(Any, Registry(world)), policy_of(world), NOW)]
    (tmp_path / "mirror.jsonl").write_bytes(b"".join(lines))
    report = audit(paths, tmp_path / "mirror.jsonl", world.trust)
    assert {finding.check for finding in report.findings} == {"registry-head"}
    assert report.exit_status == 1


async def made(path: Path, registry: Registry, policy: NetworkPolicy, known: Path | None = None) -> Path:
    lines = [line async for line in mirror(cast(Any, registry), policy, NOW, known)]
    write_bytes(path, b"".join(lines))
    return path


def write_bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)


async def test_a_mirror_is_carried_on_from_where_it_was(tmp_path: Path) -> None:
    world = World()
    policy, entries = policy_of(world), world.registry.entries
    earlier = await made(tmp_path / "mirror.jsonl", Registry(world, upto=3), policy)
    registry = Registry(world)
    carried = await made(tmp_path / "again.jsonl", registry, policy, earlier)
    assert registry.asked == [3]
    records = [record for _, record in read_export(carried)]
    assert [record.entry for record in records if isinstance(record, EntryLine)] == entries
    assert len([record for record in records if isinstance(record, CheckpointLine)]) == 2
    assert audit([], carried, policy.policy).findings == ()
    same = await made(tmp_path / "same.jsonl", Registry(world), policy, carried)
    assert same.read_bytes() == carried.read_bytes()


@pytest.mark.rule("REG-12")
async def test_a_registry_that_rewrote_its_past_is_caught_by_a_mirror(tmp_path: Path) -> None:
    world = World()
    policy = policy_of(world)
    earlier = await made(tmp_path / "mirror.jsonl", Registry(world, upto=3), policy)
    world.registry.entries[0] = b"another past"
    with pytest.raises(ProtocolError) as caught:
        await made(tmp_path / "again.jsonl", Registry(world), policy, earlier)
    assert caught.value.reason is Reason.SPLIT_VIEW
    (path,) = evidence_in(tmp_path)
    assert read_evidence(path).is_proof


def evidence_in(folder: Path) -> list[Path]:
    return list(folder.glob("fraud-*.jsonl"))


async def test_entries_that_are_not_those_of_the_head_make_no_mirror() -> None:
    world = World()
    registry = Registry(world)
    registry.entries[1] = b"?"
    with pytest.raises(ProtocolError) as caught:
        [line async for line in mirror(cast(Any, registry), policy_of(world), NOW)]
    assert caught.value.reason is Reason.BAD_PROOF


async def test_another_registrys_file_is_not_carried_on(tmp_path: Path) -> None:
    world = World()
    (ledger, _) = world.write(tmp_path)
    with pytest.raises(InvalidInput):
        await made(tmp_path / "again.jsonl", Registry(world), policy_of(world), ledger)


async def test_a_registry_that_stops_short_of_its_head_makes_no_mirror() -> None:
    world = World()
    with pytest.raises(Unavailable) as caught:
        [line async for line in mirror(cast(Any, Registry(world, gives=1)), policy_of(world), NOW)]
    assert caught.value.reason is Reason.UNREACHABLE
