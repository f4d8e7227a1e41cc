"""Channels over a real database, with real webhooks, before a local provider and a local conversation."""

from __future__ import annotations

import asyncio
import contextlib
import io
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
from indai.edge.channels.base import Raw
from indai.edge.edge import EdgePlan, edge
from indai.edge.media import Transcribe
from indai.node.http_server import HttpServer
from indai.node.inprocess import local_channel
from indai.node.service import Service
from indai.protocol.errors import NotFound, Reason
from indai.v1 import channels_pb2 as pb
from indai.v1 import channels_pb2_grpc, conversation_pb2_grpc

from tests.service.edge.provider import Provider
from tests.service.edge.talk import Talk
from tests.unit.edge.accounts import ACCOUNTS, NOW_S, signed

KEY = b"k" * 32
TABLES = "edge.names, edge.channels, edge.peers, edge.inbox, edge.outbox"


@dataclass
class Room:
    """Running channels: `provider` and `talk` are the two ends; `stub` is the operator's."""

    pool: asyncpg.Pool
    provider: Provider
    talk: Talk
    folder: Path
    secrets: dict[str, str] = field(default_factory=dict)
    now_ms: int = NOW_S * 1000
    url: str = ""
    stub: Any = None
    session: Any = None

    async def add(
        self, provider: str, name: str = "", tenant: str = "", **settings: str
    ) -> pb.PutChannelResponse:
        """A channel of the account in the unit tests, at the local provider and in a hurry."""
        account = ACCOUNTS[provider]
        for secret, value in account.secrets.items():
            self.secrets.setdefault(f"vault:{account.name}.{secret}", value)
        references = {secret: f"vault:{account.name}.{secret}" for secret in account.secrets}
        quick = {"api": self.provider.address, "pair_every_s": "0.001"}
        channel = pb.Channel(
            name=name or account.name,
            tenant=tenant,
            provider=provider,
            account=account.account,
            settings={**account.settings, **references, **quick, **settings},
        )
        answer: pb.PutChannelResponse = await self.stub.PutChannel(pb.PutChannelRequest(channel=channel))
        return answer

    async def deliver(self, provider: str, payload: Any, *, name: str = "", form: bool = False) -> int:
        """A webhook as the provider sends it; gives the status that it was answered with."""
        return await self.post(name or ACCOUNTS[provider].name, signed(provider, payload, form=form))

    async def post(self, name: str, raw: Raw) -> int:
        headers: Mapping[str, str] = dict(raw.headers)
        async with self.session.post(
            f"{self.url}/channels/{name}", data=io.BytesIO(raw.body), headers=headers
        ) as answer:
            return int(answer.status)

    async def rows(self, query: str, *values: object) -> list[asyncpg.Record]:
        """As the administrator sees them."""
        async with self.pool.acquire() as connection:
            tenants = "SELECT set_config('indai.owners', 'personal,acme', true)"
            async with connection.transaction():
                await connection.execute(tenants)
                found: list[asyncpg.Record] = await connection.fetch(query, *values)
                return found

    async def until(self, query: str, wanted: object) -> None:
        """Waits until a query has the wanted value: what is awaited is a row, and rows make no sound."""
        async with asyncio.timeout(60):
            while (await self.rows(query))[0][0] != wanted:
                await asyncio.sleep(0.01)

    async def status(self, name: str, recipient: str = "") -> pb.GetChannelStatusResponse:
        request = pb.GetChannelStatusRequest(name=name, recipient=recipient)
        answer: pb.GetChannelStatusResponse = await self.stub.GetChannelStatus(request)
        return answer


@contextlib.asynccontextmanager
async def running(
    room: Room,
    *,
    transcribe: Transcribe | None = None,
    thinking_after_s: float = 60.0,
    monotonic: Callable[[], float] = time.monotonic,
    timeout_s: float = 5.0,
) -> AsyncIterator[Room]:
    """The channels, until the end of the block."""
    talk = local_channel(
        [Service(conversation_pb2_grpc.add_ConversationServiceServicer_to_server, room.talk)]
    )

    async def secret(reference: str) -> str:
        if reference not in room.secrets:
            raise NotFound(Reason.NOT_FOUND, "There is no such secret.")
        return room.secrets[reference]

    plan = EdgePlan(
        pool=room.pool,
        conversation=conversation_pb2_grpc.ConversationServiceStub(talk),
        secret=secret,
        key=KEY,
        clock=lambda: room.now_ms,
        media=room.folder / "media",
        authority="ind.ai",
        url=lambda: room.url,
        transcribe=transcribe,
        monotonic=monotonic,
        timeout_s=timeout_s,
        thinking_after_s=thinking_after_s,
    )
    async with edge(plan) as role, aiohttp.ClientSession() as session:
        server = await HttpServer.start("127.0.0.1:0", role.routes, max_body=4 * 1024 * 1024)
        add = channels_pb2_grpc.add_ChannelServiceServicer_to_server
        room.stub = channels_pb2_grpc.ChannelServiceStub(local_channel([Service(add, role.servicer)]))
        room.url, room.session = f"http://{server.address}", session
        try:
            yield room
        finally:
            await server.stop()
