"""A small world for the auditor, made of real keys, signatures, trees and policies, and of no server
code: two people on two nodes, a registry, one meeting. A test bends one thing in it before it is exported.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from indai.client.audit import Report, audit
from indai.client.exports import (
    FORMAT,
    IN,
    LEDGER,
    OUT,
    REGISTRY,
    CheckpointLine,
    EntryLine,
    ErasedLeafLine,
    ExportWriter,
    Header,
    LeafLine,
    MessageLine,
    OpenLeafLine,
    PeerCheckpointLine,
    Record,
)
from indai.policy.compiled import CompiledPolicy, compile_policy, decide
from indai.policy.facts import Facts
from indai.protocol.checkpoint import Checkpoint, sign_checkpoint
from indai.protocol.envelope import Envelope, cosign, message_id, payload_type, seal
from indai.protocol.handlestate import AgentKey, HandleState, NodeRecord
from indai.protocol.header import network_id, new_id
from indai.protocol.keys import SigningKey
from indai.protocol.leaf import LeafKind, LedgerLeaf, blind
from indai.protocol.merkle import leaf_hash, root
from indai.protocol.note import Signer
from indai.protocol.operations import (
    CREATE,
    REVOKE,
    UPDATE,
    Chain,
    Type,
    apply_operation,
    build_operation,
    parse_operation,
)
from indai.protocol.registryleaf import RegistryLeaf, encode_registry_leaf
from indai.protocol.sparsemap import SparseMap, map_key, map_value
from indai.protocol.tlogpolicy import TlogPolicy, parse_policy
from indai.v1 import envelope_pb2, intents_pb2, policy_pb2
from indai.v1 import negotiation_pb2 as pb

NOW = 1_790_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR
REGISTRY_LOG = "ind.ai/registry"
ALICE, BOB, NODE_A, NODE_B = "ind.ai/alice", "ind.ai/bob", "ind.ai/node-a", "ind.ai/node-b"
YAML = """\
version: 1
timezone: UTC
rules:
  - { id: yes, allow: meet, with: anyone, duration: { max: 2h } }
  - { id: long, ask: meet, with: anyone, duration: { min: 3h, max: 8h } }
"""
OUTCOMES = {
    "permit": policy_pb2.OUTCOME_PERMIT,
    "refuse": policy_pb2.OUTCOME_REFUSE,
    "ask": policy_pb2.OUTCOME_ASK,
}


def key(name: str) -> SigningKey:
    """A key that is the same in every run."""
    return SigningKey.from_seed(hashlib.sha256(name.encode()).digest())


def sixteen(name: str) -> bytes:
    """Bytes for a nonce."""
    return hashlib.sha256(name.encode()).digest()[:16]


@dataclass
class Mirror:
    """The registry: chains, map, log."""

    log: SigningKey = field(default_factory=lambda: key("registry"))
    entries: list[bytes] = field(default_factory=list)
    signed: list[bytes] | None = None  # what the head is over, when it lies
    chains: dict[str, Chain] = field(default_factory=dict)
    tiles: SparseMap = field(default_factory=lambda: SparseMap(lambda _: None))

    def signer(self) -> Signer:
        return Signer(REGISTRY_LOG, self.log)

    @property
    def network(self) -> str:
        return network_id(self.signer().verifier)

    @property
    def trust(self) -> TlogPolicy:
        return parse_policy(f"log {self.signer().verifier.vkey}\nquorum none\n".encode())

    def submit(self, operation: Type, handle: str, state: HandleState, time_ms: int) -> None:
        chain = self.chains.get(handle)
        envelope = build_operation(
            operation,
            chain,
            state,
            key(f"{handle} rotation"),
            issued_at_ms=time_ms,
            nonce=sixteen(f"{handle} {len(self.entries)}"),
            handle=handle,
            registry=REGISTRY_LOG,
        )
        self.append(envelope, time_ms)

    def append(self, envelope: Envelope, time_ms: int, map_root: bytes | None = None) -> None:
        operation = apply_operation(self.chains.get(_handle_of(envelope)), envelope, time_ms)
        self.chains[operation.handle] = operation
        value = map_value(operation.handle, operation.digest)
        right = self.tiles.put(map_key(operation.handle), value)
        self.entries.append(encode_registry_leaf(RegistryLeaf(time_ms, map_root or right, envelope.raw)))

    def records(self) -> list[Record]:
        vkey = self.signer().verifier.vkey
        header = Header(FORMAT, REGISTRY, "", "", REGISTRY_LOG, vkey, self.network, NOW)
        note = sign_checkpoint(head(REGISTRY_LOG, self.signed or self.entries), [self.signer()])
        entries = [EntryLine(index, entry) for index, entry in enumerate(self.entries)]
        return [header, CheckpointLine(note.decode()), *entries]


def _handle_of(envelope: Envelope) -> str:
    return parse_operation(envelope).handle


def head(origin: str, entries: Sequence[bytes]) -> Checkpoint:
    return Checkpoint(origin, len(entries), root([leaf_hash(entry) for entry in entries]))


@dataclass
class Content:
    """What opens a leaf."""

    owner: str
    mid: bytes
    envelope: bytes
    opening: bytes


@dataclass
class Node:
    """One node's ledger and threads, as far as an export shows them."""

    handle: str
    owner: str
    key: SigningKey
    network: str
    leaves: list[bytes] = field(default_factory=list)
    contents: list[Content | None] = field(default_factory=list)
    messages: list[MessageLine] = field(default_factory=list)
    head_sizes: list[int] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    scope: str = ""
    erased: dict[int, bytes] = field(default_factory=dict)  # leaf -> the commitment it is said to be about
    signed: list[bytes] | None = None  # what the head is over, when it lies
    head_key: SigningKey | None = None

    @property
    def origin(self) -> str:
        return f"{self.handle}/ledger/2026"

    def signer(self) -> Signer:
        return Signer(self.origin, self.key)

    def add(self, kind: LeafKind, owner: str, mid: bytes, envelope: bytes, time_ms: int) -> int:
        opening = hashlib.sha256(f"{self.handle} {len(self.leaves)}".encode()).digest()
        self.leaves.append(LedgerLeaf(kind, time_ms, blind(opening, envelope)).encode())
        self.contents.append(Content(owner, mid, envelope, opening))
        return len(self.leaves) - 1

    def say(self, owner: str, thread: bytes, envelope: Envelope, direction: str) -> None:
        self.messages.append(MessageLine(thread, owner, envelope.mid, direction, envelope.raw))

    def note(self, size: int) -> str:
        signer = Signer(self.origin, self.head_key or self.key)
        return sign_checkpoint(head(self.origin, (self.signed or self.leaves)[:size]), [signer]).decode()

    def records(self) -> list[Record]:
        vkey = self.signer().verifier.vkey
        header = Header(FORMAT, LEDGER, self.handle, self.scope, self.origin, vkey, self.network, NOW)
        notes = [CheckpointLine(self.note(size)) for size in (*self.head_sizes, len(self.leaves))]
        heard = [PeerCheckpointLine(note) for note in self.heard]
        return [header, *notes, *heard, *self._lines(), *self.messages]

    def _lines(self) -> list[Record]:
        return [
            self._line(index, leaf, shown)
            for index, (leaf, shown) in enumerate(zip(self.leaves, self.contents, strict=True))
        ]

    def _line(self, index: int, leaf: bytes, shown: Content | None) -> Record:
        if shown is None:
            return LeafLine(index, leaf)
        if index in self.erased:
            return ErasedLeafLine(index, leaf, shown.owner, shown.mid, self.erased[index])
        return OpenLeafLine(index, leaf, shown.owner, shown.mid, shown.envelope, shown.opening)


class World:
    """Two people, two nodes, a registry. `a` is alice's node, `b` bob's."""

    def __init__(self) -> None:
        self.registry = Mirror()
        self.a = Node(NODE_A, ALICE, key(NODE_A), self.registry.network)
        self.b = Node(NODE_B, BOB, key(NODE_B), self.registry.network)
        self.policy = compile_policy(YAML)
        for node in (self.a, self.b):
            record = NodeRecord("127.0.0.1:7000", b"", node.origin, node.signer().verifier.vkey)
            state = HandleState((key(f"{node.handle} rotation").public_key,), node_record=record)
            self.registry.submit(CREATE, node.handle, state, NOW - DAY)
        for node in (self.a, self.b):
            self.registry.submit(CREATE, node.owner, person(node), NOW - DAY)
            activate(node, self.policy, NOW - HOUR)
        self.trust = self.registry.trust

    def subject(self, handle: str) -> str:
        return self.registry.chains[handle].subject_id

    def revoke(self, handle: str, time_ms: int) -> None:
        """Revoke a person's agent key."""
        state = self.registry.chains[handle].state
        revoked = tuple(replace(one, revoked_at_ms=time_ms) for one in state.agent_keys)
        self.registry.submit(REVOKE, handle, replace(state, agent_keys=revoked), time_ms)

    def update(self, handle: str, time_ms: int) -> None:
        """An operation that changes nothing of interest."""
        state = replace(self.registry.chains[handle].state, intents=("meet",))
        self.registry.submit(UPDATE, handle, state, time_ms)

    def write(self, folder: Path, names: Sequence[str] = ("a", "b")) -> list[Path]:
        """Export the named nodes; the registry stands beside them."""
        write(folder / "registry.jsonl", self.registry.records())
        return [write(folder / f"{name}.jsonl", getattr(self, name).records()) for name in names]

    def audit(self, folder: Path, names: Sequence[str] = ("a", "b")) -> Report:
        """Export and audit."""
        return audit(self.write(folder, names), folder / "registry.jsonl", self.trust)


def person(node: Node) -> HandleState:
    agent = AgentKey(key(f"{node.owner} agent").public_key, NOW - DAY)
    return HandleState((key(f"{node.owner} rotation").public_key,), (agent,), node.handle)


def write(path: Path, records: Sequence[Record]) -> Path:
    """A well-formed export of these records."""
    writer = ExportWriter()
    path.write_bytes(b"".join([*(writer.line(record) for record in records), writer.end()]))
    return path


def reseal(path: Path, lines: Sequence[bytes]) -> None:
    """Write changed lines with a last line that fits them, as somebody would who forges an export."""
    end = json.loads(lines[-1])
    end["sha256"] = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    path.write_bytes(b"".join(lines[:-1]) + json.dumps(end, separators=(",", ":")).encode() + b"\n")


def unsigned(kind: str, payload: bytes) -> bytes:
    envelope = envelope_pb2.Envelope(payload=payload, payload_type=payload_type(kind))
    return envelope.SerializeToString(deterministic=True)


def activate(node: Node, policy: CompiledPolicy, time_ms: int, yaml: str | None = None) -> None:
    layers = [
        policy_pb2.PolicyLayer(
            name=layer.name,
            grant=layer.grant,
            ask=layer.ask,
            unmatched=OUTCOMES[layer.unmatched.value],
            advise=layer.advise,
            yaml=policy.others.get(layer.name, ""),
        )
        for layer in policy.layers
    ]
    version = policy_pb2.PolicyVersion(
        policy_hash=policy.policy_hash,
        schema_hash=policy.schema_hash,
        yaml=policy.source if yaml is None else yaml,
        layers=layers,
        schema=policy.schema,
        engine=policy.engine,
        time_zone=policy.time_zone,
        activated_at_ms=time_ms,
    )
    payload = policy_pb2.PolicyActivation(owner=node.owner, version=version).SerializeToString()
    mid = message_id(payload_type("policy-version"), payload)
    node.add(LeafKind.POLICY_VERSION, node.owner, mid, unsigned("policy-version", payload), time_ms)


@dataclass
class Deal:
    """A meeting that bob offers and alice accepts. A test may change a field, or a message, between the
    steps.
    """

    world: World
    number: int = 0
    start_ms: int = NOW + DAY
    minutes: int = 30
    at_ms: int = NOW
    waits_ms: int = 4  # from the proposal to the offerer's leaf
    decides_first: bool = True
    thread: bytes = b""
    supersedes: bytes = b""
    instead_of_ms: int = 0
    decision: Callable[[policy_pb2.DecisionRecord], policy_pb2.DecisionRecord] = lambda record: record
    commitment: Callable[[pb.Commitment], pb.Commitment] = lambda commitment: commitment
    receipt: Callable[[pb.Receipt], pb.Receipt] = lambda receipt: receipt
    sign: Callable[[Envelope], Envelope] = lambda offer: offer

    def __post_init__(self) -> None:
        self.thread = new_id(self.at_ms, hashlib.sha256(b"thread%d" % self.number).digest()[:10])

    def header(self, sender: str, recipient: str, answers: bytes, step: int) -> envelope_pb2.Header:
        world = self.world
        random = hashlib.sha256(b"%d %d" % (self.number, step)).digest()
        return envelope_pb2.Header(
            id=new_id(self.at_ms + step, random[:10]),
            network=world.registry.network,
            sender=sender,
            sender_subject=world.subject(sender),
            recipient=recipient,
            recipient_subject=world.subject(recipient),
            key_id=key(f"{sender} agent").key_id,
            issued_at_ms=self.at_ms + step,
            expires_at_ms=self.at_ms + step + 12 * HOUR,
            nonce=random[:16],
            in_reply_to=answers,
            thread=self.thread,
        )

    def propose(self) -> Envelope:
        window = intents_pb2.Window(start_ms=self.start_ms - HOUR, end_ms=self.start_ms + DAY)
        wish = intents_pb2.MeetWish(
            title="Tea", duration_minutes=self.minutes, windows=[window], instead_of_ms=self.instead_of_ms
        )
        propose = pb.Propose(meet=wish, supersedes=self.supersedes)
        move = pb.Move(header=self.header(ALICE, BOB, b"", 1), propose=propose)
        return sealed("move", move, ALICE)

    def offer(self, answers: Envelope) -> Envelope:
        parties = [
            pb.Party(handle=who, subject_id=self.world.subject(who), key_id=key(f"{who} agent").key_id)
            for who in (BOB, ALICE)
        ]
        end = self.start_ms + self.minutes * 60_000
        terms = intents_pb2.MeetTerms(
            start_ms=self.start_ms,
            end_ms=end,
            title="Tea",
            ical_uid=f"{self.number}@ind.ai",
            instead_of_ms=self.instead_of_ms,
        )
        header = self.header(BOB, ALICE, answers.mid, 2)
        commitment = pb.Commitment(header=header, parties=parties, meet=terms, supersedes=self.supersedes)
        offer = sealed("commitment", self.commitment(commitment), BOB)
        return self.sign(offer)

    def decide(self, node: Node, mid: bytes, peer: str) -> None:
        end = self.start_ms + self.minutes * 60_000
        facts = Facts(peer, self.start_ms, end, self.at_ms, verified=True)
        decided = decide(self.world.policy, node.owner, facts)
        decision = policy_pb2.Decision(
            outcome=OUTCOMES[decided.evaluation.outcome.value],
            policy_hash=self.world.policy.policy_hash,
            schema_hash=self.world.policy.schema_hash,
            engine=self.world.policy.engine,
            request_json=decided.request,
            entities_json=decided.entities,
            rules=decided.evaluation.rules,
            obligations=decided.evaluation.obligations,
        )
        record = policy_pb2.DecisionRecord(
            owner=node.owner, mid=mid, decided_at_ms=self.at_ms, decision=decision
        )
        payload = self.decision(record).SerializeToString()
        node.add(LeafKind.DECISION, node.owner, mid, unsigned("decision", payload), self.at_ms)

    def commit(self, node: Node, accepted: Envelope, time_ms: int) -> int:
        return node.add(LeafKind.COMMITMENT, node.owner, accepted.mid, accepted.raw, time_ms)

    def stands(self, mid: bytes, index: int, time_ms: int) -> Envelope:
        receipt = pb.Receipt(
            header=self.header(BOB, ALICE, mid, 4),
            mid=mid,
            log=self.world.b.origin,
            index=index,
            leaf_time_ms=time_ms,
        )
        return sealed("receipt", self.receipt(receipt), BOB)

    def refuse(self, mid: bytes) -> Envelope:
        reject = pb.Reject(reason="LAPSED", sentence="Too late.")
        return sealed("move", pb.Move(header=self.header(BOB, ALICE, mid, 5), reject=reject), BOB)

    def agreed(self) -> Envelope:
        """The acceptance, without anything being recorded."""
        return cosign(self.offer(self.propose()), key(f"{ALICE} agent"))

    def run(self) -> Envelope:
        """The whole exchange, recorded by both; returns the acceptance."""
        a, b = self.world.a, self.world.b
        propose = self.propose()
        offer = self.offer(propose)
        accepted = cosign(offer, key(f"{ALICE} agent"))
        self.decide(b, offer.mid, ALICE)
        time_ms = self.at_ms + self.waits_ms
        receipt = self.stands(offer.mid, self.commit(b, accepted, time_ms), time_ms)
        if self.decides_first:
            self.decide(a, offer.mid, BOB)
        self.commit(a, accepted, time_ms + 1)
        if not self.decides_first:
            self.decide(a, offer.mid, BOB)
        for envelope, from_alice in ((propose, True), (offer, False), (accepted, True), (receipt, False)):
            a.say(ALICE, self.thread, envelope, OUT if from_alice else IN)
            b.say(BOB, self.thread, envelope, IN if from_alice else OUT)
        return accepted


@dataclass
class Life:
    """What happens to a deal after the deed. Bob offered it, so he numbers; a test may bend any field."""

    deal: Deal
    mid: bytes
    at_ms: int = NOW + HOUR
    seq: int = 0
    prev: bytes = b""
    step: int = 100

    def event(
        self,
        kind: str,
        sender: str = BOB,
        signer: str = "",
        requests: Sequence[bytes] = (),
        seq: int | None = None,
        prev: bytes = b"",
    ) -> Envelope:
        """An event of bob, or a request (or with `seq` a dispute) of somebody else, signed and unrecorded."""
        self.step += 1
        if seq is None:
            seq = self.seq + 1 if sender == BOB else 0
        prev = prev or self.prev or self.mid
        header = self.deal.header(sender, ALICE if sender == BOB else BOB, prev, self.step)
        header.issued_at_ms = self.at_ms
        header.expires_at_ms = self.at_ms + DAY
        event = pb.Event(
            header=header,
            commitment=self.mid,
            kind=pb.EventKind.Value(f"EVENT_KIND_{kind}"),
            seq=seq,
            prev=prev,
            requests=requests,
        )
        return sealed("event", event, signer or sender)

    def happen(self, envelope: Envelope, sender: str = BOB, leaves: str = "ab") -> Envelope:
        """Record an event in both ledgers and both threads."""
        world, body = self.deal.world, pb.Event.FromString(envelope.payload)
        for node, name in ((world.b, "b"), (world.a, "a")):
            if body.seq and name in leaves:
                node.add(LeafKind.COMMITMENT, node.owner, envelope.mid, envelope.raw, self.at_ms + 1)
            node.say(node.owner, self.deal.thread, envelope, OUT if sender == node.owner else IN)
        if body.seq and sender == BOB:
            self.seq, self.prev = body.seq, envelope.mid
        return envelope


def sealed(kind: str, message: pb.Move | pb.Commitment | pb.Receipt | pb.Event, signer: str) -> Envelope:
    return seal(payload_type(kind), message.SerializeToString(deterministic=True), [key(f"{signer} agent")])
