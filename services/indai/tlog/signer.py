"""Signing a log's heads: never two roots for one size, never a history that drops what was signed.

The commit point of a signature is the head file (`indai.tlog.headfile`): before it is written nothing has
left this process, afterwards no other history can be signed. All of it happens under the lock of the log's
`tree` row, so a signer that was replaced is refused before it can touch the file.

A checkpoint says no time. Beside the log's signature stands a `cosignature/v1` line of the log's second key,
which does; it is renewed at each call, so an idle log stays fresh (C2SP tlog-checkpoint, tlog-cosignature).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
from indai.protocol.checkpoint import Checkpoint, open_checkpoint, sign_checkpoint
from indai.protocol.cosereceipt import CoseReceipt, sign_receipt
from indai.protocol.errors import IndaiError
from indai.protocol.keys import SigningKey
from indai.protocol.merkle import root_from, root_nodes
from indai.protocol.note import Signer, Verifier, add_signatures
from indai.storage.pool import transaction
from indai.tlog.frontier import Frontier
from indai.tlog.hasher import Hasher, hold, take_over_signing
from indai.tlog.headfile import HeadFile, rolled_back, signer_of
from indai.tlog.reader import read_tiles


@dataclass(frozen=True, slots=True)
class LogKeys:
    """What a log signs with: `key` as `origin` for its heads, `time_key` as `time_name` for their time."""

    origin: str
    key: SigningKey
    time_name: str
    time_key: SigningKey

    @property
    def verifier(self) -> Verifier:
        """What checks the log's checkpoints."""
        return Signer(self.origin, self.key).verifier

    @property
    def time_verifier(self) -> Verifier:
        """What checks the time of its heads."""
        return Signer(self.time_name, self.time_key, time=0).verifier


class LogSigner:
    """The one signer of a log; `open` makes it so.

    `directory` keeps the head file, `clock` gives ms since the epoch.
    """

    def __init__(
        self,
        pool: asyncpg.Pool,
        keys: LogKeys,
        directory: Path,
        clock: Callable[[], int],
        epoch: int,
        former: Sequence[Verifier] = (),
    ) -> None:
        self._pool = pool
        self._keys = keys
        self._clock = clock
        self._epoch = epoch
        self._directory = directory
        self._former = tuple(former)
        self._head = HeadFile(directory, keys.verifier, *former)
        self._hasher = Hasher(pool, keys.origin, epoch)
        self._written = b""  # the note in the head file, as far as this process has written it
        self._one_at_a_time = asyncio.Lock()  # the hasher's frontier is between two states while it works

    @property
    def head_file(self) -> Path:
        """The file outside the database with the last signed head."""
        return self._head.path

    @property
    def verifier(self) -> Verifier:
        """What checks the log's heads."""
        return self._keys.verifier

    @classmethod
    async def open(
        cls,
        pool: asyncpg.Pool,
        keys: LogKeys,
        directory: Path,
        clock: Callable[[], int],
        former: Sequence[Verifier] = (),
    ) -> LogSigner:
        """Replace the log's signer, catch up and publish. `former` are keys that the log had before,
        newest first.

        Raises IndaiError (LOG_ROLLED_BACK) when the database is not the one signed last.
        """
        signer = cls(pool, keys, directory, clock, await take_over_signing(pool, keys.origin), former)
        await signer.publish()
        return signer

    @property
    def former(self) -> tuple[Verifier, ...]:
        """What checks heads that were signed before the log had this key, newest first."""
        return self._former

    async def change(self, keys: LogKeys) -> None:
        """As `change_key`, after the signature that is under way."""
        async with self._one_at_a_time:
            self.change_key(keys)

    def change_key(self, keys: LogKeys) -> None:
        """Sign with another key of the same log from now on."""
        self._former = (self._keys.verifier, *self._former)
        self._keys = keys
        self._head = HeadFile(self._directory, keys.verifier, *self._former)

    async def publish(self) -> bytes:
        """Sign the head of everything committed so far, with the time of now; returns the note.

        Cheap when nothing is new. Raises Refused (LOG_FENCED) when another signer took over, IndaiError
        (LOG_ROLLED_BACK) when the database is not the one signed last, Unavailable when database or disk
        fail.
        """
        async with self._one_at_a_time:
            frontier = await self._hasher.advance()
            async with transaction(self._pool) as connection:
                await hold(connection, self._keys.origin, self._epoch)
                note = await self._sign(connection, frontier)
                return await self._publish(connection, frontier.size, note)

    def cose_receipt(self, index: int, hashes: Sequence[bytes], note: bytes) -> CoseReceipt:
        """A COSE receipt of leaf `index` under the head in `note`, which must be one of this log's own, by
        its key or a former one: no root is signed that was not signed as a checkpoint before. Raises
        ProtocolError for another note.
        """
        head, _ = open_checkpoint(note, signer_of(note, (self._keys.verifier, *self._former)))
        return sign_receipt(head.origin, self._keys.key, head.size, head.root, index, tuple(hashes))

    async def _sign(self, connection: asyncpg.Connection, frontier: Frontier) -> bytes:
        checkpoint = Checkpoint(self._keys.origin, frontier.size, frontier.root())
        last = await asyncio.to_thread(self._head.read)
        await self._check_extends(connection, last, checkpoint)
        # Ed25519 is deterministic: a head that is signed again is the same note.
        note = sign_checkpoint(checkpoint, [Signer(self._keys.origin, self._keys.key)])
        # Under a new key the same head is written again: then older keys alone start nothing any more.
        if checkpoint != last or note != self._written:
            await asyncio.to_thread(self._head.write, note)
            self._written = note
        await connection.execute(
            "INSERT INTO tlog.checkpoint (log, size, root, note, time) VALUES ($1, $2, $3, $4, $5)"
            " ON CONFLICT (log, size) DO NOTHING",
            self._keys.origin,
            checkpoint.size,
            checkpoint.root,
            note,
            self._now(),
        )
        return note

    async def _publish(self, connection: asyncpg.Connection, size: int, note: bytes) -> bytes:
        now = self._now()
        cosigner = Signer(self._keys.time_name, self._keys.time_key, time=int(now.timestamp()))
        fresh = add_signatures(note, [cosigner])
        await connection.execute(
            "INSERT INTO tlog.published (log, size, note, time) VALUES ($1, $2, $3, $4)"
            " ON CONFLICT (log) DO UPDATE SET size = $2, note = $3, time = $4",
            self._keys.origin,
            size,
            fresh,
            now,
        )
        return fresh

    async def _check_extends(
        self, connection: asyncpg.Connection, last: Checkpoint | None, new: Checkpoint
    ) -> None:
        if last is None:
            if await connection.fetchval(
                "SELECT true FROM tlog.checkpoint WHERE log = $1 LIMIT 1", new.origin
            ):
                raise self._refuse("its heads were signed before, and the file that keeps the last is gone")
        elif last.size > new.size:
            raise self._refuse(f"{last.size} leaves were signed and the database has {new.size}")
        elif last.root != (new.root if last.size == new.size else await _root(connection, last)):
            raise self._refuse(f"the database has another history of the {last.size} leaves signed")

    def _refuse(self, why: str) -> IndaiError:
        return rolled_back(self._keys.origin, why, self._head.path)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock() / 1000, UTC)


async def _root(connection: asyncpg.Connection, head: Checkpoint) -> bytes:
    """The root that the database has for the size of `head`."""
    return root_from(await read_tiles(connection, head.origin, root_nodes(head.size)), head.size)
