"""A toolbox over a real database, with small tools that do what the tests need."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import asyncpg
import pytest
from indai.node.keystore import KeyStore
from indai.node.kinds.money import spoken
from indai.tools.approvals import Approvals
from indai.tools.scoping import Scoping
from indai.tools.sealed import Sealer
from indai.tools.store import CallStore
from indai.tools.toolbox import NodeToolbox
from indai.tools.values import Caller, Effect, Outcome, Progress, Spec, Tool, unheard

from tests.databases import pooled

KEYS = KeyStore(b"k" * 32)
SEALER = Sealer(KEYS.seal, KEYS.unseal)
NOW = 1_795_408_200_000
OWNER = "ind.ai/alice"
ANY: Any = {"type": "object"}
ALICE = Caller("acme", "desk", OWNER, "s1", OWNER, "private", "web", verified=True, now_ms=NOW, turn="t1")


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


@dataclass
class Made:
    """A tool of a test's own: it notes its calls, and answers what `does` makes of the arguments."""

    spec: Spec
    does: Callable[[Mapping[str, Any]], Any] = lambda arguments: {"echo": dict(arguments)}
    calls: list[tuple[Caller, dict[str, Any]]] = field(default_factory=list)

    async def run(
        self, caller: Caller, arguments: Mapping[str, Any], progress: Progress
    ) -> Mapping[str, Any]:
        self.calls.append((caller, dict(arguments)))
        await progress("working")
        answer: Any = self.does(arguments)
        return await answer if asyncio.iscoroutine(answer) else answer  # type: ignore[no-any-return]


def tool(name: str, does: Callable[[Mapping[str, Any]], Any] | None = None, **about: Any) -> Made:
    given = {"arguments": closed(x={}), "result": ANY, "doors": frozenset({"private", "public"}), **about}
    made = Made(Spec(name, "Does a thing. For tests.", **given))
    return replace(made, does=does) if does else made


@dataclass
class Bench:
    """A toolbox with a clock that the test sets."""

    pool: asyncpg.Pool
    now_ms: int = NOW

    def clock(self) -> int:
        return self.now_ms

    def box(self, *tools: Tool, scoping: Scoping | None = None, **more: Any) -> NodeToolbox:
        return NodeToolbox(
            tools, CallStore(self.pool), Approvals(self.pool, SEALER), self.clock, spoken, scoping, **more
        )

    async def rows(self, holder: str = OWNER) -> list[asyncpg.Record]:
        async with self.pool.acquire() as connection, connection.transaction():
            await connection.execute("SELECT set_config('indai.owners', $1, true)", holder)
            rows: list[asyncpg.Record] = await connection.fetch(
                "SELECT * FROM tools.tool_calls ORDER BY created_ms, id"
            )
        return rows


@pytest.fixture
async def bench(shared_database: tuple[str, str]) -> AsyncIterator[Bench]:
    dsn, admin_dsn = shared_database
    admin = await asyncpg.connect(admin_dsn)
    await admin.execute(
        "TRUNCATE tools.tool_calls, tools.approvals, tools.jobs, tools.records, tools.pgqueuer"
    )
    await admin.close()
    async with pooled(dsn, 4) as pool:
        yield Bench(pool)


async def call(
    box: NodeToolbox, name: str, arguments: dict[str, Any] | None = None, caller: Caller = ALICE, **more: Any
) -> Outcome:
    return await box.call(replace(caller, **more), (name,), name, arguments or {}, unheard)


def text_of(rows: list[asyncpg.Record]) -> str:
    return json.dumps([dict(row) for row in rows], default=str)


ACT = Effect.ACT
