"""Memory as lines that any program can read: JSON objects, one a line, after a header line.

The first line is `{"format":"indai-memory","version":1,...}`. Each other line has a `type` (turn, fact,
relation,
name, opinion, document, commitment, summary) and a `scope` (`{"kind":...,"id":...}`); times are ms since the
epoch.
Vectors are left out: they follow from the texts. docs/memory-export.md describes every field.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from uuid import UUID

import asyncpg
from indai.memory import listing, requests
from indai.memory.access import Scope, Sight
from indai.memory.interfaces import Json
from indai.memory.session import reading
from indai.memory.times import ms

FORMAT = "indai-memory"
VERSION = 1
MAX_LINES = 1024 * 1024  # bytes of one import
_ROWS = 500

Object = dict[str, Json]
# In the order in which they were said, so that an import puts them into the same places.
_CHUNKS = """
    SELECT id, scope, kind, source_id, session, place, speaker, role, person, content, importance, origin,
        trust,
        said_at
    FROM memory.chunks
    WHERE scope = ANY ($1) AND kind <> 'document' AND (scope, session, place, id) > ($2, $4, $5, $3)
    ORDER BY scope, session, place, id LIMIT $6
"""
_FACTS = """
    SELECT id, scope, key, value, confidence, pending, language, person, origin, trust, source, valid_from,
        valid_to
    FROM memory.facts WHERE scope = ANY ($1) AND (scope, id) > ($2, $3) ORDER BY scope, id LIMIT $4
"""
_RELATIONS = """
    SELECT r.id, r.scope, coalesce(s.spelled, r.subject) AS subject, r.predicate, coalesce(o.spelled,
        r.object) AS object,
        r.confidence, r.person, r.origin, r.trust, r.valid_from, r.valid_to
    FROM memory.relations r
    LEFT JOIN memory.names s ON s.scope = r.scope AND s.name = r.subject
    LEFT JOIN memory.names o ON o.scope = r.scope AND o.name = r.object
    WHERE r.scope = ANY ($1) AND (r.scope, r.id) > ($2, $3) ORDER BY r.scope, r.id LIMIT $4
"""
_OPINIONS = """
    SELECT id, scope, topic, stance, origin, trust, valid_from, valid_to
    FROM memory.opinions WHERE scope = ANY ($1) AND (scope, id) > ($2, $3) ORDER BY scope, id LIMIT $4
"""
_DOCUMENTS = """
    SELECT id, scope, name, title, content, version, updated_at
    FROM memory.documents WHERE scope = ANY ($1) AND (scope, id) > ($2, $3) ORDER BY scope, id LIMIT $4
"""


async def export(
    pool: asyncpg.Pool, look: Sight, named: Sequence[Scope], now_ms: int
) -> AsyncIterator[bytes]:
    """Everything in the scopes, as one moment shows it. Raises NotFound for a scope that is not there."""
    async with reading(pool, look, named) as (connection, scopes):
        names = await listing.names(connection, look.tenant, scopes)
        yield _lines([{"format": FORMAT, "version": VERSION, "tenant": look.tenant, "exported_ms": now_ms}])
        for statement, write in (
            (_CHUNKS, _chunk),
            (_FACTS, _fact),
            (_RELATIONS, _relation),
            (_OPINIONS, _opinion),
            (_DOCUMENTS, _document),
        ):
            after: tuple[object, ...] = (UUID(int=0), UUID(int=0))
            said: tuple[object, ...] = ("", -1) if statement is _CHUNKS else ()
            while rows := await connection.fetch(statement, scopes, *after, *said, _ROWS):
                yield _lines([write(row) | {"scope": _scope(names[row["scope"]])} for row in rows])
                last = rows[-1]
                after = last["scope"], last["id"]
                said = (last["session"], last["place"]) if said else ()


def _lines(objects: Sequence[Object]) -> bytes:
    return "".join(f"{requests.dumped(one)}\n" for one in objects).encode()


def _scope(scope: Scope) -> Json:
    return {"kind": scope.kind.value, "id": scope.key}


def _chunk(row: asyncpg.Record) -> Object:
    return {
        "type": row["kind"],
        "id": str(row["id"]),
        "source_id": row["source_id"],
        "session": row["session"],
        "speaker": row["speaker"],
        "role": row["role"],
        "person": row["person"],
        "text": row["content"],
        "importance": round(row["importance"], 4),
        "origin": row["origin"],
        "trust": row["trust"],
        "said_ms": ms(row["said_at"]),
    }


def _fact(row: asyncpg.Record) -> Object:
    return {
        "type": "fact",
        "key": row["key"],
        "value": json.loads(row["value"]),
        "confidence": round(row["confidence"], 4),
        "pending": row["pending"],
        "language": row["language"],
        "person": row["person"],
        "source": str(row["source"] or ""),
        **_held(row),
    }


def _relation(row: asyncpg.Record) -> Object:
    return {
        "type": "relation",
        "subject": row["subject"],
        "predicate": row["predicate"],
        "object": row["object"],
        "confidence": round(row["confidence"], 4),
        "person": row["person"],
        **_held(row),
    }


def _opinion(row: asyncpg.Record) -> Object:
    return {"type": "opinion", "topic": row["topic"], "stance": row["stance"], **_held(row)}


def _held(row: asyncpg.Record) -> Object:
    """Where it comes from, and since and until when it held (0: it holds)."""
    return {
        "origin": row["origin"],
        "trust": row["trust"],
        "valid_from_ms": ms(row["valid_from"]),
        "valid_to_ms": ms(row["valid_to"]),
    }


def _document(row: asyncpg.Record) -> Object:
    return {
        "type": "document",
        "name": row["name"],
        "title": row["title"],
        "text": row["content"],
        "version": row["version"],
        "updated_ms": ms(row["updated_at"]),
    }
