"""A memory service over a real database, and a tenant with something in every kind of scope."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import asyncpg
from indai.memory.interfaces import Embedder, ExtractionContext, Fact, Triple, Turn
from indai.memory.queue import Job, Task
from indai.memory.servicer import MemoryService
from indai.memory.work import Work
from indai.v1 import memory_pb2 as pb

NOW = 1_795_408_200_000  # Monday 23 November 2026
ALICE, BOB, CAROL = "ind.ai/alice", "ind.ai/bob", "ind.ai/carol"
HOUR, DAY = 3_600_000, 86_400_000
CONTEXT: Any = None  # no method looks at it


class Plain:
    """An extractor with two rules: `I love X` is sure, `maybe X` is not."""

    name = "plain"

    async def extract(self, turn: Turn, context: ExtractionContext) -> list[Fact]:
        love, maybe = turn.text.removeprefix("I love "), turn.text.removeprefix("maybe ")
        if love != turn.text:
            return [Fact("preference.food", love, 0.9, "en", relation=Triple("me", "loves", love))]
        edge = Triple("me", "guesses", maybe)
        return [Fact("guess", maybe, 0.4, "en", relation=edge)] if maybe != turn.text else []


class Letters:
    """An embedder of 26 numbers, how often each letter stands there: quick, and the same everywhere."""

    def __init__(self, model: str = "letters", width: int = 26) -> None:
        self.model, self.width = model, width
        self.asked: list[str] = []

    async def embed(self, texts: Any, *, query: bool) -> list[list[float]]:
        self.asked += texts
        return [[0.1 + text.lower().count(chr(97 + n)) for n in range(26)] for text in texts]


@dataclass
class Room:
    """The service, its jobs' handlers, and the clock that both read."""

    pool: asyncpg.Pool
    embedder: Embedder | None = field(default_factory=Letters)
    now: int = NOW
    extractor: Any = field(default_factory=Plain)
    admin_url: str = ""

    def __post_init__(self) -> None:
        clock = lambda: self.now  # noqa: E731
        self.service = MemoryService(self.pool, clock, self.embedder, self.extractor)
        self.work = Work(self.pool, self.extractor, self.embedder, clock)

    async def remember(self, access: pb.Access, *texts: str, **settings: Any) -> pb.RememberResponse:
        """Store texts as turns of `person`, each under its own text as its source."""
        session, scope = settings.pop("session", "s"), settings.pop("scope", None)
        role = settings.pop("role", pb.SPEAKER_ROLE_PERSON)
        turns = [turn(text, session=session, role=role) for text in texts]
        request = pb.RememberRequest(access=access, scope=scope, turns=turns, **settings)
        return await self.service.Remember(request, CONTEXT)

    async def recall(self, access: pb.Access, query: str, **settings: Any) -> pb.RecallResponse:
        """One question."""
        request = pb.RecallRequest(access=access, query=query, limit=50, budget_tokens=100_000, **settings)
        return await self.service.Recall(request, CONTEXT)

    async def facts(self, access: pb.Access, **settings: Any) -> list[pb.Fact]:
        """Facts, by key."""
        answer = await self.service.ListFacts(pb.ListFactsRequest(access=access, **settings), CONTEXT)
        return list(answer.facts)

    async def forget(self, access: pb.Access, **settings: Any) -> pb.ForgetResponse:
        """Forget what matches."""
        return await self.service.Forget(pb.ForgetRequest(access=access, **settings), CONTEXT)

    async def run_jobs(self, *tasks: Task) -> int:
        """Run what is due in the queue now, in order, as the worker does; how many there were."""
        done = 0
        while rows := await self.pool.fetch(
            "DELETE FROM memory.pgqueuer WHERE execute_after <= now() + interval '1 second'"
            " AND (cardinality($1::text[]) = 0 OR entrypoint = ANY ($1)) AND status = 'queued'"
            " RETURNING id, entrypoint, payload",
            [task.value for task in tasks],
        ):
            for row in sorted(rows, key=lambda row: row["id"]):
                job = Job.parse(row["entrypoint"], row["payload"])
                await self.work.handlers[job.task](job)
                done += 1
        return done


def turn(text: str, *, session: str = "s", role: Any = pb.SPEAKER_ROLE_PERSON, source: str = "") -> pb.Turn:
    """A turn that is named by its text."""
    return pb.Turn(
        source_id=source or f"{session}/{text[:100]}",
        session=session,
        speaker="somebody",
        role=role,
        text=text,
    )


def private(tenant: str = ALICE) -> pb.Access:
    """The owner."""
    return pb.Access(tenant=tenant, door=pb.DOOR_PRIVATE)


def admin(tenant: str = ALICE) -> pb.Access:
    """The administrator."""
    return pb.Access(tenant=tenant, door=pb.DOOR_ADMIN)


def agent(peer: str, tenant: str = ALICE) -> pb.Access:
    """Another agent."""
    return pb.Access(tenant=tenant, door=pb.DOOR_AGENT, peer=peer)


def fan(person: str, tenant: str = ALICE, **settings: str) -> pb.Access:
    """An end user of a branded agent."""
    return pb.Access(tenant=tenant, door=pb.DOOR_DISTRIBUTION, person=person, binding="shop", **settings)


def scope(kind: str, name: str = "") -> pb.Scope:
    """A scope."""
    return pb.Scope(kind=pb.ScopeKind.Value(f"SCOPE_KIND_{kind.upper()}"), id=name)
