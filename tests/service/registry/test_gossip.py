"""Heads that peers name: a log that shows two views is proved, and nobody can frame it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from indai.client.fraud import Evidence, read_evidence
from indai.client.gossip import Gossip, Heard
from indai.protocol.checkpoint import Checkpoint, sign_checkpoint
from indai.protocol.errors import IndaiError, NotFound, ProtocolError, Reason
from indai.protocol.keys import SigningKey
from indai.protocol.note import Signer

from .conftest import KEYS, ORIGIN


class Peers:
    """What the peers' nodes answer when they are asked, and who was asked."""

    def __init__(self) -> None:
        self.notes: dict[str, bytes] = {}
        self.asked: list[tuple[str, int]] = []
        self.found: list[Evidence] = []
        self.paused = asyncio.Semaphore(0)

    async def ask(self, peer: str, size: int) -> bytes:
        self.asked.append((peer, size))
        if peer not in self.notes:
            raise NotFound(Reason.NOT_FOUND, "no such head")
        return self.notes[peer]

    async def note_found(self, evidence: Evidence, path: Path) -> None:
        assert read_evidence(path) == evidence
        self.found.append(evidence)

    async def pause(self, seconds: float) -> None:
        assert seconds == 5.0
        await self.paused.acquire()


@pytest.fixture
async def log(rig: Any) -> Any:
    for name in ("early", "alice", "later", "more", "most"):
        await rig.submit(rig.claim(f"ind.ai/{name}"))
    return rig


@pytest.fixture
def peers() -> Peers:
    return Peers()


async def gossip_of(log: Any, peers: Peers, tmp_path: Path) -> Gossip:
    resolver = log.resolver()
    await resolver.tail()
    log.liar.calls.clear()
    return Gossip(resolver, peers.ask, tmp_path, peers.note_found, peers.pause)


async def fork_of(make_database: Any, start_registry: Any, size: int) -> Any:
    """Another history under the same key, as a thief of it would make."""
    fork = await start_registry((await make_database()).pool, "fork")
    for number in range(size):
        await fork.submit(fork.claim(f"ind.ai/mallory-{number}"))
    return fork


async def head_of(rig: Any) -> Heard:
    head = await rig.resolver().tail()
    return Heard("ind.ai/bob", head.size, head.root)


def kept_in(directory: Path) -> list[Path]:
    return list(directory.glob("fraud*"))


async def test_a_peer_that_sees_our_log_costs_nothing(log: Any, peers: Peers, tmp_path: Path) -> None:
    gossip = await gossip_of(log, peers, tmp_path)
    gossip.hear(await head_of(log))
    log.liar.calls.clear()
    assert await gossip.look_into(await head_of(log)) is None
    assert (peers.asked, kept_in(tmp_path)) == ([], [])


async def test_older_heads_of_our_log_agree_with_it(log: Any, peers: Peers, tmp_path: Path) -> None:
    """Each is asked about once, and never at the peer."""
    gossip = await gossip_of(log, peers, tmp_path)
    for size in range(1, 5):
        root = await log.registry.reader.root(size)
        assert await gossip.look_into(Heard("ind.ai/bob", size, root)) is None
    assert peers.asked == []


async def test_a_newer_head_makes_us_look_again(log: Any, peers: Peers, tmp_path: Path) -> None:
    gossip = await gossip_of(log, peers, tmp_path)
    await log.submit(log.claim("ind.ai/newest"))
    assert await gossip.look_into(await head_of(log)) is None
    assert peers.asked == []


@pytest.mark.rule("FRD-01", "FRD-02")
@pytest.mark.parametrize("size", [3, 5])
async def test_the_note_of_another_history_is_a_proof(
    log: Any, peers: Peers, tmp_path: Path, make_database: Any, start_registry: Any, size: int
) -> None:
    fork = await fork_of(make_database, start_registry, size)
    heard = await head_of(fork)
    peers.notes["ind.ai/bob"] = (await fork.registry.view()).note
    gossip = await gossip_of(log, peers, tmp_path)
    evidence = await gossip.look_into(heard)
    assert evidence is not None
    assert evidence.is_proof
    assert Evidence.parse(evidence.encode()) == evidence
    assert {head.size for head in evidence.heads()} == {size, 5}


@pytest.mark.rule("FRD-02")
async def test_a_peer_that_invents_a_head_gets_nowhere(log: Any, peers: Peers, tmp_path: Path) -> None:
    gossip = await gossip_of(log, peers, tmp_path)
    invented = Checkpoint(ORIGIN, 3, bytes(range(32)))
    heard = Heard("ind.ai/mallory", 3, invented.root)
    with pytest.raises(NotFound):
        await gossip.look_into(heard)
    for signer in (
        Signer(ORIGIN, SigningKey.generate()),
        Signer("mallory.example/log", SigningKey.generate()),
    ):
        peers.notes["ind.ai/mallory"] = sign_checkpoint(invented, [signer])
        with pytest.raises(ProtocolError) as refused:
            await gossip.look_into(heard)
        assert refused.value.reason is Reason.BAD_SIGNATURE
    # A genuine note under an invented claim is no evidence either.
    peers.notes["ind.ai/mallory"] = (await log.registry.view()).note
    assert await gossip.look_into(heard) is None
    assert kept_in(tmp_path) == []


async def test_claims_are_looked_into_one_by_one_with_a_pause_between(
    log: Any, peers: Peers, tmp_path: Path, make_database: Any, start_registry: Any
) -> None:
    fork = await fork_of(make_database, start_registry, 5)
    heard = await head_of(fork)
    peers.notes["ind.ai/bob"] = (await fork.registry.view()).note
    gossip = await gossip_of(log, peers, tmp_path)
    gossip.start()
    for number in range(1_000):  # a liar who never says the same thing twice has one place in the queue
        gossip.hear(Heard("ind.ai/mallory", 5, number.to_bytes(32, "big")))
    gossip.hear(heard)
    while not peers.asked:
        await asyncio.sleep(0)
    assert peers.found == []
    assert peers.asked == [("ind.ai/mallory", 5)]
    peers.paused.release()
    while not peers.found:
        await asyncio.sleep(0)
    assert peers.asked == [("ind.ai/mallory", 5), ("ind.ai/bob", 5)]
    assert [evidence.is_proof for evidence in peers.found] == [True]
    await gossip.close()


async def test_what_was_heard_and_not_looked_into_is_looked_into_after_a_restart(
    log: Any, peers: Peers, tmp_path: Path, make_database: Any, start_registry: Any
) -> None:
    fork = await fork_of(make_database, start_registry, 5)
    heard = await head_of(fork)
    gossip = await gossip_of(log, peers, tmp_path)
    gossip.start()
    gossip.hear(Heard("ind.ai/mallory", 5, bytes(32)))
    gossip.hear(heard)
    while not peers.asked:
        await asyncio.sleep(0)
    await gossip.close()
    peers.notes["ind.ai/bob"] = (await fork.registry.view()).note
    again = await gossip_of(log, peers, tmp_path)
    again.start()
    for _ in range(2):
        peers.paused.release()
    while not peers.found:
        await asyncio.sleep(0)
    assert peers.found[0].is_proof
    await again.close()
    # A damaged file costs nothing but what was in it.
    (tmp_path / "gossip.json").write_bytes(b"{")
    last = await gossip_of(log, peers, tmp_path)
    last.start()
    await last.close()


async def test_a_restarted_client_still_has_the_heads_it_has_named(log: Any, tmp_path: Path) -> None:
    resolver = log.resolver(tmp_path / "head")
    sizes = []
    for number in range(3):
        await log.submit(log.claim(f"ind.ai/more-{number}"))
        sizes.append((await resolver.tail()).size)
    again = log.resolver(tmp_path / "head")
    known = [again.head_at(size) for size in sizes]
    assert [one and one.root for one in known] == [resolver.head_at(size).root for size in sizes]
    assert again.head == resolver.head


@pytest.mark.rule("FRD-01")
async def test_only_two_notes_of_the_log_that_exclude_each_other_are_evidence(
    log: Any, make_database: Any, start_registry: Any
) -> None:
    fork = await fork_of(make_database, start_registry, 3)
    small, large = (await fork.registry.view()).note, (await log.registry.view()).note
    proof = await log.registry.reader.consistency_proof(3, 5)
    evidence = Evidence.of(KEYS.verifier, large, small, proof)
    assert evidence.is_proof
    assert not Evidence.of(KEYS.verifier, small, large).is_proof
    for one, other in ((small, small), (small, b"no note"), (small, small.replace(b"\n3\n", b"\n4\n"))):
        with pytest.raises(IndaiError):
            Evidence.of(KEYS.verifier, one, other)
    honest = sign_checkpoint(
        Checkpoint(ORIGIN, 3, await log.registry.reader.root(3)), [Signer(ORIGIN, KEYS.key)]
    )
    assert not Evidence.of(KEYS.verifier, honest, large, proof).is_proof  # and so nothing to be believed
    assert evidence.prefix is not None
    forged = Evidence(KEYS.verifier, honest, large, evidence.prefix)
    with pytest.raises(ProtocolError, match="begins with"):
        forged.heads()
