"""The node role: everything behind the peer and owner ports, put together and started in order."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import structlog
from aiohttp import web
from indai.client.gossip import Gossip
from indai.client.network import NetworkPolicy
from indai.client.peers import PeerChannels
from indai.client.resolver import Resolver
from indai.client.tls import NodeIdentity, peer_server_credentials
from indai.ledger.vault import Vault
from indai.node import auth
from indai.node.a2a_agents import NodeAgents
from indai.node.accounts import Accounts
from indai.node.agents import Agents
from indai.node.calendar.dav import open_session
from indai.node.calendar_changes import CalendarChanges
from indai.node.calendar_service import CalendarServicer
from indai.node.clock import DatabaseClock
from indai.node.commerce import Commerce
from indai.node.context import Context
from indai.node.conversation_role import ConversationPlan, Conversations, conversations
from indai.node.desk_role import desk_services
from indai.node.dpi_role import DpiPlan, dpi_role
from indai.node.edge_role import Desk
from indai.node.effects import Effects
from indai.node.engine import Engine
from indai.node.exchange_role import open_exchange
from indai.node.exporting import Exporter
from indai.node.following import portions
from indai.node.goal_role import goal_role
from indai.node.group_service import GroupServicer
from indai.node.handshakes import Handshakes
from indai.node.host import Host
from indai.node.inbound import Gate, Inbound
from indai.node.keystore import CONTENT_KEY, KeyStore
from indai.node.kinds.acquaintance import Acquaintances
from indai.node.kinds.meet import Meetings
from indai.node.kinds.served import INTENTS, by_kind
from indai.node.leaving import Leaving
from indai.node.leaving_service import leaving_role
from indai.node.ledger_key import LedgerKey
from indai.node.meet_settings import Tastes
from indai.node.memory_feed import MemoryFeed
from indai.node.memory_service import owner_memory
from indai.node.monitor import Monitor
from indai.node.operator_service import OperatorServicer
from indai.node.outbox import Outbox, Outgoing
from indai.node.owner_llm_service import OwnerLlm
from indai.node.owner_service import OwnerServicer
from indai.node.page_role import front
from indai.node.pausing import refusing
from indai.node.peer_heads import PeerHeads
from indai.node.peer_service import STREAMS, PeerServicer
from indai.node.policies import Policies
from indai.node.querier import Querier
from indai.node.refusals import Refusals
from indai.node.registry_watch import alarm, tail
from indai.node.reminders import Telling
from indai.node.secrets import Secrets
from indai.node.server import Limits, RpcServer
from indai.node.service import Service
from indai.node.store import Store
from indai.node.tenant_role import TenantPlan
from indai.node.tier_role import tier_service
from indai.node.timers import Timers
from indai.node.tools_role import ToolsPlan, open_tools
from indai.node.visiting import Calendars
from indai.page.front import Front
from indai.protocol.errors import IndaiError, Reason, Unavailable
from indai.protocol.keys import SigningKey
from indai.runtime.bindings import Bindings
from indai.runtime.tierstore import TierStore
from indai.tlog.append import take_over
from indai.tools.toolbox import NodeToolbox
from indai.v1 import (
    calendar_pb2_grpc,
    group_pb2_grpc,
    ledger_pb2,
    llm_pb2_grpc,
    owner_pb2_grpc,
    peer_pb2,
    peer_pb2_grpc,
    registry_pb2,
)
from indai.v1.peer_pb2_grpc import PeerServiceStub
from indai.web.sessions import Sessions

if TYPE_CHECKING:
    from indai.v1.ledger_pb2_grpc import LedgerServiceAsyncStub
    from indai.v1.llm_pb2_grpc import LlmServiceAsyncStub
    from indai.v1.memory_pb2_grpc import MemoryServiceAsyncStub
    from indai.v1.policy_pb2_grpc import PolicyServiceAsyncStub
    from indai.v1.registry_pb2_grpc import RegistryServiceAsyncStub

IDLE_CHECK_S = 60.0
ASK_TIMEOUT_S = 10.0

log = structlog.get_logger(__name__)

Enrol = Callable[[str, registry_pb2.NodeRecord], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Channels to the other roles, in this process or another."""

    registry: RegistryServiceAsyncStub
    policy: PolicyServiceAsyncStub
    ledger: LedgerServiceAsyncStub
    llm: LlmServiceAsyncStub | None = None
    memory: MemoryServiceAsyncStub | None = None


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What the node role is built from."""

    handle: str
    data: Path
    pool: asyncpg.Pool
    keystore: KeyStore
    identity: NodeIdentity
    network: NetworkPolicy
    neighbours: Neighbours
    peer_bind: str
    advertise: str
    private_peers: bool
    enrol: Enrol
    public_url: Callable[[], str]
    pages: Callable[[], str]


@dataclass(frozen=True, slots=True)
class NodeRole:
    """A running node: its peer server, the services of its owner port, and the tools of its agents."""

    peer: RpcServer
    owner_services: tuple[Service, ...]
    fenced: asyncio.Event
    owner_of_token: auth.FindOwner
    desk: Desk
    routes: Sequence[web.RouteDef]
    conversations: Conversations
    toolbox: NodeToolbox
    operators: auth.Authenticate
    tenants: TenantPlan
    front: Front


@contextlib.asynccontextmanager
async def node_role(plan: NodePlan) -> AsyncIterator[NodeRole]:
    """Start the node, in order; stop it in reverse."""
    async with contextlib.AsyncExitStack() as stack:
        ledger = await plan.neighbours.ledger.GetCheckpoint(ledger_pb2.GetCheckpointRequest())
        vault = _vault(plan.keystore, ledger.content_key_id)
        clock = await DatabaseClock.start(plan.pool)
        store = Store(plan.pool, ledger.origin)
        writer = await take_over(plan.pool, ledger.origin)
        agents = Agents(plan.pool, plan.keystore, plan.data / "calendars", clock)
        await agents.load()
        sessions = Sessions(plan.pool, clock)
        agents.admit(auth.owner_at_desk(sessions.find))
        session = await stack.enter_async_context(open_session(public_only=not plan.private_peers))
        accounts = Accounts(
            plan.pool, plan.keystore, agents, session, clock, public_only=not plan.private_peers
        )
        stack.push_async_callback(accounts.close)
        await accounts.load()
        tastes = Tastes(plan.pool)
        await tastes.load(agents)
        resolver = Resolver(plan.neighbours.registry, plan.network, clock, plan.data / "registry-head")
        key = LedgerKey(plan.handle, plan.neighbours.ledger, resolver, ledger)
        policies = Policies(plan.neighbours.policy, store, agents, clock, writer.epoch, vault)
        host = Host(policies, agents, clock, tastes)
        commerce = await Commerce.load(plan.pool, agents)
        near, known = plan.neighbours, Acquaintances(store)
        exchange = await open_exchange(
            plan.pool,
            plan.keystore,
            store,
            agents,
            host,
            policies,
            resolver,
            clock,
            known,
            near.memory,
            near.llm,
            commerce.shelf,
        )
        kinds = by_kind([Meetings(host, known), *exchange.kinds, *commerce.kinds(policies, known)])
        context = Context(
            agents, resolver, host, kinds, clock, ledger.origin, store, vault, known, exchange.queries
        )
        engine = Engine(store, context, writer.epoch, await store.ledger_size())
        refusals = Refusals(store, agents, clock)
        stack.push_async_callback(refusals.close)
        channels = PeerChannels(plan.identity, clock, public_only=not plan.private_peers)
        stack.push_async_callback(channels.close)
        monitor = Monitor(plan.pool, store, resolver, agents, plan.handle, clock)
        await monitor.load()
        gossip = Gossip(resolver, _asker(resolver, channels), plan.data, alarm(monitor))
        gossip.start()
        stack.push_async_callback(gossip.close)
        gate = Gate(resolver, agents, clock, gossip.hear, policies.check_hands)
        handshakes = Handshakes(plan.pool, resolver, agents, gate, clock)
        heads = PeerHeads(plan.pool, plan.neighbours.ledger, ledger, resolver, plan.data, clock)
        stack.push_async_callback(heads.close)
        outbox = Outbox(store, resolver, channels, handshakes, heads, _taker(gate, engine, refusals, clock))
        stack.push_async_callback(outbox.close)
        effects = Effects(store, agents, clock, engine.changed)
        stack.push_async_callback(effects.close)
        timers = Timers(store, agents, engine.wake, clock)
        feed = MemoryFeed(store, agents, near.memory) if near.memory is not None else None
        telling = Telling(store, agents)
        engine.start_work(outbox, effects, [timers, telling, feed] if feed else [timers, telling])
        stack.push_async_callback(engine.close)

        peer = await RpcServer.start(
            plan.peer_bind,
            [
                Service(
                    peer_pb2_grpc.add_PeerServiceServicer_to_server,
                    PeerServicer(gate, engine, refusals, resolver, handshakes, heads, clock, plan.pages),
                )
            ],
            credentials=peer_server_credentials(plan.identity),
            limits=Limits(streams=STREAMS),
        )
        stack.push_async_callback(peer.stop)
        place = (plan.advertise or peer.address, plan.identity.spki_sha256)
        await plan.enrol(plan.handle, await key.settle(*place))

        for portion in portions(list(agents)):
            await outbox.load(portion)
            await effects.load(portion)
        effects.start()
        timers.start()
        stack.push_async_callback(timers.close)
        if feed is not None:
            feed.start()
            stack.push_async_callback(feed.close)
        stack.callback(asyncio.create_task(tail(resolver, monitor, key)).cancel)
        stack.callback(asyncio.create_task(_close_idle(channels)).cancel)

        changes = CalendarChanges(store, agents, tastes, engine.act, engine.move, clock)
        changes.start()
        stack.push_async_callback(changes.close)

        querier = Querier(resolver, agents, channels, handshakes, gate, clock)
        stack.callback(asyncio.create_task(exchange.sweep()).cancel)

        by_token = auth.operator(_operator_token(plan.data))
        operators = auth.either(auth.operators_at_desks(sessions.find), by_token)
        tiers = TierStore(plan.pool)
        bindings = await stack.enter_async_context(Bindings(plan.pool, tiers))
        exporter = Exporter(plan.neighbours.ledger, store, agents, key.named)
        operator = OperatorServicer(key, resolver, agents, policies, exporter, clock, lambda: outbox.waiting)
        owners = OwnerServicer(
            store, agents, engine, effects, policies, exporter, ledger.origin, clock, kinds
        )
        secret = Secrets(plan.data, plan.keystore, os.environ)
        public = await stack.enter_async_context(dpi_role(DpiPlan.of(plan, secret, agents, commerce, clock)))
        trade, routes = await commerce.serve(stack, store, agents, engine, secret, clock, public.desk.links)
        admitted = auth.owners(agents.owner_of_token)
        of_exchange = exchange.services(engine, querier, ledger.origin)
        of_owners = (
            Service(owner_pb2_grpc.add_OwnerServiceServicer_to_server, owners, admitted),
            Service(
                group_pb2_grpc.add_GroupServiceServicer_to_server,
                GroupServicer(store, engine, ledger.origin),
                admitted,
            ),
            Service(
                calendar_pb2_grpc.add_CalendarServiceServicer_to_server,
                CalendarServicer(store, agents, accounts, tastes, changes),
                admitted,
            ),
            trade,
            *of_exchange,
            *owner_memory(plan.neighbours.memory, agents.owner_of_token, plan.pool, clock),
        )
        tools = open_tools(
            ToolsPlan(
                plan.pool,
                plan.data,
                plan.keystore,
                of_owners,
                near.registry,
                near.memory,
                resolver.resolve,
                clock,
                admitted,
                operators,
                agents.zone_of,
                public.tools,
                public.connected,
            )
        ).beside(engine)
        talks = await stack.enter_async_context(
            conversations(
                ConversationPlan(
                    plan.pool,
                    clock,
                    writer.epoch,
                    tiers,
                    bindings,
                    agents,
                    agents.zone_of,
                    INTENTS,
                    tools.toolbox,
                    near.llm,
                    near.memory,
                    refusing(policies),
                )
            )
        )
        goals = await stack.enter_async_context(
            goal_role(plan.pool, clock, agents, bindings, tools, talks.outbound)
        )
        calendars = plan.data / "calendars"
        leaving = Leaving(plan.pool, agents, engine, public.desk, near.memory, calendars, clock)
        gone = await stack.enter_async_context(leaving_role(leaving, auth.either(operators, admitted)))
        tools.start(talks.outbound)
        await stack.enter_async_context(telling.to(tools.tell_owner))
        stack.push_async_callback(tools.close)
        yield NodeRole(
            peer,
            (
                *of_owners,
                *tools.services,
                goals,
                Service(owner_pb2_grpc.add_OperatorServiceServicer_to_server, operator, operators),
                tier_service(plan.pool, tiers, bindings, clock, operators, tools.toolbox.specs),
                gone,
                public.service(),
                *desk_services(
                    plan.pool, sessions, agents, engine, store, policies, resolver, clock, by_token
                ),
                *_llm_services(plan.neighbours.llm, agents, operators),
                talks.at_the_owners_port(auth.either(admitted, operators)),
            ),
            store.fenced,
            agents.owner_of_token,
            Desk(
                NodeAgents(
                    agents,
                    gate,
                    engine,
                    store,
                    refusals,
                    clock,
                    plan.handle.partition("/")[0],
                    resolver,
                    exchange.public_door.answer,
                ),
                lambda: agents,
                _signer_of(agents, resolver, clock),
                agents.owner_of_token,
            ),
            (*routes, *public.routes),
            talks,
            tools.toolbox,
            operators,
            TenantPlan(
                plan.pool,
                clock,
                sessions,
                tiers,
                bindings,
                talks.stub,
                of_exchange,
                near.llm,
                near.memory,
                admitted,
                by_token,
            ),
            front(
                plan,
                talks,
                resolver,
                channels,
                policies,
                tools.toolbox,
                Calendars(host, agents, store, clock),
            ),
        )


def _signer_of(
    agents: Agents, resolver: Resolver, clock: DatabaseClock
) -> Callable[[str], Awaitable[SigningKey | None]]:
    """The key that signs an agent's card: the newest of ours that its record allows."""

    async def signer_of(handle: str) -> SigningKey | None:
        if handle not in agents:
            return None
        return agents.get(handle).signing_key(await resolver.resolve(handle), clock(), INTENTS[0])

    return signer_of


def _llm_services(
    gateway: LlmServiceAsyncStub | None, agents: Agents, operators: auth.Authenticate
) -> tuple[Service, ...]:
    """The gateway to language models at the owner's port, where there is one."""
    if gateway is None:
        return ()
    admitted = auth.either(auth.owners(agents.owner_of_token), operators)
    add = llm_pb2_grpc.add_LlmServiceServicer_to_server
    return (Service(add, OwnerLlm(gateway), admitted),)


def _taker(
    gate: Gate, engine: Engine, refusals: Refusals, clock: DatabaseClock
) -> Callable[..., Awaitable[None]]:
    """What the outbox does with an answer: verify each reply, then take all that stand in one transaction."""

    async def take(message: Outgoing, replies: list[bytes], reason: str, sentence: str) -> None:
        verified: list[Inbound] = []
        for raw in replies:
            try:
                verified.append(await gate.check(raw, None, clock()))
            except IndaiError as error:
                if error.reason.status.grpc == "UNAVAILABLE":
                    raise
                await refusals.note(raw, None, error)
        try:
            await engine.take(message, verified, reason, sentence)
        except IndaiError as error:
            for inbound in verified:
                await refusals.note(inbound.envelope.raw, inbound, error)
            raise

    return take


def _vault(keystore: KeyStore, key_id: bytes) -> Vault:
    """What seals contents for the ledger whose content key has this id."""
    vault = Vault(keystore.derive(CONTENT_KEY))
    if vault.key_id != key_id:
        raise IndaiError(
            Reason.NODE_KEY,
            "The node and its ledger run with different node keys: the ledger could not show what is sealed.",
            hint="give both the same INDAI_NODE_KEY",
        )
    return vault


def _asker(resolver: Resolver, channels: PeerChannels) -> Callable[[str, int], Awaitable[bytes]]:
    """Asks the node of a peer for a registry head."""

    async def ask(peer: str, size: int) -> bytes:
        record = (await resolver.node_of(await resolver.resolve(peer))).state.node_record
        if record is None:
            raise Unavailable(Reason.UNREACHABLE, f"{peer} has no node.")
        stub = PeerServiceStub(await channels.get(record.address, record.tls_spki_sha256))
        request = peer_pb2.GetRegistryHeadRequest(size=size)
        return (await stub.GetRegistryHead(request, timeout=ASK_TIMEOUT_S)).checkpoint

    return ask


async def _close_idle(channels: PeerChannels) -> None:
    while True:
        await asyncio.sleep(IDLE_CHECK_S)
        await channels.close_idle()


def _operator_token(data: Path) -> bytes:
    """SHA-256 of the operator's token; the token itself is made at the first start, for the operator to
    read."""
    path = data / "operator.token"
    if not path.exists():
        token = auth.new_token()
        draft = data / f".operator.{secrets.token_hex(4)}"
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token.text + "\n")
        draft.rename(path)
    return hashlib.sha256(path.read_text().strip().encode()).digest()
