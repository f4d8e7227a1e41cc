"""Heads of ledgers, ours and our peers', which travel beside messages.

A head is hearsay until its own signature is checked against the key in its node's record; then it is kept
for good. Two heads of one ledger with one size and two roots are proof against its node, also where it has
changed its key between them: both notes are written to a file that proves it alone (`indai.client.fraud`). No
message waits for any of this.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import structlog
from indai.client.exports import ledger_node
from indai.client.fraud import Evidence
from indai.client.keytie import KeyTie
from indai.client.resolver import Resolver
from indai.client.statefile import replace_file
from indai.client.tasks import end_tasks
from indai.protocol.checkpoint import open_checkpoint, read_checkpoint
from indai.protocol.errors import IndaiError, ProtocolError
from indai.protocol.handlestate import NodeRecord
from indai.protocol.logkeys import read_announcement
from indai.protocol.note import parse_vkey
from indai.storage.pool import transaction
from indai.v1 import ledger_pb2

if TYPE_CHECKING:
    from indai.v1.ledger_pb2_grpc import LedgerServiceAsyncStub

MAX_NOTE = 16 * 1024
MAX_KNOWN = 4096  # ledgers whose last head is remembered, so that a repetition costs nothing
FRESH_S = 1.0

log = structlog.get_logger(__name__)


class PeerHeads:
    """Our ledger's newest head for others, and theirs for us. `folder` is where proofs of fraud go."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        ledger: LedgerServiceAsyncStub,
        first: ledger_pb2.GetCheckpointResponse,
        resolver: Resolver,
        folder: Path,
        clock: Callable[[], int],
    ) -> None:
        self._pool, self._ledger, self._resolver = pool, ledger, resolver
        self._folder, self._clock = folder, clock
        self._log, self._own = first.origin, first.checkpoint
        self._read_at = time.monotonic()
        self._known: OrderedDict[str, bytes] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._refreshing = False

    async def close(self) -> None:
        """Leave what is under way."""
        await end_tasks(*self._tasks)

    def newest(self) -> bytes:
        """Our head to send along. A stale one is renewed for the next time: nobody waits."""
        if not self._refreshing and time.monotonic() - self._read_at > FRESH_S:
            self._refreshing = True
            self._spawn(self._refresh())
        return self._own

    def hear(self, note: bytes) -> None:
        """A head that came along; it is looked into later."""
        if 0 < len(note) <= MAX_NOTE:
            self._spawn(self._take(note))

    async def _refresh(self) -> None:
        try:
            answer = await self._ledger.GetCheckpoint(ledger_pb2.GetCheckpointRequest())
            self._own = answer.checkpoint
        except IndaiError as error:
            log.warning("own head not renewed", reason=error.reason.name, error=error.message)
        finally:
            self._read_at, self._refreshing = time.monotonic(), False

    async def _take(self, note: bytes) -> None:
        try:
            origin = read_checkpoint(note).origin
            text = note.partition(b"\n\n")[0]
            if origin == self._log or self._known.get(origin) == text:
                return
            await self._keep(origin, note)
        except IndaiError as error:
            log.warning("head not taken", reason=error.reason.name, error=error.message)
            return
        self._known[origin] = text
        self._known.move_to_end(origin)
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)

    async def _keep(self, origin: str, note: bytes) -> None:
        record = (await self._resolver.resolve(ledger_node(origin))).chain.state.node_record
        if record is None or record.ledger_origin != origin:
            log.warning("head of a ledger that no node has", origin=origin)
            return
        head, _ = open_checkpoint(note, record.ledger_vkey)
        async with transaction(self._pool) as connection:
            await connection.execute(
                "INSERT INTO node.peer_heads (log, size, root, note, heard_ms) VALUES ($1, $2, $3, $4, $5)"
                " ON CONFLICT DO NOTHING",
                origin,
                head.size,
                head.root,
                note,
                self._clock(),
            )
            other = await connection.fetchval(
                "SELECT note FROM node.peer_heads WHERE log = $1 AND size = $2 AND root <> $3 LIMIT 1",
                origin,
                head.size,
                head.root,
            )
        if other is not None:
            proof = await self._prove(record, note, other)
            log.error("a peer's ledger has two histories", origin=origin, size=head.size, proof=proof)

    async def _prove(self, record: NodeRecord, note: bytes, other: bytes) -> str:
        """The file that proves it alone; none when the other head is by a key that did not announce this one.
        Both heads are in every export all the same, and an audit with the registry's mirror tells."""
        try:
            evidence = _evidence(record, note, other).encode()
        except ProtocolError:
            return ""
        name = f"split-view-{hashlib.sha256(evidence).hexdigest()[:16]}.jsonl"
        await asyncio.to_thread(replace_file, self._folder / name, evidence)
        return name

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _evidence(record: NodeRecord, note: bytes, other: bytes) -> Evidence:
    """Of two heads of a ledger: both by the key in its record, or one by the key that has announced it.
    Raises ProtocolError when it is neither."""
    now = parse_vkey(record.ledger_vkey)
    try:
        return Evidence.of(now, note, other)
    except ProtocolError:
        if not record.ledger_key_change:
            raise
    former, _ = read_announcement(record.ledger_key_change)
    return Evidence.of(former, note, other, tie=KeyTie(now, (record.ledger_key_change,)))
