"""Replays a mirror of the registry: its log, its map, every handle's chain. What comes out is the
history of keys.

A signature is judged at the time in the ledger's leaf. A revocation works from its own time on, but a
peer may have signed or verified under a head of up to ten minutes before: within that span the
commitment is contested, not invalid.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from indai.client.audit.findings import Findings
from indai.client.audit.report import Place, Proof, Severity
from indai.client.audit.trees import Head, TreeReplay, all_verified, contradictions
from indai.client.exports import REGISTRY, CheckpointLine, EntryLine, Header, read_export
from indai.client.keytie import KeyTie, announced
from indai.protocol.checkpoint import Checkpoint, open_checkpoint
from indai.protocol.delegations import check_delegation, delegator_of
from indai.protocol.envelope import parse_envelope
from indai.protocol.errors import IndaiError, InvalidInput, ProtocolError, Reason
from indai.protocol.handlestate import MAX_DEPTH, NodeRecord
from indai.protocol.header import MAX_SKEW_MS, network_id
from indai.protocol.logkeys import read_announcement
from indai.protocol.merkle import leaf_hash
from indai.protocol.note import Verifier, parse_note, parse_vkey
from indai.protocol.operations import Chain, apply_operation, parse_operation
from indai.protocol.registryleaf import RegistryLeaf, parse_registry_leaf
from indai.protocol.sparsemap import SparseMap, map_key, map_value
from indai.protocol.tlogpolicy import TlogPolicy

# How old a node's view of the registry may be when it signs a meeting.
MAX_HEAD_AGE_MS = 600_000

Progress = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class Version:
    """A handle's chain as it stood from `time_ms` (the registry's leaf time) on."""

    time_ms: int
    chain: Chain


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether a key may have signed: `fault` is empty if so; `contested` if a later revocation reaches
    back to it.
    """

    public_key: bytes = b""
    fault: str = ""
    contested: bool = False


class KeyHistory:
    """Who held which keys when, from a verified mirror. `network` is the id that messages name; `source` the
    mirror's file, to read an operation of once more."""

    def __init__(self, network: str, source: Path | None = None) -> None:
        self.network, self.source = network, source
        self._current: dict[str, Chain] = {}
        self._versions: dict[str, list[Version]] = defaultdict(list)
        self._subjects: dict[str, list[str]] = defaultdict(list)

    def add(self, raw: bytes, time_ms: int) -> Chain:
        """Apply the next operation of the log; raises ProtocolError."""
        envelope = parse_envelope(raw)
        operation = parse_operation(envelope)
        chain = apply_operation(self._current.get(operation.handle), envelope, time_ms)
        self._current[chain.handle] = chain
        if chain.subject_id not in self._versions:
            self._subjects[chain.handle].append(chain.subject_id)
        self._versions[chain.subject_id].append(Version(time_ms, chain))
        return chain

    def judge(
        self,
        handle: str,
        subject: str,
        key_id: str,
        time_ms: int,
        scope: str = "",
        amount: tuple[str, int] | None = None,
    ) -> Judgement:
        """Whether agent key `key_id` of `subject` may sign `scope` at `time_ms`, for `amount`, which the
        commitment costs its signer (currency, minor units)."""
        versions = self._versions.get(subject)
        if not versions or versions[-1].chain.handle != handle:
            return Judgement(fault=f"the registry knows no {handle} with the subject {subject}")
        listed = next((version for version in versions if version.chain.agent_key(key_id)), None)
        if listed is None:
            return Judgement(fault=f"{handle} never had the key {key_id}")
        # Keys leave the list only when what brought them in is nullified; else the newest state tells each
        # key's whole life.
        newest = versions[-1].chain
        key = newest.agent_key(key_id)
        if key is None:
            return self._nullified(listed.chain, key_id)
        if time_ms < listed.time_ms - MAX_SKEW_MS:
            return Judgement(key.public_key, f"the key {key_id} of {handle} was not published yet")
        try:
            newest.key_valid_at(key_id, time_ms, scope, amount)
        except IndaiError as error:
            fault = error.message.rstrip(".")
            contested = error.reason is Reason.KEY_REVOKED and time_ms <= (
                _ended(versions, key_id) + MAX_HEAD_AGE_MS
            )
            return Judgement(key.public_key, fault, contested)
        fault = self._undelegated(subject, scope, time_ms, time_ms, amount)
        # Who heard of the end of a delegation too late is not at fault.
        contested = bool(fault) and not self._undelegated(
            subject, scope, time_ms, time_ms - MAX_HEAD_AGE_MS, amount
        )
        return Judgement(key.public_key, fault, contested)

    def _undelegated(
        self, subject: str, scope: str, time_ms: int, known_ms: int, amount: tuple[str, int] | None
    ) -> str:
        """Why a sub-agent might not sign `scope` for `amount`, by what was published at `known_ms`; empty if
        it might. What it has spent before is for its delegator's own ledger to say."""
        agent = self._at(subject, known_ms)
        if agent is None or not delegator_of(agent):
            return ""
        path = [agent]
        while len(path) <= MAX_DEPTH and (above := delegator_of(path[0])):
            published = [one for one in self._all(above) if one.time_ms <= known_ms + MAX_SKEW_MS]
            if not published:
                return f"{above}, which delegates to {path[0].handle}, was not published yet"
            path.insert(0, published[-1].chain)
        try:
            check_delegation(path, scope, time_ms, amount)
        except ProtocolError as error:
            return error.message.rstrip(".")
        return ""

    def _nullified(self, brought_in: Chain, key_id: str) -> Judgement:
        """Peers could not know then: contested at any time, and never removed."""
        key = brought_in.agent_key(key_id)
        assert key is not None  # noqa: S101 - it is the version that lists the key
        fault = f"the key {key_id} of {brought_in.handle} was nullified by a recovery"
        return Judgement(key.public_key, fault, contested=True)

    def home_node(self, subject: str, time_ms: int) -> str:
        """The home node of a subject at a time; empty when it had none."""
        chain = self._at(subject, time_ms)
        return chain.state.node if chain else ""

    def homes(self, handle: str) -> set[str]:
        """Every home node that a handle has ever had, under whichever subject."""
        return {version.chain.state.node for version in self._all(handle)}

    def ledgers(self, node: str) -> Iterator[tuple[str, str]]:
        """(origin, verifier key) of every ledger that a node's record has ever named, oldest first."""
        return ((record.ledger_origin, record.ledger_vkey) for record in self.records(node))

    def records(self, node: str) -> Iterator[NodeRecord]:
        """Every record that a node has ever had, oldest first."""
        for version in self._all(node):
            if version.chain.state.node_record:
                yield version.chain.state.node_record

    def operations(self, handle: str) -> Iterator[tuple[int, bytes]]:
        """(leaf time, signed operation) of each on this handle, oldest first, read from the mirror anew."""
        with suppress(IndaiError):  # whatever is wrong with the file was said when it was read
            for _, record in read_export(self.source) if self.source else ():
                if isinstance(record, EntryLine):
                    leaf = parse_registry_leaf(record.entry)
                    if leaf.is_operation and parse_operation(parse_envelope(leaf.body)).handle == handle:
                        yield leaf.time_ms, leaf.body

    def _all(self, handle: str) -> Iterator[Version]:
        for subject in self._subjects.get(handle, ()):
            yield from self._versions[subject]

    def _at(self, subject: str, time_ms: int) -> Chain | None:
        """The newest version published by then (with the skew of two honest clocks), else the first."""
        versions = self._versions.get(subject, [])
        published = [version.chain for version in versions if version.time_ms <= time_ms + MAX_SKEW_MS]
        return published[-1] if published else (versions[0].chain if versions else None)


def _ended(versions: list[Version], key_id: str) -> int:
    """When the registry published that the key is revoked, or the handle retired."""
    for version in versions:
        key = version.chain.agent_key(key_id)
        if version.chain.ended_at_ms or (key is not None and key.revoked_at_ms):
            return version.time_ms
    return 0


def replay_registry(
    path: Path,
    trust: TlogPolicy | None,
    findings: Findings,
    progress: Progress,
    seen: Sequence[Head] = (),
    proofs: list[Proof] | None = None,
) -> tuple[KeyHistory | None, int]:
    """The key history in a registry's export and the number of its entries; None if it cannot be
    believed at all, or is not whole: what is missing may have been a key, or its end. `seen` are verified
    heads from elsewhere: each must be one of its tree. Proofs of two histories are added to `proofs`.
    """
    replay, whole = _Replay(path, trust, findings, seen), True
    try:
        for line, record in read_export(path):
            if isinstance(record, EntryLine):
                replay.entry(line, record)
                if record.index % 1000 == 0:
                    progress(path.name, record.index)
            elif isinstance(record, Header):
                replay.header(line, record)
            elif isinstance(record, CheckpointLine):
                replay.head(line, record)
    except IndaiError as error:
        findings.add(Severity.UNREADABLE, "file", _place_of(error, path), error.message)
        whole = False
    history, entries = replay.end(whole)
    if proofs is not None:
        proofs += replay.proofs
    return history if whole else None, entries


class _Replay:
    def __init__(
        self, path: Path, trust: TlogPolicy | None, findings: Findings, seen: Sequence[Head]
    ) -> None:
        self._seen = seen
        self._path, self._trust, self._findings = path, trust, findings
        self._log: Verifier | None = None
        self._announced: list[tuple[int, Verifier, Verifier, bytes]] | None = None
        self._heads: list[Head] = []
        self.proofs: list[Proof] = []
        self._tree: TreeReplay | None = None
        self._history: KeyHistory | None = None
        self._tiles = SparseMap(lambda _: None)

    def header(self, line: int, header: Header) -> None:
        place = Place(self._path.name, line)
        if header.of != REGISTRY:
            message = f"{self._path.name} is not the export of a registry."
            raise InvalidInput(Reason.INVALID_EXPORT, message, metadata={"line": str(line)})
        try:
            log = self._log = parse_vkey(header.vkey)
        except IndaiError as error:
            self._findings.add(Severity.INVALID, "registry-head", place, error.message)
            return
        if (header.log, header.network) != (log.name, network_id(log)) or header.node or header.owner:
            message = f"The header's log, network and key do not belong together ({header.network})."
            self._findings.add(Severity.INVALID, "registry-head", place, message)
        self._history = KeyHistory(network_id(log), self._path)
        if self._trust is None:
            message = f"Nobody said which registry to trust: {header.vkey} is taken from the file itself."
            self._findings.add(Severity.NOTE, "registry-head", place, message)

    def head(self, line: int, record: CheckpointLine) -> None:
        place = Place(self._path.name, line)
        try:
            checkpoint, verified = self._open(record.note.encode())
        except IndaiError as error:
            self._findings.add(Severity.INVALID, "registry-head", place, error.message)
            self._history = None
            return
        self._heads.append(Head(checkpoint, place, record.note.encode(), self._log.vkey if self._log else ""))
        if not all_verified(record.note, verified):
            # Without a policy nobody can tell a witness from an inventor.
            severity = Severity.INVALID if self._trust else Severity.NOTE
            message = "The head has a signature of a key that is not known."
            self._findings.add(severity, "registry-head", place, message)

    def _open(self, note: bytes) -> tuple[Checkpoint, int]:
        """The head and the number of cosignatures on it that verify."""
        if self._log is None:
            raise InvalidInput(Reason.INVALID_EXPORT, "Without a log's key no head can be verified.")
        signed = {one.key_hash for one in parse_note(note)[1]}
        if self._log.key_hash not in signed:
            self._log = self._next_key(self._log)
        # The policy may trust several logs; the file speaks for one.
        checkpoint, cosignatures = open_checkpoint(note, self._log)
        if self._trust is not None:
            checkpoint, cosignatures = self._trust.open(note)
        return checkpoint, len(cosignatures)

    def _next_key(self, current: Verifier) -> Verifier:
        """The log's next key, if a head that was read is signed with `current` and covers its announcement.

        Heads stand before entries in the file, so it is searched once; that the entries are those of the
        head is checked as of all entries. Only the key that the header names need be in the policy.
        """
        if self._announced is None:
            self._announced = _announcements(self._path)
        covered = self._heads[-1].checkpoint.size if self._heads else 0
        for index, old, new, _ in self._announced:
            if old == current and index < covered:
                if self._trust is not None and current in self._trust.logs:
                    self._trust = replace(self._trust, logs=(*self._trust.logs, new))
                return new
        return current

    def entry(self, line: int, record: EntryLine) -> None:
        place = Place(self._path.name, line, record.index)
        self._replayed().add(leaf_hash(record.entry))
        if self._history is None:
            return
        try:
            leaf = parse_registry_leaf(record.entry)
            if not leaf.is_operation:
                self._announcement(leaf, place)
                return
            chain = self._history.add(leaf.body, leaf.time_ms)
        except IndaiError as error:
            self._findings.add(Severity.INVALID, "registry-chain", place, error.message)
            return
        value = map_value(chain.handle, chain.digest)
        if self._tiles.put(map_key(chain.handle), value) != leaf.map_root:
            message = f"The map root after this operation of {chain.handle} is not the right one."
            self._findings.add(Severity.INVALID, "registry-map", place, message)

    def _announcement(self, leaf: RegistryLeaf, place: Place) -> None:
        """A leaf about the log's next key changes nothing in the map; raises ProtocolError."""
        _, new = read_announcement(leaf.body)
        self._findings.add(Severity.NOTE, "registry-head", place, f"The log's next key is {new.vkey}.")
        if self._tiles.root() != leaf.map_root:
            message = "The map root after the announcement of the log's next key is not the right one."
            self._findings.add(Severity.INVALID, "registry-map", place, message)

    def end(self, whole: bool) -> tuple[KeyHistory | None, int]:
        tree = self._replayed()
        self.proofs += contradictions(self._heads, self._findings, self._tied)
        if whole:
            tree.end()
        self.proofs += tree.proofs(self._entries)
        return self._history, tree.size

    def _entries(self) -> Iterator[bytes]:
        with suppress(IndaiError):  # whatever is wrong with the file was said when it was read
            yield from (
                record.entry for _, record in read_export(self._path) if isinstance(record, EntryLine)
            )

    def _replayed(self) -> TreeReplay:
        if self._tree is None:
            origin = self._heads[0].checkpoint.origin if self._heads else ""
            seen = [head for head in self._seen if head.checkpoint.origin == origin]
            self._tree = TreeReplay(
                self._path.name, "registry-tree", self._heads, seen, self._findings, self._tied
            )
        return self._tree

    def _tied(self, one: Verifier, other: Verifier) -> tuple[Verifier, KeyTie] | None:
        """What ties two keys of the registry's log: the announcements in it."""
        notes = [note for _, _, _, note in _announcements(self._path)]
        ways = ((former, announced(notes, former, later)) for former, later in ((one, other), (other, one)))
        return next(((former, way) for former, way in ways if way is not None), None)


def _announcements(path: Path) -> list[tuple[int, Verifier, Verifier, bytes]]:
    """(index, key so far, next key, note) of every announcement in the file that both keys have signed."""
    found = []
    for _, record in read_export(path):
        if isinstance(record, EntryLine):
            with suppress(IndaiError):
                leaf = parse_registry_leaf(record.entry)
                found += (
                    [] if leaf.is_operation else [(record.index, *read_announcement(leaf.body), leaf.body)]
                )
    return found


def _place_of(error: IndaiError, path: Path) -> Place:
    return Place(path.name, int(error.metadata.get("line", "0")))
