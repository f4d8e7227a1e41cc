"""A registry's whole log as an export, so that an audit can judge keys without asking the registry again.

A mirror can be carried on: what it holds is kept, what is new is read, and the registry must prove that its
newest head extends the mirror's. Whether the entries are right is for a replay to say
(`indai.client.audit.registry`); that they are those of the head is checked here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from indai.client.exports import (
    FORMAT,
    REGISTRY,
    CheckpointLine,
    EntryLine,
    ExportWriter,
    Header,
    read_export,
)
from indai.client.fraud import Evidence
from indai.client.logkeys import Followed, follow_log_keys
from indai.client.network import Head, NetworkPolicy
from indai.protocol.checkpoint import Checkpoint, open_checkpoint, read_checkpoint
from indai.protocol.errors import InvalidInput, ProtocolError, Reason, Unavailable
from indai.protocol.merkle import CompactRange, leaf_hash, verify_consistency
from indai.protocol.note import Verifier, parse_note
from indai.v1 import registry_pb2

if TYPE_CHECKING:
    from indai.v1.registry_pb2_grpc import RegistryServiceAsyncStub

PAGE = 500
MAX_HEADS = 64  # of earlier runs; the oldest go first
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class _Known:
    """A mirror that is carried on: its file, its heads (oldest first), the newest of them."""

    path: Path
    notes: tuple[str, ...]
    head: Checkpoint
    log: Verifier


async def mirror(
    stub: RegistryServiceAsyncStub, policy: NetworkPolicy, now_ms: int, known: Path | None = None
) -> AsyncIterator[bytes]:
    """The lines of the export, up to the registry's newest head, a page in memory at a time.

    `known` is a mirror to carry on. Raises ProtocolError for a head that is not of the policy's registry or
    entries that are not the head's, and SPLIT_VIEW for a head that does not extend the mirror's (the evidence
    is written beside it); InvalidInput for a file that is no mirror of this registry; Unavailable when the
    registry stops short of its own head; and what the stub's channel raises.
    """
    followed, old, answer = await _begin(stub, policy, known)
    if not _is_by(
        followed.policy.log, answer.checkpoint
    ):  # the log has changed its key between the two answers
        followed, old, answer = await _begin(stub, policy, known)
    policy, changes = followed.policy, followed.heads
    head = policy.open(answer.checkpoint)
    if old is not None:
        _check_extends(old, head, list(answer.consistency_proof), policy)
    writer = ExportWriter()
    header = Header(FORMAT, REGISTRY, "", "", policy.origin, policy.first.vkey, policy.network, now_ms)
    yield writer.line(header)
    for note in _heads(old, changes, head):
        yield writer.line(CheckpointLine(note))
    tree, awaited = CompactRange(), {one.size: one.root for one in (*changes, head)}
    for entry in _entries_of(old):
        yield writer.line(EntryLine(tree.size, entry))
        _grow(tree, entry, awaited, policy)
    while tree.size < head.size:
        for entry in await _page(stub, policy, tree.size, head.size):
            yield writer.line(EntryLine(tree.size, entry))
            _grow(tree, entry, awaited, policy)
    if tree.root() != head.root:
        raise _other_tree(policy)
    yield writer.end()


async def _begin(
    stub: RegistryServiceAsyncStub, policy: NetworkPolicy, known: Path | None
) -> tuple[Followed, _Known | None, registry_pb2.GetHeadResponse]:
    """How the log came by its key, the mirror so far, and the newest head, which is not verified."""
    followed = await follow_log_keys(stub, policy)
    old = await asyncio.to_thread(_read, known, followed.policy, followed.keys) if known is not None else None
    request = registry_pb2.GetHeadRequest(known_size=old.head.size if old else 0)
    return followed, old, await stub.GetHead(request, timeout=_TIMEOUT_S)


def _is_by(log: Verifier, note: bytes) -> bool:
    return (log.name, log.key_hash) in {(one.name, one.key_hash) for one in parse_note(note)[1]}


def _heads(old: _Known | None, changes: Sequence[Head], head: Head) -> Iterator[str]:
    """The notes of a mirror, oldest first: those that show a change of the log's key among them."""
    earlier = old.notes if old and old.head.size < head.size else old.notes[:-1] if old else ()
    first = [one.note.decode("utf-8") for one in changes]
    shown = {_without_times(note) for note in first}
    notes = first + [note for note in earlier[-MAX_HEADS:] if _without_times(note) not in shown]
    # Of one size, the last head of a key comes before those of the next.
    yield from sorted(notes, key=lambda note: read_checkpoint(note.encode()).size)
    yield head.note.decode("utf-8")


def _without_times(note: str) -> str:
    """A note up to the log's own signature: the cosignatures below may be renewed."""
    text, _, signatures = note.partition("\n\n")
    return text + signatures.split("\n")[0]


def _grow(tree: CompactRange, entry: bytes, awaited: Mapping[int, bytes], policy: NetworkPolicy) -> None:
    tree.append(leaf_hash(entry))
    if tree.size in awaited and awaited[tree.size] != tree.root():
        raise _other_tree(policy)


def _other_tree(policy: NetworkPolicy) -> ProtocolError:
    message = f"The entries that the registry {policy.origin} gives do not make the tree of its head."
    return ProtocolError(Reason.BAD_PROOF, message, rule="REG-14")


async def _page(stub: RegistryServiceAsyncStub, policy: NetworkPolicy, start: int, size: int) -> list[bytes]:
    request = registry_pb2.ListEntriesRequest(start=start, page_size=PAGE)
    entries = list((await stub.ListEntries(request, timeout=_TIMEOUT_S)).entries[: size - start])
    if not entries:
        message = f"The registry {policy.origin} gives {start} of its {size} entries."
        raise Unavailable(Reason.UNREACHABLE, message, hint="try again later")
    return entries


def _read(path: Path, policy: NetworkPolicy, keys: Sequence[Verifier]) -> _Known:
    notes = []
    for _, record in read_export(path):
        if isinstance(record, Header) and (record.of, record.vkey) != (REGISTRY, policy.first.vkey):
            message = f"{path.name} is no mirror of the registry {policy.origin}."
            raise InvalidInput(Reason.INVALID_EXPORT, message, hint="name another file")
        if isinstance(record, CheckpointLine):
            notes.append(record.note)
    newest = notes[-1].encode()
    signed = {one.key_hash for one in parse_note(newest)[1]}
    log = next((key for key in keys if key.key_hash in signed), policy.log)
    return _Known(path, tuple(notes), open_checkpoint(newest, log)[0], log)


def _entries_of(old: _Known | None) -> Iterator[bytes]:
    records = read_export(old.path) if old else iter(())
    return (record.entry for _, record in records if isinstance(record, EntryLine))


def _check_extends(old: _Known, head: Head, proof: list[bytes], policy: NetworkPolicy) -> None:
    if head.size < old.head.size:
        message = f"The registry {policy.origin} has {head.size} entries, and the mirror {old.head.size}."
        raise Unavailable(Reason.STALE_HEAD, message, hint="try again later")
    if old.head.size == 0:
        return
    try:
        verify_consistency(old.head.size, old.head.root, head.size, head.root, proof)
    except ProtocolError:
        hint = "keep this mirror: it holds what the registry showed before it changed its key"
        if old.log == policy.log:
            evidence = Evidence.of(policy.log, old.notes[-1].encode(), head.note, proof)
            hint = f"both signed notes are in {evidence.write(old.path.parent)}: give it to `indai audit`"
        message = f"The registry {policy.origin} does not extend what it showed to this mirror."
        raise ProtocolError(Reason.SPLIT_VIEW, message, rule="REG-12", hint=hint) from None
