"""Digests that several processes share: what one of them has verified, no other verifies again.

A table in shared memory, found by the digest's own first bytes and written without locks. A place that is
taken is written over, so it may forget, and then something is verified once more. It never says yes to what
was not put in: half of one digest beside half of another is no third one's.
"""

from __future__ import annotations

from multiprocessing.context import SpawnContext
from typing import Final, Protocol

DIGEST: Final = 32
_NOTHING: Final = bytes(DIGEST)
_MAX_PLACES: Final = 1 << 22  # 128 MiB
_BYTES_A_PLACE: Final = 256  # of exports: there are more places than signatures


class Digests(Protocol):
    """What a set of digests does, as far as it is needed here."""

    def __contains__(self, digest: object, /) -> bool: ...

    def add(self, digest: bytes, /) -> None:
        """Put a digest of 32 bytes in."""


class SharedDigests:
    """The table, for processes that `context` spawns; it is handed to them when they start, and only then.

    `size`: bytes of the exports to be read, which say how many places it has.
    """

    def __init__(self, context: SpawnContext, size: int) -> None:
        places = 1 << max(10, (size // _BYTES_A_PLACE).bit_length())
        self._places = min(places, _MAX_PLACES)
        self._memory = context.RawArray("c", self._places * DIGEST)

    def __contains__(self, digest: object) -> bool:
        # A place where nothing was put holds zeros.
        return isinstance(digest, bytes) and self._memory[self._at(digest)] == digest != _NOTHING

    def add(self, digest: bytes) -> None:
        """Put a digest in, and whichever was in its place out."""
        self._memory[self._at(digest)] = digest

    def _at(self, digest: bytes) -> slice:
        start = int.from_bytes(digest[:8], "big") % self._places * DIGEST
        return slice(start, start + DIGEST)
