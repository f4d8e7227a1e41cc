"""What a prompt gets beside the memories that a question finds: facts, relations, opinions, read at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import asyncpg
from indai.memory import answers, factstore, graph, listing, requests, states
from indai.memory.access import Scope, Sight
from indai.memory.session import reading
from indai.v1 import memory_pb2 as pb

MOST: Final = 200
_FIRST: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many of each."""

    facts: int = 0
    relations: int = 0
    opinions: int = 0

    def __bool__(self) -> bool:
        return bool(self.facts or self.relations or self.opinions)


@dataclass(frozen=True, slots=True)
class Beside:
    """As the lists of the service give them: active facts by key, the newest relations, opinions by topic."""

    facts: Sequence[pb.Fact] = ()
    relations: Sequence[pb.Relation] = ()
    opinions: Sequence[pb.Opinion] = ()


def wanted(request: pb.RecallRequest) -> Wanted:
    """Raises InvalidInput for too much."""
    for name in ("facts", "relations", "opinions"):
        if getattr(request, name) > MOST:
            raise requests.wrong(name, f"must be at most {MOST}")
    return Wanted(request.facts, request.relations, request.opinions)


async def beside(pool: asyncpg.Pool, sight: Sight, named: Sequence[Scope], asked: Wanted) -> Beside:
    """Nothing is read where nothing is wanted. Raises NotFound for a named scope that is not there."""
    if not asked:
        return Beside()
    async with reading(pool, sight, named) as (connection, scopes):
        names = await listing.names(connection, sight.tenant, scopes)
        facts, edges, held = [], [], []
        if asked.facts:
            facts = await factstore.page(connection, scopes, "", "", "active", ("", _FIRST), asked.facts)
        if asked.relations:
            edges = await graph.page(connection, scopes, (), False, graph.NEWEST, asked.relations)
        if asked.opinions:
            held = await states.page(connection, scopes, (), ("", _FIRST), asked.opinions)
    return Beside(
        [answers.fact(each.record, names[each.scope]) for each in facts],
        [answers.relation(each, names[each.scope]) for each in edges],
        [answers.opinion(each, names[each.scope]) for each in held],
    )
