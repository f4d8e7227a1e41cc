"""The composition root: which roles run in this process, what each needs, in which order they start.

`indai.node.roles` has the table of roles.

The logs of the registry and of the ledger are public, and served over HTTP too.

A needed role that is in this process is reached over an in-process channel, any other over the network;
nobody can tell the difference. Roles start in the table's order and stop in reverse; ready is when all are.

What a role brings is imported when it starts: the node's takes two seconds of a core, which processes of the
small roles are spared.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import grpc
import structlog
import uvloop
from aiohttp import web
from indai.a2a.cards import Places
from indai.a2a.http_binding import MAX_BODY as A2A_BODY
from indai.client.addresses import parse_address
from indai.client.cell import cell_channel, cell_identity, registry_channel
from indai.client.channels import CheckedChannel
from indai.client.network import NetworkPolicy
from indai.desk.logs import Log
from indai.ledger.earlier import EarlierLedgers
from indai.ledger.export import LedgerIdentity
from indai.ledger.keys import LedgerKeys
from indai.ledger.servicer import LedgerService
from indai.ledger.vault import Vault
from indai.llm.openai_api import MAX_BODY as OPENAI_MAX_BODY
from indai.llm.openai_api import openai_routes
from indai.node import auth
from indai.node.claiming import claim_desk
from indai.node.clock import DatabaseClock
from indai.node.http_server import MAX_BODY, HttpServer
from indai.node.inprocess import local_channel
from indai.node.keyring import Keyring
from indai.node.keystore import CONTENT_KEY, open_keystore
from indai.node.ledger_name import ledger_name
from indai.node.owner_llm_service import owner_scope
from indai.node.roles import ORDER, SCHEMAS, check
from indai.node.secrets import Secrets
from indai.node.server import RpcServer, TlsMode, a2a_credentials, owner_credentials, plaintext_refused
from indai.node.service import Service
from indai.node.settings import CELL_TOKEN, RunInfo, Settings
from indai.policy.servicer import PolicyService
from indai.protocol.errors import IndaiError, InvalidInput, Reason
from indai.protocol.tlogpolicy import TlogPolicy, parse_policy
from indai.registry.service import Registry
from indai.registry.servicer import RegistryServicer
from indai.storage.embedded import EmbeddedPostgres
from indai.storage.migrations import migrate
from indai.storage.pool import DatabaseUrls, open_pool
from indai.tlog.append import begin, fenced
from indai.tlog.reader import LogReader
from indai.tlog.signer import LogSigner
from indai.tlog.tileserver import PublicLog, tile_routes
from indai.tlog.witness import Witness, witness_routes
from indai.v1 import (
    ledger_pb2_grpc,
    llm_pb2,
    llm_pb2_grpc,
    memory_pb2_grpc,
    policy_pb2_grpc,
    registry_pb2,
    registry_pb2_grpc,
)
from indai.web.site import HOME, Place

if TYPE_CHECKING:
    from indai.node.node_role import NodeRole
    from indai.v1.llm_pb2_grpc import LlmServiceAsyncStub

DATABASE_CHECK_S = 1.0
# New objects before a look at the youngest, such looks before one at older ones, those before one at all.
GC_THRESHOLDS = (10_000, 10, 20)

Ready = Callable[[RunInfo], Awaitable[None]]
# Where the registry is, the node's handle and its record.
Enrol = Callable[[str, str, registry_pb2.NodeRecord], Awaitable[None]]

log = structlog.get_logger(__name__)


def main(settings: Settings, *, ready: Ready, enrol: Enrol) -> None:
    """Run until SIGTERM or SIGINT, on uvloop."""
    uvloop.run(run(settings, ready=ready, enrol=enrol))


async def run(settings: Settings, *, ready: Ready, enrol: Enrol) -> None:
    """Run the roles of `settings` until SIGTERM or SIGINT. `ready` is told when all serve; `enrol` puts the
    node's record into the registry with the operator's rotation key, which never enters this package."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with running(settings, enrol) as info:
        spare_the_collector()
        await ready(info)
        waiting = [asyncio.ensure_future(stopped.wait()), asyncio.ensure_future(info.fenced.wait())]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
    if info.fenced.is_set():
        raise fenced(f"{settings.node_handle}/ledger")


def spare_the_collector() -> None:
    """What was made until now lives as long as the process, and most of what a message makes is freed by its
    counts: Python's cycle collector never looks at the former again, and at the latter more rarely. It took
    7 % of a busy node's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


@contextlib.asynccontextmanager
async def running(settings: Settings, enrol: Enrol) -> AsyncIterator[RunInfo]:
    """The roles of this process, started; stopped at the end of the block."""
    check(settings)
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with contextlib.AsyncExitStack() as stack:
        process = _Process(settings, stack, await _database(settings, stack))
        if "registry" in settings.roles:
            await process.start_registry()
        if "policy" in settings.roles:
            await process.start_policy()
        if "ledger" in settings.roles:
            await process.start_ledger()
        if "llm" in settings.roles:
            await process.start_llm()
        if "memory" in settings.roles:
            await process.start_memory()
        if "node" in settings.roles:
            await process.start_node(enrol)
        if "witness" in settings.roles:
            process.start_witness()
        if "edge" in settings.roles:
            await process.start_edge()
        await process.start_http()
        yield RunInfo(settings.node_handle, process.addresses, process.fenced)


async def _database(settings: Settings, stack: contextlib.AsyncExitStack) -> asyncpg.Pool | None:
    """The database of this process, migrated: the one `INDAI_DATABASE_URL` names, or an embedded one. None
    when no role needs any."""
    if not any(SCHEMAS[role] for role in settings.roles):
        return None
    urls = DatabaseUrls.from_environment(os.environ)
    if urls is None:
        server = EmbeddedPostgres(settings.data / "postgres")
        urls = DatabaseUrls.from_server(await stack.enter_async_context(server))
        stack.callback(asyncio.create_task(_keep_running(server)).cancel)
    schemas = dict.fromkeys(schema for role in sorted(settings.roles) for schema in SCHEMAS[role])
    await migrate(urls.admin, [schema for schema in ORDER if schema in schemas])
    pool = await open_pool(urls.app)
    stack.push_async_callback(pool.close)
    return pool


async def _keep_running(server: EmbeddedPostgres) -> None:
    """Start the embedded server again when it has died; it comes back under the same address."""
    while True:
        await asyncio.sleep(DATABASE_CHECK_S)
        if server.pid is None:
            log.error("the database has died; it is started again")
            try:
                await server.start()
            except IndaiError as error:
                log.error("the database does not start", reason=error.reason.name, error=error.message)


class _Process:
    """What is running. Every start adds its own end to `stack`."""

    def __init__(self, settings: Settings, stack: contextlib.AsyncExitStack, pool: asyncpg.Pool) -> None:
        self._settings = settings
        self._stack = stack
        self._pool = pool
        self._keystore = open_keystore(settings.data, os.environ, create=True)
        self._keyring = Keyring(settings.data / "keys", self._keystore)
        self._identity = self._keyring.tls_identity(settings.node_handle)
        self._local: dict[str, Sequence[Service]] = {}
        self._network: NetworkPolicy | None = None
        self._routes: list[web.RouteDef] = []
        self._logs: list[Log] = []
        self._node: NodeRole | None = None
        self.addresses: dict[str, str] = {}
        self.fenced = asyncio.Event()

    async def start_registry(self) -> None:
        keys = self._keyring.log_keys(
            f"{self._settings.authority}/registry", f"{self._settings.authority}/clock"
        )
        clock = await DatabaseClock.start(self._pool)
        witnesses = _policy_file(self._settings.witnesses) if self._settings.witnesses else None
        later = partial(self._keyring.later_log_keys, keys.origin)
        registry = await self._stack.enter_async_context(
            Registry.open(self._pool, keys, self._settings.data / "heads", clock, witnesses, later)
        )
        self._network = NetworkPolicy.of_registry(
            registry.verifier, keys.time_verifier, witnesses, first=keys.verifier
        )
        self._network.dump(self._settings.data / "network.policy")
        desk = await claim_desk(self._settings, registry, self._pool, clock, self._stack)
        servicer = RegistryServicer(registry, desk)

        async def newest() -> bytes:
            return (await registry.view()).note

        self._publish(PublicLog(registry.origin, registry.reader, newest))
        await self._serve(
            "registry", [Service(registry_pb2_grpc.add_RegistryServiceServicer_to_server, servicer)]
        )

    def _publish(self, log: PublicLog) -> None:
        self._routes += tile_routes(log)
        self._logs.append(Log(log.origin, log.checkpoint, log.reader.entries))

    async def start_policy(self) -> None:
        servicer = PolicyService(self._pool, await DatabaseClock.start(self._pool))
        await self._serve_inside(
            "policy", [Service(policy_pb2_grpc.add_PolicyServiceServicer_to_server, servicer)]
        )

    async def start_ledger(self) -> None:
        settings, heads = self._settings, self._settings.data / "heads"
        origin = await ledger_name(
            self._pool, heads, settings.node_handle, settings.ledger_year, datetime.now(UTC).year
        )
        keys = LedgerKeys(self._keyring, origin)
        clock = await DatabaseClock.start(self._pool)
        await begin(self._pool, origin)  # the node is its writer, and stays so when this role restarts
        signer = await LogSigner.open(self._pool, keys.current, heads, clock, former=keys.former)
        identity = LedgerIdentity(
            self._settings.node_handle, origin, signer.verifier.vkey, self._trusted().network
        )
        vault = Vault(self._keystore.derive(CONTENT_KEY))
        servicer = LedgerService(self._pool, signer, identity, vault, clock, keys)
        self._publish(PublicLog(origin, LogReader(self._pool, origin), signer.publish))
        former = EarlierLedgers(self._pool, settings.node_handle, origin)
        await former.seal(keys, heads, clock)
        for earlier in await former.origins():
            reader = LogReader(self._pool, earlier)
            self._publish(PublicLog(earlier, reader, reader.checkpoint))
        await self._serve_inside(
            "ledger", [Service(ledger_pb2_grpc.add_LedgerServiceServicer_to_server, servicer)]
        )

    async def start_llm(self) -> None:
        from indai.node.llm_role import llm_role  # noqa: PLC0415

        config = _text(self._settings.llm_config) if self._settings.llm_config else ""
        secrets = Secrets(self._settings.data, self._keystore, os.environ)
        service = await self._stack.enter_async_context(
            llm_role(self._pool, await DatabaseClock.start(self._pool), secrets, config)
        )
        await self._serve_inside("llm", [service])

    async def start_memory(self) -> None:
        from indai.node.memory_role import memory_role  # noqa: PLC0415

        gateway = llm_pb2_grpc.LlmServiceStub(self._channel("llm")) if self._has("llm") else None
        service = await self._stack.enter_async_context(
            memory_role(self._pool, await DatabaseClock.start(self._pool), gateway)
        )
        await self._serve_inside("memory", [service])

    async def start_node(self, enrol: Enrol) -> None:
        from indai.node.node_role import Neighbours, NodePlan, node_role  # noqa: PLC0415

        plan = NodePlan(
            handle=self._settings.node_handle,
            data=self._settings.data,
            pool=self._pool,
            keystore=self._keystore,
            identity=self._identity,
            network=self._trusted(),
            neighbours=Neighbours(
                registry_pb2_grpc.RegistryServiceStub(self._channel("registry")),
                policy_pb2_grpc.PolicyServiceStub(self._channel("policy")),
                ledger_pb2_grpc.LedgerServiceStub(self._channel("ledger")),
                llm_pb2_grpc.LlmServiceStub(self._channel("llm")) if self._has("llm") else None,
                memory_pb2_grpc.MemoryServiceStub(self._channel("memory")) if self._has("memory") else None,
            ),
            peer_bind=self._settings.bind("peer"),
            advertise=self._settings.advertise,
            private_peers=self._settings.may_reach_private_peers,
            enrol=partial(enrol, self._registry()),
            public_url=lambda: self._place().url,
            pages=self._web,
        )
        role = await self._stack.enter_async_context(node_role(plan))
        self.fenced = role.fenced
        self.addresses["peer"] = role.peer.address
        self._node = role
        self._routes += role.routes
        if "edge" not in self._settings.roles:
            await self._serve("owner", role.owner_services)
        if plan.neighbours.llm is not None and "openai" in self._settings.listen:
            await self._start_openai(plan.neighbours.llm, role.owner_of_token)

    async def _start_openai(self, gateway: LlmServiceAsyncStub, find: auth.FindOwner) -> None:
        """The gateway for the owners' other tools; their tokens travel in the clear, so on loopback only."""
        bind = self._settings.bind("openai")
        if not parse_address(bind).is_loopback:
            raise plaintext_refused(parse_address(bind))

        async def admit(token: str) -> llm_pb2.LlmScope:
            return owner_scope(await auth.owner_of(token, find))

        routes = openai_routes(gateway, admit)
        server = await HttpServer.start(bind, routes, max_body=OPENAI_MAX_BODY)
        self._stack.push_async_callback(server.stop)
        self.addresses["openai"] = server.address

    def start_witness(self) -> None:
        """Beside other roles or alone; its vkey, for policy files, is in `witness.vkey`."""
        data, name = self._settings.data, f"{self._settings.node_handle}/witness"
        logs = _policy_file(self._settings.network).logs if self._settings.network else ()
        key = self._keyring.signing_key(f"witness {name}")
        clock = lambda: time.time_ns() // 1_000_000  # noqa: E731 - there may be no database to ask
        witness = self._stack.enter_context(
            Witness.open(name, key, logs, data / "witness", clock, self._settings.guard)
        )
        (data / "witness.vkey").write_text(f"{witness.verifier.vkey}\n")
        self._routes += witness_routes(witness)

    async def start_edge(self) -> None:
        """What owners and strangers meet, and the conformance kit where it is asked for."""
        from indai.node.front_role import FrontPlan, front_role  # noqa: PLC0415

        plan = FrontPlan(
            self._settings,
            self._pool,
            self._keystore,
            self._places,
            self._place,
            self._logs,
            self._node,
        )
        role = await self._stack.enter_async_context(front_role(plan))
        self._routes += role.routes
        await self._serve("a2a", role.a2a)
        if self._node is not None:
            await self._serve("owner", role.owner)

    def _registry(self) -> str:
        """Where the registry is: the one of this process listens by now, at a port that may be any."""
        return self._settings.neighbours.get("registry") or self.addresses["registry"]

    def _places(self) -> Places:
        url = self._settings.public_url or f"http://{self.addresses['http']}"
        return Places(url, self.addresses["a2a"])

    def _web(self) -> str:
        """Where the pages are; empty without them, or before their port is known."""
        return self._place().url if "edge" in self._settings.roles and "http" in self.addresses else ""

    def _place(self) -> Place:
        from indai.node.web_role import place_at  # noqa: PLC0415

        tls = self._settings.tls_certificate is not None
        return place_at(self._settings.public_url, self.addresses["http"], tls=tls)

    async def start_http(self) -> None:
        """The port for what is public: tiles of this process's logs, the witness, the edge."""
        if self._routes:
            bind, certificate = self._settings.bind("http"), self._settings.tls_certificate
            body = A2A_BODY if "edge" in self._settings.roles else MAX_BODY
            server = await HttpServer.start(
                bind, self._routes, certificate, max_body=body, proxies=self._settings.proxies
            )
            self._stack.push_async_callback(server.stop)
            self.addresses["http"] = server.address
            if {"edge", "node"} <= self._settings.roles:
                url = self._place().url
                self.addresses |= {"desk": f"{url}{HOME}", "pages": f"{url}/NAME"}

    async def _serve_inside(self, name: str, services: Sequence[Service]) -> None:
        """Serve the cell's own roles: no port unless one is asked for, and then with the cell's token."""
        self._local[name] = services
        if name in self._settings.listen or "node" not in self._settings.roles:
            guard = auth.operator(auth.token_sha256(self._cell_token()))
            await self._serve(name, [replace(service, authenticate=guard) for service in services])

    async def _serve(self, name: str, services: Sequence[Service]) -> None:
        """Serve on a port of its own, and remember the services for the roles of this process."""
        self._local.setdefault(name, services)
        bind = self._settings.bind(name)
        server = await RpcServer.start(
            bind,
            services,
            credentials=self._credentials(name, bind),
            with_reflection=self._settings.reflection,
        )
        self._stack.push_async_callback(server.stop)
        self.addresses[name] = server.address

    def _credentials(self, name: str, bind: str) -> grpc.ServerCredentials | None:
        """How `name` speaks; the other end is in `indai.client.cell`, or an owner's program."""
        if name == "owner":
            mode = TlsMode(self._settings.tls)
            return owner_credentials(bind, mode, self._identity, self._settings.tls_certificate)
        if name == "a2a":
            mode = TlsMode(self._settings.tls)
            return a2a_credentials(bind, mode, self._identity, self._settings.tls_certificate)
        if parse_address(bind).is_loopback:
            return None
        identity = self._identity if name == "registry" else cell_identity(self._cell_token())
        return grpc.ssl_server_credentials([(identity.key_pem, identity.cert_pem)])

    def _has(self, role: str) -> bool:
        return role in self._local or role in self._settings.neighbours

    def _channel(self, role: str) -> CheckedChannel:
        if role in self._local:
            return local_channel(self._local[role])
        address = self._settings.neighbours[role]
        channel = (
            registry_channel(address) if role == "registry" else cell_channel(address, self._cell_token())
        )
        self._stack.push_async_callback(channel.close)
        return channel

    def _cell_token(self) -> str:
        """What the roles of one cell show each other across processes: the same in each of them."""
        text = os.environ.get(CELL_TOKEN, "")
        if not text:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT,
                f"Roles in several processes need the token of their cell in {CELL_TOKEN}.",
                hint="make one with: indai token, and give every process the same",
            )
        return text

    def _trusted(self) -> NetworkPolicy:
        """The network's keys: the registry's of this process, or those of the file the operator was given."""
        if self._settings.network is not None:
            return NetworkPolicy.load(self._settings.network)
        if self._network is None:
            raise InvalidInput(
                Reason.INVALID_ARGUMENT, "The network's policy file is missing.", hint="--network FILE"
            )
        return self._network


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidInput(Reason.INVALID_ARGUMENT, f"The file {path} cannot be read: {why}.") from None


def _policy_file(path: Path) -> TlogPolicy:
    try:
        return parse_policy(path.read_bytes())
    except OSError as error:
        raise InvalidInput(
            Reason.INVALID_ARGUMENT, f"The policy file {path} cannot be read: {error.strerror}."
        ) from None
