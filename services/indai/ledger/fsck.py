"""Checking a ledger where it lives: tables, signed heads and the head file, against each other.

It shares the formats (`indai.protocol`) and the seal of contents with what writes a ledger, and no code that
appends, hashes or signs: it reads the tables itself, builds the tree again from the leaves, and compares. It
takes no locks. What is checked was there when it began; rows of a log never change, so what is added
meanwhile disturbs nothing.

A finding names the row: `tlog.leaf 17`, `tlog.tile level 0 index 3`, `ledger.contents 5`, or the file.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
from indai.ledger.vault import Sealed, Vault, entry_name
from indai.protocol.checkpoint import Checkpoint, open_checkpoint
from indai.protocol.errors import IndaiError
from indai.protocol.leaf import LedgerLeaf
from indai.protocol.merkle import HASH_SIZE, CompactRange, leaf_hash
from indai.protocol.note import Verifier, parse_note
from indai.protocol.tiles import TILE_HEIGHT, TILE_WIDTH
from indai.storage.pool import transaction

MAX_FINDINGS = 200
_PAGE = 2048

_LEAVES = """
    SELECT l.idx, l.leaf, tlog.epoch_ms(l.time) AS time_ms, c.owner, c.mid, c.kind, c.content, k.key,
      e.idx IS NOT NULL AS erased
    FROM tlog.leaf AS l
    LEFT JOIN ledger.contents AS c ON c.log = l.log AND c.idx = l.idx
    LEFT JOIN ledger.content_keys AS k ON k.log = l.log AND k.idx = l.idx
    LEFT JOIN ledger.erasures AS e ON e.log = l.log AND e.idx = l.idx
    WHERE l.log = $1 AND l.idx >= $2 AND l.idx < $3 ORDER BY l.idx
"""
_ENTRIES = "SELECT idx, owner, mid, kind FROM tlog.entry WHERE log = $1 AND idx < $2 ORDER BY idx"
_HEADS = "SELECT size, root, note FROM tlog.checkpoint WHERE log = $1 AND size <= $2 ORDER BY size"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that does not fit: the row or file, and one sentence."""

    place: str
    message: str


@dataclass(slots=True)
class Checked:
    """How much was looked at, and what was found (the first 200)."""

    leaves: int = 0
    opened: int = 0
    erased: int = 0
    tiles: int = 0
    heads: int = 0
    findings: list[Finding] = field(default_factory=list)

    def add(self, place: str, message: str) -> None:
        """One finding."""
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(place, message))


@dataclass(frozen=True, slots=True)
class Subject:
    """The ledger to check: its verifier, what opens its contents, the file with its last signed head, and the
    keys that it had before, newest first.
    """

    verifier: Verifier
    vault: Vault
    head_file: Path
    former: tuple[Verifier, ...] = ()

    def opened(self, note: bytes) -> tuple[Checkpoint, int]:
        """A head by any of its keys, and which: 0 is the newest. Raises IndaiError."""
        keys = (self.verifier, *self.former)
        signed = {one.key_hash for one in parse_note(note)[1]}
        place = next((place for place, key in enumerate(keys) if key.key_hash in signed), 0)
        return open_checkpoint(note, keys[place])[0], place


async def check(
    pool: asyncpg.Pool,
    subject: Subject,
    owners: Sequence[str],
    progress: Callable[[int], None] = lambda leaves: None,
    renewed: Callable[[], Subject] | None = None,
) -> Checked:
    """Check everything. `owners` are all whose entries the ledger has; an entry of anybody else is a finding.

    `progress` is told the leaves done, now and then. `renewed` says the keys of a ledger that may change them
    meanwhile. Raises Unavailable when the database is out of reach.
    """
    run = _Run(pool, subject, owners, Checked(), renewed)
    await run.everything(progress)
    return run.checked


class _Run:
    def __init__(
        self,
        pool: asyncpg.Pool,
        subject: Subject,
        owners: Sequence[str],
        checked: Checked,
        renewed: Callable[[], Subject] | None,
    ) -> None:
        self._renewed = renewed
        self._pool, self._subject, self._owners, self.checked = pool, subject, owners, checked
        self._log = subject.verifier.name
        self._tree = CompactRange()
        self._growing: dict[tuple[int, int], list[bytes]] = {}
        self._file_head: Checkpoint | None = None
        self._roots_agree = True
        self._published: bytes | None = None
        self._oldest = len(subject.former)  # of the keys, which may still sign
        self._wrong: set[tuple[int, int]] = set()

    async def everything(self, progress: Callable[[int], None]) -> None:
        # The file and the newest head first, then what is hashed, then what there is: whatever is added
        # meanwhile is beyond what was read before it. The keys last: each head that was read is by one.
        head_file = await asyncio.to_thread(self._read_head_file)
        async with transaction(self._pool, self._owners) as connection:
            await connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL enable_seqscan = off")
            self._published = await connection.fetchval(
                "SELECT note FROM tlog.published WHERE log = $1", self._log
            )
            hashed = await connection.fetchval("SELECT size FROM tlog.tree WHERE log = $1", self._log) or 0
            size = await connection.fetchval("SELECT size FROM tlog.head WHERE log = $1", self._log) or 0
            self._begin(head_file)
            entries = aiter(connection.cursor(_ENTRIES, self._log, size, prefetch=_PAGE))
            heads = aiter(connection.cursor(_HEADS, self._log, hashed, prefetch=_PAGE))
            await self._leaves(connection, size, hashed, entries, heads, progress)
            await self._rest(connection, size, hashed)

    def _read_head_file(self) -> bytes | OSError:
        try:
            return self._subject.head_file.read_bytes()
        except OSError as error:
            return error

    def _begin(self, head_file: bytes | OSError) -> None:
        if self._renewed is not None:
            self._subject = self._renewed()
        self._oldest = len(self._subject.former)
        path = str(self._subject.head_file)
        if isinstance(head_file, OSError):
            message = f"The file of the last signed head cannot be read: {head_file.strerror}."
            self.checked.add(path, message)
            return
        try:
            self._file_head, _ = self._subject.opened(head_file)
        except IndaiError as error:
            self.checked.add(path, f"The file does not hold a head signed by this log: {error.message}")

    async def _leaves(
        self,
        connection: asyncpg.Connection,
        size: int,
        hashed: int,
        entries: AsyncIterator[asyncpg.Record],
        heads: AsyncIterator[asyncpg.Record],
        progress: Callable[[int], None],
    ) -> None:
        entry, head = await anext(entries, None), await anext(heads, None)
        head = await self._heads(head, heads)
        for start in range(0, size, _PAGE):
            end = min(start + _PAGE, size)
            rows = {row["idx"]: row for row in await connection.fetch(_LEAVES, self._log, start, end)}
            for index in range(start, end):
                entry = await self._leaf(index, rows.get(index), entry, entries)
                if index < hashed and index in rows:
                    await self._grow(connection, rows[index]["leaf"])
                    head = await self._heads(head, heads)
            progress(end)
            await asyncio.sleep(0)

    async def _leaf(
        self,
        index: int,
        row: asyncpg.Record | None,
        entry: asyncpg.Record | None,
        entries: AsyncIterator[asyncpg.Record],
    ) -> asyncpg.Record | None:
        """One leaf with everything that names its index; returns the next entry."""
        place, named = f"tlog.leaf {index}", []
        while entry is not None and entry["idx"] <= index:
            named.append(entry)
            entry = await anext(entries, None)
        if len(named) != 1:
            self.checked.add("tlog.entry", f"{len(named)} entries name leaf {index}, and one should.")
        if row is None:
            self.checked.add(place, "The row is missing.")
            return entry
        self.checked.leaves += 1
        try:
            leaf = LedgerLeaf.parse(row["leaf"])
        except IndaiError as error:
            self.checked.add(place, error.message)
            return entry
        if leaf.time_ms != row["time_ms"]:
            self.checked.add(place, "The row's time is not the one in the leaf.")
        self._content(index, leaf, row, named)
        return entry

    def _content(
        self, index: int, leaf: LedgerLeaf, row: asyncpg.Record, named: list[asyncpg.Record]
    ) -> None:
        place = f"ledger.contents {index}"
        if row["erased"]:
            self.checked.erased += 1
            if row["owner"] is not None or row["key"] is not None:
                self.checked.add(place, "The content was erased, and something of it is still there.")
            return
        if row["owner"] is None or row["key"] is None:
            what = "content" if row["owner"] is None else "key of the content"
            self.checked.add(place, f"The {what} is missing, and was not erased.")
            return
        said = (row["owner"], row["mid"], row["kind"])
        if said[2] != leaf.kind or any(said != (one["owner"], one["mid"], one["kind"]) for one in named):
            self.checked.add(place, "Owner, message or kind are not those of the leaf and its entry.")
        try:
            sealed = Sealed(row["content"], row["key"])
            envelope, opening = self._subject.vault.open(entry_name(*said), sealed)
        except IndaiError as error:
            self.checked.add(place, error.message)
            return
        if leaf.opens(opening, envelope):
            self.checked.opened += 1
        else:
            self.checked.add(f"tlog.leaf {index}", "The content, which is intact, does not open this leaf.")

    async def _grow(self, connection: asyncpg.Connection, leaf: bytes) -> None:
        """Add a leaf to the tree; compare each tile that it fills."""
        for level, index, hashed in self._tree.append(leaf_hash(leaf)):
            if level % TILE_HEIGHT == 0:
                place = (level // TILE_HEIGHT, index // TILE_WIDTH)
                tile = self._growing.setdefault(place, [])
                tile.append(hashed)
                if len(tile) == TILE_WIDTH:
                    await self._tile(connection, place, self._growing.pop(place))

    async def _tile(
        self, connection: asyncpg.Connection, place: tuple[int, int], hashes: list[bytes]
    ) -> None:
        name = f"tlog.tile level {place[0]} index {place[1]}"
        stored = await connection.fetchval(
            "SELECT hashes FROM tlog.tile WHERE log = $1 AND level = $2 AND idx = $3", self._log, *place
        )
        self.checked.tiles += 1
        if stored is None:
            self.checked.add(name, "The row is missing.")
            return
        for position, hashed in enumerate(hashes):
            if stored[position * HASH_SIZE : (position + 1) * HASH_SIZE] == hashed:
                continue
            below = (place[0] - 1, place[1] * TILE_WIDTH + position)
            # What is wrong below is wrong above it: it is said once.
            if below not in self._wrong:
                what = f"leaf {place[1] * TILE_WIDTH + position}" if place[0] == 0 else "the tile below it"
                self.checked.add(name, f"Hash {position} is not that of {what}.")
            self._wrong.add(place)

    async def _heads(
        self, head: asyncpg.Record | None, heads: AsyncIterator[asyncpg.Record]
    ) -> asyncpg.Record | None:
        """Compare every signed head of the tree's size; returns the next."""
        while head is not None and head["size"] <= self._tree.size:
            self.checked.heads += 1
            place = f"tlog.checkpoint {head['size']}"
            self._root(place, Checkpoint(self._log, head["size"], head["root"]))
            try:
                signed, key = self._subject.opened(head["note"])
                if key > self._oldest:
                    self.checked.add(place, "It is signed with a key that the log had given up by then.")
                self._oldest = min(self._oldest, key)
                if (signed.size, signed.root) != (head["size"], head["root"]):
                    self.checked.add(place, "The row is not what its signed note says.")
            except IndaiError as error:
                self.checked.add(place, error.message)
            head = await anext(heads, None)
        if self._file_head is not None and self._file_head.size == self._tree.size:
            self._root(str(self._subject.head_file), self._file_head)
            self._file_head = None
        return head

    def _root(self, place: str, head: Checkpoint) -> None:
        if head.size == self._tree.size and head.root == self._tree.root():
            return
        # From the first leaf that is wrong on, every root is: it is said once.
        if self._roots_agree:
            self.checked.add(place, f"The first {head.size} leaves do not make the root that was signed.")
        self._roots_agree = False

    async def _rest(self, connection: asyncpg.Connection, size: int, hashed: int) -> None:
        """What can be told only at the end: unfinished tiles, the newest head, rows that nobody expects."""
        for place, hashes in self._growing.items():
            await self._tile(connection, place, hashes)
        if hashed > size:
            self.checked.add("tlog.tree", f"{hashed} leaves are hashed, and the log has {size}.")
        if self._file_head is not None:
            message = f"A head of {self._file_head.size} leaves was signed, and {self._tree.size} are hashed."
            self.checked.add(str(self._subject.head_file), message)
        try:
            if self._published is not None:
                self._subject.opened(self._published)
        except IndaiError as error:
            self.checked.add("tlog.published", error.message)
        await self._strangers(connection, size)

    async def _strangers(self, connection: asyncpg.Connection, size: int) -> None:
        """Contents, keys and erasures without a leaf."""
        for table in ("contents", "content_keys", "erasures"):
            query = (
                f"SELECT idx FROM ledger.{table} AS t WHERE log = $1 AND idx < $2 AND NOT EXISTS"  # noqa: S608
                " (SELECT FROM tlog.leaf AS l WHERE l.log = t.log AND l.idx = t.idx) LIMIT 20"
            )
            for row in await connection.fetch(query, self._log, size):
                self.checked.add(f"ledger.{table} {row['idx']}", "There is no such leaf.")
