"""A leaf of the registry's log: `version 1 || kind 2 || u64 time_ms || map_root (32) || operation envelope`.

The leaf is public and holds the operation itself. `map_root` is the root of the sparse map *after* this
operation, so the newest leaf says, under the checkpoint's signature, what is the latest for every handle
there is.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from indai.protocol.errors import ProtocolError, Reason

VERSION = 1
KIND = 2
HEADER_BYTES = 42

_HEADER = struct.Struct(">BBQ32s")


@dataclass(frozen=True, slots=True)
class RegistryLeaf:
    """A parsed leaf; `operation` is the raw envelope, unverified."""

    time_ms: int
    map_root: bytes
    operation: bytes


def encode_registry_leaf(leaf: RegistryLeaf) -> bytes:
    """The bytes that are hashed into the log."""
    if len(leaf.map_root) != 32 or not leaf.operation:
        raise ValueError("a registry leaf has a 32-byte map root and an operation")
    return _HEADER.pack(VERSION, KIND, leaf.time_ms, leaf.map_root) + leaf.operation


def parse_registry_leaf(data: bytes) -> RegistryLeaf:
    """Read a leaf; raises ProtocolError(MALFORMED) when it is not one of the registry's."""
    if len(data) <= HEADER_BYTES or data[0] != VERSION or data[1] != KIND:
        raise ProtocolError(Reason.MALFORMED, "The log entry is not a registry leaf.", rule="REG-11")
    _, _, time_ms, map_root = _HEADER.unpack_from(data)
    return RegistryLeaf(time_ms, map_root, data[HEADER_BYTES:])
