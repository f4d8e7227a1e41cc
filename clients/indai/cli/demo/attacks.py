"""Scene 4: three messages made by somebody else, delivered to Bob's node over its public port."""

from __future__ import annotations

import asyncio
import os

from indai.cli.demo.world import World, journal, messages, signed
from indai.cli.session import Owner, now_ms, registry_session
from indai.client.tls import make_node_identity, pinned_channel
from indai.protocol.envelope import Envelope, Signature, seal
from indai.protocol.header import new_id
from indai.protocol.keys import SigningKey
from indai.v1 import envelope_pb2, negotiation_pb2, owner_pb2, peer_pb2
from indai.v1.peer_pb2_grpc import PeerServiceStub

JOURNAL_S = 5.0


async def attacked(world: World) -> None:
    """Forged, replayed, tampered: each refused, each with its reason in Bob's journal."""
    stage = world.stage
    stage.scene("A stranger delivers a forged, a replayed and a tampered message to Bob")
    async with world.alice() as alice, world.bob() as bob:
        real = signed(await messages(alice, world.deals[0].thread), "PROPOSE")
        before = await _state(bob)
        attempts = [
            ("forged", "UNKNOWN_KEY", forged(real)),
            ("replayed", "REPLAYED", real),
            ("tampered", "BAD_SIGNATURE", tampered(real)),
        ]
        for name, reason, envelope in attempts:
            result = await _deliver(world, envelope.raw)
            stage.check(
                result.error.reason == "REFUSED" and not result.replies,
                f"{name}: refused; the stranger learns only {result.error.reason}",
            )
            line = await _journal_line(bob, envelope.mid.hex())
            stage.check(
                line is not None and line.reason == reason,
                f"Bob's journal: {line.reason}: {line.words}" if line else f"{name} is in Bob's journal",
            )
        stage.check(await _state(bob) == before, "Bob's threads and inbox are as they were")


def forged(real: Envelope) -> Envelope:
    """A new request in Alice's name, signed (correctly) by a key that is not hers."""
    key = SigningKey.generate()
    payload = _fresh(real)
    payload.header.key_id = key.key_id
    return seal(real.payload_type, payload.SerializeToString(), [key])


def tampered(real: Envelope) -> Envelope:
    """Alice's own request with one byte of what she signed changed: the last letter of the title."""
    title = negotiation_pb2.Move.FromString(real.payload).propose.meet.title.encode()
    at = real.payload.index(title) + len(title) - 1
    payload = real.payload[:at] + bytes([real.payload[at] ^ 1]) + real.payload[at + 1 :]
    return _with_payload(real, payload)


def _fresh(real: Envelope) -> negotiation_pb2.Move:
    payload = negotiation_pb2.Move.FromString(real.payload)
    now = now_ms()
    payload.header.id = new_id(now, os.urandom(10))
    payload.header.thread = new_id(now, os.urandom(10))
    payload.header.nonce = os.urandom(16)
    payload.header.issued_at_ms = now
    payload.header.expires_at_ms = now + 600_000
    return payload


def _with_payload(real: Envelope, payload: bytes) -> Envelope:
    """The same signatures over another payload, written as any program could write it."""
    signatures = [
        envelope_pb2.Signature(sig=signature.sig, keyid=signature.keyid) for signature in real.signatures
    ]
    raw = envelope_pb2.Envelope(payload=payload, payload_type=real.payload_type, signatures=signatures)
    kept = tuple(Signature(signature.sig, signature.keyid) for signature in real.signatures)
    return Envelope(raw.SerializeToString(), payload, real.payload_type, kept)


async def _deliver(world: World, raw: bytes) -> peer_pb2.DeliverResult:
    """Deliver as a stranger: mutual TLS with a key that no record names."""
    async with registry_session(world.node_b.home) as registry:
        node = await registry.resolver.resolve(world.node_b.home.running().node)
        record = node.state.node_record
    assert record is not None  # noqa: S101 - it is the node's own handle
    identity = make_node_identity("stranger")
    async with await pinned_channel(record.address, record.tls_spki_sha256, identity) as channel:
        answer = await PeerServiceStub(channel).Deliver(peer_pb2.DeliverRequest(envelopes=[raw]))
    result: peer_pb2.DeliverResult = answer.results[0]
    return result


async def _journal_line(owner: Owner, mid: str) -> owner_pb2.JournalEntry | None:
    """The line about a refused message, which may take a moment to be written."""
    for _ in range(round(JOURNAL_S / 0.05)):
        for line in await journal(owner):
            if line.mid == mid and line.event == "refused-message":
                return line
        await asyncio.sleep(0.05)
    return None


async def _state(owner: Owner) -> tuple[bytes, ...]:
    threads = (await owner.stub.ListThreads(owner_pb2.ListThreadsRequest(page_size=500))).threads
    inbox = (await owner.stub.ListInbox(owner_pb2.ListInboxRequest())).approvals
    return tuple(each.SerializeToString(deterministic=True) for each in (*threads, *inbox))
