"""The registry: judges operations, commits them in groups, and answers look-ups with proofs.

One transaction writes a batch: the operations, the map's tiles and, last, the leaves; it stands or falls as
one, and that COMMIT is the commit point. Then the log's head is signed, and only then anybody is answered.
One process writes a log: another that takes it over fences this one, at the append and at the signature.

A head is shown when the quorum of the log's witnesses has cosigned it; nothing waits for them but what needs
that very head: look-ups go on with the one shown last.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import asyncpg
from indai.protocol.checkpoint import read_checkpoint
from indai.protocol.errors import IndaiError, Reason, Unavailable
from indai.protocol.handles import Handle
from indai.protocol.note import Verifier
from indai.protocol.registryleaf import KIND, RegistryLeaf, parse_registry_leaf
from indai.protocol.sparsemap import EMPTY, Proof, SparseMap, map_key
from indai.protocol.tlogpolicy import TlogPolicy
from indai.registry.logkeys import Announced, Announcement, LaterKeys, Succession, keep
from indai.registry.memory import Delta, Memory, TileMissing, prefixes
from indai.registry.records import Batch, Record, Submission, plan, read_submission
from indai.registry.store import Store
from indai.storage.pool import transaction
from indai.tlog.append import Entry, Writer, append, settle, take_over
from indai.tlog.cosigners import Cosigners
from indai.tlog.reader import LogReader
from indai.tlog.sequencer import GroupCommit
from indai.tlog.signer import LogKeys, LogSigner

REISSUE_MS = 10_000  # a head's time is whole seconds, and nobody may see one of over 15 s
RETRY_MS = 2_000  # after a head could not be signed again
MAX_WAITING = 1_024
MAX_LOOKALIKES = 3
MAX_PROVED = 20_000  # proofs in memory while the log stands still, about 1 kB each
ATTEMPTS = 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class View:
    """The last signed head, and what every look-up at it has in common."""

    note: bytes
    size: int
    time_ms: int
    map_root: bytes
    last_leaf: bytes
    last_leaf_proof: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Lookup:
    """A handle at a view: its operations there (None: not taken) and the map's proof of it."""

    view: View
    record: Record | None
    proof: Proof


class Registry:
    """One authority's registry; use `Registry.open`."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        authority: str,
        writer: Writer,
        signer: LogSigner,
        clock: Callable[[], int],
        succession: Succession,
    ) -> None:
        self.authority = authority
        self.origin = writer.log
        self.reader = LogReader(pool, writer.log)
        self._pool = pool
        self._writer = writer
        self._signer = signer
        self._clock = clock
        self._succession = succession
        self._store = Store(writer.log)
        self._memory = Memory()
        self._view: View | None = None
        self._proved: dict[str, tuple[Record | None, Proof]] = {}  # at the size of `_view`
        self._signing_rests_until = 0
        self._cosigners: Cosigners | None = None
        # One head is signed and cosigned at a time, and `_view` and `_memory` change together after it. Who
        # has a view to answer with never waits for this.
        self._publishing = asyncio.Lock()
        self._group = GroupCommit[Submission | Announcement, int](
            pool, self._write, self._look_up, max_waiting=MAX_WAITING
        )

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        pool: asyncpg.Pool,
        keys: LogKeys,
        directory: Path,
        clock: Callable[[], int],
        witnesses: TlogPolicy | None = None,
        later_keys: LaterKeys = tuple,
    ) -> AsyncIterator[Registry]:
        """Take over the log `<authority>/registry` and serve it until the block ends.

        `directory` keeps the last signed head outside the database; `clock` gives ms since the epoch;
        `witnesses` names those who must cosign a head before it is shown, with their URLs and quorum;
        `later_keys` are those that the log has, or shall announce, after the one in `keys`. Raises
        IndaiError: LOG_ROLLED_BACK for a database older than that head, INTERNAL when map and log disagree.
        """
        writer = await take_over(pool, keys.origin)
        succession = Succession(pool, keys, later_keys)
        now = await succession.load()
        signer = await LogSigner.open(pool, now, directory, clock, former=succession.former)
        authority = str(Handle.parse(keys.origin.removesuffix("/registry")))
        registry = cls(pool, authority, writer, signer, clock, succession)
        async with AsyncExitStack() as stack:
            if witnesses is not None:
                cosigners = Cosigners(witnesses, now.verifier, registry.reader.consistency_proof)
                registry._cosigners = await stack.enter_async_context(cosigners)
            await registry._check_map(await registry._first_view())
            renewal = asyncio.create_task(registry._renew())
            try:
                async with registry._group:
                    await registry.announce_next()
                    yield registry
            finally:
                renewal.cancel()
                with suppress(asyncio.CancelledError):
                    await renewal

    async def submit(self, raw: bytes) -> tuple[str, int]:
        """Append an operation (a serialised Envelope); its handle and log index, under a signed head.

        Raises as `read` and `commit`.
        """
        submission = self.read(raw)
        return submission.owner, await self.commit(submission)

    def read(self, raw: bytes, *, branded: bool = False) -> Submission:
        """Read an operation that is for this registry; `branded` if domains may be handles here.

        Raises InvalidInput, ProtocolError or Refused.
        """
        return read_submission(
            raw, origin=self.origin, authority=self.authority, now_ms=self._clock(), branded=branded
        )

    async def commit(self, submission: Submission) -> int:
        """Append an operation; its log index, under a signed head.

        An operation that is in the log already gets its index again. Raises InvalidInput, ProtocolError or
        Refused for one that does not follow, NotFound, Refused(HANDLE_TAKEN), Unavailable.
        """
        index = await self._group.submit(submission)
        while self._view is None or self._view.size <= index:
            await self.publish(above=index)
        return index

    async def lookalikes(self, handle: Handle) -> list[str]:
        """A few handles whose names look like this one's."""
        async with transaction(self._pool) as connection:
            return await self._store.lookalikes(connection, handle, MAX_LOOKALIKES)

    async def search(
        self, intent: str, language: str, after: str, limit: int
    ) -> list[tuple[str, list[str], list[str]]]:
        """(handle, intents, languages) of those who asked to be listed and have both."""
        async with transaction(self._pool) as connection:
            return await self._store.search(connection, intent, language, after, limit)

    async def look_up(self, handle: str) -> Lookup:
        """The handle at a head that is not older than 15 s, unless the log cannot be signed now."""
        await self.view()
        key = map_key(handle)
        for _ in range(ATTEMPTS):
            view = self._current()
            if handle in self._proved:
                return Lookup(view, *self._proved[handle])
            record = await self._published_record(handle, view)
            tree = SparseMap(self._memory.published_tile)
            try:
                proof, root = tree.prove(key), tree.root()
            except TileMissing as missing:
                await self._read_tiles(prefixes(key, missing.path))
                continue
            # A head may have been signed while the record was read: then map and view are of different sizes.
            if root == view.map_root and self._current().size == view.size:
                if len(self._proved) >= MAX_PROVED:
                    self._proved.clear()
                self._proved[handle] = (record, proof)
                return Lookup(self._current(), record, proof)
            await self.publish(older_than=view)
        raise Unavailable(Reason.STALE_HEAD, "The registry is too busy to answer.", hint="try again")

    async def earlier(self, lookup: Lookup) -> list[tuple[bytes, int]]:
        """The operations of the subjects before the one that was looked up, each with its leaf's time."""
        record = lookup.record
        first = record.place - len(record.raws) if record else 0
        if record is None or first == 0:
            return []
        async with transaction(self._pool) as connection:
            return await self._store.earlier(connection, record.chain.handle, first)

    async def view(self) -> View:
        """The last signed head; signs again when it is old, and answers the old one when that fails."""
        view = self._current()
        now = self._clock()
        if now - view.time_ms < REISSUE_MS or now < self._signing_rests_until or self._publishing.locked():
            return view
        try:
            return await self.publish(older_than=view)
        except IndaiError as error:
            # What is in memory can be answered without the database: not everyone shall wait for it in vain.
            self._signing_rests_until = self._clock() + RETRY_MS
            _log.warning("the registry's head cannot be signed again: %s", error)
            return view

    async def publish(self, *, above: int = -1, older_than: View | None = None) -> View:
        """Show the head of all that is committed, unless one above that index, or a newer one, is there.

        Raises Unavailable (STALE_HEAD) when the witnesses do not reach their quorum.
        """
        async with self._publishing:
            view = self._view
            if view is not None and (view.size > above >= 0 or (older_than and view is not older_than)):
                return view
            note = await self._sign()
            if await self._succession.enter(note):
                keys = self._succession.current
                self._signer.change_key(keys)
                if self._cosigners is not None:
                    self._cosigners.change_log(keys.verifier)
                _log.warning("the log %s signs with its next key now: %s", self.origin, keys.verifier.vkey)
                note = await self._sign()
            return await self._show(note, self._clock())

    @property
    def log_keys(self) -> Sequence[Announced]:
        """The keys that the log has had after its first one, as far as a head of them was shown."""
        return self._succession.in_force

    @property
    def verifier(self) -> Verifier:
        """The key that signs the log's heads now."""
        return self._signer.verifier

    async def announce_next(self) -> None:
        """Announce the key that the operator has made for the log, if there is a new one."""
        wanted = self._succession.wanted()
        if wanted is not None:
            index = await self._group.submit(wanted)
            await self._succession.load()
            _log.warning("the log %s has announced its next key, in leaf %d", self.origin, index)

    async def _sign(self) -> bytes:
        """The head of all that is committed, under the quorum."""
        note = await self._signer.publish()
        return note if self._cosigners is None else await self._cosigners.cosign(note)

    async def _first_view(self) -> View:
        """What to begin with: when the witnesses are out of reach, a head that their clients don't believe
        yet; it is tried again soon."""
        try:
            return await self.publish()
        except Unavailable as error:
            if self._cosigners is None:
                raise
            _log.warning("the registry starts without its witnesses: %s", error)
            return await self._show(await self.reader.checkpoint(), 0)

    async def _show(self, note: bytes, time_ms: int) -> View:
        """Make this head the one that everything is answered for."""
        view, size = self._view, read_checkpoint(note).size
        if view is not None and view.size == size:
            root, leaf, proof = view.map_root, view.last_leaf, view.last_leaf_proof
        else:
            root, leaf, proof = await self._last_leaf(size)
        # No await between these: a look-up sees all or none.
        if view is None or view.size != size:
            self._proved.clear()
        self._memory.publish(size)
        self._view = View(note, size, time_ms, root, leaf, proof)
        return self._view

    async def _renew(self) -> None:
        """Sign the head again every few seconds until cancelled, so that a log at rest stays fresh."""
        while True:
            resting = self._signing_rests_until > self._clock()
            await asyncio.sleep((RETRY_MS if resting else REISSUE_MS) / 1000)
            try:
                await self.announce_next()
            except IndaiError as error:
                _log.error("the log's next key is not announced: %s", error)
            await self.view()

    def _current(self) -> View:
        if self._view is None:
            raise Unavailable(Reason.UNREACHABLE, "The registry has not started.", hint="try again")
        return self._view

    async def _last_leaf(self, size: int) -> tuple[bytes, bytes, tuple[bytes, ...]]:
        if size == 0:
            return EMPTY[0], b"", ()
        covered = [delta for delta in self._memory.deltas if delta.end == size]
        leaf = covered[0].last_leaf if covered else (await self.reader.entries(size - 1, 1))[0]
        proof = await self.reader.inclusion_proof(size - 1, size)
        return parse_registry_leaf(leaf).map_root, leaf, tuple(proof)

    async def _check_map(self, view: View) -> None:
        await self._read_tiles([""])
        if SparseMap(self._memory.published_tile).root() != view.map_root:
            raise IndaiError(
                Reason.INTERNAL,
                f"The map of {self.origin} is not the one its log has signed.",
                hint="Restore the database; the map is never repaired by itself.",
            )

    async def _write(
        self, connection: asyncpg.Connection, items: Sequence[Submission | Announcement]
    ) -> Sequence[int | IndaiError]:
        """One batch, in the transaction of `connection`: operations, then what is about the log itself."""
        submissions = [one for one in items if isinstance(one, Submission)]
        outcomes = iter(await self._write_operations(connection, submissions) if submissions else ())
        return [
            next(outcomes) if isinstance(one, Submission) else await self._write_announcement(connection, one)
            for one in items
        ]

    async def _write_announcement(self, connection: asyncpg.Connection, announcement: Announcement) -> int:
        size = await self._store.log_size(connection)
        self._memory.settle(size)
        last = await self._store.leaf(connection, size - 1) if size else b""
        before = parse_registry_leaf(last) if last else RegistryLeaf(0, EMPTY[0], b"")
        entry = announcement.entry(max(self._clock(), before.time_ms), before.map_root)
        await keep(connection, self.origin, size, announcement)
        self._memory.deltas.append(Delta(size, size + 1, {}, {}, entry.leaf))
        await append(connection, self._writer, [entry], expected_size=size)
        return size

    async def _write_operations(
        self, connection: asyncpg.Connection, submissions: Sequence[Submission]
    ) -> Sequence[int | IndaiError]:
        size = await self._store.log_size(connection)
        self._memory.settle(size)
        known = await self._store.indexes(connection, [one.envelope.mid for one in submissions])
        records = await self._newest_records(connection, submissions, size)
        batch, tree = await self._plan(connection, submissions, known, records, size)
        if batch.accepted:
            await self._store.write(connection, batch.accepted, tree.changed)
            await self._store.list_handles(connection, batch.records)
            leaf = batch.accepted[-1].leaf
            end = size + len(batch.accepted)
            # Kept before COMMIT: if that fails, the log's size tells the next batch, and `settle` drops it.
            self._memory.deltas.append(Delta(size, end, batch.records, tree.changed, leaf))
            entries = [_entry(one.submission, one.leaf) for one in batch.accepted]
            await append(connection, self._writer, entries, expected_size=size)
        return batch.outcomes

    async def _plan(
        self,
        connection: asyncpg.Connection,
        submissions: Sequence[Submission],
        known: dict[bytes, int],
        records: dict[str, Record],
        size: int,
    ) -> tuple[Batch, SparseMap]:
        wanted = {path for one in submissions for path in prefixes(map_key(str(one.handle)))}
        while True:
            await self._read_tiles(wanted, connection)
            tree = SparseMap(self._memory.newest_tile)
            try:
                return plan(submissions, known, records, tree, size=size, time_ms=self._clock()), tree
            except TileMissing as missing:
                keys = [map_key(str(one.handle)) for one in submissions]
                wanted = {
                    path
                    for key in keys
                    if key.hex().startswith(missing.path)
                    for path in prefixes(key, missing.path)
                }

    async def _newest_records(
        self, connection: asyncpg.Connection, submissions: Sequence[Submission], size: int
    ) -> dict[str, Record]:
        """Every handle of the batch, and its parent, that exists in the first `size` leaves."""
        names = {str(one.handle) for one in submissions}
        names |= {str(one.handle.parent) for one in submissions if one.handle.parent}
        found: dict[str, Record] = {}
        unknown = []
        for name in names:
            try:
                record = self._memory.newest_record(name)
            except KeyError:
                unknown.append(name)
            else:
                found |= {name: record} if record else {}
        return found | (await self._store.records(connection, unknown, size) if unknown else {})

    async def _look_up(
        self, connection: asyncpg.Connection, items: Sequence[Submission | Announcement]
    ) -> Sequence[int | None]:
        """What a commit without an answer did; waits for it if it is still under way."""
        entries = [
            _entry(one, b"") if isinstance(one, Submission) else one.entry(0, EMPTY[0]) for one in items
        ]
        found = await settle(connection, self.origin, entries)
        return [one.index if one else None for one in found]

    async def _published_record(self, handle: str, view: View) -> Record | None:
        memory = self._memory
        if handle in memory.records:
            return memory.records[handle]
        generation = memory.generation
        async with transaction(self._pool) as connection:
            record = (await self._store.records(connection, [handle], view.size)).get(handle)
        if memory.generation == generation:
            memory.records[handle] = record
        return record

    async def _read_tiles(
        self, paths: Sequence[str] | set[str], connection: asyncpg.Connection | None = None
    ) -> None:
        """Bring tiles into memory, and remember which there are none of."""
        memory = self._memory
        unknown = [path for path in paths if path not in memory.tiles]
        if not unknown:
            return
        generation = memory.generation
        if connection is None:
            async with transaction(self._pool) as own:
                found = await self._store.tiles(own, unknown)
        else:
            found = await self._store.tiles(connection, unknown)
        if memory.generation == generation:
            for path in unknown:
                memory.tiles.setdefault(path, found.get(path))


def _entry(submission: Submission, leaf: bytes) -> Entry:
    time_ms = parse_registry_leaf(leaf).time_ms if leaf else 0
    return Entry(submission.owner, submission.envelope.mid, KIND, leaf, time_ms)
