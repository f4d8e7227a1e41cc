"""What the background jobs do. Each reads what is there now and can be run again at any point.

extract      facts of turns that were stored           by session and places
embed        vectors that a scope lacks, in batches    by scope
promote      postings and graph for a large scope      by scope
consolidate  summaries of an idle session, and decay   by session
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import asyncpg
from indai.memory import chunks, consolidation, factstore, turns
from indai.memory.access import Scope
from indai.memory.extraction import DeterministicExtractor
from indai.memory.facts import Record
from indai.memory.interfaces import Embedder, ExtractionContext, Extractor, Fact, Kind, Role, Trust
from indai.memory.llm_summary import LlmSummariser
from indai.memory.queue import Handler, Job, NotYet, Task, enqueue
from indai.memory.search import vector_text
from indai.memory.session import scope_of, writing
from indai.memory.times import Clock, at, ms, new_uuid
from indai.memory.turns import Heard
from indai.protocol.errors import InvalidInput, Reason

LARGE = 10_000  # chunks from which a scope is no more searched exactly
BEFORE = 6  # turns that an extractor sees besides
_HEARD = frozenset({Role.PERSON, Role.AGENT})
_BATCH = 32
_PROMOTED = 500

_LACKING = """
    SELECT c.id, c.content FROM memory.chunks c
    WHERE c.scope = $1 AND NOT EXISTS (SELECT FROM memory.embeddings e
        WHERE e.scope = $1 AND e.chunk = c.id AND e.model = $2)
    ORDER BY c.id LIMIT $3
"""
# What was forgotten while the model worked is not there to join any more; FOR KEY SHARE keeps it from going
# now.
_EMBED = """
    WITH here AS (
        SELECT c.id, c.kind FROM memory.chunks c WHERE c.scope = $1 AND c.id = ANY ($4) FOR KEY SHARE
    ), old AS (
        DELETE FROM memory.embeddings WHERE scope = $1 AND chunk = ANY ($4) AND model <> $3
    )
    INSERT INTO memory.embeddings (scope, tenant, chunk, kind, model, width, large, embedding)
    SELECT $1, $2, h.id, h.kind, $3, $6,
        (SELECT s.path <> 'small' FROM memory.scope_sizes s WHERE s.scope = $1), t.embedding::vector
    FROM unnest($4::uuid[], $5::text[]) AS t (id, embedding) JOIN here h ON h.id = t.id
    ON CONFLICT DO NOTHING
"""
_MODELS = """
    WITH gone AS (DELETE FROM memory.scope_models WHERE scope = $1 AND model <> $2)
    INSERT INTO memory.scope_models (scope, model) VALUES ($1, $2) ON CONFLICT DO NOTHING
"""
_OTHER_MODELS = "SELECT DISTINCT scope FROM memory.scope_models WHERE model <> $1"
_GROW = "UPDATE memory.scope_sizes SET path = $2 WHERE scope = $1 AND path = $3 RETURNING chunks"
_UNPOSTED = """
    SELECT c.id FROM memory.chunks c WHERE c.scope = $1 AND c.id > $2 ORDER BY c.id LIMIT $3
"""
_PROMOTE = "UPDATE memory.embeddings SET large = true WHERE scope = $1 AND chunk = ANY ($2) AND NOT large"


class Work:
    """The jobs' handlers, with what they need."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        extractor: Extractor | None,
        embedder: Embedder | None,
        clock: Clock,
        summariser: LlmSummariser | None = None,
    ) -> None:
        self._pool = pool
        self._summariser = summariser
        self._extractor = extractor or DeterministicExtractor()
        self._embedder = embedder
        self._clock = clock

    @property
    def handlers(self) -> Mapping[Task, Handler]:
        """For the worker."""
        return {
            Task.EXTRACT: self.extract,
            Task.EMBED: self.embed,
            Task.PROMOTE: self.promote,
            Task.CONSOLIDATE: self.consolidate,
        }

    async def resume(self) -> None:
        """At the start: enqueue what a change of the embedding model makes necessary."""
        if self._embedder is None:
            return
        async with self._pool.acquire() as connection, connection.transaction():
            rows = await connection.fetch(_OTHER_MODELS, self._embedder.model)
            await enqueue(connection, [Job(Task.EMBED, row["scope"], once=True) for row in rows])

    async def extract(self, job: Job) -> None:
        """Facts of the turns between two places of a session."""
        scope = await scope_of(self._pool, job.scope)
        if scope is None or job.session is None:
            return
        async with writing(self._pool, scope, create=False) as connection:
            heard = await turns.span(connection, scope.id, job.session, job.first - BEFORE, job.last)
            known = await factstore.open_facts(connection, scope.id)
        found = await read(self._extractor, scope.tenant, heard, job.first, known)
        async with writing(self._pool, scope, create=False) as connection:
            try:
                await factstore.take_in(connection, scope, found, self._clock())
            except asyncpg.ForeignKeyViolationError:
                raise NotYet(0) from None  # a turn was forgotten meanwhile: read again what is left

    async def embed(self, job: Job) -> None:
        """Vectors of the present model for all that lacks one; those of another model go."""
        scope, embedder = await scope_of(self._pool, job.scope), self._embedder
        if scope is None or embedder is None:
            return
        while True:
            async with writing(self._pool, scope, create=False) as connection:
                rows = await connection.fetch(_LACKING, scope.id, embedder.model, _BATCH)
            if not rows:
                break
            vectors = await embedder.embed([row["content"] for row in rows], query=False)
            check_width(vectors, embedder)
            async with writing(self._pool, scope, create=False) as connection:
                await connection.execute(
                    _EMBED,
                    scope.id,
                    scope.tenant,
                    embedder.model,
                    [row["id"] for row in rows],
                    [vector_text(numbers) for numbers in vectors],
                    embedder.width,
                )
        async with writing(self._pool, scope, create=False) as connection:
            await connection.execute(_MODELS, scope.id, embedder.model)

    async def promote(self, job: Job) -> None:
        """Give a scope that has grown large its postings and its place in the graph; then switch its
        searches.

        Writers write both ways from the first step on, so that nothing is missed without a long lock.
        """
        scope = await scope_of(self._pool, job.scope)
        if scope is None:
            return
        async with writing(self._pool, scope, create=False) as connection:
            await connection.execute(_GROW, scope.id, "growing", "small")
        after = UUID(int=0)
        while True:
            async with writing(self._pool, scope, create=False) as connection:
                rows = await connection.fetch(_UNPOSTED, scope.id, after, _PROMOTED)
                ids = [row["id"] for row in rows]
                await connection.execute("SELECT memory.post_terms($1, $2)", scope.id, ids)
                await connection.execute(_PROMOTE, scope.id, ids)
            if len(ids) < _PROMOTED:
                break
            after = ids[-1]
        async with writing(self._pool, scope, create=False) as connection:
            await connection.execute(_GROW, scope.id, "large", "growing")

    async def consolidate(self, job: Job) -> None:
        """Summaries of a session that has been idle for a day, one for each stretch of it; and decay."""
        scope = await scope_of(self._pool, job.scope)
        if scope is None or job.session is None:
            return
        now = self._clock()
        heard: Sequence[Heard] = ()
        async with writing(self._pool, scope, create=False) as connection:
            state = await connection.fetchrow(consolidation.SESSION, scope.id, job.session)
            if state is None:
                return
            idle = now - ms(state["last_at"])
            if idle < consolidation.IDLE_MS:
                raise NotYet((consolidation.IDLE_MS - idle) / 1000 + 1)
            if state["places"] - state["summarised"] > consolidation.FEW_TURNS:
                first = state["summarised"] + 1
                heard = await turns.span(connection, scope.id, job.session, first, state["places"])
        # A model takes its time: no transaction is open while it does.
        parts = consolidation.segments([one for one in heard if one.turn.role in _HEARD])
        made = [await self._summary(scope, job.session, part) for part in parts]
        async with writing(self._pool, scope, create=False) as connection:
            if heard:
                try:
                    await self._keep(connection, scope, made, parts)
                except asyncpg.ForeignKeyViolationError:
                    raise NotYet(0) from None  # a turn was forgotten meanwhile: what is left is read again
                await connection.execute(consolidation.DONE, scope.id, job.session, state["places"])
            await connection.execute(consolidation.DROP_UNSURE, scope.id, at(now - consolidation.UNSURE_MS))
            await connection.execute(consolidation.FADE, scope.id, at(now - consolidation.FADING_MS))

    async def _summary(self, scope: Scope, session: UUID, part: Sequence[Heard]) -> chunks.NewChunk:
        """Of one stretch: by the quality model where there is one, else extractive."""
        text = await self._summariser.summarise(scope.tenant, part) if self._summariser else None
        return chunks.NewChunk(
            f"{session}:{part[0].place}",
            text or consolidation.summary(part),
            part[-1].turn.said_ms,
            "llm" if text else "consolidation",
            max((one.trust for one in part), key=list(Trust).index),
            session=part[0].turn.session,
            person=part[-1].person,
            importance=0.6,
        )

    async def _keep(
        self,
        connection: asyncpg.Connection,
        scope: Scope,
        made: Sequence[chunks.NewChunk],
        parts: Sequence[Sequence[Heard]],
    ) -> None:
        columns = await turns.count_terms([chunk.text for chunk in made])
        await chunks.put(connection, scope, Kind.SUMMARY, list(made), columns)
        pairs = [(chunk.source_id, part) for chunk, part in zip(made, parts, strict=True)]
        await consolidation.derive(connection, scope, pairs)
        await enqueue(connection, [Job(Task.EMBED, scope.id)])


async def read(
    extractor: Extractor, owner: str, heard: Sequence[Heard], first: int, known: Sequence[Record]
) -> list[Record]:
    """What an extractor finds in a session's turns from the place `first` on: in what a person or the agent
    said, never in system text, a tool's answer or a recalled memory."""
    found = []
    for number, one in enumerate(heard):
        if one.place < first or one.turn.role not in _HEARD:
            continue
        before = [each.turn for each in heard[max(0, number - BEFORE) : number] if each.turn.role in _HEARD]
        holding = [row.fact for row in known if not row.pending]
        context = ExtractionContext(person=one.person, owner=owner, before=before, known=holding)
        found += [record(one, fact, extractor.name) for fact in await extractor.extract(one.turn, context)]
    return found


def record(one: Heard, fact: Fact, origin: str) -> Record:
    """The row of a fact that was found in a turn."""
    return Record(
        id=new_uuid(one.turn.said_ms),
        fact=fact,
        person=one.person,
        origin=origin,
        trust=one.trust,
        since_ms=fact.valid_from_ms or one.turn.said_ms,
        source=one.id,
        ended_ms=fact.valid_to_ms,
        mentions=frozenset({one.id}),
    )


def check_width(vectors: Sequence[Sequence[float]], embedder: Embedder) -> None:
    """Raises InvalidInput for a vector that is not as wide as its model says."""
    for numbers in vectors:
        if len(numbers) != embedder.width:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"The model {embedder.model} gave a vector of {len(numbers)} numbers, not {embedder.width}.",
                hint="install the model that the vectors belong to",
            )
