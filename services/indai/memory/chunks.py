"""Chunks that are no turns: parts of documents, summaries, commitments. Put again, they are replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import asyncpg
from indai.memory.access import Scope
from indai.memory.interfaces import Kind, Trust
from indai.memory.times import at, new_uuid
from indai.memory.turns import TermColumns

SEARCHED_BY_TERM = ("growing", "large")


@dataclass(frozen=True, slots=True)
class NewChunk:
    """A chunk to put. `source_id` names it once in its scope and kind; `place` orders a document's parts."""

    source_id: str
    text: str
    said_ms: int
    origin: str
    trust: Trust
    place: int = 0
    session: str = ""
    speaker: str = ""
    person: str = ""
    importance: float = 0.5
    document: UUID | None = None
    id: UUID | None = None  # where it is kept from an export


_PUT = """
    INSERT INTO memory.chunks AS c (scope, tenant, kind, role, id, source_id, session, place, speaker,
        person, content,
        terms, counts, length, importance, origin, trust, said_at, document)
    SELECT $1, $2, $3, 'agent', t.id, t.source_id, t.session, t.place, t.speaker, t.person, t.content,
        string_to_array(t.terms, ' '), string_to_array(t.counts, ' ')::smallint[], t.length, t.importance,
        t.origin,
        t.trust, t.said_at, t.document
    FROM unnest($4::uuid[], $5::text[], $6::text[], $7::integer[], $8::text[], $9::text[], $10::text[],
        $11::text[],
        $12::text[], $13::integer[], $14::real[], $15::text[], $16::text[], $17::timestamptz[], $18::uuid[])
        AS t (id, source_id, session, place, speaker, person, content, terms, counts, length, importance,
        origin,
            trust, said_at, document)
    ON CONFLICT (scope, kind, source_id) DO UPDATE SET content = EXCLUDED.content, terms = EXCLUDED.terms,
        counts = EXCLUDED.counts, length = EXCLUDED.length, place = EXCLUDED.place, said_at = EXCLUDED.said_at
        WHERE c.content <> EXCLUDED.content OR c.place <> EXCLUDED.place
    RETURNING c.id, c.length, c.id = ANY ($4) AS added
"""
_STALE = """
    WITH gone AS (DELETE FROM memory.embeddings WHERE scope = $1 AND chunk = ANY ($2))
    DELETE FROM memory.postings WHERE scope = $1 AND chunk = ANY ($2)
"""
_COUNT = "SELECT memory.count_chunks($1, $2, $3, $4)"
_POST = "SELECT memory.post_terms($1, $2)"


async def put(
    connection: asyncpg.Connection, scope: Scope, kind: Kind, chunks: Sequence[NewChunk], columns: TermColumns
) -> list[UUID]:
    """Add chunks or replace what changed, in the caller's transaction; the ids of those. `columns`: their
    terms."""
    if not chunks:
        return []
    rows = await connection.fetch(
        _PUT,
        scope.id,
        scope.tenant,
        kind.value,
        [chunk.id or new_uuid(chunk.said_ms) for chunk in chunks],
        [chunk.source_id for chunk in chunks],
        [chunk.session for chunk in chunks],
        [chunk.place for chunk in chunks],
        [chunk.speaker for chunk in chunks],
        [chunk.person for chunk in chunks],
        [chunk.text for chunk in chunks],
        columns.terms,
        columns.counts,
        columns.lengths,
        [chunk.importance for chunk in chunks],
        [chunk.origin for chunk in chunks],
        [chunk.trust.value for chunk in chunks],
        [at(chunk.said_ms) for chunk in chunks],
        [chunk.document for chunk in chunks],
    )
    added = [row for row in rows if row["added"]]
    changed = [row["id"] for row in rows if not row["added"]]
    if changed:
        await connection.execute(_STALE, scope.id, changed)
    path = await connection.fetchval(
        _COUNT, scope.tenant, scope.id, len(added), sum(row["length"] for row in added)
    )
    if path in SEARCHED_BY_TERM:
        await connection.execute(_POST, scope.id, [row["id"] for row in rows])
    return [row["id"] for row in rows]


_SOURCES = "SELECT id FROM memory.chunks WHERE scope = $1 AND kind = $2 AND source_id = ANY ($3)"
_REMOVE = """
    WITH gone AS (DELETE FROM memory.chunks WHERE scope = $1 AND id = ANY ($2) RETURNING length)
    SELECT count(*) AS chunks, coalesce(sum(length), 0) AS length FROM gone
"""


async def remove(connection: asyncpg.Connection, scope: UUID, tenant: str, ids: Sequence[UUID]) -> int:
    """Delete chunks with all that hangs on them; how many there were."""
    gone = await connection.fetchrow(_REMOVE, scope, ids)
    if gone["chunks"]:
        await connection.execute(_COUNT, tenant, scope, -gone["chunks"], -gone["length"])
    return int(gone["chunks"])


async def remove_sources(
    connection: asyncpg.Connection, scope: Scope, kind: Kind, sources: Sequence[str]
) -> int:
    """Delete chunks by what names them at their source; how many there were."""
    rows = await connection.fetch(_SOURCES, scope.id, kind.value, sources)
    return await remove(connection, scope.id, scope.tenant, [row["id"] for row in rows])
