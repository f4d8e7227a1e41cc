"""What the registry keeps of a handle, and what a batch of operations makes of it: pure, no database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from indai.protocol.envelope import Envelope, parse_envelope
from indai.protocol.errors import IndaiError, InvalidInput, NotFound, ProtocolError, Reason, Refused
from indai.protocol.handles import Handle, check_claimable
from indai.protocol.keys import key_id
from indai.protocol.operations import (
    CREATE,
    MAX_OPERATION,
    MAX_SKEW_MS,
    Chain,
    apply_operation,
    parse_operation,
    replay,
)
from indai.protocol.registryleaf import RegistryLeaf, encode_registry_leaf
from indai.protocol.sparsemap import SparseMap, map_key, map_value
from indai.registry.limits import check_pace
from indai.v1 import registry_pb2


@dataclass(frozen=True, slots=True)
class Record:
    """A handle's newest chain, its operations as stored (genesis first), and their log indexes.

    `place` is how many operations the handle has had, under all its subjects.
    """

    chain: Chain
    raws: tuple[bytes, ...]
    indexes: tuple[int, ...]
    place: int

    @classmethod
    def of_rows(cls, raws: Sequence[bytes], indexes: Sequence[int], times_ms: Sequence[int]) -> Record | None:
        """The record of all stored operations of a handle; None for none."""
        if not raws:
            return None
        chain = replay((parse_envelope(raw) for raw in raws), times_ms)
        newest = -len(chain.history)
        return cls(chain, tuple(raws[newest:]), tuple(indexes[newest:]), len(raws))

    @property
    def times_ms(self) -> tuple[int, ...]:
        """The time of each operation's leaf."""
        return tuple(link.time_ms for link in self.chain.history)


@dataclass(frozen=True, slots=True)
class Submission:
    """An operation that was asked for, read but not judged."""

    envelope: Envelope
    operation: registry_pb2.Operation
    handle: Handle

    @property
    def owner(self) -> str:
        """Whose entry of the log it becomes: the handle's."""
        return str(self.handle)


@dataclass(frozen=True, slots=True)
class Accepted:
    """An operation that follows: its place in the handle's history, its log index and time, its leaf."""

    submission: Submission
    place: int
    index: int
    time_ms: int
    leaf: bytes


@dataclass(frozen=True, slots=True)
class Batch:
    """What one transaction writes; `outcomes` has, for each submission, its index in the log or its error."""

    accepted: tuple[Accepted, ...]
    records: Mapping[str, Record]
    outcomes: tuple[int | IndaiError, ...]


def read_submission(
    raw: bytes, *, origin: str, authority: str, now_ms: int, branded: bool = False
) -> Submission:
    """Read an operation for this log origin, where domains may be `branded` handles.

    Raises ProtocolError, InvalidInput or Refused.
    """
    envelope = parse_envelope(raw, limit=MAX_OPERATION)
    operation = parse_operation(envelope)
    if operation.registry != origin:
        raise _not_ours(f"it is for the registry {operation.registry[:80]!a}, and this is {origin}")
    handle = Handle.parse(operation.handle)
    own = handle.authority == authority or handle.authority.endswith("." + authority)
    if own if handle.branded and branded else handle.authority != authority or handle.branded:
        raise _not_ours(f"this registry names handles under {authority}/ only")
    if operation.issued_at_ms > now_ms + MAX_SKEW_MS:
        raise ProtocolError(
            Reason.FROM_FUTURE,
            "The operation is from the future.",
            rule="REG-15",
            hint="set the clock of the machine that signed it",
        )
    if operation.type == CREATE:
        check_claimable(handle)
    return Submission(envelope, operation, handle)


def plan(
    submissions: Sequence[Submission],
    known: Mapping[bytes, int],
    records: Mapping[str, Record],
    tree: SparseMap,
    *,
    size: int,
    time_ms: int,
) -> Batch:
    """Judge submissions in order, each against what those before it made, and build their leaves.

    `known` are the log indexes of operations that are stored already, by mid; `records` holds every handle
    that is named here and exists, and its parent; `tree` is updated; `size` is the log's.
    """
    changed = dict[str, Record]()
    landed = dict(known)
    accepted: list[Accepted] = []
    outcomes: list[int | IndaiError] = []
    for submission in submissions:
        if submission.envelope.mid not in landed:
            try:
                made = _follow(submission, {**records, **changed}, size + len(accepted), time_ms)
            except IndaiError as error:
                outcomes.append(error)
                continue
            changed[made.chain.handle] = made
            accepted.append(_accept(submission, made, tree))
            landed[submission.envelope.mid] = made.indexes[-1]
        outcomes.append(landed[submission.envelope.mid])
    return Batch(tuple(accepted), changed, tuple(outcomes))


def _follow(submission: Submission, records: Mapping[str, Record], index: int, time_ms: int) -> Record:
    name = str(submission.handle)
    before = records.get(name)
    creates = submission.operation.type == CREATE
    if creates:
        if before is not None and not before.chain.ended_at_ms:
            raise Refused(
                Reason.HANDLE_TAKEN,
                f"The handle {name} is taken.",
                hint="choose another",
            )
        _check_parent(submission, records)
    elif before is None:
        raise NotFound(Reason.NOT_FOUND, f"The handle {name} is not taken, so nothing follows.")
    if before is None:
        chain = apply_operation(None, submission.envelope, time_ms)
        return Record(chain, (submission.envelope.raw,), (index,), 1)
    # This clock may have been set back: a handle's times never go back, since the 72 hours count by them.
    time_ms = max(time_ms, before.chain.history[-1].time_ms)
    check_pace(before.chain, submission.operation.type, time_ms)
    chain = apply_operation(before.chain, submission.envelope, time_ms)
    raws, indexes = ((), ()) if creates else (before.raws, before.indexes)
    return Record(chain, (*raws, submission.envelope.raw), (*indexes, index), before.place + 1)


def _check_parent(submission: Submission, records: Mapping[str, Record]) -> None:
    """`ind.ai/alice/work` is claimed with a rotation key of `ind.ai/alice`, and by nobody else."""
    if submission.handle.parent is None:
        return
    parent = records.get(str(submission.handle.parent))
    signers = {signature.keyid for signature in submission.envelope.signatures}
    if (
        parent is None
        or parent.chain.ended_at_ms
        or not signers & {key_id(key) for key in parent.chain.state.rotation_keys}
    ):
        message = f"The handle {submission.handle} can only be claimed with a rotation key of its parent."
        raise Refused(Reason.PERMISSION_DENIED, message, metadata={"rule": "REG-16"})


def _accept(submission: Submission, made: Record, tree: SparseMap) -> Accepted:
    chain = made.chain
    root = tree.put(map_key(chain.handle), map_value(chain.handle, chain.digest))
    time_ms = chain.history[-1].time_ms
    leaf = encode_registry_leaf(RegistryLeaf(time_ms, root, submission.envelope.raw))
    return Accepted(submission, made.place - 1, made.indexes[-1], time_ms, leaf)


def _not_ours(why: str) -> InvalidInput:
    return InvalidInput(
        Reason.INVALID_OPERATION, f"The operation does not belong here: {why}.", metadata={"rule": "REG-15"}
    )
