"""The succession of the log's keys: announced in a leaf, and in force once the quorum has cosigned it.

A key is made by the operator (`indai registry rotate-log-key`) and announced by the running registry, which
goes on with the key so far until the head that covers the announcement is cosigned. That head is the last
one of the key so far; it is stored before it is shown, so a registry that is killed in between takes the next
such head, and no client has seen the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import asyncpg
from indai.protocol.checkpoint import read_checkpoint
from indai.protocol.errors import IndaiError, Reason
from indai.protocol.keys import SigningKey
from indai.protocol.logkeys import announce
from indai.protocol.note import Verifier
from indai.protocol.registryleaf import LOG_KEY_KIND, RegistryLeaf, encode_registry_leaf
from indai.storage.pool import transaction
from indai.tlog.append import Entry
from indai.tlog.signer import LogKeys

LaterKeys = Callable[[], Sequence[SigningKey]]
"""The keys that the operator wants after the first, in their order; read again now and then."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """A next key to append: an item of the registry's group commit, beside operations."""

    owner: str
    body: bytes
    vkey: str

    @property
    def mid(self) -> bytes:
        """What names it in the log."""
        return hashlib.sha256(self.body).digest()

    def entry(self, time_ms: int, map_root: bytes) -> Entry:
        """The log's entry."""
        leaf = encode_registry_leaf(RegistryLeaf(time_ms, map_root, self.body, LOG_KEY_KIND))
        return Entry(self.owner, self.mid, LOG_KEY_KIND, leaf, time_ms)


@dataclass(frozen=True, slots=True)
class Announced:
    """A key in the log; `note` is empty until it is in force."""

    index: int
    vkey: str
    note: bytes

    @property
    def last_size(self) -> int:
        """The size of the last head of the key before."""
        return read_checkpoint(self.note).size


class Succession:
    """The keys of one registry's log: which one signs, and what is to be announced next."""

    def __init__(self, pool: asyncpg.Pool, first: LogKeys, later: LaterKeys) -> None:
        self._pool = pool
        self._first = first
        self._later = later
        self._announced: tuple[Announced, ...] = ()

    async def load(self) -> LogKeys:
        """Read what is announced; the keys that sign now. Raises IndaiError(INTERNAL) for a missing key."""
        async with transaction(self._pool) as connection:
            rows = await connection.fetch(
                "SELECT idx, vkey, note FROM registry.log_key WHERE log = $1 ORDER BY idx",
                self._first.origin,
            )
        self._announced = tuple(Announced(idx, vkey, note or b"") for idx, vkey, note in rows)
        return self.current

    @property
    def in_force(self) -> tuple[Announced, ...]:
        """Those that have taken over, oldest first."""
        return tuple(one for one in self._announced if one.note)

    @property
    def current(self) -> LogKeys:
        """What signs now."""
        return self._keys(len(self.in_force))

    @property
    def former(self) -> tuple[Verifier, ...]:
        """The keys that signed before."""
        return tuple(self._keys(number).verifier for number in range(len(self.in_force)))

    @property
    def waiting(self) -> Announced | None:
        """The key that is announced and not in force."""
        last = self._announced[-1] if self._announced else None
        return last if last is not None and not last.note else None

    def wanted(self) -> Announcement | None:
        """What to announce now: the operator's next key, one at a time."""
        count = len(self._announced)
        if self.waiting is not None or len(self._later()) <= count:
            return None
        old, new = self._keys(count), self._keys(count + 1)
        body = announce(old.origin, old.key, new.key)
        return Announcement(old.origin, body, new.verifier.vkey)

    async def enter(self, note: bytes) -> bool:
        """A head under the quorum: whether the waiting key is in force by it, which is then stored."""
        waiting = self.waiting
        if waiting is None or read_checkpoint(note).size <= waiting.index:
            return False
        async with transaction(self._pool) as connection:
            await connection.execute(
                "UPDATE registry.log_key SET note = $3 WHERE log = $1 AND idx = $2 AND note IS NULL",
                self._first.origin,
                waiting.index,
                note,
            )
        self._announced = (*self._announced[:-1], replace(waiting, note=note))
        return True

    def _keys(self, number: int) -> LogKeys:
        """The keys of the log with its key `number`; 0 is the first."""
        if number == 0:
            return self._first
        later = self._later()
        keys = replace(self._first, key=later[number - 1]) if len(later) >= number else None
        known = self._announced[number - 1].vkey if number <= len(self._announced) else None
        if keys is None or known not in (None, keys.verifier.vkey):
            raise IndaiError(
                Reason.INTERNAL,
                f"The key with which {self._first.origin} signs now is not in this data directory.",
                hint="restore the directory `keys` with the sealed keys of the log",
            )
        return keys


async def keep(connection: asyncpg.Connection, log: str, index: int, announcement: Announcement) -> None:
    """Remember an announcement, in the transaction that appends it."""
    await connection.execute(
        "INSERT INTO registry.log_key (log, idx, vkey) VALUES ($1, $2, $3)", log, index, announcement.vkey
    )
