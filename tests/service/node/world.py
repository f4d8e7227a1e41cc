"""A registry and nodes in this process, over real Postgres, real gRPC and real TLS, for tests."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from google.protobuf.timestamp_pb2 import Timestamp
from indai.client.channels import plain_channel
from indai.client.handlekeys import claim, new_agent_key, revoke_agent_key, set_node_record
from indai.client.mirror import mirror
from indai.client.network import NetworkPolicy
from indai.client.resolver import Resolver
from indai.client.tls import NodeIdentity, make_node_identity
from indai.node.app import running
from indai.node.keyring import Keyring
from indai.node.keystore import open_keystore
from indai.node.settings import RunInfo, Settings
from indai.protocol.errors import NotFound
from indai.protocol.handlestate import NodeRecord
from indai.protocol.keys import SigningKey
from indai.protocol.note import format_vkey
from indai.v1 import owner_pb2, registry_pb2
from indai.v1.owner_pb2_grpc import OperatorServiceStub, OwnerServiceStub
from indai.v1.registry_pb2_grpc import RegistryServiceStub

from tests.databases import Databases

if TYPE_CHECKING:
    from indai.node.app import Enrol
    from indai.v1.owner_pb2_grpc import OperatorServiceAsyncStub, OwnerServiceAsyncStub
    from indai.v1.registry_pb2_grpc import RegistryServiceAsyncStub


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class World:
    """A registry, and whatever was started on it."""

    base: Path
    registry: str
    network: Path
    databases: Databases | None = None
    rotation: dict[str, SigningKey] = field(default_factory=dict)
    insider: dict[str, SigningKey] = field(default_factory=dict)

    @property
    def policy(self) -> NetworkPolicy:
        return NetworkPolicy.load(self.network)

    def stub(self) -> RegistryServiceAsyncStub:
        return RegistryServiceStub(plain_channel(self.registry))

    async def enrol(self, handle: str, record: registry_pb2.NodeRecord) -> None:
        """What the command does with the operator's rotation key."""
        resolver = self.resolver()
        wanted = NodeRecord.from_proto(record)
        try:
            known = await resolver.resolve(handle)
        except NotFound:
            key = self.rotation[handle] = SigningKey.generate()
            operation = claim(handle, self.policy.origin, [key], now_ms=now_ms(), node_record=wanted)
        else:
            if known.state.node_record == wanted:
                return
            operation = set_node_record(known.chain, self.rotation[handle], wanted, now_ms=now_ms())
        await self.stub().SubmitOperation(registry_pb2.SubmitOperationRequest(operation=operation.raw))

    def resolver(self) -> Resolver:
        return Resolver(self.stub(), self.policy, now_ms)

    async def ledger(self, handle: str) -> str:
        """The origin of a node's ledger, as its record says; it is named for the year in which it began."""
        record = (await self.resolver().resolve(handle)).state.node_record
        assert record is not None
        return record.ledger_origin

    async def revoke(self, handle: str, key_id: str) -> None:
        known = await self.resolver().resolve(handle)
        operation = revoke_agent_key(known.chain, self.rotation[handle], key_id, now_ms=now_ms())
        await self.stub().SubmitOperation(registry_pb2.SubmitOperationRequest(operation=operation.raw))

    async def mirror(self, path: Path) -> Path:
        """The registry's log as a file."""
        with path.open("wb") as file:
            async for line in mirror(self.stub(), self.policy, now_ms()):
                file.write(line)
        return path

    @contextlib.asynccontextmanager
    async def node(
        self, name: str, peer: str = "127.0.0.1:0", *more: str, ledger_year: int = 0
    ) -> AsyncIterator[Node]:
        async def enrol(_: str, handle: str, record: registry_pb2.NodeRecord) -> None:
            await self.enrol(handle, record)

        models = self.base / f"{name}.llm.yaml"  # written before, by who wants other models
        settings = Settings(
            data=self.base / name,
            llm_config=models if models.exists() else None,
            roles=frozenset({"policy", "ledger", "node", *more}),
            handle=f"ind.ai/{name}",
            listen={"peer": peer},
            neighbours={"registry": self.registry},
            network=self.network,
            ledger_year=ledger_year,
        )
        async with _started(settings, enrol, self.databases) as info:
            yield Node(self, settings.data, info)

    async def stranger(self, handle: str) -> Stranger:
        """A registered peer whose node is the test itself: nobody answers at its address."""
        identity, origin = make_node_identity(handle), f"{handle}-node/ledger/2026"
        record = registry_pb2.NodeRecord(
            address="127.0.0.1:9",
            tls_spki_sha256=identity.spki_sha256,
            ledger_origin=origin,
            ledger_vkey=format_vkey(origin, SigningKey.generate().public_key),
        )
        await self.enrol(f"{handle}-node", record)
        rotation, key = SigningKey.generate(), SigningKey.generate()
        keys = [new_agent_key(key.public_key, now_ms())]
        operation = claim(
            handle, self.policy.origin, [rotation], now_ms=now_ms(), agent_keys=keys, node=f"{handle}-node"
        )
        await self.stub().SubmitOperation(registry_pb2.SubmitOperationRequest(operation=operation.raw))
        subject = (await self.resolver().resolve(handle)).subject_id
        return Stranger(handle, subject, key, identity)


@dataclass
class Stranger:
    """Somebody who speaks the protocol by hand."""

    handle: str
    subject: str
    key: SigningKey
    identity: NodeIdentity


@dataclass
class Node:
    world: World
    data: Path
    info: RunInfo

    def identity(self) -> NodeIdentity:
        """The node's own TLS key, as its operator could take it."""
        return Keyring(self.data / "keys", open_keystore(self.data, {})).tls_identity(self.info.node)

    def operator(self) -> OperatorServiceAsyncStub:
        token = (self.data / "operator.token").read_text().strip()
        return OperatorServiceStub(plain_channel(self.info.addresses["owner"], token=token))

    def owner_stub(self, token: str) -> OwnerServiceAsyncStub:
        return OwnerServiceStub(plain_channel(self.info.addresses["owner"], token=token))

    async def agent(
        self,
        handle: str,
        policy: str,
        calendar: Path | None = None,
        limits: tuple[tuple[str, int], ...] = (),
        below: str = "",
    ) -> Owner:
        """`below`: whose delegation it is to get; it is claimed with that one's rotation key."""
        made = await self.operator().CreateAgent(
            owner_pb2.CreateAgentRequest(handle=handle, policy_yaml=policy, calendar_path=str(calendar or ""))
        )
        key = self.world.rotation[handle] = self.world.rotation[below] if below else SigningKey.generate()
        # A second key, which the node does not hold: with it a test signs as this agent.
        other = self.world.insider[handle] = SigningKey.generate()
        publics = (made.agent_key.public_key, other.public_key)
        # At one moment: others take the newest key for the one that is held, the first of equals.
        at_ms = now_ms()
        keys = [new_agent_key(public, at_ms, limits=limits) for public in publics]
        operation = claim(
            handle,
            self.world.policy.origin,
            [key],
            now_ms=now_ms(),
            agent_keys=keys,
            node=made.node,
            delegator="" if below in handle else below,
        )
        await self.world.stub().SubmitOperation(registry_pb2.SubmitOperationRequest(operation=operation.raw))
        return Owner(handle, self.owner_stub(made.token), made.token)


@dataclass
class Owner:
    handle: str
    stub: OwnerServiceAsyncStub
    token: str

    async def meet(
        self, peer: str, *, minutes: int = 30, title: str = "Lunch", from_ms: int, until_ms: int
    ) -> owner_pb2.Thread:
        """Ask, and wait until the thread rests."""
        started = await self.start(peer, minutes=minutes, title=title, from_ms=from_ms, until_ms=until_ms)
        return await self.rest(started)

    async def start(
        self, peer: str, *, minutes: int = 30, title: str = "Lunch", from_ms: int, until_ms: int
    ) -> str:
        """Ask; the thread's id."""
        started = await self.stub.StartMeet(
            owner_pb2.StartMeetRequest(
                request_id=str(uuid.uuid4()),
                peer=peer,
                title=title,
                duration_minutes=minutes,
                start_time=_stamp(from_ms),
                end_time=_stamp(until_ms),
            )
        )
        return started.thread.thread_id

    async def rest(self, thread_id: str, *more: int) -> owner_pb2.Thread:
        """The thread when it has ended, or waits for an owner."""
        resting = {owner_pb2.THREAD_STATE_ASKING_OWNER, owner_pb2.THREAD_STATE_ON_HOLD, *more}
        seen = owner_pb2.Thread()
        async for update in self.stub.WatchThread(owner_pb2.WatchThreadRequest(thread_id=thread_id)):
            seen = update.thread
            if seen.state in resting:
                break
        return seen


def _stamp(ms: int) -> Timestamp:
    return Timestamp(seconds=ms // 1000, nanos=ms % 1000 * 1_000_000)


@contextlib.asynccontextmanager
async def world(base: Path, databases: Databases | None = None) -> AsyncIterator[World]:
    """A registry, whose nodes are in `databases`; without, each starts a Postgres of its own, as `indai up`
    does."""

    async def nobody(_: str, __: str, record: registry_pb2.NodeRecord) -> None:
        raise AssertionError("a registry has no record")

    settings = Settings(data=base / "registry", roles=frozenset({"registry"}))
    try:
        async with _started(settings, nobody, databases) as info:
            network = base / "registry" / "network.policy"
            yield World(base, info.addresses["registry"], network, databases)
    finally:
        if databases is not None:
            await databases.drop(base)


@contextlib.asynccontextmanager
async def _started(settings: Settings, enrol: Enrol, databases: Databases | None) -> AsyncIterator[RunInfo]:
    async with contextlib.AsyncExitStack() as stack:
        if databases is None:
            yield await stack.enter_async_context(running(settings, enrol))
            return
        await databases.settle(settings.data)
        with databases.given(settings.data):
            info = await stack.enter_async_context(running(settings, enrol))
        yield info
