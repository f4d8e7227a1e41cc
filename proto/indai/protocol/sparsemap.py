"""A sparse Merkle map of depth 256: handle -> latest operation, with proofs of presence and of absence.

The tree has a place for every 256-bit key; an empty subtree's hash depends on its depth alone and is
computed once (as in Certificate Transparency's revocation trees and Trillian's maps). Hashes are
domain-separated: 0x00 for a leaf (with its key), 0x01 for an inner node. Stored are *tiles* of four levels,
addressed by the hex prefix of the keys below them; a subtree with one leaf is stored as that leaf, so an
update touches about log16(handles) tiles.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from typing import NamedTuple

from indai.protocol.errors import ProtocolError, Reason

DEPTH = 256
FANOUT = 16

_KEY_DOMAIN = b"ind.ai/map/v1\n"
_VALUE_DOMAIN = b"ind.ai/map-value/v1\n"
_EMPTY_DOMAIN = b"ind.ai/map-empty/v1\n"
_LEAF, _NODE = b"\x00", b"\x01"
_hash = hashlib.sha256


def _sha256(data: bytes) -> bytes:
    return _hash(data).digest()


def _empties() -> tuple[bytes, ...]:
    hashes = [_sha256(_EMPTY_DOMAIN)]
    for _ in range(DEPTH):
        hashes.append(_sha256(_NODE + hashes[-1] + hashes[-1]))
    return tuple(reversed(hashes))


# The hash of the empty subtree whose root is at each depth, 0 (the whole map) to 256 (a leaf's place).
EMPTY: tuple[bytes, ...] = _empties()


class Slot(NamedTuple):
    """A subtree that is not empty: its hash, and when it holds one leaf only, that leaf (else b"")."""

    hash: bytes
    key: bytes = b""
    value: bytes = b""


# Sixteen subtrees, by the next hex digit of the key; None is empty.
Tile = tuple[Slot | None, ...]
EMPTY_TILE: Tile = (None,) * FANOUT


class Proof(NamedTuple):
    """Siblings that are not empty, root first; bit i of `bitmap` (most significant first) says which."""

    bitmap: bytes
    siblings: tuple[bytes, ...]


def map_key(handle: str) -> bytes:
    """The place of a canonical handle in the map."""
    return _sha256(_KEY_DOMAIN + handle.encode("ascii"))


def map_value(handle: str, digest: bytes) -> bytes:
    """What the map holds for a handle: the 32-byte digest of its whole history, operations and times."""
    return _sha256(_VALUE_DOMAIN + struct.pack(">H", len(handle)) + handle.encode("ascii") + digest)


def verify_map_proof(root: bytes, key: bytes, value: bytes | None, proof: Proof) -> None:
    """Check that the map with `root` holds `value` at `key`, or nothing there when None; raises BAD_PROOF."""
    bits = int.from_bytes(proof.bitmap, "big")
    if len(proof.bitmap) != DEPTH // 8 or bits.bit_count() != len(proof.siblings):
        raise _bad_proof("does not have a sibling for each bit of its bitmap")
    remaining = list(proof.siblings)
    path = [bit == "1" for bit in f"{int.from_bytes(key, 'big'):0{DEPTH}b}"]
    node = EMPTY[DEPTH] if value is None else _leaf_hash(key, value)
    for depth in range(DEPTH - 1, -1, -1):
        sibling = EMPTY[depth + 1]
        if bits & 1:
            # One map has one proof for each key: an "empty" sibling must be left out, not spelled out.
            if len(remaining[-1]) != 32 or remaining[-1] == sibling:
                raise _bad_proof("has a sibling that is empty or no hash")
            sibling = remaining.pop()
        bits >>= 1
        # Spelled out rather than called: this runs 256 times for every look-up there is.
        node = _hash(_NODE + sibling + node if path[depth] else _NODE + node + sibling).digest()
    if node != root:
        raise _bad_proof(f"does not show the key {'absent' if value is None else 'with this value'}")


class SparseMap:
    """The map over a tile store; `load` gives a stored tile (None if there is none) and may raise.

    `changed` collects the tiles that updates touched; whoever owns the store writes them and then drops
    this object.
    """

    def __init__(self, load: Callable[[str], Tile | None]) -> None:
        self._load = load
        self.changed: dict[str, Tile] = {}

    def root(self) -> bytes:
        """The 32-byte root, with every `put` so far."""
        return _levels(self._tile(""), 0)[-1][0]

    def get(self, key: bytes) -> bytes | None:
        """The value at `key`."""
        slot = self._find(key)[-1][1]
        return slot.value if slot and slot.key == key else None

    def put(self, key: bytes, value: bytes) -> bytes:
        """Set the value at `key`; the new root. All tiles on the way are read before the first is changed."""
        digits = key.hex()
        below = self._find(key)
        tiles = [self._tile(path) for path, _ in below]
        slot = below[-1][1]
        if slot and slot.key and slot.key != key:
            tiles += _split(slot, digits, len(tiles))
        new = _leaf_slot(key, value, 4 * len(tiles))
        for length in range(len(tiles) - 1, -1, -1):
            tile = _with(tiles[length], int(digits[length], 16), new)
            self.changed[digits[:length]] = tile
            new = Slot(_levels(tile, 4 * length)[-1][0])
        return new.hash

    def prove(self, key: bytes) -> Proof:
        """The proof that `key` has the value it has, or none."""
        siblings: list[bytes] = []
        path = int.from_bytes(key, "big")
        bits = 0
        steps = self._find(key)
        for prefix, _ in steps:
            base = 4 * len(prefix)
            levels = _levels(self._tile(prefix), base)
            digit = path >> (DEPTH - 4 - base) & 15
            for level in range(4):
                sibling = levels[3 - level][digit >> (3 - level) ^ 1]
                if sibling != EMPTY[base + level + 1]:
                    bits |= 1 << (DEPTH - 1 - base - level)
                    siblings.append(sibling)
        slot = steps[-1][1]
        if slot and slot.key and slot.key != key:
            # Absent, with one stranger below the same tile: it is the sibling where the two keys part.
            parting = DEPTH - (path ^ int.from_bytes(slot.key, "big")).bit_length()
            bits |= 1 << (DEPTH - 1 - parting)
            siblings.append(_leaf_slot(slot.key, slot.value, parting + 1).hash)
        return Proof(bits.to_bytes(DEPTH // 8, "big"), tuple(siblings))

    def _tile(self, path: str) -> Tile:
        return self.changed.get(path) or self._load(path) or EMPTY_TILE

    def _find(self, key: bytes) -> list[tuple[str, Slot | None]]:
        """The tiles from the root to `key`, and each one's slot for it; the last is a leaf or empty."""
        digits = key.hex()
        found: list[tuple[str, Slot | None]] = []
        for length in range(DEPTH // 4):
            slot = self._tile(digits[:length])[int(digits[length], 16)]
            found.append((digits[:length], slot))
            if slot is None or slot.key:
                break
        return found


def encode_tile(tile: Tile) -> bytes:
    """A tile as stored: for each slot 0 (empty), 1 and a hash, or 2 and a leaf's hash, key and value."""
    parts = bytearray()
    for slot in tile:
        if slot is None:
            parts += b"\x00"
        else:
            parts += (b"\x02" if slot.key else b"\x01") + slot.hash + slot.key + slot.value
    return bytes(parts)


def decode_tile(data: bytes) -> Tile:
    """The tile that `encode_tile` wrote; raises ProtocolError(MALFORMED)."""
    slots: list[Slot | None] = []
    pos = 0
    for _ in range(FANOUT):
        tag = data[pos] if pos < len(data) else -1
        size = {0: 0, 1: 32, 2: 96}.get(tag, len(data))
        body = data[pos + 1 : pos + 1 + size]
        if len(body) != size:
            raise ProtocolError(Reason.MALFORMED, "A stored tile of the map is damaged.", rule="REG-10")
        slots.append(Slot(body[:32], body[32:64], body[64:]) if size else None)
        pos += 1 + size
    if pos != len(data):
        raise ProtocolError(Reason.MALFORMED, "A stored tile of the map is damaged.", rule="REG-10")
    return tuple(slots)


def _leaf_hash(key: bytes, value: bytes) -> bytes:
    return _sha256(_LEAF + key + value)


def _leaf_slot(key: bytes, value: bytes, depth: int) -> Slot:
    """A leaf as the only one of the subtree at `depth`."""
    path = [bit == "1" for bit in f"{int.from_bytes(key, 'big'):0{DEPTH}b}"]
    node = _leaf_hash(key, value)
    for level in range(DEPTH - 1, depth - 1, -1):
        empty = EMPTY[level + 1]
        node = _hash(_NODE + empty + node if path[level] else _NODE + node + empty).digest()
    return Slot(node, key, value)


def _split(other: Slot, digits: str, length: int) -> list[Tile]:
    """New tiles below a slot that held leaf `other`, down to the one where it parts from `digits`."""
    others = other.key.hex()
    parting = next(i for i in range(length, DEPTH // 4) if digits[i] != others[i])
    moved = _leaf_slot(other.key, other.value, 4 * parting + 4)
    return [EMPTY_TILE] * (parting - length) + [_with(EMPTY_TILE, int(others[parting], 16), moved)]


def _levels(tile: Tile, base: int) -> list[list[bytes]]:
    """The hashes inside a tile whose root is at depth `base`: 16 slots, then 8, 4, 2 and the root."""
    levels = [[slot.hash if slot else EMPTY[base + 4] for slot in tile]]
    for depth in range(base + 3, base - 1, -1):
        below, empty = levels[-1], EMPTY[depth + 1]
        levels.append(
            [
                EMPTY[depth] if left == empty == right else _hash(_NODE + left + right).digest()
                for left, right in zip(below[::2], below[1::2], strict=True)
            ]
        )
    return levels


def _with(tile: Tile, digit: int, slot: Slot) -> Tile:
    return (*tile[:digit], slot, *tile[digit + 1 :])


def _bad_proof(why: str) -> ProtocolError:
    return ProtocolError(Reason.BAD_PROOF, f"The map's proof {why}.", rule="REG-10")
