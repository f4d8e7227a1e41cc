"""The ledger's leaf: 42 bytes that commit to an envelope without showing it.

version (1 byte, 1) || kind (1 byte) || time (u64 big-endian, ms since the epoch) || HMAC-SHA256(opening,
domain || envelope bytes). The tree can be public: whoever lacks the 32-byte opening learns nothing but kind
and time, and deleting opening and envelope erases the content while the tree stays valid.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass
from enum import IntEnum

from indai.protocol.errors import InvalidInput, ProtocolError, Reason

LEAF_SIZE = 42
OPENING_SIZE = 32
VERSION = 1

_DOMAIN = b"ind.ai/leaf/v1\n"
_LAYOUT = struct.Struct(">BBQ32s")


class LeafKind(IntEnum):
    """What a leaf records."""

    COMMITMENT = 1
    REGISTRY = 2
    DECISION = 3
    POLICY_VERSION = 4


_KINDS = frozenset(kind.value for kind in LeafKind)


@dataclass(frozen=True, slots=True)
class LedgerLeaf:
    """One leaf: its kind, the log's time in ms since the epoch, and the 32-byte blinded envelope."""

    kind: LeafKind
    time_ms: int
    mac: bytes

    def encode(self) -> bytes:
        """The 42 bytes that go into the tree."""
        if not 0 <= self.time_ms < 1 << 63 or len(self.mac) != 32:
            raise InvalidInput(Reason.INVALID_ARGUMENT, "A leaf has a time since 1970 and a mac of 32 bytes.")
        return _LAYOUT.pack(VERSION, self.kind, self.time_ms, self.mac)

    @classmethod
    def parse(cls, data: bytes) -> LedgerLeaf:
        """Read a leaf; raises ProtocolError(MALFORMED)."""
        if len(data) != LEAF_SIZE:
            raise _malformed(f"it has {len(data)} bytes, not {LEAF_SIZE}")
        version, kind, time_ms, mac = _LAYOUT.unpack(data)
        if version != VERSION:
            raise _malformed(f"version {version} is not known")
        if kind not in _KINDS or time_ms >= 1 << 63:
            raise _malformed(f"kind {kind} at time {time_ms} is not known")
        return cls(LeafKind(kind), time_ms, mac)

    def opens(self, opening: bytes, envelope: bytes) -> bool:
        """Whether this leaf commits to exactly these envelope bytes under `opening`."""
        return hmac.compare_digest(self.mac, blind(opening, envelope))


def blind(opening: bytes, envelope: bytes) -> bytes:
    """The 32-byte mac of a leaf over an envelope's exact bytes; `opening` is 32 random bytes, used once."""
    if len(opening) != OPENING_SIZE:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, f"An opening has {OPENING_SIZE} bytes, not {len(opening)}."
        )
    return hmac.new(opening, _DOMAIN + envelope, hashlib.sha256).digest()


def _malformed(why: str) -> ProtocolError:
    return ProtocolError(Reason.MALFORMED, f"This is not a ledger leaf: {why}.", rule="LOG-07")
