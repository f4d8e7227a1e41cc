"""The registry's tables: chains of operations, and the tiles of the map; every statement is of one log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import asyncpg
from indai.protocol.handles import Handle
from indai.protocol.operations import Chain
from indai.protocol.sparsemap import Tile, decode_tile, encode_tile
from indai.registry.lookalikes import neighbours, skeleton
from indai.registry.records import Accepted, Record
from indai.storage.migrations import Schema

SCHEMA = Schema("registry", "indai.registry")


class Store:
    """The rows of one registry's log, on whichever connection is handed in."""

    def __init__(self, log: str) -> None:
        self._log = log

    async def log_size(self, connection: asyncpg.Connection) -> int:
        """How many leaves the log has, committed."""
        size = await connection.fetchval("SELECT size FROM tlog.head WHERE log = $1", self._log)
        return size or 0

    async def leaf(self, connection: asyncpg.Connection, index: int) -> bytes:
        """A committed leaf, or one of this transaction."""
        leaf: bytes = await connection.fetchval(
            "SELECT leaf FROM tlog.leaf WHERE log = $1 AND idx = $2", self._log, index
        )
        return leaf

    async def indexes(self, connection: asyncpg.Connection, mids: Sequence[bytes]) -> dict[bytes, int]:
        """The log indexes of those of the operations that are stored."""
        rows = await connection.fetch(
            "SELECT mid, idx FROM registry.operation WHERE log = $1 AND mid = ANY ($2::bytea[])",
            self._log,
            mids,
        )
        return {row["mid"]: row["idx"] for row in rows}

    async def records(
        self, connection: asyncpg.Connection, handles: Collection[str], below: int
    ) -> dict[str, Record]:
        """Those of `handles` that exist in the first `below` leaves, with their operations there."""
        rows = await connection.fetch(
            "SELECT handle, envelope, idx, time_ms FROM registry.operation"
            " WHERE log = $1 AND handle = ANY ($2::text[]) AND idx < $3 ORDER BY handle, place",
            self._log,
            list(handles),
            below,
        )
        grouped: dict[str, list[asyncpg.Record]] = {}
        for row in rows:
            grouped.setdefault(row["handle"], []).append(row)
        found = (
            (handle, Record.of_rows(*zip(*(row[1:] for row in map(tuple, group)), strict=True)))
            for handle, group in grouped.items()
        )
        return {handle: record for handle, record in found if record is not None}

    async def earlier(
        self, connection: asyncpg.Connection, handle: str, before: int
    ) -> list[tuple[bytes, int]]:
        """The operations of a handle before its place `before`, each with its leaf's time."""
        rows = await connection.fetch(
            "SELECT envelope, time_ms FROM registry.operation"
            " WHERE log = $1 AND handle = $2 AND place < $3 ORDER BY place",
            self._log,
            handle,
            before,
        )
        return [(row["envelope"], row["time_ms"]) for row in rows]

    async def tiles(self, connection: asyncpg.Connection, paths: Collection[str]) -> dict[str, Tile]:
        """Those of the map's tiles that are stored."""
        rows = await connection.fetch(
            "SELECT path, slots FROM registry.tile WHERE log = $1 AND path = ANY ($2::text[])",
            self._log,
            list(paths),
        )
        return {row["path"]: decode_tile(row["slots"]) for row in rows}

    async def lookalikes(self, connection: asyncpg.Connection, handle: Handle, limit: int) -> list[str]:
        """Handles whose names look like this one's."""
        rows = await connection.fetch(
            "SELECT handle FROM registry.name WHERE log = $1 AND skeleton = ANY ($2::text[]) AND handle <> $3"
            " ORDER BY handle LIMIT $4",
            self._log,
            neighbours(handle.name or handle.authority),
            str(handle),
            limit,
        )
        return [row["handle"] for row in rows]

    async def list_handles(self, connection: asyncpg.Connection, records: Mapping[str, Record]) -> None:
        """Bring the listing up to date with these records, in the caller's transaction."""
        shown, gone = list[tuple[str, Chain]](), list[str]()
        for handle, record in records.items():
            advertisement = record.chain.state.advertisement
            if advertisement is not None and advertisement.listed and not record.chain.ended_at_ms:
                shown.append((handle, record.chain))
            elif record.place > 1:
                gone.append(handle)
        if gone:
            await connection.execute(
                "DELETE FROM registry.listing WHERE log = $1 AND handle = ANY ($2::text[])", self._log, gone
            )
        for handle, chain in shown:
            advertisement = chain.state.advertisement
            await connection.execute(
                "INSERT INTO registry.listing (log, handle, intents, languages) VALUES ($1, $2, $3, $4)"
                " ON CONFLICT (log, handle) DO UPDATE SET intents = $3, languages = $4",
                self._log,
                handle,
                list(chain.state.intents),
                list(advertisement.languages) if advertisement else [],
            )

    async def search(
        self, connection: asyncpg.Connection, intent: str, language: str, after: str, limit: int
    ) -> list[tuple[str, list[str], list[str]]]:
        """(handle, intents, languages) of those listed that have both, in the order of their names."""
        rows = await connection.fetch(
            "SELECT handle, intents, languages FROM registry.listing WHERE log = $1"
            " AND intents @> $2::text[] AND languages @> $3::text[] AND handle > $4 ORDER BY handle LIMIT $5",
            self._log,
            [intent] if intent else [],
            [language] if language else [],
            after,
            limit,
        )
        return [(row["handle"], row["intents"], row["languages"]) for row in rows]

    async def write(
        self, connection: asyncpg.Connection, accepted: Sequence[Accepted], tiles: Mapping[str, Tile]
    ) -> None:
        """Add operations and put the tiles they changed; the caller's COMMIT makes both stand."""
        await connection.execute(
            "INSERT INTO registry.operation (log, handle, place, mid, idx, time_ms, envelope)"
            " SELECT $1, * FROM"
            " unnest($2::text[], $3::bigint[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bytea[])",
            self._log,
            [str(one.submission.handle) for one in accepted],
            [one.place for one in accepted],
            [one.submission.envelope.mid for one in accepted],
            [one.index for one in accepted],
            [one.time_ms for one in accepted],
            [one.submission.envelope.raw for one in accepted],
        )
        new = [
            one.submission.handle
            for one in accepted
            if one.place == 0 and one.submission.handle.parent is None
        ]
        if new:
            await connection.execute(
                "INSERT INTO registry.name (log, handle, skeleton)"
                " SELECT $1, * FROM unnest($2::text[], $3::text[])",
                self._log,
                [str(handle) for handle in new],
                [skeleton(handle.name or handle.authority) for handle in new],
            )
        await connection.execute(
            "INSERT INTO registry.tile (log, path, slots)"
            " SELECT $1, * FROM unnest($2::text[], $3::bytea[])"
            " ON CONFLICT (log, path) DO UPDATE SET slots = excluded.slots",
            self._log,
            list(tiles),
            [encode_tile(tile) for tile in tiles.values()],
        )
