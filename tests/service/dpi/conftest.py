"""The public services' desk over a real database and HTTP, with each service beside it on this machine."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import asyncpg
import pytest
from aiohttp import web
from indai.dpi.config import parse_config
from indai.dpi.desk import Desk, Surroundings
from indai.dpi.paylinks import Merchant
from indai.node.dpi_role import SealedVault
from indai.node.http_server import HttpServer
from indai.node.keystore import KeyStore
from indai.node.secrets import Secrets
from indai.protocol.errors import Reason, Refused

from tests.databases import pooled
from tests.service.dpi.lockerserver import CLIENT, SECRET, LockerServer

NOW = 1_790_000_000_000
OWNER, OTHER = "ind.ai/asha", "ind.ai/ravi"


@contextlib.asynccontextmanager
async def serving(routes: list[web.RouteDef]) -> AsyncIterator[str]:
    """The address of a server with these routes."""
    server = await HttpServer.start("127.0.0.1:0", routes, max_body=1 << 20)
    try:
        yield f"http://{server.address}"
    finally:
        await server.stop()


@dataclass
class Room:
    """Everything of one test. `time` is the node's clock."""

    desk: Desk
    pool: asyncpg.Pool
    vault: SealedVault
    secrets: Secrets
    data: Path
    url: str = ""
    time: list[int] = field(default_factory=lambda: [NOW])

    async def get(self, url: str) -> tuple[int, str]:
        """What a browser sees, which follows nothing."""
        async with aiohttp.ClientSession() as browser, browser.get(url, allow_redirects=False) as answer:
            return answer.status, (await answer.read()).decode("utf-8", "replace")

    async def everything_stored(self) -> str:
        """All rows of the schema, as text: for greps."""
        found = []
        async with self.pool.acquire() as connection, connection.transaction():
            await connection.execute(f"SELECT set_config('indai.owners', '{OWNER},{OTHER}', true)")
            for table in ("connections", "flows", "consents", "uses", "documents", "payment_links", "splits"):
                rows = await connection.fetch(f"SELECT t::text FROM dpi.{table} t")  # noqa: S608
                found += [row[0] for row in rows]
        return "\n".join(found)


MakeRoom = Callable[..., contextlib.AbstractAsyncContextManager[Room]]


@pytest.fixture
async def tables(shared_database: tuple[str, str]) -> AsyncIterator[asyncpg.Pool]:
    """Empty tables, as the application sees them."""
    url, admin_url = shared_database
    owner = await asyncpg.connect(admin_url)
    await owner.execute(
        "TRUNCATE dpi.connections, dpi.flows, dpi.consents, dpi.uses, dpi.documents, dpi.payment_links,"
        " dpi.splits"
    )
    await owner.close()
    async with pooled(url, 5) as pool:
        yield pool


@pytest.fixture
def make_room(tables: asyncpg.Pool, tmp_path: Path) -> MakeRoom:
    """Opens a desk with the text of a configuration, and the secrets that it names."""

    @contextlib.asynccontextmanager
    async def make(config: str, private: bool = True, **secret: str) -> AsyncIterator[Room]:
        keystore = KeyStore(b"k" * 32)
        kept = Secrets(tmp_path, keystore, {})
        for name, value in secret.items():
            kept.set(name, value)
        vault, time, place = SealedVault(kept), [NOW], [""]

        async def merchant(owner: str) -> Merchant:
            if "razorpay" not in kept.names() or owner != OWNER:
                raise Refused(Reason.UNSUPPORTED, "No payment provider is set up.")
            base, _, key = kept.get("vault:razorpay").partition(" ")
            return Merchant(base, key)

        around = Surroundings(
            tables,
            vault,
            keystore.seal,
            keystore.unseal,
            keystore.derive,
            lambda: time[0],
            lambda: place[0],
            lambda: [OWNER, OTHER],
            merchant,
            private,
        )
        async with Desk(parse_config(config), around) as desk, serving(desk.routes()) as url:
            place[0] = url
            yield Room(desk, tables, vault, kept, tmp_path, url, time)

    return make


@pytest.fixture
async def locker() -> AsyncIterator[LockerServer]:
    server = LockerServer()
    async with serving(server.routes()) as url:
        server.url = url
        yield server


@pytest.fixture
async def room(make_room: MakeRoom, locker: LockerServer) -> AsyncIterator[Room]:
    """A desk with that DigiLocker."""
    async with make_room(digilocker_config(locker.url), locker=SECRET) as found:
        yield found


def digilocker_config(url: str) -> str:
    return (
        f"version: 1\ndigilocker: {{base_url: '{url}', client_id: {CLIENT}, client_secret: 'vault:locker'}}\n"
    )
