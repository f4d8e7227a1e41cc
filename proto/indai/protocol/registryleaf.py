"""A leaf of the registry's log: `version 1 || kind || u64 time_ms || map_root (32) || body`.

Kind 2 is an operation, and the body its envelope; kind 5 announces the log's next key
(`indai.protocol.logkeys`). The leaf is public. `map_root` is the root of the sparse map *after* it, so the
newest leaf says, under the checkpoint's signature, what is the latest for every handle there is.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from indai.protocol.errors import ProtocolError, Reason

VERSION = 1
KIND = 2
LOG_KEY_KIND = 5
HEADER_BYTES = 42

_HEADER = struct.Struct(">BBQ32s")


@dataclass(frozen=True, slots=True)
class RegistryLeaf:
    """A parsed leaf; `body` is the raw envelope of an operation or an announcement's note, unverified."""

    time_ms: int
    map_root: bytes
    body: bytes
    kind: int = KIND

    @property
    def is_operation(self) -> bool:
        """Whether the body is an operation on a handle."""
        return self.kind == KIND


def encode_registry_leaf(leaf: RegistryLeaf) -> bytes:
    """The bytes that are hashed into the log."""
    if len(leaf.map_root) != 32 or not leaf.body or leaf.kind not in (KIND, LOG_KEY_KIND):
        raise ValueError("a registry leaf has a kind, a 32-byte map root and a body")
    return _HEADER.pack(VERSION, leaf.kind, leaf.time_ms, leaf.map_root) + leaf.body


def parse_registry_leaf(data: bytes) -> RegistryLeaf:
    """Read a leaf; raises ProtocolError(MALFORMED) when it is not one of the registry's."""
    if len(data) <= HEADER_BYTES or data[0] != VERSION or data[1] not in (KIND, LOG_KEY_KIND):
        raise ProtocolError(Reason.MALFORMED, "The log entry is not a registry leaf.", rule="REG-11")
    _, kind, time_ms, map_root = _HEADER.unpack_from(data)
    return RegistryLeaf(time_ms, map_root, data[HEADER_BYTES:], kind)
