"""A mirror of the registry is what the audit reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from indai.client.audit import Verdict, audit
from indai.client.mirror import mirror
from indai.client.network import NetworkPolicy
from indai.protocol.checkpoint import sign_checkpoint
from indai.protocol.errors import Reason, Unavailable
from indai.protocol.note import Signer
from indai.v1 import registry_pb2

from .worlds import NOW, REGISTRY_LOG, Deal, World, head, key


class Registry:
    """A stub's answers, in pages of two entries, of a log that has grown beyond its head."""

    def __init__(self, world: World, gives: int = 1000) -> None:
        entries = world.registry.entries
        self._entries = [*entries, b"newer than the head"][:gives]
        signers = [world.registry.signer(), clock()]
        self._note = sign_checkpoint(head(REGISTRY_LOG, entries), signers)

    async def GetHead(  # noqa: N802 - named by the contract
        self, request: Any, **options: Any
    ) -> registry_pb2.GetHeadResponse:
        return registry_pb2.GetHeadResponse(checkpoint=self._note)

    async def ListEntries(  # noqa: N802 - named by the contract
        self, request: Any, **options: Any
    ) -> registry_pb2.ListEntriesResponse:
        page = self._entries[request.start : request.start + 2]
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


async def test_a_registry_that_stops_short_of_its_head_makes_no_mirror() -> None:
    world = World()
    with pytest.raises(Unavailable) as caught:
        [line async for line in mirror(cast(Any, Registry(world, gives=1)), policy_of(world), NOW)]
    assert caught.value.reason is Reason.UNREACHABLE
