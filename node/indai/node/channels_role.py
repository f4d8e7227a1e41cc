"""The channels of a node: messengers in front of its conversations, and the operator's service for them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
from aiohttp import web
from indai.edge.edge import EdgePlan, edge
from indai.node import auth
from indai.node.keystore import KeyStore
from indai.node.outgoing import HASHES, MEDIA
from indai.node.secrets import Secrets
from indai.node.service import Service
from indai.v1 import channels_pb2_grpc

if TYPE_CHECKING:
    from indai.edge.media import Transcribe
    from indai.v1.conversation_pb2_grpc import ConversationServiceAsyncStub


@dataclass(frozen=True, slots=True)
class ChannelsPlan:
    """What the channels are built from. `authority` completes handles that people name in short; `url` is
    where the HTTP port is reached, known when it is asked; `operators` admits who may set channels up."""

    pool: asyncpg.Pool
    conversations: ConversationServiceAsyncStub
    secrets: Secrets
    keystore: KeyStore
    clock: Callable[[], int]
    data: Path
    authority: str
    url: Callable[[], str]
    operators: auth.Authenticate
    transcribe: Transcribe | None = None


@dataclass(frozen=True, slots=True)
class ChannelsRole:
    """Running channels: what they add to the HTTP port, and to the owner's port."""

    routes: tuple[web.RouteDef, ...]
    service: Service


@contextlib.asynccontextmanager
async def channels_role(plan: ChannelsPlan) -> AsyncIterator[ChannelsRole]:
    """Start them; stop them at the end of the block."""

    async def secret(reference: str) -> str:
        return await asyncio.to_thread(plan.secrets.get, reference)

    built = EdgePlan(
        pool=plan.pool,
        conversation=plan.conversations,
        secret=secret,
        key=plan.keystore.derive(HASHES),
        clock=plan.clock,
        media=plan.data / MEDIA,
        authority=plan.authority,
        url=plan.url,
        transcribe=plan.transcribe,
    )
    async with edge(built) as running:
        add = channels_pb2_grpc.add_ChannelServiceServicer_to_server
        yield ChannelsRole(running.routes, Service(add, running.servicer, plan.operators))
