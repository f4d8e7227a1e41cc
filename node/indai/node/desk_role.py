"""`DeskService` and `SteeringService` at the owner's port, and who is admitted there."""

from __future__ import annotations

from collections.abc import Callable

import asyncpg
from indai.client.resolver import Resolver
from indai.node import auth
from indai.node.agents import Agents
from indai.node.desk_service import DeskServicer
from indai.node.engine import Engine
from indai.node.manners import Manners
from indai.node.policies import Policies
from indai.node.service import Service
from indai.node.steering_service import SteeringServicer
from indai.node.store import Store
from indai.v1 import desk_pb2_grpc
from indai.web.accounts import OWNER, TENANT_ROLES, Accounts
from indai.web.audit import AuditLog
from indai.web.chat_sites import ChatSites
from indai.web.sessions import Sessions


def desk_services(
    pool: asyncpg.Pool,
    sessions: Sessions,
    agents: Agents,
    engine: Engine,
    store: Store,
    policies: Policies,
    resolver: Resolver,
    clock: Callable[[], int],
    operators: auth.Authenticate,
) -> tuple[Service, Service]:
    """For people at the desks, for owners by their token, and for the operator; steering for owners alone."""
    people = auth.members(sessions.find, OWNER, *TENANT_ROLES)
    admitted = auth.either(people, auth.owners(agents.owner_of_token), operators)
    accounts, audit = Accounts(pool, clock), AuditLog(pool, clock)
    servicer = DeskServicer(accounts, sessions, audit, agents, engine, store, clock)
    steering = SteeringServicer(
        store, agents, engine, policies, resolver, clock, Manners(pool), ChatSites(accounts)
    )
    owners = auth.owners(agents.owner_of_token)
    return (
        Service(desk_pb2_grpc.add_DeskServiceServicer_to_server, servicer, admitted),
        Service(desk_pb2_grpc.add_SteeringServiceServicer_to_server, steering, owners),
    )
