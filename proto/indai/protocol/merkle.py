"""Merkle trees, inclusion and consistency proofs (RFC 9162 section 2.1; the same trees as RFC 6962).

A *node* is `(level, index)`: the root of the perfect subtree over leaves `[index << level, (index + 1) <<
level)`. Proofs are first described as nodes and then filled in by a reader, so that a server which keeps
perfect subtrees (tiles) needs O(log n) look-ups and never all the leaves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from indai.protocol.errors import InvalidInput, ProtocolError, Reason

HASH_SIZE = 32
EMPTY_ROOT = hashlib.sha256(b"").digest()
MAX_SIZE = 1 << 63

Node = tuple[int, int]
Reader = Callable[[int, int], bytes]
"""`(level, index)` to the 32-byte hash of that perfect subtree."""


def leaf_hash(entry: bytes) -> bytes:
    """The hash of a leaf: SHA-256(0x00 || entry)."""
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node: SHA-256(0x01 || left || right)."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class CompactRange:
    """A growing tree held as its right edge: one hash for each set bit of `size`, largest subtree first."""

    __slots__ = ("_edge", "size")

    def __init__(self, size: int = 0, edge: Sequence[bytes] = ()) -> None:
        fits = 0 <= size < MAX_SIZE and len(edge) == size.bit_count()
        if not fits or any(len(hashed) != HASH_SIZE for hashed in edge):
            raise InvalidInput(Reason.INVALID_ARGUMENT, f"The edge does not fit a tree of size {size}.")
        self.size = size
        self._edge = list(edge)

    @property
    def edge(self) -> tuple[bytes, ...]:
        """What `CompactRange(size, edge)` needs to go on from here."""
        return tuple(self._edge)

    def append(self, leaf: bytes) -> list[tuple[int, int, bytes]]:
        """Add a leaf hash; returns the subtrees it completed, as (level, index, hash), leaf first."""
        completed = [(0, self.size, leaf)]
        level, rest, hashed = 0, self.size, leaf
        while rest & 1:
            hashed = node_hash(self._edge.pop(), hashed)
            level, rest = level + 1, rest >> 1
            completed.append((level, rest, hashed))
        self._edge.append(hashed)
        self.size += 1
        return completed

    def root(self) -> bytes:
        """The root of the tree so far."""
        return _fold(self._edge) if self._edge else EMPTY_ROOT


def root(leaf_hashes: Sequence[bytes]) -> bytes:
    """The root over leaf hashes."""
    row = list(leaf_hashes)
    while len(row) > 1:
        above = [node_hash(left, right) for left, right in zip(row[::2], row[1::2], strict=False)]
        # A last one without a neighbour goes up as it is: the split of RFC 9162 leaves it alone on the right.
        row = above + row[-1:] if len(row) % 2 else above
    return row[0] if row else EMPTY_ROOT


def inclusion_proof(leaf_hashes: Sequence[bytes], index: int) -> list[bytes]:
    """The path from leaf `index` to the root, the leaf's sibling first."""
    return inclusion_proof_from(_reader_of(leaf_hashes), index, len(leaf_hashes))


def consistency_proof(leaf_hashes: Sequence[bytes], old: int) -> list[bytes]:
    """The proof that the tree of the first `old` leaves is a prefix of this one."""
    return consistency_proof_from(_reader_of(leaf_hashes), old, len(leaf_hashes))


def root_nodes(size: int) -> list[Node]:
    """The perfect subtrees that make up a tree of `size` leaves, left to right."""
    _check_size(size)
    return _cover(0, size)


def inclusion_nodes(index: int, size: int) -> list[list[Node]]:
    """The nodes that fold into each hash of an inclusion proof; raises InvalidInput if out of range."""
    _check_size(size)
    if not 0 <= index < size:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"There is no leaf {index} in a tree of size {size}.")
    return _path(index, 0, size)


def consistency_nodes(old: int, new: int) -> list[list[Node]]:
    """The nodes that fold into each hash of a consistency proof; raises InvalidInput if out of range."""
    _check_size(new)
    if not 0 < old <= new:
        message = f"There is no consistency proof from size {old} to size {new}."
        raise InvalidInput(Reason.INVALID_ARGUMENT, message)
    low, high, proof = 0, new, list[list[Node]]()
    whole = True  # is [low, old) still a tree the verifier knows the root of?
    while old != high:
        split = low + _split(high - low)
        if old <= split:
            proof.append(_cover(split, high))
            high = split
        else:
            proof.append(_cover(low, split))
            low, whole = split, False
    if not whole:
        proof.append(_cover(low, high))
    return proof[::-1]


def root_from(reader: Reader, size: int) -> bytes:
    """The root of a tree of `size`, from its perfect subtrees."""
    nodes = root_nodes(size)
    return _fold([reader(*node) for node in nodes]) if nodes else EMPTY_ROOT


def inclusion_proof_from(reader: Reader, index: int, size: int) -> list[bytes]:
    """An inclusion proof, from perfect subtrees."""
    return [_fold([reader(*node) for node in nodes]) for nodes in inclusion_nodes(index, size)]


def consistency_proof_from(reader: Reader, old: int, new: int) -> list[bytes]:
    """A consistency proof, from perfect subtrees."""
    return [_fold([reader(*node) for node in nodes]) for nodes in consistency_nodes(old, new)]


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> None:
    """Check that leaf hash `leaf` is number `index` of the tree (RFC 9162, 2.1.3.2); raises BAD_PROOF."""
    if root_from_inclusion(leaf, index, size, proof) != root:
        raise _bad(f"The inclusion proof of leaf {index} does not lead to the root of size {size}", "LOG-01")


def root_from_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes]) -> bytes:
    """The root of the tree of `size` in which `proof` leads up from leaf hash `leaf` at `index`; raises
    BAD_PROOF for a path that has not the length of one. The caller knows the root, or who signed it.
    """
    if not 0 <= index < size or size >= MAX_SIZE:
        raise _bad(f"There is no leaf {index} in a tree of size {size}", "LOG-01")
    node, last, hashed = index, size - 1, leaf
    for sibling in _checked(proof, "LOG-01"):
        if last == 0:
            raise _bad("The inclusion proof is too long", "LOG-01")
        if node & 1 or node == last:
            hashed = node_hash(sibling, hashed)
            # A node without a right sibling moves up, unhashed, until it is a right child.
            while not node & 1:
                node, last = node >> 1, last >> 1
        else:
            hashed = node_hash(hashed, sibling)
        node, last = node >> 1, last >> 1
    if last:
        raise _bad(f"The inclusion proof of leaf {index} is too short for a tree of size {size}", "LOG-01")
    return hashed


def verify_consistency(
    old_size: int, old_root: bytes, new_size: int, new_root: bytes, proof: Sequence[bytes]
) -> None:
    """Check that the old tree is a prefix of the new one (RFC 9162 section 2.1.4.2); raises BAD_PROOF."""
    if not 0 < old_size <= new_size < MAX_SIZE:
        raise _bad(f"Nothing proves a step from size {old_size} to size {new_size}", "LOG-02")
    hashes = _checked(proof, "LOG-02")
    if old_size == new_size:
        if hashes or old_root != new_root:
            raise _bad(f"There are two roots for size {old_size}, or a proof where none belongs", "LOG-02")
        return
    # A perfect old tree is itself the first node of the path, so the proof leaves it out.
    if old_size & (old_size - 1) == 0:
        hashes = [old_root, *hashes]
    if _climb(old_size, new_size, hashes) != (old_root, new_root):
        raise _bad(f"The consistency proof does not lead from size {old_size} to size {new_size}", "LOG-02")


def prefix_root(old_size: int, new_size: int, new_root: bytes, proof: Sequence[bytes]) -> bytes | None:
    """The root that the first `old_size` leaves of a tree have, as a consistency proof to its root shows.

    None where the proof does not lead to `new_root`, and for a size that is a power of two: there the proof
    leaves that root out.
    """
    if not 0 < old_size < new_size < MAX_SIZE or old_size & (old_size - 1) == 0:
        return None
    try:
        old, new = _climb(old_size, new_size, _checked(proof, "LOG-02"))
    except ProtocolError:
        return None
    return old if new == new_root else None


def _climb(old_size: int, new_size: int, hashes: list[bytes]) -> tuple[bytes, bytes]:
    """The roots of the old and the new tree to which a consistency proof leads."""
    if not hashes:
        raise _bad("The consistency proof is too short", "LOG-02")
    node, last = old_size - 1, new_size - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    old = new = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            raise _bad("The consistency proof is too long", "LOG-02")
        if node & 1 or node == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while not node & 1:
                node, last = node >> 1, last >> 1
        else:
            new = node_hash(new, sibling)
        node, last = node >> 1, last >> 1
    if last:
        raise _bad("The consistency proof is too short", "LOG-02")
    return old, new


def _path(index: int, low: int, high: int) -> list[list[Node]]:
    proof = list[list[Node]]()
    while high - low > 1:
        split = low + _split(high - low)
        if index < split:
            proof.append(_cover(split, high))
            high = split
        else:
            proof.append(_cover(low, split))
            low = split
    return proof[::-1]


def _split(size: int) -> int:
    """The largest power of two below `size`: how many leaves the left subtree has."""
    return 1 << ((size - 1).bit_length() - 1)


def _cover(low: int, high: int) -> list[Node]:
    """The perfect subtrees of `[low, high)`; `low` is a multiple of the largest of them."""
    nodes = []
    while low < high:
        level = (high - low).bit_length() - 1
        nodes.append((level, low >> level))
        low += 1 << level
    return nodes


def _fold(hashes: Sequence[bytes]) -> bytes:
    """The root over perfect subtrees of falling size."""
    folded = hashes[-1]
    for left in hashes[-2::-1]:
        folded = node_hash(left, folded)
    return folded


def _reader_of(leaf_hashes: Sequence[bytes]) -> Reader:
    return lambda level, index: root(leaf_hashes[index << level : (index + 1) << level])


def _check_size(size: int) -> None:
    if not 0 <= size < MAX_SIZE:
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"{size} is not the size of a tree.")


def _checked(proof: Sequence[bytes], rule: str) -> list[bytes]:
    if any(len(hashed) != HASH_SIZE for hashed in proof):
        raise _bad(f"A hash in the proof does not have {HASH_SIZE} bytes", rule)
    return list(proof)


def _bad(what: str, rule: str) -> ProtocolError:
    return ProtocolError(Reason.BAD_PROOF, what + ".", rule=rule)
