"""Documents that an administrator authors for a team or a persona, cut into chunks; a chunk that stays the
same
keeps its vector when the document changes."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import asyncpg
from indai.memory import chunks
from indai.memory.access import Scope
from indai.memory.interfaces import Kind, Trust
from indai.memory.queue import Job, Task, enqueue
from indai.memory.times import NOWHERE, at, ms, new_uuid
from indai.memory.turns import count_terms

CHUNK_CHARACTERS = 900
_SENTENCE = re.compile(r"(?<=[.!?।])\s+")
_HEADING = re.compile(r"#{1,6}\s+\S")


@dataclass(frozen=True, slots=True)
class Document:
    """A document as it is kept; `text` is empty in lists."""

    name: str
    title: str
    text: str = ""
    scope: UUID = NOWHERE
    version: int = 1
    chunks: int = 0
    embedded: int = 0
    updated_ms: int = 0


def split(title: str, text: str) -> list[str]:
    """Parts of some 900 characters at paragraphs, else at sentences, each under its title and heading."""
    parts: list[str] = []
    heading, current = "", ""
    for paragraph in re.split(r"\n\s*\n", text.replace("\r\n", "\n")):
        for piece in _pieces(paragraph.strip()):
            if _HEADING.match(piece) or (current and len(current) + len(piece) > CHUNK_CHARACTERS):
                parts += [_under(title, heading, current)] if current else []
                current = ""
            if _HEADING.match(piece):
                heading = piece.splitlines()[0].lstrip("# ").strip()
                piece = "\n".join(piece.splitlines()[1:]).strip()
            current = f"{current}\n\n{piece}".strip() if piece else current
    return [*parts, _under(title, heading, current)] if current else parts or [title]


def _pieces(paragraph: str) -> list[str]:
    """A paragraph, in pieces where it is too long: at sentences, and in the end anywhere."""
    if len(paragraph) <= CHUNK_CHARACTERS:
        return [paragraph] if paragraph else []
    pieces = [""]
    for sentence in _SENTENCE.split(paragraph):
        for start in range(0, len(sentence), CHUNK_CHARACTERS):
            part = sentence[start : start + CHUNK_CHARACTERS]
            if len(pieces[-1]) + len(part) > CHUNK_CHARACTERS:
                pieces.append("")
            pieces[-1] = f"{pieces[-1]} {part}".strip()
    return [piece for piece in pieces if piece]


def _under(title: str, heading: str, text: str) -> str:
    above = " – ".join(dict.fromkeys(name for name in (title, heading) if name))
    return f"{above}\n{text}" if above else text


_GET = "SELECT id, digest, version FROM memory.documents WHERE scope = $1 AND name = $2 FOR UPDATE"
_PUT = """
    INSERT INTO memory.documents AS d (scope, tenant, id, name, title, content, digest, origin, trust,
        updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    ON CONFLICT (scope, name) DO UPDATE SET title = EXCLUDED.title, content = EXCLUDED.content,
        digest = EXCLUDED.digest, version = d.version + 1, updated_at = EXCLUDED.updated_at
    RETURNING id
"""
_OTHERS = "SELECT id FROM memory.chunks WHERE scope = $1 AND document = $2 AND source_id <> ALL ($3)"
_SHOWN = """
    SELECT d.scope, d.name, d.title, d.version, d.updated_at, n.chunks, n.embedded
    FROM memory.documents d, LATERAL (
        SELECT count(*) AS chunks, count(e.chunk) AS embedded FROM memory.chunks c
        LEFT JOIN memory.embeddings e ON e.scope = c.scope AND e.chunk = c.id AND e.model = $2
        WHERE c.scope = d.scope AND c.document = d.id) n
    WHERE d.scope = ANY ($1)
"""
_LIST = f"{_SHOWN} AND (d.name, d.scope) > ($3, $4) ORDER BY d.name, d.scope LIMIT $5"
_ONE = f"{_SHOWN} AND d.name = $3"


async def put(
    connection: asyncpg.Connection, scope: Scope, document: Document, origin: str, trust: Trust, now_ms: int
) -> bool:
    """Store a document and its chunks; False when the same text was there."""
    digest = hashlib.sha256(f"{document.title}\n{document.text}".encode()).digest()
    known = await connection.fetchrow(_GET, scope.id, document.name)
    if known is not None and known["digest"] == digest:
        return False
    identifier = await connection.fetchval(
        _PUT,
        scope.id,
        scope.tenant,
        new_uuid(now_ms),
        document.name,
        document.title,
        document.text,
        digest,
        origin,
        trust.value,
        at(now_ms),
    )
    texts = split(document.title, document.text)
    sources = _sources(document.name, texts)
    others = await connection.fetch(_OTHERS, scope.id, identifier, sources)
    await chunks.remove(connection, scope.id, scope.tenant, [row["id"] for row in others])
    parts = [
        chunks.NewChunk(
            source, text, now_ms, origin, trust, place, document=identifier, session=document.name
        )
        for place, (source, text) in enumerate(zip(sources, texts, strict=True))
    ]
    await chunks.put(connection, scope, Kind.DOCUMENT, parts, await count_terms(texts))
    await enqueue(connection, [Job(Task.EMBED, scope.id)])
    return True


def _sources(name: str, texts: Sequence[str]) -> list[str]:
    """One id for each part, by its content, so that an unchanged part stays what it was."""
    seen: Counter[str] = Counter()
    sources = []
    for text in texts:
        digest = hashlib.sha256(text.encode()).hexdigest()[:32]
        seen[digest] += 1
        sources.append(f"{name}#{digest}.{seen[digest]}")
    return sources


async def delete(connection: asyncpg.Connection, scope: Scope, name: str) -> int | None:
    """Remove a document; how many chunks went with it, None when there is none."""
    known = await connection.fetchrow(_GET, scope.id, name)
    if known is None:
        return None
    rows = await connection.fetch(_OTHERS, scope.id, known["id"], [])
    await connection.execute(
        "DELETE FROM memory.documents WHERE scope = $1 AND id = $2", scope.id, known["id"]
    )
    return await chunks.remove(connection, scope.id, scope.tenant, [row["id"] for row in rows])


async def page(
    connection: asyncpg.Connection, scopes: Sequence[UUID], model: str, after: tuple[str, UUID], limit: int
) -> list[Document]:
    """Documents by name, without their texts."""
    rows = await connection.fetch(_LIST, scopes, model, *after, limit)
    return [_document(row) for row in rows]


async def get(connection: asyncpg.Connection, scope: UUID, name: str, model: str) -> Document:
    """A document that is there, without its text."""
    return _document(await connection.fetchrow(_ONE, [scope], model, name))


def _document(row: asyncpg.Record) -> Document:
    return Document(
        row["name"],
        row["title"],
        scope=row["scope"],
        version=row["version"],
        chunks=row["chunks"],
        embedded=row["embedded"],
        updated_ms=ms(row["updated_at"]),
    )
