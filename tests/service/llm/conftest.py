"""A gateway over a real database, with real clients and local servers behind them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import pytest
from indai.llm.config import parse_config
from indai.llm.servicer import LlmService
from indai.llm.store import Store
from indai.protocol.errors import IndaiError
from indai.storage.embedded import ServerInfo
from indai.v1 import llm_pb2 as pb

from tests.databases import pooled
from tests.service.llm.upstream import Reply, Upstream

NOW = 1_795_408_200_000
KEY = "sk-very-secret-key-0123456789"
CONTEXT: Any = None  # no method looks at it
SCOPE = pb.LlmScope(tenant="acme", binding="desk", owner="ind.ai/alice", session="s1")
MEET = pb.ToolSpec(
    name="propose_meet",
    description="Propose a meeting.",
    arguments_schema_json='{"type":"object","properties":{"with":{"type":"string"},'
    '"minutes":{"type":"integer"}},"required":["with"]}',
)
# Nothing is slow here but what is made so; tests of slowness say what is too slow.
LIMITS = "{first_token_ms: 60000, stall_ms: 60000, jitter_ms: [0, 0], hedge_ms: 20, max_retry_after_ms: 50}"
IMPATIENT = LIMITS.replace("60000", "1000")


def said(text: str) -> pb.ChatMessage:
    return pb.ChatMessage(role=pb.MESSAGE_ROLE_USER, text=text)


@dataclass
class Asking:
    """A gateway, and its answers in a convenient form."""

    service: LlmService
    store: Store
    references: list[str] = field(default_factory=list)

    async def events(self, text: str = "hello", **fields: Any) -> list[pb.GenerateResponse]:
        given = {"scope": SCOPE, "messages": [said(text)], "model_class": pb.MODEL_CLASS_DEFAULT, **fields}
        request = pb.GenerateRequest(**given)
        return [event async for event in self.service.Generate(request, CONTEXT)]

    async def answer(self, text: str = "hello", **fields: Any) -> tuple[str, pb.GenerationDone]:
        events = await self.events(text, **fields)
        assert [event.HasField("done") for event in events] == [False] * (len(events) - 1) + [True]
        return "".join(event.text for event in events), events[-1].done

    async def rows(self, scope: pb.LlmScope = SCOPE) -> list[pb.LlmCall]:
        """The attempts, the first one first."""
        request = pb.ListCallsRequest(scope=scope)
        calls = (await self.service.ListCalls(request, CONTEXT)).calls
        return sorted(calls, key=lambda call: call.attempt)

    async def notices(self) -> list[str]:
        request = pb.ListNoticesRequest(scope=SCOPE)
        return [each.kind for each in (await self.service.ListNotices(request, CONTEXT)).notices]


MakeGateway = Callable[..., Awaitable[Asking]]
MakeUpstream = Callable[..., Awaitable[Upstream]]
_DATABASE = "llm"
_TABLES = (
    "llm.calls, llm.limits, llm.accounts, llm.reservations, llm.notices,"
    " llm.day_costs, llm.day_tiers, llm.day_folds, llm.owner_costs, llm.owner_folds"
)


@pytest.fixture(scope="session")
def _llm_database(postgres_server: ServerInfo, migrated_template: str) -> str:
    """One database for all these tests, made once: a copy for each would take longer than they do."""

    async def make() -> None:
        connection = await asyncpg.connect(postgres_server.admin_dsn)
        await connection.execute(f"CREATE DATABASE {_DATABASE} TEMPLATE {migrated_template}")
        await connection.close()

    asyncio.run(make())
    return _DATABASE


@pytest.fixture
async def pool(postgres_server: ServerInfo, _llm_database: str) -> AsyncIterator[asyncpg.Pool]:
    """A pool of the application's role on empty tables."""
    server = postgres_server
    admin = await asyncpg.connect(server.url(server.admin_user, server.admin_password, _llm_database))
    await admin.execute(f"TRUNCATE {_TABLES}")
    await admin.close()
    async with pooled(server.url(server.user, server.password, _llm_database), 8) as opened:
        yield opened


@pytest.fixture
async def gateway(pool: asyncpg.Pool) -> AsyncIterator[MakeGateway]:
    """Makes a gateway from a configuration; its keys are all `KEY`, or `missing`."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(config: str, missing: IndaiError | None = None) -> Asking:
            store = Store(pool)
            asking: list[Asking] = []

            async def secret(reference: str) -> str:
                asking[0].references.append(reference)
                if missing is not None:
                    raise missing
                return KEY

            service = LlmService(parse_config(config), store, secret, lambda: NOW)
            stack.push_async_callback(service.close)
            asking.append(Asking(service, store))
            return asking[0]

        yield make


@pytest.fixture
async def upstream() -> AsyncIterator[MakeUpstream]:
    """Starts a server of a kind with its replies."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(kind: str, *replies: Reply) -> Upstream:
            server = Upstream(kind, list(replies) or [Reply()])
            return await stack.enter_async_context(server.serving())

        yield make


def configuration(*servers: Upstream, fallback: str = "", limits: str = LIMITS, extra: str = "") -> str:
    """A provider and a model for each server, p1 and m1 and so on, all in the default route."""
    providers, models = [], []
    for number, server in enumerate(servers, start=1):
        at = server.address + ("/v1" if server.kind in ("openai", "sarvam") else "")
        providers.append(f"  p{number}: {{kind: {server.kind}, base_url: '{at}', key: 'vault:k{number}'}}")
        models.append(
            f"  m{number}: {{provider: p{number}, model: up-{number}, input: 3, output: 15, "
            "cache_read: 0.3, cache_write: 3.75}"
        )
    route = [f"m{number}" for number in range(1, len(servers) + 1)] + ([fallback] if fallback else [])
    return "\n".join(
        [
            "version: 1",
            "providers:",
            "  local: {kind: local}",
            *providers,
            "models:",
            "  local: {provider: local, model: local}",
            *models,
            f"routes: {{default: [{', '.join(route)}]}}",
            f"limits: {limits}",
            extra,
        ]
    )
