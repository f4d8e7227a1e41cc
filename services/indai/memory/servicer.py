"""`indai.v1.MemoryService`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import UUID

import asyncpg
from indai.memory import (
    answers,
    beside,
    chunks,
    factstore,
    forgetting,
    graph,
    importing,
    knowledge,
    listing,
    portable,
    requests,
    search,
    states,
)
from indai.memory import turns as turnstore
from indai.memory.access import Door, Scope
from indai.memory.extraction import DeterministicExtractor
from indai.memory.interfaces import Embedder, Extractor, Fact, Kind, Wanted
from indai.memory.queue import Job, Task, enqueue, wake
from indai.memory.remembering import Rememberer
from indai.memory.session import reading, whole_tenant, writing
from indai.memory.times import Clock
from indai.protocol.errors import NotFound, Reason
from indai.protocol.quoting import quoted
from indai.v1 import memory_pb2 as pb
from indai.v1 import memory_pb2_grpc

LIMIT = 5
MAX_LIMIT = 50
BUDGET = 1_500
TTL_S = 1_800
_OWN = (Door.PRIVATE, Door.WORK, Door.ADMIN)
_FACT_STATES = {
    pb.FACT_STATE_UNSPECIFIED: "active",
    pb.FACT_STATE_ACTIVE: "active",
    pb.FACT_STATE_PENDING: "pending",
    pb.FACT_STATE_ENDED: "ended",
}
_FIRST = UUID(int=0)


class MemoryService(memory_pb2_grpc.MemoryServiceServicer):
    """Any number of replicas may share one database.

    `embedder` None: words alone are searched. `obvious` (None: the deterministic one) finds facts within the
    call; `extractor`, when there is a better one, in jobs.
    """

    def __init__(
        self,
        pool: asyncpg.Pool,
        clock: Clock,
        embedder: Embedder | None,
        obvious: Extractor | None = None,
        extractor: Extractor | None = None,
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._embedder = embedder
        self._rememberer = Rememberer(pool, obvious or DeterministicExtractor(), extractor, clock)

    async def Remember(self, request: pb.RememberRequest, context: Any) -> pb.RememberResponse:
        """Turns and facts, in one transaction."""
        look = requests.who(request.access)
        scope = requests.target(look, request)
        sayings = requests.said(look, request.turns, self._clock())
        facts = requests.stated(request.facts)
        done = await self._rememberer.remember(
            look, scope, sayings, facts, extract=not request.skip_extraction
        )
        shown = [answers.fact(record, scope) for record in done.facts]
        return pb.RememberResponse(stored=done.stored, duplicates=done.duplicates, facts=shown)

    async def Recall(self, request: pb.RecallRequest, context: Any) -> pb.RecallResponse:
        """One question, and what a prompt needs beside its answer."""
        look = requests.who(request.access)
        named, wanted = requests.scopes(look, request.scopes), beside.wanted(request)
        found, more = await asyncio.gather(
            self._search(request, [requests.kind(kind) for kind in request.kinds]),
            beside.beside(self._pool, look, named, wanted),
        )
        return pb.RecallResponse(
            hits=_hits(found),
            notes=found.notes,
            model=found.model,
            times=pb.RecallTimes(embed_us=found.embed_us, search_us=found.search_us, rank_us=found.rank_us),
            facts=more.facts,
            relations=more.relations,
            opinions=more.opinions,
        )

    async def SearchDocuments(
        self, request: pb.SearchDocumentsRequest, context: Any
    ) -> pb.SearchDocumentsResponse:
        """One question, to documents only."""
        found = await self._search(request, [Kind.DOCUMENT])
        return pb.SearchDocumentsResponse(hits=_hits(found), notes=found.notes)

    async def _search(self, request: Any, kinds: Sequence[Kind]) -> search.Found:
        look = requests.who(request.access)
        preferred = isinstance(request, pb.RecallRequest)
        question = search.Question(
            text=requests.text(request.query, "query", requests.MAX_QUERY),
            wanted=Wanted(
                now_ms=self._clock(),
                speaker=requests.name(request.speaker, "speaker") if preferred else "",
                from_ms=requests.moment(request, "start_time", 0) if preferred else 0,
                to_ms=requests.moment(request, "end_time", 0) if preferred else 0,
            ),
            scopes=requests.scopes(look, request.scopes),
            kinds=kinds,
            limit=min(request.limit or LIMIT, MAX_LIMIT),
            budget_tokens=request.budget_tokens or BUDGET,
        )
        return await search.recall(self._pool, look, question, self._embedder)

    async def ListTurns(self, request: pb.ListTurnsRequest, context: Any) -> pb.ListTurnsResponse:
        """One page."""
        look = requests.who(request.access)
        scope = requests.source(look, request)
        after = requests.position(request.page_token, turnstore.START)
        size = requests.size(request.page_size)
        async with reading(self._pool, look, [scope]) as (connection, _):
            rows = await turnstore.page(connection, scope.id, request.session or None, after, size + 1)
        last = rows[size - 1] if len(rows) > size else None
        return pb.ListTurnsResponse(
            turns=[answers.turn(one) for one in rows[:size]],
            next_page_token=requests.token([last.turn.session, last.place, last.id]) if last else "",
        )

    async def ListFacts(self, request: pb.ListFactsRequest, context: Any) -> pb.ListFactsResponse:
        """One page."""
        look = requests.who(request.access)
        named = requests.scopes(look, request.scopes)
        after = requests.position(request.page_token, ("", _FIRST))
        size = requests.size(request.page_size)
        state = "" if request.all_states else _FACT_STATES.get(request.state, "active")
        prefix = requests.name(request.key_prefix, "key_prefix")
        person = requests.name(request.person, "person")
        async with reading(self._pool, look, named) as (connection, scopes):
            rows = await factstore.page(connection, scopes, prefix, person, state, after, size + 1)
            names = await listing.names(connection, look.tenant, scopes)
        last = rows[size - 1].record if len(rows) > size else None
        return pb.ListFactsResponse(
            facts=[answers.fact(row.record, names[row.scope]) for row in rows[:size]],
            next_page_token=requests.token([last.fact.key, last.id]) if last else "",
        )

    async def CorrectFact(self, request: pb.CorrectFactRequest, context: Any) -> pb.CorrectFactResponse:
        """Another value, or none."""
        look = requests.who(request.access)
        look.may(*_OWN, Door.DISTRIBUTION)
        identifier = requests.identifier(request.id, "id")
        text = request.value_json
        value = Fact("", requests.value(text, "value_json"), 1.0) if text else None
        async with reading(self._pool, look) as (connection, scopes):
            where = await factstore.scope_of_fact(connection, scopes, identifier)
            if where is None:
                raise factstore.no_fact(request.id)
            scope = look.write((await listing.names(connection, look.tenant, [where]))[where])
            row = await factstore.correct(
                connection, scope, identifier, value, "owner", look.trust, self._clock()
            )
        return pb.CorrectFactResponse(fact=answers.fact(row, scope) if row else None)

    async def Forget(self, request: pb.ForgetRequest, context: Any) -> pb.ForgetResponse:
        """What matches, and what is derived from it."""
        look = requests.who(request.access)
        look.may(*_OWN, Door.DISTRIBUTION)
        conditions = requests.conditions(request)
        scope = requests.target(look, request) if request.HasField("scope") else None
        if request.everything:
            requests.only_everything(request, conditions)
        elif scope is None and not conditions.names:
            raise requests.wrong("scope", "is required when nothing else says what to forget")
        done = await forgetting.forget(
            self._pool,
            look,
            scope,
            conditions,
            self._clock(),
            dry_run=request.dry_run,
            everything=request.everything,
        )
        return pb.ForgetResponse(removed=done.removed, remaining=done.remaining, sources=done.sources)

    async def Export(self, request: pb.ExportRequest, context: Any) -> AsyncIterator[pb.ExportResponse]:
        """Line by line, in pieces."""
        look = requests.who(request.access)
        named = requests.scopes(look, request.scopes)
        async for lines in portable.export(self._pool, look, named, self._clock()):
            yield pb.ExportResponse(lines=lines)

    async def Import(self, request: pb.ImportRequest, context: Any) -> pb.ImportResponse:
        """Lines, all or none of them."""
        look = requests.who(request.access)
        look.may(*_OWN)
        done = await importing.take_in(self._pool, look, request.lines, self._clock())
        return pb.ImportResponse(added=done.added, known=done.known)

    async def PutDocument(self, request: pb.PutDocumentRequest, context: Any) -> pb.PutDocumentResponse:
        """Stored, cut, to be embedded."""
        look = requests.who(request.access)
        look.may(Door.ADMIN)
        scope, now = requests.target(look, request.document), self._clock()
        document = requests.document(request.document)
        async with writing(self._pool, scope) as connection:
            changed = await knowledge.put(connection, scope, document, look.origin, look.trust, now)
            stored = await knowledge.get(connection, scope.id, document.name, self._model)
        return pb.PutDocumentResponse(document=answers.document(stored, scope), changed=changed)

    async def ListDocuments(self, request: pb.ListDocumentsRequest, context: Any) -> pb.ListDocumentsResponse:
        """One page."""
        look = requests.who(request.access)
        named = requests.scopes(look, request.scopes)
        after = requests.position(request.page_token, ("", _FIRST))
        size = requests.size(request.page_size)
        async with reading(self._pool, look, named) as (connection, scopes):
            rows = await knowledge.page(connection, scopes, self._model, after, size + 1)
            names = await listing.names(connection, look.tenant, scopes)
        last = rows[size - 1] if len(rows) > size else None
        return pb.ListDocumentsResponse(
            documents=[answers.document(row, names[row.scope]) for row in rows[:size]],
            next_page_token=requests.token([last.name, last.scope]) if last else "",
        )

    async def DeleteDocument(
        self, request: pb.DeleteDocumentRequest, context: Any
    ) -> pb.DeleteDocumentResponse:
        """With its chunks and vectors."""
        look = requests.who(request.access)
        look.may(Door.ADMIN)
        scope = requests.target(look, request)
        async with reading(self._pool, look, [scope]) as (connection, _):
            gone = await knowledge.delete(connection, scope, requests.name(request.name, "name", empty=False))
        if gone is None:
            raise NotFound(Reason.NOT_FOUND, f"There is no document {quoted(request.name)} here.")
        return pb.DeleteDocumentResponse(chunks=gone)

    async def GetWorkingMemory(
        self, request: pb.GetWorkingMemoryRequest, context: Any
    ) -> pb.GetWorkingMemoryResponse:
        """Entries that have not expired."""
        look = requests.who(request.access)
        scope = requests.source(look, request)
        session = requests.text(request.session, "session", empty=True)
        async with writing(self._pool, scope, create=False) as connection:
            entries = await states.get_working(connection, scope.id, session, request.names, self._clock())
        return pb.GetWorkingMemoryResponse(entries=[answers.entry(one) for one in entries])

    async def SetWorkingMemory(
        self, request: pb.SetWorkingMemoryRequest, context: Any
    ) -> pb.SetWorkingMemoryResponse:
        """Set and unset."""
        look = requests.who(request.access)
        scope, now = requests.target(look, request), self._clock()
        session = requests.text(request.session, "session", empty=True)
        entries, unset = requests.entries(request, now + 1000 * (request.ttl_seconds or TTL_S))
        async with writing(self._pool, scope, person=look.person) as connection:
            await states.set_working(connection, scope, session, entries, unset, now)
        return pb.SetWorkingMemoryResponse()

    async def PutOpinion(self, request: pb.PutOpinionRequest, context: Any) -> pb.PutOpinionResponse:
        """The opinion that holds from now on."""
        look = requests.who(request.access)
        scope, now = requests.target(look, request.opinion), self._clock()
        opinion = requests.opinion(request.opinion, now)
        async with writing(self._pool, scope, person=look.person) as connection:
            changed = await states.put_opinion(connection, scope, opinion, look.origin, look.trust, now)
        return pb.PutOpinionResponse(opinion=answers.opinion(opinion, scope), changed=changed)

    async def ListOpinions(self, request: pb.ListOpinionsRequest, context: Any) -> pb.ListOpinionsResponse:
        """One page."""
        look = requests.who(request.access)
        named = requests.scopes(look, request.scopes)
        after = requests.position(request.page_token, ("", _FIRST))
        size = requests.size(request.page_size)
        async with reading(self._pool, look, named) as (connection, scopes):
            rows = await states.page(connection, scopes, request.topics, after, size + 1)
            names = await listing.names(connection, look.tenant, scopes)
        last = rows[size - 1] if len(rows) > size else None
        return pb.ListOpinionsResponse(
            opinions=[answers.opinion(row, names[row.scope]) for row in rows[:size]],
            next_page_token=requests.token([last.topic, last.scope]) if last else "",
        )

    async def PutRelations(self, request: pb.PutRelationsRequest, context: Any) -> pb.PutRelationsResponse:
        """Edges and names."""
        look = requests.who(request.access)
        scope, now = requests.target(look, request), self._clock()
        edges = [requests.edge(look, one, f"relations[{n}]", now) for n, one in enumerate(request.relations)]
        names = requests.aliases(request.aliases)
        async with writing(self._pool, scope, person=look.person) as connection:
            await graph.alias(connection, scope, names)
            added = await graph.add(connection, scope, edges) if edges else 0
        return pb.PutRelationsResponse(added=added)

    async def ListRelations(self, request: pb.ListRelationsRequest, context: Any) -> pb.ListRelationsResponse:
        """One page."""
        look = requests.who(request.access)
        named = requests.scopes(look, request.scopes)
        before = requests.position(request.page_token, [graph.NEWEST])[0]
        size = requests.size(request.page_size)
        async with reading(self._pool, look, named) as (connection, scopes):
            rows = await graph.page(connection, scopes, request.names, request.all_times, before, size + 1)
            names = await listing.names(connection, look.tenant, scopes)
        last = rows[size - 1] if len(rows) > size else None
        return pb.ListRelationsResponse(
            relations=[answers.relation(row, names[row.scope]) for row in rows[:size]],
            next_page_token=requests.token([last.id]) if last else "",
        )

    async def RecordCommitments(
        self, request: pb.RecordCommitmentsRequest, context: Any
    ) -> pb.RecordCommitmentsResponse:
        """One memory for each."""
        look = requests.who(request.access)
        look.may(Door.PRIVATE)
        scope = look.write(None)
        made, erased = requests.commitments(request.commitments, self._clock())
        async with writing(self._pool, scope) as connection:
            columns = await turnstore.count_terms([one.text for one in made])
            changed = await chunks.put(connection, scope, Kind.COMMITMENT, made, columns)
            gone = await chunks.remove_sources(connection, scope, Kind.COMMITMENT, erased)
            await enqueue(connection, [Job(Task.EMBED, scope.id)] if changed else [])
        return pb.RecordCommitmentsResponse(changed=len(changed) + gone)

    async def ListScopes(self, request: pb.ListScopesRequest, context: Any) -> pb.ListScopesResponse:
        """One page."""
        look = requests.who(request.access)
        look.may(*_OWN)
        after = requests.position(request.page_token, ("", ""))
        size = requests.size(request.page_size)
        async with reading(self._pool, look) as (connection, scopes):
            rows = await listing.sizes(connection, scopes, after, size + 1)
        last = rows[size - 1] if len(rows) > size else None
        return pb.ListScopesResponse(
            scopes=[
                pb.ScopeState(
                    scope=answers.scope(Scope(look.tenant, row.kind, row.key)),
                    chunks=row.chunks,
                    large=row.large,
                )
                for row in rows[:size]
            ],
            next_page_token=requests.token([last.kind, last.key]) if last else "",
        )

    async def ListJobs(self, request: pb.ListJobsRequest, context: Any) -> pb.ListJobsResponse:
        """One page."""
        look = requests.who(request.access)
        look.may(*_OWN)
        after = requests.position(request.page_token, [0])[0]
        size = requests.size(request.page_size)
        async with whole_tenant(self._pool, look.tenant) as connection:
            rows = await listing.jobs(connection, after, size + 1, failed_only=request.failed_only)
        return pb.ListJobsResponse(
            jobs=[answers.job(row) for row in rows[:size]],
            next_page_token=requests.token([rows[size - 1].id]) if len(rows) > size else "",
        )

    async def RetryJobs(self, request: pb.RetryJobsRequest, context: Any) -> pb.RetryJobsResponse:
        """Back into the queue."""
        look = requests.who(request.access)
        look.may(*_OWN)
        async with whole_tenant(self._pool, look.tenant) as connection:
            requeued = await listing.retry(connection, list(request.ids))
            await wake(connection)
        return pb.RetryJobsResponse(requeued=requeued)

    @property
    def _model(self) -> str:
        return self._embedder.model if self._embedder else ""


def _hits(found: search.Found) -> list[pb.Hit]:
    return [answers.hit(hit, *found.places[hit.candidate.id]) for hit in found.hits]
