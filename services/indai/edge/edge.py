"""All of it put together: what takes webhooks in every process, and what works in the one that leads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import asyncpg
import structlog
from aiohttp import web
from indai.client.tasks import end_tasks
from indai.edge.accounts import Channels, Directory, Keys, Secret
from indai.edge.bringing import Bringer, Link
from indai.edge.examiner import Examiner
from indai.edge.files import Files
from indai.edge.following import Follower
from indai.edge.handing import Hander
from indai.edge.http import TIMEOUT_S, Http
from indai.edge.inbox import Inbox
from indai.edge.leading import lead
from indai.edge.life import AFTER_S, Life
from indai.edge.media import FILES_S, Fetcher, MediaStore, Transcribe
from indai.edge.outbox import Outbox
from indai.edge.receiving import Webhooks, Writer
from indai.edge.reserved import Reserved
from indai.edge.sending import Sender
from indai.edge.servicer import ChannelServicer
from indai.edge.stopping import is_stopped
from indai.protocol.errors import IndaiError

if TYPE_CHECKING:
    from indai.v1.conversation_pb2_grpc import ConversationServiceAsyncStub

SWEEP_S: Final = 3600.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EdgePlan:
    """What the channels are built from. `key` makes the hashes of people and messages; `authority` completes
    handles that are named in short; `url` is where the HTTP port is reached, known when it is asked;
    `monotonic`, in seconds, is what answers are paced by."""

    pool: asyncpg.Pool
    conversation: ConversationServiceAsyncStub
    secret: Secret
    key: bytes = field(repr=False)
    clock: Callable[[], int]
    media: Path
    authority: str
    url: Callable[[], str]
    transcribe: Transcribe | None = None
    monotonic: Callable[[], float] = time.monotonic
    timeout_s: float = TIMEOUT_S
    thinking_after_s: float = AFTER_S


@dataclass(frozen=True, slots=True)
class Edge:
    """Running channels: routes of the HTTP port, the operator's servicer, and the addresses of files."""

    routes: tuple[web.RouteDef, ...]
    servicer: ChannelServicer
    link: Link


@asynccontextmanager
async def edge(plan: EdgePlan) -> AsyncIterator[Edge]:
    """Start the channels; stop them at the end of the block."""
    inbox, outbox, channels, keys = Inbox(plan.pool), Outbox(plan.pool), Channels(plan.pool), Keys(plan.key)
    directory = Directory(channels, plan.secret, time.monotonic)
    store = MediaStore(plan.media)
    files = Files(store, plan.key, plan.clock, plan.url)
    async with Http(plan.timeout_s) as http, Reserved(plan.pool) as reserved:
        follower = Follower(outbox, directory, keys, plan.conversation, files.link)
        bringer = Bringer(http, outbox, store, files.link)
        sender = Sender(outbox, channels, directory, bringer, keys, follower.settled, plan.monotonic)
        follower.told = sender.wake
        hander = Hander(
            inbox,
            directory,
            plan.conversation,
            Fetcher(http, store),
            Life(http, plan.thinking_after_s),
            plan.authority,
            sender.wake,
            plan.transcribe,
            files.link,
        )
        webhooks = Webhooks(
            directory, Writer(Inbox(reserved), hander.wake), outbox, keys, plan.clock, sender.wake
        )
        examiner = Examiner(http, webhooks.refused)
        servicer = ChannelServicer(
            channels, directory, outbox, keys, examiner, plan.url, sender.wake, sender.resume
        )

        async def work() -> None:
            await _together(
                hander.run(), sender.run(), follower.run(), _sweep(outbox, directory, store, plan.clock)
            )

        leading = asyncio.create_task(lead(plan.pool, work))
        try:
            yield Edge((*webhooks.routes(), *files.routes()), servicer, files.link)
        finally:
            await end_tasks(leading)


async def _together(*works: Awaitable[None]) -> None:
    """All of them, until one fails or all are cancelled."""
    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(_awaited(work))


async def _awaited(work: Awaitable[None]) -> None:
    await work


async def _sweep(outbox: Outbox, directory: Directory, store: MediaStore, clock: Callable[[], int]) -> None:
    while not is_stopped():
        try:
            await asyncio.to_thread(store.sweep, clock() / 1000 - FILES_S)
        except OSError as error:
            log.warning("old files were not erased", error=type(error).__name__)
        try:
            if tenants := await directory.tenants():
                await outbox.sweep(tenants)
        except IndaiError as error:
            log.warning("old messages were not erased", reason=error.reason.name)
        await asyncio.sleep(SWEEP_S)
