"""Writing: turns and obvious facts at once, the rest as jobs of the same transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import asyncpg
from indai.memory import consolidation, factstore, turns, work
from indai.memory.access import Scope, Sight
from indai.memory.facts import Record
from indai.memory.interfaces import Extractor, Fact
from indai.memory.queue import Job, Task, enqueue
from indai.memory.session import writing
from indai.memory.times import Clock, new_uuid
from indai.memory.turns import Saying, Stored

AT_ONCE = 8  # new turns of one call whose obvious facts are not left to a job


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a call has stored."""

    stored: int
    duplicates: int
    facts: list[Record]


class Rememberer:
    """Stores turns and facts. `obvious` finds facts in the call, `extractor` in the job (None: the same)."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        obvious: Extractor,
        extractor: Extractor | None,
        clock: Clock,
    ) -> None:
        self._pool = pool
        self._obvious = obvious
        self._extractor = extractor
        self._clock = clock

    async def remember(
        self,
        look: Sight,
        scope: Scope,
        sayings: Sequence[Saying],
        stated: Sequence[tuple[Fact, str]],
        *,
        extract: bool,
    ) -> Remembered:
        """Store what is new, in one transaction with the jobs that follow from it."""
        columns = await turns.count_terms([saying.turn.text for saying in sayings])
        now = self._clock()
        async with writing(self._pool, scope, person=look.person) as connection:
            found = [_row(look, fact, person, now) for fact, person in stated]
            new: list[Stored] = []
            if sayings:
                batch = await turns.store(connection, scope, look.origin, sayings, columns)
                new = batch.new
                at_once = extract and 0 < len(new) <= AT_ONCE
                if at_once:
                    found += await self._read(connection, scope, new)
                jobs = self._jobs(scope, new, extract=extract and not (at_once and self._extractor is None))
                promote = [Job(Task.PROMOTE, scope.id, once=True)] if batch.path == "full" else []
                await enqueue(connection, [*jobs, *promote])
            facts = await factstore.take_in(connection, scope, found, now)
        return Remembered(len(new), len(sayings) - len(new), facts)

    async def _read(
        self, connection: asyncpg.Connection, scope: Scope, new: Sequence[Stored]
    ) -> list[Record]:
        """The obvious facts of turns just stored."""
        known = await factstore.open_facts(connection, scope.id)
        found: list[Record] = []
        for session, places in _spans(new).items():
            heard = await turns.span(connection, scope.id, session, min(places) - work.BEFORE, max(places))
            found += await work.read(self._obvious, scope.tenant, heard, min(places), known)
        return found

    def _jobs(self, scope: Scope, new: Sequence[Stored], *, extract: bool) -> list[Job]:
        if not new:
            return []
        jobs = [Job(Task.EMBED, scope.id)]
        for session, places in _spans(new).items():
            if extract:
                jobs.append(Job(Task.EXTRACT, scope.id, session, min(places), max(places)))
            idle_s = consolidation.IDLE_MS / 1000
            jobs.append(Job(Task.CONSOLIDATE, scope.id, session, delay_s=idle_s, once=True))
        return jobs


def _spans(new: Sequence[Stored]) -> dict[UUID, list[int]]:
    """The places of new turns by session."""
    spans: dict[UUID, list[int]] = {}
    for one in new:
        spans.setdefault(one.session, []).append(one.place)
    return spans


def _row(look: Sight, fact: Fact, person: str, now_ms: int) -> Record:
    """A fact that was stated directly."""
    return Record(
        id=new_uuid(now_ms),
        fact=fact,
        person=person or look.person,
        origin="owner" if look.trust == "owner" else look.origin,
        trust=look.trust,
        since_ms=fact.valid_from_ms or now_ms,
        ended_ms=fact.valid_to_ms,
    )
