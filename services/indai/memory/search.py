"""Recall: one round trip for every signal, then one ranking.

The question's terms and vector go to the database function `memory.recall`, which opens the scopes of the
call and reads small ones exactly and large ones by postings and graph. Without a usable embedding model the
words alone are searched, and the answer says so.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import asyncpg
from indai.memory import ranking
from indai.memory.access import Scope, ScopeKind, Sight, no_scope
from indai.memory.asking import refined
from indai.memory.interfaces import Candidate, Embedder, Hit, Kind, Role, Trust, Wanted
from indai.memory.lexical import query_terms
from indai.memory.session import chosen
from indai.memory.times import ms
from indai.protocol.errors import IndaiError
from indai.storage.pool import translate_errors

MAX_TERMS = 64  # of one question; more of them only cost time

_EXISTING = "SELECT memory.open_scopes($1, $2, $3)"
_RECALL = """
    SELECT id, scope, kind, content, lexical, similarity, speaker, role, session, place, said_at, importance,
        origin, trust, source_id, matched, scope_kind, scope_key
    FROM memory.recall($1, $2, $3, $4, $5, $6, $7, $8, $9::text::vector, $10, $11, $12)
"""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, of which scopes and kinds, and what is preferred."""

    text: str
    wanted: Wanted
    scopes: Sequence[Scope] = ()
    kinds: Sequence[Kind] = ()
    limit: int = 5
    budget_tokens: int = 1_500


@dataclass(frozen=True, slots=True)
class Found:
    """The hits with where they are kept and their ids at their sources, what the caller should know, and
    where
    the time went (us)."""

    hits: Sequence[Hit]
    places: Mapping[UUID, tuple[Scope, str]]
    notes: Sequence[str]
    model: str
    embed_us: int
    search_us: int
    rank_us: int


async def recall(pool: asyncpg.Pool, sight: Sight, question: Question, embedder: Embedder | None) -> Found:
    """What bears on the question, best first. Raises NotFound for a named scope that is not there."""
    scopes, kinds = chosen(sight, question.scopes)
    begun = time.perf_counter()
    vector, model, notes = await _vector(embedder, question.text)
    embedded = time.perf_counter()
    weighted = dict(list(query_terms(question.text).items())[:MAX_TERMS])
    with translate_errors():
        if question.scopes:
            await _must_exist(pool, sight.tenant, scopes)
        rows = await pool.fetch(
            _RECALL,
            sight.tenant,
            [scope.id for scope in scopes],
            kinds,
            list(weighted),
            list(weighted.values()),
            ranking.K1,
            ranking.B,
            model,
            vector,
            [kind.value for kind in question.kinds] or None,
            ranking.LEG,
            ranking.NEIGHBOURS,
        )
    searched = time.perf_counter()
    candidates = [_candidate(row) for row in rows]
    wanted = refined(question.wanted, question.text, {candidate.speaker for candidate in candidates})
    ranked = ranking.rank(candidates, wanted, ranking.weights_for(model))
    hits = ranking.pack(ranked[: question.limit], question.budget_tokens)
    ended = time.perf_counter()
    return Found(
        hits,
        {row["id"]: (_scope(sight.tenant, row), row["source_id"]) for row in rows},
        notes,
        model,
        *(round(1e6 * part) for part in (embedded - begun, searched - embedded, ended - searched)),
    )


async def _vector(embedder: Embedder | None, text: str) -> tuple[str | None, str, list[str]]:
    """The question as a vector in pgvector's notation, its model, and a note when there is none."""
    if embedder is None:
        return None, "", ["No embedding model is configured: only words were searched."]
    try:
        (numbers,) = await embedder.embed([text], query=True)
    except IndaiError as error:
        return None, "", [f"Only words were searched. {error}"]
    return vector_text(numbers), embedder.model, []


def vector_text(numbers: Sequence[float]) -> str:
    """A vector in pgvector's notation."""
    return f"[{','.join(map(repr, numbers))}]"


async def _must_exist(pool: asyncpg.Pool, tenant: str, scopes: Sequence[Scope]) -> None:
    found = await pool.fetchval(_EXISTING, tenant, [scope.id for scope in scopes], [])
    for scope in scopes:
        if scope.id not in found:
            raise no_scope(scope)


def _scope(tenant: str, row: asyncpg.Record) -> Scope:
    return Scope(tenant, ScopeKind(row["scope_kind"]), row["scope_key"])


def _candidate(row: asyncpg.Record) -> Candidate:
    return Candidate(
        id=row["id"],
        scope=row["scope"],
        kind=Kind(row["kind"]),
        text=row["content"],
        lexical=row["lexical"],
        similarity=row["similarity"],
        speaker=row["speaker"],
        role=Role(row["role"]),
        session=row["session"],
        place=row["place"],
        said_ms=ms(row["said_at"]),
        importance=row["importance"],
        origin=row["origin"],
        trust=Trust(row["trust"]),
        matched=row["matched"],
    )
