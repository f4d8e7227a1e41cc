"""What a registry's answers must prove before anybody believes them: the checks, without any network."""

from __future__ import annotations

from collections.abc import Sequence

from indai.client.network import Head
from indai.protocol.envelope import parse_envelope
from indai.protocol.errors import ProtocolError, Reason
from indai.protocol.merkle import CompactRange, leaf_hash, verify_inclusion
from indai.protocol.operations import MAX_OPERATION, Chain, apply_operation, parse_operation, replay
from indai.protocol.registryleaf import parse_registry_leaf
from indai.protocol.sparsemap import EMPTY, Proof, map_key, map_value, verify_map_proof
from indai.v1 import registry_pb2


def verify_lookup(handle: str, answer: registry_pb2.GetHandleResponse, head: Head) -> Chain | None:
    """The chain of `handle` at `head`, or None when it is proved not to exist; raises ProtocolError.

    `head` is the answer's own checkpoint, verified. The last leaf under it carries the map's root; the
    map's proof shows the digest of the handle's history; the chain must replay to exactly that one.
    """
    root = _map_root(answer, head)
    proof = Proof(answer.map_proof.bitmap, tuple(answer.map_proof.siblings))
    if not answer.chain:
        verify_map_proof(root, map_key(handle), None, proof)
        return None
    raws = (parse_envelope(raw, limit=MAX_OPERATION) for raw in answer.chain)
    # What the registry says of times, and of subjects before this one, is in the digest that the map holds.
    chain = replay(raws, answer.times_ms, before=answer.before)
    if (chain.handle, chain.registry) != (handle, head.checkpoint.origin):
        raise _wrong(f"The registry answered for {chain.handle} when asked for {handle}")
    verify_map_proof(root, map_key(handle), map_value(handle, chain.digest), proof)
    return chain


def verify_subjects(handle: str, answer: registry_pb2.GetHandleResponse, head: Head) -> tuple[Chain, ...]:
    """Every subject the handle has had, oldest first, the newest last; raises ProtocolError.

    The answer was asked for with `earlier`. Empty when the handle was never taken. The map's value covers the
    digest of the whole history, so an operation that is left out or made up breaks the proof.
    """
    newest = verify_lookup(handle, answer, head)
    if newest is None:
        return ()
    subjects: list[Chain] = []
    raws = (*answer.earlier, *answer.chain)
    times = (*answer.earlier_times_ms, *answer.times_ms)
    if len(raws) != len(times):
        raise _wrong("The registry's operations and their times are not as many")
    chain: Chain | None = None
    for raw, time_ms in zip(raws, times, strict=True):
        chain = apply_operation(chain, parse_envelope(raw, limit=MAX_OPERATION), time_ms)
        if subjects and subjects[-1].subject_id == chain.subject_id:
            subjects.pop()
        subjects.append(chain)
    if chain is None or (chain.handle, chain.digest) != (handle, newest.digest):
        raise _wrong(f"The earlier subjects of {handle} are not those that the map covers")
    return tuple(subjects)


def touched_handles(
    old: Head, new: Head, proof: Sequence[bytes], entries: Sequence[bytes]
) -> list[tuple[int, str]]:
    """The handles that entries `old.size` to `new.size` are about, as (index, handle).

    `proof` is the consistency proof between the two heads, already verified. The entries must make the old
    tree into the new one, so that none is left out; raises ProtocolError(BAD_PROOF).
    """
    tree = CompactRange(old.size, _edge(old, new, proof))
    for entry in entries:
        tree.append(leaf_hash(entry))
    if tree.size != new.size or tree.root() != new.root:
        raise _wrong("The registry's entries do not lead from the last head to this one")
    about = ((old.size + number, _handle_of(entry)) for number, entry in enumerate(entries))
    return [(index, handle) for index, handle in about if handle]


def _map_root(answer: registry_pb2.GetHandleResponse, head: Head) -> bytes:
    if head.size == 0:
        if answer.last_leaf:
            raise _wrong("An empty log has no last leaf")
        return EMPTY[0]
    leaf = leaf_hash(answer.last_leaf)
    verify_inclusion(leaf, head.size - 1, head.size, list(answer.last_leaf_proof), head.root)
    return parse_registry_leaf(answer.last_leaf).map_root


def _edge(old: Head, new: Head, proof: Sequence[bytes]) -> list[bytes]:
    """The perfect subtrees of the old tree, largest first, as the consistency proof names them.

    It starts with the smallest of them and goes up; where the path is a right child, the sibling on its
    left is the next larger one (RFC 9162 section 2.1.4.2). A tree of 2^k leaves is one such subtree, and
    left out of the proof.
    """
    if old.size & (old.size - 1) == 0:
        return [old.root] if old.size else []
    if old.size == new.size:
        raise _wrong("Nothing lies between two heads of one size")
    node, last = old.size - 1, new.size - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    edge = [proof[0]]
    for sibling in proof[1:]:
        if node & 1 or node == last:
            edge.append(sibling)
            while not node & 1:
                node, last = node >> 1, last >> 1
        node, last = node >> 1, last >> 1
    return edge[::-1]


def _handle_of(entry: bytes) -> str:
    """The handle that an entry is about; empty for one that is about the log itself."""
    leaf = parse_registry_leaf(entry)
    if not leaf.is_operation:
        return ""
    return parse_operation(parse_envelope(leaf.body, limit=MAX_OPERATION)).handle


def _wrong(what: str) -> ProtocolError:
    return ProtocolError(Reason.BAD_PROOF, what + ".", rule="REG-14")
