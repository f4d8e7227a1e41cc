"""A registry that changes the key of its log, and clients, gossip and mirrors that go through it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from indai.cli.exporting import save
from indai.client.audit import audit
from indai.client.bundles import write_bundles
from indai.client.exports import CheckpointLine, EntryLine, encode, read_export
from indai.client.fraud import read_evidence
from indai.client.gossip import Gossip, Heard
from indai.client.mirror import mirror
from indai.client.network import NetworkPolicy
from indai.client.resolver import Resolver
from indai.protocol.checkpoint import Checkpoint, sign_checkpoint
from indai.protocol.errors import IndaiError, ProtocolError, Reason
from indai.protocol.keys import SigningKey
from indai.protocol.logkeys import announce
from indai.protocol.merkle import leaf_hash
from indai.protocol.note import Signer
from indai.v1 import registry_pb2

from tests.unit.audit.worlds import reseal

from .conftest import KEYS, ORIGIN, key

SECOND, THIRD = key("log-2"), key("log-3")
LATER = NetworkPolicy.of_registry(Signer(ORIGIN, SECOND).verifier, KEYS.time_verifier, first=KEYS.verifier)


class Operator:
    """The keys that the operator has made for the log."""

    def __init__(self) -> None:
        self.keys: list[SigningKey] = []

    def __call__(self) -> list[SigningKey]:
        return self.keys

    async def rotate(self, rig: Any, new: SigningKey) -> None:
        self.keys = [*self.keys, new]
        await rig.registry.announce_next()
        await rig.registry.publish()


@pytest.fixture
async def operator() -> Operator:
    return Operator()


@pytest.fixture
async def rotating(database: Any, start_registry: Any, operator: Operator) -> Any:
    rig = await start_registry(database.pool, later_keys=operator)
    await rig.submit(rig.claim("ind.ai/alice"))
    return rig


async def refused(resolver: Resolver, handle: str = "ind.ai/alice") -> Reason:
    with pytest.raises(IndaiError) as caught:
        await resolver.resolve(handle)
    return caught.value.reason


@pytest.mark.rule("REG-43", "REG-44")
async def test_a_client_of_the_old_policy_follows_to_the_announced_key(
    rotating: Any, operator: Operator, tmp_path: Path
) -> None:
    warm = rotating.resolver(tmp_path / "head")
    await warm.resolve("ind.ai/alice")
    network = warm.policy.network
    await operator.rotate(rotating, SECOND)
    assert rotating.registry.verifier.public_key == SECOND.public_key
    await rotating.submit(rotating.claim("ind.ai/bob"))
    assert (await warm.tail()).size == 3
    assert (await warm.resolve("ind.ai/bob")).head.size == 3
    assert warm.policy.log.public_key == SECOND.public_key
    # The network stays the one that every message names.
    assert warm.policy.network == network == LATER.network
    # A restart knows the key, and who starts with the old file or with the new one comes to the same.
    assert rotating.resolver(tmp_path / "head").policy.log == warm.policy.log
    for policy in (rotating.policy, LATER):
        assert (await Resolver(rotating.stub, policy, rotating.clock).resolve("ind.ai/bob")).head.size == 3


@pytest.mark.rule("REG-44")
async def test_a_head_of_a_key_that_was_never_announced_is_refused(rotating: Any, operator: Operator) -> None:
    def other_key(method: str, request: Any, answer: Any) -> Any:
        if method in ("GetHandle", "GetHead"):
            signer = Signer(KEYS.time_name, KEYS.time_key, time=rotating.clock() // 1000)
            head = rotating.policy.open(answer.checkpoint).checkpoint
            answer.checkpoint = sign_checkpoint(head, [Signer(ORIGIN, SECOND), signer])
        return answer

    rotating.liar.twist = other_key
    assert await refused(rotating.resolver()) is Reason.BAD_SIGNATURE
    rotating.liar.twist = lambda method, request, answer: answer
    await rotating.resolver().resolve("ind.ai/alice")


@pytest.mark.rule("REG-44")
async def test_an_announcement_that_was_tampered_with_leads_nowhere(
    rotating: Any, operator: Operator
) -> None:
    await operator.rotate(rotating, SECOND)

    def thief(method: str, request: Any, answer: Any) -> Any:
        if method == "ListLogKeys":
            change = answer.changes[0]
            change.leaf = change.leaf[:42] + announce(ORIGIN, KEYS.key, key("thief"))
        return answer

    rotating.liar.twist = thief
    assert await refused(rotating.resolver()) is Reason.BAD_PROOF
    rotating.liar.twist = lambda method, request, answer: answer
    await rotating.resolver().resolve("ind.ai/alice")


async def test_a_registry_goes_on_with_its_newest_key_and_an_older_one_signs_nothing_more(
    database: Any, start_registry: Any, rotating: Any, operator: Operator
) -> None:
    resolver = rotating.resolver()
    await resolver.tail()
    await operator.rotate(rotating, SECOND)
    await operator.rotate(rotating, THIRD)
    again = await start_registry(database.pool, later_keys=operator)
    await again.submit(again.claim("ind.ai/bob"))
    assert again.registry.verifier.public_key == THIRD.public_key
    cold = Resolver(again.stub, rotating.policy, again.clock)
    assert (await cold.resolve("ind.ai/bob")).head.size == 4
    # The thief of an old key can sign what they like: nobody who has followed believes it.
    stolen = sign_checkpoint(
        Checkpoint(ORIGIN, 9, bytes(32)),
        [Signer(ORIGIN, KEYS.key), Signer(KEYS.time_name, KEYS.time_key, time=again.clock() // 1000)],
    )

    def show_stolen(method: str, request: Any, answer: Any) -> Any:
        if method == "GetHead":
            answer.checkpoint = stolen
        return answer

    again.liar.twist = show_stolen
    with pytest.raises(IndaiError) as caught:
        await cold.tail()
    assert caught.value.reason is Reason.BAD_SIGNATURE


async def test_a_registry_without_its_newest_key_does_not_start(
    database: Any, start_registry: Any, rotating: Any, operator: Operator
) -> None:
    await operator.rotate(rotating, SECOND)
    with pytest.raises(IndaiError, match="not in this data directory"):
        await start_registry(database.pool)


async def test_a_mirror_and_its_audit_follow_the_log_to_its_next_key(
    rotating: Any, operator: Operator, tmp_path: Path
) -> None:
    path, old_policy = tmp_path / "mirror.jsonl", rotating.policy

    async def carry_on() -> list[str]:
        known = path if path.exists() else None
        lines = [line async for line in mirror(rotating.stub, old_policy, rotating.clock(), known)]
        path.write_bytes(b"".join(lines))
        report = audit([], path, old_policy.policy)
        return [one.check for one in report.findings if one.severity.exit_status]

    assert await carry_on() == []
    await operator.rotate(rotating, SECOND)
    await rotating.submit(rotating.claim("ind.ai/bob"))
    assert await carry_on() == []
    before = await rotating.stub.ListLogKeys(registry_pb2.ListLogKeysRequest())
    await operator.rotate(rotating, THIRD)
    assert await carry_on() == []
    path.unlink()
    assert await carry_on() == []
    stale = [before]  # the log changes its key after it has said which it had, and before its newest head

    def late(method: str, request: Any, answer: Any) -> Any:
        return stale.pop() if method == "ListLogKeys" and stale else answer

    rotating.liar.twist = late
    path.unlink()
    assert await carry_on() == []
    assert stale == []
    assert audit([], path, LATER.policy).exit_status == 0
    # Without the head that shows the change, the new key is nobody's.
    records = [record for _, record in read_export(path)]
    notes = [record for record in records if isinstance(record, CheckpointLine)]
    assert len(notes) == 3
    assert len([record for record in records if isinstance(record, EntryLine)]) == 4
    text = path.read_bytes().splitlines(keepends=True)

    async def chunks() -> AsyncIterator[bytes]:
        yield path.read_bytes()

    assert (await save(chunks(), tmp_path / "saved.jsonl")).checkpoint.size == 4  # as the commands keep it
    assert write_bundles(path, tmp_path / "tiles").checkpoint.size == 4
    assert (tmp_path / "tiles" / "checkpoint").read_bytes() == notes[-1].note.encode()

    # Nor is it cut into tiles, when a head of the key before is missing, or is of another tree.
    signer = Signer(ORIGIN, KEYS.key)
    of_another_tree = sign_checkpoint(Checkpoint(ORIGIN, 2, bytes(32)), [signer]).decode()
    forged = encode(replace(notes[0], note=of_another_tree))
    entries = [record.entry for record in records if isinstance(record, EntryLine)]
    before_it = sign_checkpoint(Checkpoint(ORIGIN, 1, leaf_hash(entries[0])), [signer]).decode()
    early = encode(replace(notes[0], note=before_it))  # by the first key, and not over the announcement
    fewer = text[-1].replace(b'"checkpoints":3', b'"checkpoints":2')
    for lines, reason in (
        ([text[0], *text[2:-1], fewer], Reason.BAD_SIGNATURE),
        ([text[0], forged, *text[2:]], Reason.BAD_PROOF),
        ([text[0], early, *text[2:]], Reason.BAD_SIGNATURE),
    ):
        reseal(path, lines)
        with pytest.raises(ProtocolError) as refused:
            write_bundles(path, tmp_path / "other")
        assert refused.value.reason is reason
        assert not (tmp_path / "other").exists()
    reseal(path, text[:1] + text[2:])
    assert "registry-head" in {one.check for one in audit([], path, old_policy.policy).findings}


async def test_two_histories_under_the_old_key_are_still_proof_after_the_change(
    rotating: Any, operator: Operator, tmp_path: Path
) -> None:
    resolver = rotating.resolver(tmp_path / "head")
    await resolver.tail()
    for name in ("bob", "carol"):
        await rotating.submit(rotating.claim(f"ind.ai/{name}"))
    await operator.rotate(rotating, SECOND)
    await resolver.tail()
    forged = sign_checkpoint(Checkpoint(ORIGIN, 3, bytes(32)), [Signer(ORIGIN, KEYS.key)])

    async def ask(peer: str, size: int) -> bytes:
        return forged

    async def found(evidence: Any, path: Path) -> None:
        raise AssertionError("only told by the worker")

    gossip = Gossip(resolver, ask, tmp_path, found)
    evidence = await gossip.look_into(Heard("ind.ai/peer", 3, bytes(32)))
    assert evidence is not None
    assert evidence.is_proof
    assert evidence.log == KEYS.verifier
    assert read_evidence(evidence.write(tmp_path)).is_proof
