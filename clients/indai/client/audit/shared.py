"""What the processes of one audit share, and how they send each other what they read.

Digests: what one of them has verified, no other verifies again. They stand in a table in shared memory, found
by a digest's own first bytes and written without locks. A place that is taken is written over, so the table
may forget, and then something is verified once more. It never says yes to what was not put in: half of one
digest beside half of another is no third one's.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.context import SpawnContext
from multiprocessing.reduction import ForkingPickler
from operator import attrgetter
from typing import Any, Final, Protocol

from indai.client.audit.facts import Decided, Erased, Happened, Held, Said, Successor
from indai.client.audit.matter import Asked
from indai.client.audit.report import Finding, Place
from indai.protocol.messages import Message

DIGEST: Final = 32
_USUALLY: Final = gc.get_threshold()
_COLLECT_AFTER: Final = 100_000  # objects
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


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Python looks for cycles less often meanwhile. What an audit keeps is much, grows, and has none: looking
    through it again and again takes a tenth of the time."""
    gc.set_threshold(_COLLECT_AFTER, *_USUALLY[1:])
    try:
        yield
    finally:
        gc.set_threshold(*_USUALLY)  # not what it was when this began: another audit may have begun before


def _by_fields(kind: type[Any]) -> Callable[[Any], tuple[type[Any], tuple[Any, ...]]]:
    fields = attrgetter(*kind.__slots__)
    return lambda one: (kind, fields(one))


# What there are thousands of is sent as a call with its fields: a third of the time that Python's own way of
# sending a frozen dataclass takes.
for _kind in (Asked, Decided, Erased, Finding, Happened, Held, Message, Place, Said, Successor):
    ForkingPickler.register(_kind, _by_fields(_kind))
