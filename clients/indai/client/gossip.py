"""Heads that peers name in their messages, compared with our own: how a log that shows two views is found.

A peer's word is hearsay. When it differs from what we have verified, the peer is asked for the note that the
log signed; only that note, against one of ours, is evidence (`indai.client.fraud`). A peer that invents a
head has no such note, so it can neither frame the registry nor make us believe anything.

One claim is looked into at a time, and the registry is asked at most once in 5 s: a claim is cheap, and
peers repeat themselves. Of each peer the newest claim waits. What waits and what was found to agree is in a
small file, so that a restart forgets no claim; it is hearsay like what it was made of.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from indai.client.fraud import Evidence
from indai.client.network import Head
from indai.client.resolver import Resolver
from indai.client.statefile import replace_file
from indai.client.tasks import end_tasks
from indai.protocol.checkpoint import Checkpoint
from indai.protocol.errors import IndaiError, ProtocolError
from indai.protocol.merkle import verify_consistency

REFRESH_S = 5.0
MAX_WAITING = 256
MAX_AGREED = 1_024

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Heard:
    """A verified message of `peer` (a handle) says that it has seen the registry's head so."""

    peer: str
    size: int
    root: bytes


Ask = Callable[[str, int], Awaitable[bytes]]
"""The signed note of a head of that size from a peer's node; raises IndaiError."""
Found = Callable[[Evidence, Path], Awaitable[None]]


class Gossip:
    """Looks into what is heard. `found` is told of evidence, once it is written into `directory`."""

    def __init__(
        self,
        resolver: Resolver,
        ask: Ask,
        directory: Path,
        found: Found,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._resolver = resolver
        self._ask = ask
        self._directory = directory
        self._found = found
        self._pause = pause
        self._waiting: OrderedDict[str, Heard] = OrderedDict()
        self._agreed: OrderedDict[tuple[int, bytes], None] = OrderedDict()
        self._filled = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._memory = directory / "gossip.json"

    def start(self) -> None:
        """Begin to look into what is heard, and what was heard before the last end."""
        self._remember()
        self._worker = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop; what waits is kept for the next start."""
        if self._worker is not None:
            await end_tasks(self._worker)
            with suppress(IndaiError):  # a full disk: it will be said again
                await asyncio.to_thread(self._keep)

    def hear(self, heard: Heard) -> None:
        """One claim; returns at once, and nothing waits for it."""
        known = self._resolver.head_at(heard.size)
        agrees = known is not None and known.root == heard.root
        if agrees or (heard.size, heard.root) in self._agreed or heard == self._waiting.get(heard.peer):
            return
        if heard.peer in self._waiting or len(self._waiting) < MAX_WAITING:
            self._waiting[heard.peer] = heard
            self._filled.set()

    async def look_into(self, heard: Heard) -> Evidence | None:
        """Settle one claim: None when it agrees with our log, or has nothing to show for itself.

        Raises IndaiError when registry or peer can't be asked, and ProtocolError for a note that the log did
        not sign.
        """
        ours, proof = await self._ours(heard.size)
        if ours.size >= heard.size and _fits(heard.size, heard.root, ours, proof):
            self._agree(heard)
            return None
        note = await self._ask(heard.peer, heard.size)
        theirs, log = self._resolver.open_head(note)
        if theirs.size > ours.size:
            return None  # the registry has not shown us that much yet; the peer will name it again
        ours, proof = await self._ours(theirs.size)
        if _fits(theirs.size, theirs.root, ours, proof):
            return None
        # Evidence is of one key: for one that the log had before, our word is its last head.
        last, proof = await self._resolver.last_under(log, theirs.size) or (ours.note, proof)
        return Evidence.of(log, note, last, proof)

    async def _ours(self, size: int) -> tuple[Head, list[bytes]]:
        known = self._resolver.head_at(size)
        return (known, []) if known is not None else await self._resolver.proof_from(size)

    async def _run(self) -> None:
        while True:
            await self._filled.wait()
            peer, heard = next(iter(self._waiting.items()))
            try:
                evidence = await self.look_into(heard)
                if evidence is not None:
                    path = await asyncio.to_thread(evidence.write, self._directory)
                    _log.error("the registry's log contradicts itself: %s", path)
                    await self._found(evidence, path)
            except ProtocolError as error:
                _log.warning("%s names a registry head that is none: %s", heard.peer, error)
            except IndaiError as error:
                _log.info("the registry head that %s names was not looked into: %s", heard.peer, error)
            if self._waiting.get(peer) == heard:  # else a newer claim of this peer waits
                del self._waiting[peer]
            else:
                self._waiting.move_to_end(peer)
            if not self._waiting:
                self._filled.clear()
            await self._pause(REFRESH_S)

    def _keep(self) -> None:
        waiting = [[one.peer, one.size, one.root.hex()] for one in self._waiting.values()]
        agreed = [[size, root.hex()] for size, root in self._agreed]
        replace_file(self._memory, json.dumps({"waiting": waiting, "agreed": agreed}).encode())

    def _remember(self) -> None:
        """What the file has; one that is damaged has nothing, and the peers will say it again."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            document = json.loads(self._memory.read_bytes())
            agreed = [(int(size), bytes.fromhex(root)) for size, root in document["agreed"]]
            waiting = [
                Heard(str(peer), int(size), bytes.fromhex(root)) for peer, size, root in document["waiting"]
            ]
            self._agreed.update(dict.fromkeys(agreed[-MAX_AGREED:]))
            for heard in waiting:
                self.hear(heard)

    def _agree(self, heard: Heard) -> None:
        self._agreed[heard.size, heard.root] = None
        if len(self._agreed) > MAX_AGREED:
            self._agreed.popitem(last=False)


def _fits(size: int, root: bytes, ours: Head, proof: list[bytes]) -> bool:
    """Whether the first `size` leaves of our log have this root, as the registry's proof shows."""
    head: Checkpoint = ours.checkpoint
    try:
        verify_consistency(size, root, head.size, head.root, proof)
    except ProtocolError:
        return False
    return True
